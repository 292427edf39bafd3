# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Zigzag varints: seven bits a byte, at most ten bytes for 64 bits."""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.faults import BAD_VARINT, RECORD_OVERRUN
else:
    from types import SimpleNamespace as Var

    from tidelog.kernels.faults import BAD_VARINT, RECORD_OVERRUN

_MASK32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_MASK64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


def long_varint(p, pos, limit, max_shift):
    """The varint at `pos`, which ends before `limit`, or minus the fault as its end.

    `max_shift` is 28 for an int and 63 for a long. `varint` has a short way for one byte and two.
    """
    out: Var = Var(value=0, pos=0)
    raw: cython.ulonglong = 0
    shift: cython.int = 0
    while True:
        if shift > max_shift or pos >= limit:
            out.pos = -BAD_VARINT if shift > max_shift else -RECORD_OVERRUN
            return out
        raw |= (cython.cast(cython.ulonglong, p[pos] & 0x7F) << shift) & _MASK64
        pos += 1
        if p[pos - 1] < 0x80:
            break
        shift += 7
    if max_shift == 28:
        raw &= _MASK32
    out.value = cython.cast(cython.longlong, raw >> 1) ^ -cython.cast(cython.longlong, raw & 1)
    out.pos = pos
    return out


def read_varint(buf: cython.const[cython.uchar][::1], pos: cython.Py_ssize_t) -> tuple:
    """A long at `pos` and where it ends; minus the fault where it does not end within `buf`."""
    if pos < 0 or pos >= len(buf):
        return 0, -RECORD_OVERRUN
    v: Var = long_varint(cython.address(buf[0]) if cython.compiled else buf, pos, len(buf), 63)
    return int(v.value), v.pos


if not cython.compiled:
    varint = long_varint


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
