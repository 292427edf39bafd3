# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One pass over the headers of a run of batches: framing, magic and checksum of each, into a table of
numbers.

A row of the table, 16 columns of int64 (`records.batches` names them):

    0 position   4 leader epoch     8 max timestamp    12 count
    1 size       5 magic            9 producer id      13 crc
    2 base       6 attributes      10 producer epoch   14 (spare)
    3 last       7 base timestamp  11 base sequence    15 (spare)

The walk stops at the first byte that is not a whole, sound batch and says why (see `records.faults`):

1. fewer than 17 bytes left, or a length that reaches past the end: TORN;
2. a length below the format's smallest: BAD_LENGTH;   3. magic other than 0, 1, 2: UNKNOWN_MAGIC;
4. a checksum that does not match: CHECKSUM.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.crc import crc32_range, crc32c_range
    from cython.cimports.tidelog.kernels.faults import BAD_LENGTH, CHECKSUM, TORN, UNKNOWN_MAGIC
else:
    from tidelog.kernels.crc import crc32_range, crc32c_range
    from tidelog.kernels.faults import BAD_LENGTH, CHECKSUM, TORN, UNKNOWN_MAGIC

_Row = cython.typedef(cython.pointer[cython.longlong])


if not cython.compiled:  # in scan.pxd they are inlined

    def i16(p, i):
        """The big-endian number at p[i:i+2]."""
        return int.from_bytes(p[i : i + 2], "big", signed=True)

    def u32(p, i):
        """The big-endian number without sign at p[i:i+4]."""
        return int.from_bytes(p[i : i + 4], "big")

    def i32(p, i):
        """The big-endian number at p[i:i+4]."""
        return int.from_bytes(p[i : i + 4], "big", signed=True)

    def i64(p, i):
        """The big-endian number at p[i:i+8]."""
        return int.from_bytes(p[i : i + 8], "big", signed=True)

    def wrapping_add(a, b):
        """a + b as Java adds longs."""
        return ((a + b + 2**63) & (2**64 - 1)) - 2**63


def _read_header(p, pos, end, row, check_crc):
    """Read the header at `pos` into `row`; 0 or the fault."""
    size: cython.longlong
    if end - pos < 17:
        return TORN
    size = i32(p, pos + 8)
    row[2] = i64(p, pos)
    if size < 14:
        return BAD_LENGTH
    if size > end - pos - 12:
        return TORN
    row[1] = size + 12
    row[5] = p[pos + 16]
    if p[pos + 16] > 2:
        return UNKNOWN_MAGIC
    if p[pos + 16] < 2:
        return _read_message(p, pos, size, row, check_crc)
    if size < 49:
        return BAD_LENGTH
    row[3] = wrapping_add(row[2], i32(p, pos + 23))
    row[4] = i32(p, pos + 12)
    row[6] = i16(p, pos + 21)
    row[7] = i64(p, pos + 27)
    row[8] = i64(p, pos + 35)
    row[9] = i64(p, pos + 43)
    row[10] = i16(p, pos + 51)
    row[11] = i32(p, pos + 53)
    row[12] = i32(p, pos + 57)
    row[13] = u32(p, pos + 17)
    if check_crc and crc32c_range(p, pos + 21, pos + 12 + size) != row[13]:
        return CHECKSUM
    return 0


def _read_message(p, pos, size, row, check_crc):
    """Read the whole message of magic 0 or 1 at `pos` into `row`; 0 or the fault."""
    if row[5] == 1 and size < 22:
        return BAD_LENGTH
    row[3] = row[2]
    row[4] = -1
    row[6] = p[pos + 17]
    row[7] = i64(p, pos + 18) if row[5] == 1 else -1
    row[8] = row[7]
    row[9] = -1
    row[10] = -1
    row[11] = -1
    row[12] = 1
    row[13] = u32(p, pos + 12)
    if check_crc and crc32_range(p, pos + 16, pos + 12 + size) != row[13]:
        return CHECKSUM
    return 0


def scan(
    buf: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    origin: cython.longlong,
    rows: cython.longlong[:, ::1],
    check_crc: cython.bint,
) -> tuple:
    """Fill `rows` from buf[start:end]; answers (rows filled, where the walk stopped, fault or 0).

    Positions in the table and in the answer are buf's index plus `origin`. At a fault, the row after the last
    filled one holds what could be read of the bad batch (its size and base offset) where there is room for
    it.
    """
    n: cython.Py_ssize_t = 0
    capacity: cython.Py_ssize_t = rows.shape[0]
    pos: cython.Py_ssize_t = start
    fault: cython.int = 0
    if start < 0 or end > len(buf) or start > end or rows.shape[1] != 16:
        raise ValueError("range outside the buffer")
    if capacity == 0 or start == end:
        return 0, pos + origin, 0
    if cython.compiled:
        with cython.nogil:
            while n < capacity and pos < end:
                rows[n, 0] = pos + origin
                fault = _read_header(cython.address(buf[0]), pos, end, cython.address(rows[n, 0]), check_crc)
                if fault != 0:
                    break
                pos += rows[n, 1]
                n += 1
    else:
        while n < capacity and pos < end:
            row = [pos + origin] + [0] * 15
            fault = _read_header(buf, pos, end, row, check_crc)
            rows[n] = row
            if fault != 0:
                break
            pos += row[1]
            n += 1
    return n, pos + origin, fault


def verify(
    buf: cython.const[cython.uchar][::1], rows: cython.longlong[:, ::1], origin: cython.longlong
) -> cython.Py_ssize_t:
    """The first of `rows` whose checksum does not match its bytes in `buf`, or -1."""
    i: cython.Py_ssize_t = 0
    n: cython.Py_ssize_t = rows.shape[0]
    size: cython.Py_ssize_t = len(buf)
    start: cython.longlong
    crc: cython.longlong
    if cython.compiled:
        p: cython.pointer[cython.const[cython.uchar]] = cython.address(buf[0])
    else:
        p, rows = buf, memoryview(rows)
    with cython.nogil:
        while i < n:
            start = rows[i, 0] - origin
            if start < 0 or rows[i, 1] < 26 or rows[i, 1] > size - start:
                break
            if rows[i, 5] == 2:
                crc = crc32c_range(p, start + 21, start + rows[i, 1])
            else:
                crc = crc32_range(p, start + 16, start + rows[i, 1])
            if crc != rows[i, 13]:
                break
            i += 1
    return i if i < n else -1


def first_misplaced(
    rows: cython.const[cython.longlong][:, ::1], before: cython.longlong, largest: cython.longlong
) -> cython.Py_ssize_t:
    """The first of `rows` whose offsets do not come after `before` and those of the rows before it, or are
    above `largest`; -1 if there is none.
    """
    i: cython.Py_ssize_t = 0
    n: cython.Py_ssize_t = rows.shape[0]
    if rows.shape[1] != 16:
        raise ValueError("a row has 16 columns")
    if not cython.compiled:
        rows = memoryview(rows)
    with cython.nogil:
        while i < n:
            if rows[i, 2] <= before or rows[i, 3] < rows[i, 2] or rows[i, 3] > largest:
                break
            before = rows[i, 3]
            i += 1
    return i if i < n else -1
