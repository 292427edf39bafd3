# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Zigzag varints, to be written: seven bits a byte, at most ten bytes for 64 bits."""

import cython


def varint_size(n):
    """The bytes that a number takes."""
    z: cython.ulonglong = (cython.cast(cython.ulonglong, n) << 1) ^ cython.cast(cython.ulonglong, n >> 63)
    size: cython.Py_ssize_t = 1
    if not cython.compiled:
        z = (n << 1) ^ (n >> 63)
    while z >= 0x80:
        z >>= 7
        size += 1
    return size


def put_varint(out, pos, n):
    """Write a number; answers where it ends."""
    z: cython.ulonglong = (cython.cast(cython.ulonglong, n) << 1) ^ cython.cast(cython.ulonglong, n >> 63)
    if not cython.compiled:
        z = (n << 1) ^ (n >> 63)
    while z >= 0x80:
        out[pos] = cython.cast(cython.uchar, (z & 0x7F) | 0x80)
        z >>= 7
        pos += 1
    out[pos] = cython.cast(cython.uchar, z)
    return pos + 1
