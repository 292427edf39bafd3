# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Headers of v2 batches, written from rows such as a scan fills (see kernels/scan.py, `records.batches`)."""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.crc import crc32c_range
else:
    from tidelog.kernels.crc import crc32c_range


def _put_int(out, pos, size, n):
    """Write the low `size` bytes of n, big-endian."""
    i: cython.int
    for i in range(size):
        out[pos + i] = cython.cast(cython.uchar, (n >> (8 * (size - 1 - i))) & 0xFF)


def write_header(out, row):
    """Write the header that `row` tells in front of its records, and the checksum of both into both."""
    pos: cython.Py_ssize_t = row[0]
    _put_int(out, pos, 8, row[2])
    _put_int(out, pos + 8, 4, row[1] - 12)
    _put_int(out, pos + 12, 4, row[4])
    out[pos + 16] = 2
    _put_int(out, pos + 21, 2, row[6])
    _put_int(out, pos + 23, 4, row[3] - row[2])
    _put_int(out, pos + 27, 8, row[7])
    _put_int(out, pos + 35, 8, row[8])
    _put_int(out, pos + 43, 8, row[9])
    _put_int(out, pos + 51, 2, row[10])
    _put_int(out, pos + 53, 4, row[11])
    _put_int(out, pos + 57, 4, row[12])
    row[13] = crc32c_range(out, pos + 21, pos + row[1])
    _put_int(out, pos + 17, 4, row[13])


def seal(out: cython.uchar[::1], rows: cython.longlong[:, ::1]) -> None:
    """Write the headers that `rows` tell into `out`, at their positions, and the checksums into both."""
    i: cython.Py_ssize_t
    if rows.shape[1] != 16:
        raise ValueError("rows have 16 columns")
    for i in range(rows.shape[0]):
        if rows[i, 0] < 0 or rows[i, 1] < 61 or rows[i, 1] > len(out) - rows[i, 0]:
            raise ValueError("a batch lies outside the buffer")
    if cython.compiled:
        with cython.nogil:
            for i in range(rows.shape[0]):
                write_header(cython.address(out[0]), cython.address(rows[i, 0]))
    else:
        for i in range(len(rows)):
            write_header(memoryview(out), rows[i])
