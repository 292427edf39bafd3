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
    from types import SimpleNamespace as Reach

    from tidelog.kernels.faults import SCRATCH_FULL, UNUSUAL

_Bytes = cython.typedef(cython.pointer[cython.const[cython.uchar]])
_Out = cython.typedef(cython.pointer[cython.uchar])


if not cython.compiled:
    _SPECIAL = 0x8000
    _table, _masks = [0] * 256, [0] * 4


def _fill():
    """What a tag alone tells: length in bits 0-7, high bits of the offset in 8-10; SPECIAL: no short copy."""
    tag: cython.int
    length: cython.int
    _masks[0], _masks[1], _masks[2], _masks[3] = 0, 0xFF, 0xFFFF, 0
    for tag in range(256):
        length = 4 + ((tag >> 2) & 7) if tag & 3 == 1 else (tag >> 2) + 1
        _table[tag] = length
        if tag & 3 == 1:
            _table[tag] |= (tag >> 5) << 8
        if tag & 3 == 0 or tag & 3 == 3 or length > 32:
            _table[tag] |= _SPECIAL


_fill()


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _short_elements(
    p: _Bytes,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    out: _Out,
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> Reach:
    """The short way: copies of 32 bytes at most, each after a literal of 16 bytes at most or none.

    Whether there is a literal cannot be foretold, so nothing here branches on it: `literal` is all ones or
    zero, and masks the steps. All is far enough from both ends to copy 16 and 32 bytes whatever the lengths
    say. Stops before what is not as usual: a longer one, an offset of four bytes, a copy that reaches into
    itself or before the start.
    """
    reach: Reach = Reach(pos=pos, at=at)
    tag: cython.size_t
    entry: cython.size_t
    literal: cython.size_t
    n: cython.size_t
    offset: cython.size_t
    if cython.compiled:
        while end - reach.pos >= 96 and size - reach.at >= 48 and reach.at >= 32:
            pos, at = reach.pos, reach.at
            tag = p[pos]
            literal = ((tag & 3) != 0) - cython.cast(cython.size_t, 1)
            n = ((tag >> 2) + 1) & literal
            memcpy(out + at, p + pos + 1, 16)
            tag = (p[pos + 2 + (tag >> 2)] & literal) | (tag & ~literal)
            pos += n + (literal & 1)
            at += n
            entry = _table[tag]
            offset = (p[pos + 1] | (cython.cast(cython.size_t, p[pos + 2]) << 8)) & _masks[tag & 3]
            offset += entry & 0x700
            if n > 16 or entry & _SPECIAL or offset - (entry & 0xFF) > at - (entry & 0xFF):
                break
            memcpy(out + at, out + at - offset, 16)
            memcpy(out + at + 16, out + at + 16 - offset, 16)
            reach.pos = pos + 1 + (tag & 3)
            reach.at = at + (entry & 0xFF)
    return reach


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _copy_back(
    out: _Out, at: cython.Py_ssize_t, offset: cython.Py_ssize_t, n: cython.Py_ssize_t
) -> cython.void:
    """Repeat the n bytes at `offset` before `at`, which may reach into themselves."""
    i: cython.Py_ssize_t
    if cython.compiled and offset >= n:
        memcpy(out + at, out + at - offset, n)
    else:
        for i in range(n):
            out[at + i] = out[at + i - offset]


def _read_size(p, pos, end):
    """The size that a raw block says, in five bytes at most, and where its elements begin; -1: none."""
    reach: Reach = Reach(pos=pos, at=0)
    shift: cython.int = 0
    while reach.pos < end and shift <= 28:
        reach.at |= cython.cast(cython.Py_ssize_t, p[reach.pos] & 0x7F) << shift
        reach.pos += 1
        if p[reach.pos - 1] < 0x80:
            return reach
        shift += 7
    reach.pos = -1
    return reach


def _read_number(p, pos, size):
    """The little-endian number in `size` bytes."""
    n: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t
    for i in range(size):
        n |= cython.cast(cython.Py_ssize_t, p[pos + i]) << (8 * i)
    return n


def _decompress_block(p, pos, end, out, room):
    """Decompress the raw block p[pos:end] to `out`; the size, or minus SCRATCH_FULL or UNUSUAL."""
    reach: Reach = _read_size(p, pos, end)
    size: cython.Py_ssize_t = reach.at
    at: cython.Py_ssize_t = 0
    tag: cython.uint
    n: cython.Py_ssize_t
    offset: cython.Py_ssize_t
    extra: cython.Py_ssize_t
    pos = reach.pos
    if pos < 0 or size > 22 * (end - pos):
        return -UNUSUAL  # more than snappy can do: no scratch is made for that
    if size > room:
        return -SCRATCH_FULL
    while pos < end:
        reach = _short_elements(p, pos, end, out, at, size)
        pos, at = reach.pos, reach.at
        tag = p[pos]
        n = (tag >> 2) + 1
        extra = tag & 3
        if extra == 0:
            extra = n - 60 if n > 60 else 0
        elif extra == 3:
            extra = 4
        if extra > end - pos - 1:
            return -UNUSUAL
        offset = _read_number(p, pos + 1, extra)
        pos += 1 + extra
        if tag & 3 == 0:
            n = offset + 1 if extra > 0 else n
            if n > end - pos or n > size - at:
                return -UNUSUAL
            if cython.compiled:
                memcpy(out + at, p + pos, n)
            else:
                out[at : at + n] = p[pos : pos + n]
            pos += n
        else:
            if tag & 3 == 1:
                n = 4 + ((tag >> 2) & 7)
                offset |= (tag >> 5) << 8
            if offset == 0 or offset > at or n > size - at:
                return -UNUSUAL
            _copy_back(out, at, offset, n)
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
