# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Messages of magic 0 and 1 as records of a v2 batch, so that what is done to records is written once.

A message is laid out as `kernels.messages` says, a record as `kernels.records` does. The batch that the
records are meant for begins at the first message's offset and has the base timestamp 0: deltas are times.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
    from cython.cimports.tidelog.kernels.faults import BAD_OFFSET, NO_ROOM, RECORD_OVERRUN
    from cython.cimports.tidelog.kernels.scan import i32, i64, wrapping_add
    from cython.cimports.tidelog.kernels.varints import put_varint, varint_size
else:
    from types import SimpleNamespace

    from tidelog.kernels.faults import BAD_OFFSET, NO_ROOM, RECORD_OVERRUN
    from tidelog.kernels.scan import i32, i64, wrapping_add
    from tidelog.kernels.varints import put_varint, varint_size

    Lifted = Message = SimpleNamespace

_MAX_DELTA = cython.declare(cython.longlong, 0x7FFFFFFF)


def _read(p, pos, end):
    """The message at `pos`; its fault is 0 if all of it lies before `end`."""
    m: Message = Message(
        fault=RECORD_OVERRUN, limit=0, timestamp=-1, key=0, key_size=0, value=0, value_size=0
    )
    size: cython.longlong
    if end - pos < 26:
        return m
    size = i32(p, pos + 8)
    if size < 14 or size > end - pos - 12 or (p[pos + 16] == 1 and size < 22):
        return m
    m.limit = pos + 12 + size
    m.key = pos + 22
    if p[pos + 16] == 1:
        m.timestamp = i64(p, pos + 18)
        m.key = pos + 30
    m.key_size = i32(p, m.key - 4)
    if m.key_size > m.limit - m.key - 4:
        return m
    if m.key_size < 0:
        m.key_size = -1
    m.value = m.key + 4 + (m.key_size if m.key_size > 0 else 0)
    if m.value > m.limit:
        return m
    m.value_size = i32(p, m.value - 4)
    if m.value_size > m.limit - m.value:
        return m
    if m.value_size < 0:
        m.value_size = -1
    m.fault = 0
    return m


def _put_field(out, at, p, pos, n):
    """Write a length and that many bytes; answers where they end."""
    at = put_varint(out, at, n)
    if n <= 0:
        return at
    if cython.compiled:
        memcpy(out + at, p + pos, n)
    else:
        out[at : at + n] = p[pos : pos + n]
    return at + n


def _uplift(p, end, messages, base, out, room):
    done: Lifted = Lifted(used=0, first=-1, last=-1, fault=0)
    m: Message
    k: cython.longlong
    pos: cython.Py_ssize_t = 0
    size: cython.longlong
    offset: cython.longlong
    for k in range(messages):
        m = _read(p, pos, end)
        done.fault = m.fault
        if m.fault != 0:
            return done
        offset = wrapping_add(base, i64(p, pos))
        if k == 0:
            done.first = offset
        if offset < 0 or (k != 0 and offset <= done.last) or offset - done.first > _MAX_DELTA:
            done.fault = BAD_OFFSET
            return done
        done.last = offset
        size = 2 + varint_size(m.timestamp) + varint_size(offset - done.first)
        size += varint_size(m.key_size) + (m.key_size if m.key_size > 0 else 0)
        size += varint_size(m.value_size) + (m.value_size if m.value_size > 0 else 0)
        if room - done.used < size + 5:
            done.fault = NO_ROOM
            return done
        done.used = put_varint(out, done.used, size)
        out[done.used] = 0
        done.used = put_varint(out, done.used + 1, m.timestamp)
        done.used = put_varint(out, done.used, offset - done.first)
        done.used = _put_field(out, done.used, p, m.key, m.key_size)
        done.used = _put_field(out, done.used, p, m.value, m.value_size)
        out[done.used] = 0
        done.used += 1
        pos = m.limit
    return done


def upconvert(
    payload: cython.const[cython.uchar][::1],
    messages: cython.longlong,
    base: cython.longlong,
    out: cython.uchar[::1],
) -> tuple:
    """Write the first `messages` of a message set as records into `out`; `base` is added to their offsets.

    Answers (bytes written, first offset, last offset, fault or 0).
    """
    done: Lifted
    if len(payload) == 0 or len(out) == 0:
        return 0, -1, -1, RECORD_OVERRUN
    if cython.compiled:
        with cython.nogil:
            done = _uplift(
                cython.address(payload[0]), len(payload), messages, base, cython.address(out[0]), len(out)
            )
    else:
        done = _uplift(payload, len(payload), messages, base, memoryview(out), len(out))
    return done.used, done.first, done.last, done.fault
