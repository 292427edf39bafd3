# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kafka's murmur2 of a column of keys: the hash by which its producers choose a partition.

32 bits, seed 0x9747b28c; four bytes at a time, little-endian, then the one to three that are left.
"""

import cython


def _hash(data, start, end):
    m: cython.uint = 0x5BD1E995
    h: cython.uint = 0x9747B28C
    k: cython.uint
    mask: cython.uint = 0xFFFFFFFF
    length: cython.Py_ssize_t = end - start
    at: cython.Py_ssize_t = start
    h ^= cython.cast(cython.uint, length & mask)
    while end - at >= 4:
        k = data[at]
        k |= cython.cast(cython.uint, data[at + 1]) << 8
        k |= cython.cast(cython.uint, data[at + 2]) << 16
        k |= cython.cast(cython.uint, data[at + 3]) << 24
        k = (k * m) & mask
        k ^= k >> 24
        k = (k * m) & mask
        h = ((h * m) & mask) ^ k
        at += 4
    if end - at == 3:
        h ^= cython.cast(cython.uint, data[at + 2]) << 16
    if end - at >= 2:
        h ^= cython.cast(cython.uint, data[at + 1]) << 8
    if end - at >= 1:
        h ^= data[at]
        h = (h * m) & mask
    h ^= h >> 13
    h = (h * m) & mask
    return h ^ (h >> 15)


def murmur2(
    data: cython.const[cython.uchar][::1],
    offsets: cython.const[cython.longlong][::1],
    out: cython.uint[::1],
) -> cython.Py_ssize_t:
    """Hash data[offsets[i]:offsets[i+1]] into out[i]; how many rows were hashed before one out of bounds."""
    i: cython.Py_ssize_t = 0
    rows: cython.Py_ssize_t = len(out)
    size: cython.Py_ssize_t = len(data)
    if len(offsets) != rows + 1:
        raise ValueError("there is one offset more than rows")
    if cython.compiled:
        with cython.nogil:
            while i < rows:
                if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > size:
                    break
                if offsets[i] == offsets[i + 1]:
                    out[i] = _hash(cython.NULL, 0, 0)
                else:
                    out[i] = _hash(cython.address(data[0]), offsets[i], offsets[i + 1])
                i += 1
    else:
        view, ends = memoryview(data), memoryview(offsets)
        while i < rows:
            if ends[i] < 0 or ends[i + 1] < ends[i] or ends[i + 1] > size:
                break
            out[i] = _hash(view, ends[i], ends[i + 1])
            i += 1
    return i
