# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Checksums for the other kernels: CRC-32C (batches v2, snapshots) and CRC-32 (magic 0 and 1).

Both come from libraries that pick the processor's instructions; `use_libraries` hands their functions'
addresses over once at import (`tidelog.records.checksums` says which and why). Until then, and where no
library has such a symbol, an eight-byte table walk answers the same.
"""

import cython

_INT_MAX = cython.declare(cython.Py_ssize_t, 0x7FFFFFFF)
_WORD = cython.declare(cython.Py_ssize_t, 8)  # libraries may load as much at once

if not cython.compiled:
    _instruction = False
    _function = None
    _c_table = [[0] * 256 for _ in range(8)]
    _z_table = [[0] * 256 for _ in range(8)]


def _fill(table, polynomial):
    i: cython.int
    k: cython.int
    c: cython.uint
    for i in range(256):
        c = i
        for _ in range(8):
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
    ones: cython.uint = 0xFFFFFFFF
    if cython.compiled:
        if _iscsi != cython.NULL and _WORD <= end - start <= _INT_MAX:
            return _iscsi(p + start, end - start, ones) ^ ones
        if _extend != cython.NULL:
            return _extend(0, p + start, end - start)
    elif _function is not None:
        return _function(bytes(p[start:end]))
    return _walk(_c_table, p, start, end)


def crc32_range(p, start, end):
    """CRC-32 (zlib's) of p[start:end]."""
    if cython.compiled and _gzip != cython.NULL:
        return _gzip(0, p + start, end - start)
    return _walk(_z_table, p, start, end)


def prefers_instruction() -> cython.bint:
    """Whether the processor's CRC instruction on three streams at a time is the fastest for a CRC-32C."""
    return _instruction


def use_libraries(iscsi, extend, gzip, function):
    """Take checksums from libraries, by the addresses of C functions (0: there is none).

    `iscsi` is ISA-L's crc32_iscsi or crc32_iscsi_01 (CRC-32C; data, size, crc, without inversion), `extend`
    Google's crc32c_extend (crc, data, size), `gzip` ISA-L's crc32_gzip_refl (CRC-32; crc, data, size).
    Uncompiled, `function` answers CRC-32C.
    """
    global _iscsi, _extend, _gzip, _function
    if cython.compiled:
        _iscsi = cython.cast(iscsi_fn, cython.cast(cython.size_t, iscsi))
        _extend = cython.cast(extend_fn, cython.cast(cython.size_t, extend))
        _gzip = cython.cast(extend_fn, cython.cast(cython.size_t, gzip))
    else:
        _function = function


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


def extend_crc32c(crc: cython.uint, data: cython.const[cython.uchar][::1]) -> cython.uint:
    """The CRC-32C of what `crc` is the checksum of, with `data` after it."""
    ones: cython.uint = 0xFFFFFFFF
    n: cython.Py_ssize_t = len(data)
    c: cython.uint = crc ^ ones
    i: cython.Py_ssize_t
    if n == 0:
        return crc
    if cython.compiled:
        with cython.nogil:
            if _iscsi != cython.NULL and _WORD <= n <= _INT_MAX:
                c = _iscsi(cython.address(data[0]), n, c)
            elif _extend != cython.NULL:
                c = _extend(crc, cython.address(data[0]), n) ^ ones
            else:
                for i in range(n):
                    c = (c >> 8) ^ _c_table[0][(c ^ data[i]) & 0xFF]
    else:
        for i in range(n):
            c = (c >> 8) ^ _c_table[0][(c ^ data[i]) & 0xFF]
    return c ^ ones
