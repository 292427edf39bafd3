# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Finds the next sound batch after bytes that are none.

A header is plausible if its length, magic, offsets and counts can be true: the offsets lie in [floor, limit),
which no random bytes reach, and the lengths inside a message of magic 0 or 1 add up. A plausible header whose
checksum holds is a batch.

Both functions look at a window of a file and answer (status, position, number):

    NONE   nothing was found; positions from `position` on need bytes behind the window
    FOUND  a sound batch begins at `position`
    MORE   the batch at `position` reaches past the window; the number is its size (`find_batch`), or the base
           offset that is expected there (`follow_lengths`)
    END    the lengths lead to the end of the file; the number is the offset that would come next
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.crc import crc32_range, crc32c_range
    from cython.cimports.tidelog.kernels.scan import i32, i64, u32
else:
    from tidelog.kernels.crc import crc32_range, crc32c_range
    from tidelog.kernels.scan import i32, i64, u32

NONE = 0
FOUND = 1
MORE = 2
END = 3

_NONE = cython.declare(cython.int, 0)
_FOUND = cython.declare(cython.int, 1)
_MORE = cython.declare(cython.int, 2)
_END = cython.declare(cython.int, 3)


def _plausible(p, pos, end, floor, limit):
    """Whether a header can begin at `pos`: 0 no, 1 yes, 2 if there are too few bytes to tell."""
    size: cython.longlong
    base: cython.longlong
    if end - pos < 26:
        return 2
    if p[pos + 16] > 2:
        return 0
    size = i32(p, pos + 8)
    if size < 14:
        return 0
    base = i64(p, pos)
    if base < floor or base >= limit:
        return 0
    if p[pos + 16] == 2:
        return _plausible_batch(p, pos, end, size, base, limit)
    return _plausible_message(p, pos, end, size)


def _plausible_batch(p, pos, end, size, base, limit):
    delta: cython.longlong
    count: cython.longlong
    if size < 49:
        return 0
    if end - pos < 61:
        return 2
    delta = i32(p, pos + 23)
    count = i32(p, pos + 57)
    if delta < 0 or count < 0 or count > delta + 1 or delta >= limit - base:
        return 0
    return 1


def _plausible_message(p, pos, end, size):
    """Of magic 0 or 1: its key and its value fill it."""
    fixed: cython.longlong = 22 if p[pos + 16] == 1 else 14
    key: cython.longlong
    value: cython.longlong
    at: cython.Py_ssize_t
    if size < fixed:
        return 0
    at = pos + cython.cast(cython.Py_ssize_t, fixed) + 4
    if end - at < 4:
        return 2
    key = i32(p, at)
    if key < -1 or key > size - fixed:
        return 0
    if key < 0:
        key = 0
    if end - at - 8 < key:
        return 1  # its value's length is not in sight: the checksum decides
    value = i32(p, at + 4 + cython.cast(cython.Py_ssize_t, key))
    if value < 0:
        value = 0 if value == -1 else -size
    return 1 if fixed + key + value == size else 0


def _is_sound(p, pos, size):
    """Whether the checksum of the whole batch at `pos` holds."""
    if p[pos + 16] == 2:
        return crc32c_range(p, pos + 21, pos + size) == u32(p, pos + 17)
    return crc32_range(p, pos + 16, pos + size) == u32(p, pos + 12)


def _find(p, start, end, is_end, floor, limit, answer):
    pos: cython.Py_ssize_t = start
    size: cython.longlong
    sight: cython.int
    while pos < end:
        sight = _plausible(p, pos, end, floor, limit)
        if sight == 2 and not is_end:
            break
        if sight == 1:
            size = i32(p, pos + 8) + 12
            if size > end - pos:
                if not is_end:
                    answer[0] = pos
                    answer[1] = size
                    return _MORE
            elif _is_sound(p, pos, size):
                answer[0] = pos
                answer[1] = size
                return _FOUND
        pos += 1
    answer[0] = pos
    answer[1] = 0
    return _NONE


def _follow(p, start, end, is_end, floor, limit, expected, answer):
    pos: cython.Py_ssize_t = start
    size: cython.longlong
    base: cython.longlong
    sight: cython.int
    is_wrapper: cython.bint
    answer[0] = start
    while True:
        answer[1] = expected
        if is_end and pos == end:
            answer[0] = pos
            return _END
        sight = _plausible(p, pos, end, floor, limit)
        if sight == 0 or (sight == 2 and is_end):
            return _NONE
        size = i32(p, pos + 8) + 12 if sight == 1 else 0
        if sight == 2 or size > end - pos:
            if is_end:
                return _NONE
            answer[0] = pos
            return _MORE
        base = i64(p, pos)
        is_wrapper = p[pos + 16] < 2 and (p[pos + 17] & 7) != 0
        if expected >= 0:
            if base != expected and not (is_wrapper and base > expected):
                return _NONE
            if _is_sound(p, pos, size):
                answer[0] = pos
                return _FOUND
        expected = base + 1 + (i32(p, pos + 23) if p[pos + 16] == 2 else 0)
        pos += cython.cast(cython.Py_ssize_t, size)


def find_batch(
    buf: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    is_end: cython.bint,
    floor: cython.longlong,
    limit: cython.longlong,
    answer: cython.longlong[::1],
) -> cython.int:
    """Search buf[start:] for the first sound batch; `is_end` if the file ends with it.

    The status; position and number go into `answer`.
    """
    status: cython.int
    end: cython.Py_ssize_t = len(buf)
    if start < 0 or len(answer) < 2:
        raise ValueError("range outside the buffer")
    if start >= end:
        answer[0] = end
        return NONE
    if cython.compiled:
        with cython.nogil:
            status = _find(
                cython.address(buf[0]), start, end, is_end, floor, limit, cython.address(answer[0])
            )
    else:
        status = _find(buf, start, end, is_end, floor, limit, answer)
    return status


def follow_lengths(
    buf: cython.const[cython.uchar][::1],
    is_end: cython.bint,
    floor: cython.longlong,
    limit: cython.longlong,
    expected: cython.longlong,
    answer: cython.longlong[::1],
) -> cython.int:
    """Follow the lengths of damaged batches from the first byte of `buf` to a sound one.

    A length is believed only if the offsets agree: each batch has to begin where the one before it says that
    it ends. `expected` is that offset for the first one, or -1 if it is the damaged one to begin with. The
    status; position and number go into `answer`.
    """
    status: cython.int
    end: cython.Py_ssize_t = len(buf)
    if len(answer) < 2:
        raise ValueError("room for two numbers is needed")
    if end == 0:
        answer[0] = 0
        answer[1] = expected
        return END if is_end else NONE
    if cython.compiled:
        with cython.nogil:
            status = _follow(
                cython.address(buf[0]), 0, end, is_end, floor, limit, expected, cython.address(answer[0])
            )
    else:
        status = _follow(buf, 0, end, is_end, floor, limit, expected, answer)
    return status
