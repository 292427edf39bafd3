# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""LZ4 frames as Kafka's clients write them, decompressed without Python in between.

    04 22 4D 18 | FLG | BD | [content size 8] | HC | blocks: size u32 (top bit: stored as it is), bytes | 0
    u32

The blocks themselves are decompressed by the `lz4` package's own library, whose `LZ4_decompress_safe` is
handed over by address (`tidelog.records.compression`). This is the short way for frames in the usual form;
whatever is not (block checksums, linked blocks, a damaged frame, no library) is answered with UNUSUAL, and
`records.compression` decides about it, slowly and with words.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
    from cython.cimports.tidelog.kernels.faults import SCRATCH_FULL, UNUSUAL
else:
    from tidelog.kernels.faults import SCRATCH_FULL, UNUSUAL

_PRIME1 = cython.declare(cython.uint, 2654435761)
_PRIME2 = cython.declare(cython.uint, 2246822519)
_PRIME3 = cython.declare(cython.uint, 3266489917)
_PRIME4 = cython.declare(cython.uint, 668265263)
_PRIME5 = cython.declare(cython.uint, 374761393)
_MASK32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)


def use_library(address):
    """Take block decompression from a library: LZ4_decompress_safe at `address` (compiled only)."""
    global _decompress_block
    if cython.compiled:
        _decompress_block = cython.cast(block_fn, cython.cast(cython.size_t, address))


def available() -> bool:
    """Is there a library to decompress with?"""
    if cython.compiled:
        return _decompress_block != cython.NULL
    else:
        return False


def _rotate(x, by):
    return ((x << by) | (x >> (32 - by))) & _MASK32


def _u32_le(p, pos):
    return (
        cython.cast(cython.uint, p[pos])
        | (cython.cast(cython.uint, p[pos + 1]) << 8)
        | (cython.cast(cython.uint, p[pos + 2]) << 16)
        | (cython.cast(cython.uint, p[pos + 3]) << 24)
    )


def _xxh32(p, pos, n):
    """xxHash32 of fewer than 16 bytes, which a frame's descriptor always is."""
    h: cython.uint = (_PRIME5 + n) & _MASK32
    while n >= 4:
        h = (h + _u32_le(p, pos) * _PRIME3) & _MASK32
        h = (_rotate(h, 17) * _PRIME4) & _MASK32
        pos += 4
        n -= 4
    while n > 0:
        h = (h + p[pos] * _PRIME5) & _MASK32
        h = (_rotate(h, 11) * _PRIME1) & _MASK32
        pos += 1
        n -= 1
    h = ((h ^ (h >> 15)) * _PRIME2) & _MASK32
    h = ((h ^ (h >> 13)) * _PRIME3) & _MASK32
    return h ^ (h >> 16)


def decompress_payload(p, pos, end, out, room):
    """Decompress the frame p[pos:end] to `out`; the size, or minus SCRATCH_FULL or UNUSUAL."""
    flags: cython.int
    descriptor: cython.Py_ssize_t
    largest: cython.Py_ssize_t
    size: cython.uint
    stored: cython.bint
    done: cython.longlong = 0
    n: cython.longlong
    if end - pos < 11 or p[pos] != 0x04 or p[pos + 1] != 0x22 or p[pos + 2] != 0x4D or p[pos + 3] != 0x18:
        return -UNUSUAL
    flags = p[pos + 4]
    # Version 1, independent blocks, no block checksums, no dictionary, no reserved bit.
    if (flags & 0xF3) != 0x60 or (p[pos + 5] & 0x8F) != 0 or (p[pos + 5] >> 4) < 4:
        return -UNUSUAL
    largest = 1 << (8 + 2 * (p[pos + 5] >> 4))
    descriptor = 10 if flags & 0x08 else 2
    if end - pos < descriptor + 9:
        return -UNUSUAL
    if p[pos + 4 + descriptor] != (_xxh32(p, pos + 4, descriptor) >> 8) & 0xFF:
        return -UNUSUAL
    pos += 5 + descriptor
    while True:
        if end - pos < 4:
            return -UNUSUAL
        size = _u32_le(p, pos)
        pos += 4
        if size == 0:
            return done
        stored = (size >> 31) != 0
        size &= 0x7FFFFFFF
        if size > largest or size > end - pos:
            return -UNUSUAL
        if room - done < largest:
            return -SCRATCH_FULL
        if stored:
            if cython.compiled:
                memcpy(out + done, p + pos, size)
            else:
                out[done : done + size] = p[pos : pos + size]
            n = size
        elif cython.compiled:
            if _decompress_block == cython.NULL:
                return -UNUSUAL
            n = _decompress_block(
                cython.cast(cython.p_char, p) + pos, cython.cast(cython.p_char, out) + done, size, largest
            )
        else:
            return -UNUSUAL
        if n < 0:
            return -UNUSUAL
        done += n
        pos += size
