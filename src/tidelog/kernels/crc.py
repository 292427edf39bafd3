# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Checksums for the other kernels: CRC-32C (batches v2, snapshots) and CRC-32 (magic 0 and 1).

CRC-32C comes from google-crc32c's own library, which picks the processor's instructions; `use_library` hands its
function's address over once at import (`tidelog.records.checksums`). Until then, and where that library has no such
symbol, an eight-byte table walk answers the same. CRC-32 is rare (old data) and always takes the tables.
"""

import cython

if not cython.compiled:
    _extend = None
    _c_table = [[0] * 256 for _ in range(8)]
    _z_table = [[0] * 256 for _ in range(8)]


def _fill(table, polynomial):
    i: cython.int
    k: cython.int
    c: cython.uint
    for i in range(256):
        c = i
        for k in range(8):
            c = (c >> 1) ^ (polynomial if c & 1 else 0)
        table[0][i] = c
    for i in range(256):
        for k in range(1, 8):
            table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 0xFF]


_fill(_c_table, 0x82F63B78)
_fill(_z_table, 0xEDB88320)


def _walk(table, p, start, end):
    ones: cython.uint = 0xFFFFFFFF
    c: cython.uint = ones
    while end - start >= 8:
        c = (
            table[7][(c ^ p[start]) & 0xFF]
            ^ table[6][((c >> 8) ^ p[start + 1]) & 0xFF]
            ^ table[5][((c >> 16) ^ p[start + 2]) & 0xFF]
            ^ table[4][(c >> 24) ^ p[start + 3]]
            ^ table[3][p[start + 4]]
            ^ table[2][p[start + 5]]
            ^ table[1][p[start + 6]]
            ^ table[0][p[start + 7]]
        )
        start += 8
    while start < end:
        c = (c >> 8) ^ table[0][(c ^ p[start]) & 0xFF]
        start += 1
    return c ^ ones


def crc32c_range(p, start, end):
    """CRC-32C of p[start:end]."""
    if cython.compiled:
        if _extend != cython.NULL:
            return _extend(0, p + start, end - start)
    elif _extend is not None:
        return _extend(p[start:end])
    return _walk(_c_table, p, start, end)


def crc32_range(p, start, end):
    """CRC-32 (zlib's) of p[start:end]."""
    return _walk(_z_table, p, start, end)


def use_library(address, function):
    """Take CRC-32C from a library: a C function `(crc, data, n)` at `address`, or, uncompiled, a Python one."""
    global _extend
    if cython.compiled:
        _extend = cython.cast(extend_fn, cython.cast(cython.size_t, address))
    else:
        _extend = function


def crc32c(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t = 0) -> cython.uint:
    """CRC-32C of data[start:]."""
    n: cython.Py_ssize_t = len(data)
    value: cython.uint
    if start < 0 or start >= n:
        return 0
    if cython.compiled:
        with cython.nogil:
            value = crc32c_range(cython.address(data[0]), start, n)
    else:
        value = crc32c_range(data, start, n)
    return value


def crc32(data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t = 0) -> cython.uint:
    """CRC-32 (zlib's) of data[start:]."""
    n: cython.Py_ssize_t = len(data)
    value: cython.uint
    if start < 0 or start >= n:
        return 0
    if cython.compiled:
        with cython.nogil:
            value = crc32_range(cython.address(data[0]), start, n)
    else:
        value = crc32_range(data, start, n)
    return value
