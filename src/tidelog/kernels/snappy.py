# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Snappy as Kafka's clients write it, decompressed without Python in between.

    xerial framing   82 'SNAPPY' 00 | version i32 | compatible i32 | chunks: length i32 (big endian), raw
    block raw block        size varint | elements: a tag byte, whose low two bits tell what it is
        0 literal    length - 1 in the high six bits, or (60 to 63) in the 1 to 4 bytes after the tag; then
        its bytes 1 copy       length - 4 in bits 2-4, offset: bits 5-7, then a byte 2 copy       length - 1
        in the high six bits, offset in two bytes (little endian); 3: in four bytes

Every element is held against both ends before anything is copied; a copy that overlaps itself repeats what
it has just written. This is the short way for payloads in the usual form; whatever is not (no framing, a
header between chunks, a damaged block) is answered with UNUSUAL, and `records.compression` decides about
it, slowly and with words.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
    from cython.cimports.tidelog.kernels.faults import SCRATCH_FULL, UNUSUAL
else:
    from tidelog.kernels.faults import SCRATCH_FULL, UNUSUAL

_Bytes = cython.typedef(cython.pointer[cython.const[cython.uchar]])
_Out = cython.typedef(cython.pointer[cython.uchar])


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _copy_literal(
    out: _Out,
    at: cython.Py_ssize_t,
    room: cython.Py_ssize_t,
    p: _Bytes,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
) -> cython.void:
    """out[at:at+n] = p[pos:pos+n], both of which are there; a short one in one step of 16."""
    if cython.compiled:
        if n <= 16 and room - at >= 16 and end - pos >= 16:
            memcpy(out + at, p + pos, 16)
        else:
            memcpy(out + at, p + pos, n)
    else:
        out[at : at + n] = p[pos : pos + n]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _copy_back(
    out: _Out, at: cython.Py_ssize_t, room: cython.Py_ssize_t, offset: cython.Py_ssize_t, n: cython.Py_ssize_t
) -> cython.void:
    """Repeat the n bytes at `offset` before `at`, which may reach into themselves."""
    i: cython.Py_ssize_t
    if cython.compiled:
        if offset >= 16 and room - at >= 64:  # n is 64 at most: four steps, none of which reaches into itself
            memcpy(out + at, out + at - offset, 16)
            if n > 16:
                memcpy(out + at + 16, out + at + 16 - offset, 16)
                if n > 32:
                    memcpy(out + at + 32, out + at + 32 - offset, 16)
                    memcpy(out + at + 48, out + at + 48 - offset, 16)
            return
        if offset >= 8 and room - at >= 64:
            i = 0
            while i < n:
                memcpy(out + at + i, out + at + i - offset, 8)
                i += 8
            return
        if offset >= n:
            memcpy(out + at, out + at - offset, n)
            return
    for i in range(n):
        out[at + i] = out[at + i - offset]


def _decompress_block(p, pos, end, out, room):
    """Decompress the raw block p[pos:end] to `out`; the size, or minus SCRATCH_FULL or UNUSUAL."""
    size: cython.Py_ssize_t = 0
    shift: cython.int = 0
    at: cython.Py_ssize_t = 0
    tag: cython.uint
    n: cython.Py_ssize_t
    offset: cython.Py_ssize_t
    extra: cython.int
    while True:  # the size, five bytes at most
        if pos >= end or shift > 28:
            return -UNUSUAL
        size |= cython.cast(cython.Py_ssize_t, p[pos] & 0x7F) << shift
        shift += 7
        pos += 1
        if p[pos - 1] < 0x80:
            break
    if size > 22 * (end - pos):
        return -UNUSUAL  # more than snappy can do: no scratch is made for that
    if size > room:
        return -SCRATCH_FULL
    while pos < end:
        tag = p[pos]
        pos += 1
        if tag & 3 == 0:
            n = (tag >> 2) + 1
            if n > 60:
                extra = n - 60
                if extra > end - pos:
                    return -UNUSUAL
                n = 0
                for shift in range(extra):
                    n |= cython.cast(cython.Py_ssize_t, p[pos + shift]) << (8 * shift)
                n += 1
                pos += extra
            if n > end - pos or n > size - at:
                return -UNUSUAL
            _copy_literal(out, at, room, p, pos, end, n)
            pos += n
        else:
            if tag & 3 == 1:
                if end - pos < 1:
                    return -UNUSUAL
                n = 4 + ((tag >> 2) & 7)
                offset = ((tag & 0xE0) << 3) | p[pos]
                pos += 1
            elif tag & 3 == 2:
                if end - pos < 2:
                    return -UNUSUAL
                n = (tag >> 2) + 1
                offset = p[pos] | (cython.cast(cython.Py_ssize_t, p[pos + 1]) << 8)
                pos += 2
            else:
                if end - pos < 4:
                    return -UNUSUAL
                n = (tag >> 2) + 1
                offset = p[pos] | (cython.cast(cython.Py_ssize_t, p[pos + 1]) << 8)
                offset |= cython.cast(cython.Py_ssize_t, p[pos + 2]) << 16
                offset |= cython.cast(cython.Py_ssize_t, p[pos + 3]) << 24
                pos += 4
            if offset == 0 or offset > at or n > size - at:
                return -UNUSUAL
            _copy_back(out, at, room, offset, n)
        at += n
    return size if at == size else -UNUSUAL


def decompress_payload(p, pos, end, out, room):
    """Decompress the xerial payload p[pos:end] to `out`; the size, or minus SCRATCH_FULL or UNUSUAL."""
    length: cython.longlong
    done: cython.longlong = 0
    n: cython.longlong
    if end - pos < 16 or p[pos] != 0x82 or p[pos + 1] != 0x53 or p[pos + 2] != 0x4E or p[pos + 3] != 0x41:
        return -UNUSUAL
    if p[pos + 4] != 0x50 or p[pos + 5] != 0x50 or p[pos + 6] != 0x59 or p[pos + 7] != 0:
        return -UNUSUAL
    pos += 16
    while end - pos >= 4:
        length = (
            (cython.cast(cython.longlong, p[pos]) << 24)
            | (cython.cast(cython.longlong, p[pos + 1]) << 16)
            | (cython.cast(cython.longlong, p[pos + 2]) << 8)
            | p[pos + 3]
        )
        pos += 4
        if length > end - pos:  # also what Kafka takes for a negative one, and a header between chunks
            return -UNUSUAL
        if cython.compiled:
            n = _decompress_block(p, pos, pos + length, out + done, room - done)
        else:
            n = _decompress_block(p, pos, pos + length, out[done:], room - done)
        if n < 0:
            return n
        done += n
        pos += length
    return done


def decompress(data: cython.const[cython.uchar][::1], out: cython.uchar[::1]) -> cython.longlong:
    """Decompress a xerial payload; its size, or minus the fault."""
    n: cython.longlong
    if len(data) == 0 or len(out) == 0:
        return -UNUSUAL
    if cython.compiled:
        with cython.nogil:
            n = decompress_payload(
                cython.address(data[0]), 0, data.shape[0], cython.address(out[0]), out.shape[0]
            )
    else:
        n = decompress_payload(data, 0, len(data), memoryview(out), len(out))
    return n
