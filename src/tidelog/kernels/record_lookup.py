# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""One record out of the records of a v2 batch, by its offset or its time.

The layout of a record is at the head of `kernels.records`. Lengths are checked on the way to the record, and
the record that is given away is checked to fill its own length; those behind it are not looked at (the
batch's checksum is the caller's part). Codes: 0 found, END not there, above 0 a fault (`records.faults`).
"""

from types import SimpleNamespace

import cython

if cython.compiled:
    from cython.cimports.cpython.object import PyObject_GenericSetAttr as _set
    from cython.cimports.tidelog.kernels.faults import COUNT_MISMATCH, RECORD_OVERRUN
    from cython.cimports.tidelog.kernels.scan import wrapping_add
    from cython.cimports.tidelog.kernels.varints import Var, varint
else:
    from tidelog.kernels.faults import COUNT_MISMATCH, RECORD_OVERRUN
    from tidelog.kernels.scan import wrapping_add
    from tidelog.kernels.varints import varint

    _set = object.__setattr__
    Facts = Record = Body = SimpleNamespace

_END = cython.declare(cython.int, -1)


def _head(p, pos, end):
    """The record at `pos`; its offset and timestamp are deltas yet."""
    v: Var
    r: Record = Record(code=0, pos=0, limit=0, offset=0, timestamp=0)
    if pos >= end:
        r.code = COUNT_MISMATCH
        return r
    v = varint(p, pos, end, 28)
    if v.pos >= 0 and (v.value < 1 or v.value > end - v.pos):
        v.pos = -RECORD_OVERRUN
    if v.pos >= 0:
        r.limit = v.pos + v.value
        v = varint(p, v.pos + 1, r.limit, 63)
    if v.pos >= 0:
        r.timestamp = v.value
        v = varint(p, v.pos, r.limit, 28)
    if v.pos < 0:
        r.code = -v.pos
        return r
    r.offset = v.value
    r.pos = v.pos
    return r


def find(p, pos, end, facts, by_time, offset, timestamp):
    """Of the records in p[pos:end]: the one at `offset`, or by time the first that is at or after both."""
    r: Record = Record(code=_END, pos=0, limit=0, offset=0, timestamp=0)
    _k: cython.longlong
    base: cython.longlong = facts.base
    base_timestamp: cython.longlong = facts.base_timestamp
    by_log: cython.bint = (facts.attributes & 8) != 0
    for _k in range(facts.count):
        r = _head(p, pos, end)
        if r.code != 0:
            return r
        r.offset = wrapping_add(base, r.offset)
        r.timestamp = facts.max_timestamp if by_log else wrapping_add(base_timestamp, r.timestamp)
        if by_time:
            if r.timestamp >= timestamp and r.offset >= offset:
                return r
        elif r.offset == offset:
            return r
        pos = r.limit
    r.code = _END
    return r


def body_of(p, r):
    """Where key, value and headers of a record are. The headers are gone over too."""
    v: Var
    i: cython.longlong
    n: cython.longlong
    b: Body = Body(code=0, key=0, key_size=0, value=0, value_size=0, headers=0, header_count=0)
    v = varint(p, r.pos, r.limit, 28)
    if v.pos >= 0 and v.value <= r.limit - v.pos:
        b.key = v.pos
        b.key_size = v.value
        v = varint(p, v.pos + (v.value if v.value > 0 else 0), r.limit, 28)
        if v.pos >= 0 and v.value <= r.limit - v.pos:
            b.value = v.pos
            b.value_size = v.value
            v = varint(p, v.pos + (v.value if v.value > 0 else 0), r.limit, 28)
            if v.pos >= 0 and 0 <= v.value <= r.limit - v.pos:
                b.headers = v.pos
                b.header_count = v.value
                n = 2 * v.value
                for i in range(n):
                    v = varint(p, v.pos, r.limit, 28)
                    if v.pos < 0 or v.value > r.limit - v.pos or (v.value < 0 and i % 2 == 0):
                        break
                    if v.value > 0:
                        v.pos += v.value
                if v.pos == r.limit:
                    return b
    b.code = -v.pos if v.pos < 0 else RECORD_OVERRUN
    return b


def _bytes(p, pos, size):
    if size < 0:
        return None
    if cython.compiled:
        return p[pos : pos + size]
    else:
        return bytes(p[pos : pos + size])


def _headers(p, b, limit):
    """The headers as pairs of bytes; `body_of` has found them sound."""
    v: Var
    _i: cython.Py_ssize_t
    pos: cython.Py_ssize_t = b.headers
    pairs = []
    for _i in range(b.header_count):
        v = varint(p, pos, limit, 28)
        key = _bytes(p, v.pos, v.value)
        v = varint(p, v.pos + v.value, limit, 28)
        pairs.append((key, _bytes(p, v.pos, v.value)))
        pos = v.pos + (v.value if v.value > 0 else 0)
    return pairs


def fields(p, r, b, facts):
    """0 and the record's fields in the order of `StoredRecord`; headers are pairs of bytes, None for none."""
    sequence: cython.longlong = -1
    if facts.sequence >= 0:
        sequence = (facts.sequence + (r.offset - facts.base)) & 0x7FFFFFFF
    return (
        0,
        r.offset,
        r.timestamp,
        1 if facts.attributes & 8 else 0,
        _bytes(p, b.key, b.key_size),
        _bytes(p, b.value, b.value_size),
        _headers(p, b, r.limit) if b.header_count else None,
        facts.epoch,
        facts.producer_id,
        facts.producer_epoch,
        sequence,
        (facts.attributes & 0x10) != 0,
        (facts.attributes & 0x20) != 0,
    )


def make(cls, names: tuple, kinds: tuple, found: tuple):
    """A `StoredRecord` of what `fields` gave, without headers: a third of the time that calling it takes.

    It is a frozen data class, whose own way is one Python call a field. `names` are its fields, `kinds` the
    timestamp types by their numbers.
    """
    i: cython.Py_ssize_t
    record = object.__new__(cls)
    for i in range(12):
        _set(record, names[i], found[i + 1])
    _set(record, names[2], kinds[found[3]])
    _set(record, names[5], ())
    _set(record, names[12], "")
    _set(record, names[13], 0)
    return record


def make_pair(cls: type, names: tuple, first, second):
    """An object of a frozen data class with these two fields, in half of the time that calling it takes."""
    pair = object.__new__(cls)
    _set(pair, names[0], first)
    _set(pair, names[1], second)
    return pair


def find_in_payload(
    payload: cython.const[cython.uchar][::1],
    row: cython.const[cython.longlong][::1],
    by_time: cython.bint,
    offset: cython.longlong,
    timestamp: cython.longlong,
) -> tuple:
    """Find a record among the decompressed ones of a batch, whose `row` is one of `kernels.scan`'s table.

    Answers 0 and its fields, by time (0, timestamp, offset); else only a code.
    """
    size: cython.Py_ssize_t = len(payload)
    r: Record
    b: Body
    if row.shape[0] != 16:
        raise ValueError("a row of a table of batches has 16 columns")
    if not cython.compiled:
        row = row.tolist()  # numbers that do not overflow
    facts: Facts = Facts(
        base=row[2],
        epoch=row[4],
        attributes=row[6],
        base_timestamp=row[7],
        max_timestamp=row[8],
        producer_id=row[9],
        producer_epoch=row[10],
        sequence=row[11],
        count=row[12],
    )
    if size == 0:
        return (_END if facts.count == 0 else COUNT_MISMATCH,)
    if cython.compiled:
        p: cython.pointer[cython.const[cython.uchar]] = cython.address(payload[0])
    else:
        p = payload
    with cython.nogil:
        r = find(p, 0, size, facts, by_time, offset, timestamp)
        if r.code == 0 and not by_time:
            b = body_of(p, r)
            r.code = b.code
    if r.code != 0:
        return (r.code,)
    return (0, r.timestamp, r.offset) if by_time else fields(p, r, b, facts)
