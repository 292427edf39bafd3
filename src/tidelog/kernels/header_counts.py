# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""How many headers the records of a batch have, counted before room is made for them.

Only a batch that comes alone is counted first; elsewhere headers are given room by a guess. A record is
laid out as kernels/records.py says.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.faults import RECORD_OVERRUN
    from cython.cimports.tidelog.kernels.records import Var, long_varint
else:
    from tidelog.kernels.faults import RECORD_OVERRUN
    from tidelog.kernels.records import long_varint


def _count_headers(p, pos, end, count):
    total: cython.longlong = 0
    limit: cython.Py_ssize_t
    v: Var
    for _ in range(count):
        v = long_varint(p, pos, end, 28)
        if v.fault != 0:
            return -v.fault
        if v.value & 1 or v.value < 2 or cython.cast(cython.Py_ssize_t, v.value >> 1) > end - v.pos:
            return -RECORD_OVERRUN
        limit = v.pos + cython.cast(cython.Py_ssize_t, v.value >> 1)
        v = long_varint(p, v.pos + 1, limit, 63)
        if v.fault != 0:
            return -v.fault
        v = long_varint(p, v.pos, limit, 28)
        for _ in range(2):
            if v.fault != 0:
                return -v.fault
            v = long_varint(p, v.pos, limit, 28)
            if v.fault != 0:
                return -v.fault
            if not v.value & 1:
                if cython.cast(cython.Py_ssize_t, v.value >> 1) > limit - v.pos:
                    return -RECORD_OVERRUN
                v.pos += v.value >> 1
        v = long_varint(p, v.pos, limit, 28)
        if v.fault != 0:
            return -v.fault
        if v.value & 1 or cython.cast(cython.Py_ssize_t, v.value >> 1) > limit - v.pos:
            return -RECORD_OVERRUN
        total += v.value >> 1
        pos = limit
    return total


def count_headers(
    buf: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
) -> cython.longlong:
    """How many headers the `count` records in buf[start:end] say they have in all; minus the fault."""
    total: cython.longlong
    if start < 0 or end > len(buf) or start > end:
        raise ValueError("range outside the buffer")
    if start == end:
        return 0
    if cython.compiled:
        with cython.nogil:
            total = _count_headers(cython.address(buf[0]), start, end, count)
    else:
        total = _count_headers(buf, start, end, count)
    return total
