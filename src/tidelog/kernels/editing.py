# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The records of one batch written anew: some gone, some with another key, value or headers, times in bounds.

The caller gives the records of the batch as those of v2, decompressed, and an act for each:

    0  it stays        1  it goes        2  it is redacted, as `how` says:

    how &  1   its key becomes `key`         how &  2   its key becomes null
    how &  4   its value becomes `value`     how &  8   its value becomes null
    how & 16   its headers go

All records that stay keep their offsets; their times are brought into [earliest, latest]. What is written
are the records, behind room for a header, and the row that the header is to be made from
(`kernels.batch_headers`): base and max timestamp are those of the records that stay; a delete horizon stays.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
    from cython.cimports.tidelog.kernels.faults import (
        BAD_OFFSET,
        BAD_TIMESTAMP,
        COUNT_MISMATCH,
        NO_ROOM,
        RECORD_OVERRUN,
    )
    from cython.cimports.tidelog.kernels.scan import wrapping_add
    from cython.cimports.tidelog.kernels.varints import Var, put_varint, varint, varint_size
else:
    from types import SimpleNamespace

    from tidelog.kernels.faults import (
        BAD_OFFSET,
        BAD_TIMESTAMP,
        COUNT_MISMATCH,
        NO_ROOM,
        RECORD_OVERRUN,
    )
    from tidelog.kernels.scan import wrapping_add
    from tidelog.kernels.varints import Var, put_varint, varint, varint_size

    Edited = Sizes = Totals = SimpleNamespace

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_MIN_RECORD = cython.declare(cython.longlong, 7)
_MOST_HEAD = cython.declare(cython.Py_ssize_t, 21)  # length 5, attributes 1, time 10, offset 5
_GOES = cython.declare(cython.int, 1)
_REDACTED = cython.declare(cython.int, 2)


def _skip(p, pos, limit):
    """Where the length at `pos` and its bytes end, or minus the fault."""
    v: Var = varint(p, pos, limit, 28)
    if v.pos < 0:
        return v.pos
    if v.value > limit - v.pos:
        return -RECORD_OVERRUN
    return v.pos + (v.value if v.value > 0 else 0)


def _read(p, pos, end, row, earliest, latest):
    """The record at `pos`: its place, time and offset; `fault` is 0 if its key and value lie within it."""
    r: Edited = Edited(fault=0, body=0, key_end=0, value_end=0, limit=0, timestamp=0, offset=0)
    v: Var = varint(p, pos, end, 28)
    if v.pos < 0:
        r.fault = -v.pos
        return r
    if v.value < 1 or v.value > end - v.pos:
        r.fault = RECORD_OVERRUN
        return r
    r.limit = v.pos + v.value
    v = varint(p, v.pos + 1, r.limit, 63)
    if v.pos < 0:
        r.fault = -v.pos
        return r
    r.timestamp = row[8] if (row[6] & 8) != 0 else wrapping_add(row[7], v.value)
    if r.timestamp < earliest:
        r.timestamp = earliest
    if r.timestamp > latest:
        r.timestamp = latest
    v = varint(p, v.pos, r.limit, 28)
    if v.pos < 0:
        r.fault = -v.pos
        return r
    r.offset = wrapping_add(row[2], v.value)
    r.body = v.pos
    r.key_end = _skip(p, r.body, r.limit)
    if r.key_end < 0:
        r.fault = -r.key_end
        return r
    r.value_end = _skip(p, r.key_end, r.limit)
    if r.value_end < 0:
        r.fault = -r.value_end
    elif r.value_end >= r.limit:
        r.fault = RECORD_OVERRUN
    return r


def _total(p, size, row, acts, earliest, latest):
    """What stays of the batch: how many records, and of them the first and the last."""
    t: Totals = Totals(fault=0, kept=0, first_timestamp=-1, max_timestamp=-1, first_offset=-1, last_offset=-1)
    r: Edited
    k: cython.longlong
    pos: cython.Py_ssize_t = 0
    for k in range(row[12]):
        if pos >= size:
            t.fault = COUNT_MISMATCH
            return t
        r = _read(p, pos, size, row, earliest, latest)
        t.fault = r.fault
        if r.fault != 0:
            return t
        pos = r.limit
        if acts[k] == _GOES:
            continue
        if r.timestamp < -1:
            t.fault = BAD_TIMESTAMP
            return t
        if r.offset <= t.last_offset or r.offset > row[3]:
            t.fault = BAD_OFFSET
            return t
        if t.kept == 0:
            t.first_timestamp = r.timestamp
            t.first_offset = r.offset
        t.kept += 1
        t.last_offset = r.offset
        if r.timestamp > t.max_timestamp:
            t.max_timestamp = r.timestamp
    if pos != size:
        t.fault = COUNT_MISMATCH
    return t


def _put(out, at, p, start, size):
    """Copy bytes; answers where they end."""
    if cython.compiled:
        memcpy(out + at, p + start, size)
    else:
        out[at : at + size] = p[start : start + size]
    return at + size


def _sizes(r, act, how, key_size, value_size):
    """How many bytes a record's key, value and headers take, with their lengths."""
    s: Sizes = Sizes(key=r.key_end - r.body, value=r.value_end - r.key_end, headers=r.limit - r.value_end)
    if act != _REDACTED:
        return s
    if how & 3:
        s.key = 1 if how & 2 else varint_size(key_size) + key_size
    if how & 12:
        s.value = 1 if how & 8 else varint_size(value_size) + value_size
    if how & 16:
        s.headers = 1
    return s


def _put_field(out, at, p, start, end, replaced, is_null, new, new_size):
    """A key or value with its length: as it was, null, or another; answers where it ends."""
    if not replaced:
        return _put(out, at, p, start, end - start)
    if is_null:
        return put_varint(out, at, -1)
    return _put(out, put_varint(out, at, new_size), new, 0, new_size)


def _put_record(out, at, p, r, act, how, key, key_size, value, value_size, base_offset, base_timestamp):
    """Write one record; answers where it ends. There is room."""
    s: Sizes = _sizes(r, act, how, key_size, value_size)
    delta: cython.longlong
    offset: cython.longlong = r.offset - base_offset
    edits: cython.int = how if act == _REDACTED else 0
    if cython.compiled:
        delta = r.timestamp - base_timestamp  # both are at least -1
    else:
        delta = wrapping_add(r.timestamp, -base_timestamp)
    at = put_varint(out, at, 1 + varint_size(delta) + varint_size(offset) + s.key + s.value + s.headers)
    out[at] = 0
    at = put_varint(out, at + 1, delta)
    at = put_varint(out, at, offset)
    at = _put_field(out, at, p, r.body, r.key_end, edits & 3, edits & 2, key, key_size)
    at = _put_field(out, at, p, r.key_end, r.value_end, edits & 12, edits & 8, value, value_size)
    if edits & 16:
        out[at] = 0
        return at + 1
    return _put(out, at, p, r.value_end, r.limit - r.value_end)


def _edit(p, size, row, acts, how, key, key_size, value, value_size, earliest, latest, out, room, made):
    t: Totals
    r: Edited
    s: Sizes
    k: cython.longlong
    pos: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = _HEADER_SIZE
    horizon: cython.bint = row[5] == 2 and (row[6] & 0x40) != 0
    if row[12] < 0 or row[12] > size // _MIN_RECORD:
        return COUNT_MISMATCH
    t = _total(p, size, row, acts, earliest, latest)
    if t.fault != 0:
        return t.fault
    for k in range(16):
        made[k] = row[k]
    made[0] = 0
    if row[5] != 2:
        made[2] = t.first_offset
        made[3] = t.last_offset
    made[5] = 2
    made[6] = row[6] & 0x7F if row[5] == 2 else row[6] & 0x0F
    if not horizon:
        made[7] = t.first_timestamp
    made[8] = t.max_timestamp
    made[12] = t.kept
    for k in range(row[12]):
        r = _read(p, pos, size, row, earliest, latest)
        pos = r.limit
        if acts[k] == _GOES:
            continue
        s = _sizes(r, acts[k], how, key_size, value_size)
        if room - at < _MOST_HEAD + s.key + s.value + s.headers:
            return NO_ROOM
        at = _put_record(out, at, p, r, acts[k], how, key, key_size, value, value_size, made[2], made[7])
    made[1] = at
    return 0


def edit(
    payload: cython.const[cython.uchar][::1],
    row: cython.const[cython.longlong][::1],
    acts: cython.const[cython.uchar][::1],
    how: cython.int,
    key: cython.const[cython.uchar][::1],
    value: cython.const[cython.uchar][::1],
    earliest: cython.longlong,
    latest: cython.longlong,
    out: cython.uchar[::1],
    made: cython.longlong[::1],
) -> cython.int:
    """Write what stays of a batch, whose records are `payload`, into `out`, and its row into `made`.

    0 or the fault. A batch of which nothing stays has 61 bytes and a count of 0 in `made`.
    """
    fault: cython.int
    key_size: cython.Py_ssize_t = len(key)
    value_size: cython.Py_ssize_t = len(value)
    if row.shape[0] != 16 or made.shape[0] != 16 or len(out) < 61:
        raise ValueError("a row of a table of batches has 16 columns, and a batch 61 bytes at least")
    if len(acts) != row[12] or len(payload) == 0 or len(acts) == 0:
        return COUNT_MISMATCH
    if cython.compiled:
        if key_size == 0:
            key = payload
        if value_size == 0:
            value = payload
        with cython.nogil:
            fault = _edit(
                cython.address(payload[0]),
                len(payload),
                cython.address(row[0]),
                cython.address(acts[0]),
                how,
                cython.address(key[0]),
                key_size,
                cython.address(value[0]),
                value_size,
                earliest,
                latest,
                cython.address(out[0]),
                len(out),
                cython.address(made[0]),
            )
    else:
        numbers = [0] * 16
        fault = _edit(
            memoryview(payload),
            len(payload),
            row.tolist(),
            memoryview(acts),
            how,
            memoryview(key),
            key_size,
            memoryview(value),
            value_size,
            earliest,
            latest,
            memoryview(out),
            len(out),
            numbers,
        )
        made[:] = numbers
    return fault
