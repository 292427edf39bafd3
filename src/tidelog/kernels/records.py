# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The records of one v2 batch into columns.

A record: length varint | attributes i8 | timestamp delta varlong | offset delta varint |
key length varint, key | value length varint, value | header count varint, { key length, key, value length,
value }. Numbers are zigzag varints, 7 bits a byte, the last byte below 0x80: at most five bytes, a varlong
ten. A negative key or value length means null, as in Kafka's reader.

How the bounds are kept:

1. There is room for as many records as the batch says and, in each column of bytes, for as many bytes as
   the batch has (`Columns.has_room`). A record takes seven bytes at least, so a count that cannot be is
   refused first.
2. A record's own length puts `limit`, at most the batch's end. Keys and values are held against it before
   they are copied, and the record has to end there exactly.
3. With SLACK bytes to read after the batch, numbers of one or two bytes are read before they are held
   against the limit: from a limit on, five of them and the attributes reach no further than that. Without
   (the end of the buffer), every byte is checked first. Longer numbers always are.

With none of key, value and headers wanted, the rest of a record is not parsed.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
    from cython.cimports.tidelog.kernels.columns import HEADERS, HEADERS_UNSEEN, SLACK, Columns
    from cython.cimports.tidelog.kernels.faults import (
        BAD_TIMESTAMP,
        BAD_VARINT,
        COUNT_MISMATCH,
        NO_ROOM,
        RECORD_OVERRUN,
        UNUSUAL,
    )
    from cython.cimports.tidelog.kernels.prefetching import prefetch
else:
    from types import SimpleNamespace

    Head = Sink = Times = Var = SimpleNamespace

    from tidelog.kernels.columns import HEADERS, HEADERS_UNSEEN, SLACK, Columns
    from tidelog.kernels.faults import (
        BAD_TIMESTAMP,
        BAD_VARINT,
        COUNT_MISMATCH,
        NO_ROOM,
        RECORD_OVERRUN,
        UNUSUAL,
    )

_Bytes = cython.typedef(cython.pointer[cython.const[cython.uchar]])
_Out = cython.typedef(cython.pointer[cython.uchar])
_Row = cython.typedef(cython.pointer[cython.const[cython.longlong]])
_Longs = cython.typedef(cython.pointer[cython.longlong])

_MASK32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_MASK64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_MAX_MS = cython.declare(
    cython.longlong, 9223372036854775
)  # the largest millisecond that fits as microseconds
_MIN_RECORD = cython.declare(cython.longlong, 7)

if not cython.compiled:
    _SHORT, _AHEAD = 0x4000, 2048


# ---- numbers


def long_varint(p, pos, limit, max_shift):
    """A raw varint that ends before `limit`; its last byte is shifted by `max_shift` bits at most.

    That is 28 for an int of five bytes and 63 for a long of ten.
    """
    out: Var = Var(value=0, pos=pos, fault=0)
    shift: cython.int = 0
    while shift <= max_shift:
        if out.pos >= limit:
            out.fault = RECORD_OVERRUN
            return out
        out.value |= (cython.cast(cython.ulonglong, p[out.pos] & 0x7F) << shift) & _MASK64
        out.pos += 1
        if p[out.pos - 1] < 0x80:
            if max_shift == 28:
                out.value &= _MASK32
            return out
        shift += 7
    out.fault = BAD_VARINT
    return out


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _varint(
    p: _Bytes, pos: cython.Py_ssize_t, limit: cython.Py_ssize_t, max_shift: cython.int, slack: cython.bint
) -> Var:
    """`long_varint` with a short way for one and two bytes, which most are.

    The fault is a field of its own, 0 on the short way, so that the compiler can leave out the question.
    """
    out: Var = Var(value=0, pos=pos, fault=0)
    if not slack and limit - pos < 2:
        return long_varint(p, pos, limit, max_shift)
    out.value = p[pos]
    out.pos = pos + 1
    if out.value >= 0x80:
        if p[pos + 1] >= 0x80:
            return long_varint(p, pos, limit, max_shift)
        out.value = out.value + (cython.cast(cython.ulonglong, p[pos + 1]) << 7) - 0x80
        out.pos = pos + 2
    return out


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _signed(raw: cython.ulonglong) -> cython.longlong:
    """The number that a raw varint stands for."""
    return cython.cast(cython.longlong, raw >> 1) ^ -cython.cast(cython.longlong, raw & 1)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _wrapping_add(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """a + b as Java adds longs."""
    if cython.compiled:
        return cython.cast(
            cython.longlong, cython.cast(cython.ulonglong, a) + cython.cast(cython.ulonglong, b)
        )
    else:
        return ((a + b + 2**63) & (2**64 - 1)) - 2**63


# ---- timestamps


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _times(columns: Columns, row: _Row) -> Times:
    """What the offsets and timestamps of a batch's records are told from."""
    out: Times = Times(base_offset=row[2], base=row[7], mask=-1, scale=1, short_delta=_SHORT)
    if row[6] & 8:  # append time: all records have the batch's
        out.base, out.mask = row[8], 0
    if columns.microseconds:
        out.scale = 1000
    if out.base > _MAX_MS - _SHORT or out.base < _SHORT - _MAX_MS:
        out.short_delta = 0
    return out


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _stamp(times: Times, raw: cython.ulonglong) -> cython.longlong:
    """The timestamp of a record, in the column's unit; it wraps around as Java's longs do."""
    if cython.compiled:
        return cython.cast(
            cython.longlong,
            cython.cast(cython.ulonglong, _wrapping_add(times.base, _signed(raw) & times.mask))
            * cython.cast(cython.ulonglong, times.scale),
        )
    else:
        return (
            (_wrapping_add(times.base, _signed(raw) & times.mask) * times.scale + 2**63) & _MASK64
        ) - 2**63


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_bad(times: Times, raw: cython.ulonglong) -> cython.bint:
    """Does a timestamp not fit microseconds? Asked of large deltas only, or if the base is large."""
    timestamp: cython.longlong = _wrapping_add(times.base, _signed(raw) & times.mask)
    return timestamp > _MAX_MS or timestamp < -_MAX_MS


# ---- fields


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _copy(
    out: _Out,
    used: cython.Py_ssize_t,
    p: _Bytes,
    pos: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
    slack: cython.bint,
) -> cython.void:
    """Copy p[pos:pos+n] to out[used:]; with slack in whole steps, which is faster for short ones."""
    if cython.compiled:
        if slack and n <= SLACK:
            memcpy(out + used, p + pos, SLACK)
        else:
            memcpy(out + used, p + pos, n)
    else:
        out[used : used + n] = p[pos : pos + n]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_field(
    sink: Sink,
    row: cython.Py_ssize_t,
    p: _Bytes,
    pos: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    slack: cython.bint,
) -> Sink:
    """Take the key or value at `pos` in; the sink's `pos` is then where it ends, or minus the fault."""
    v: Var = _varint(p, pos, limit, 28, slack)
    n: cython.Py_ssize_t
    sink.pos = v.pos
    sink.fault = v.fault
    if v.fault != 0:
        return sink
    if v.value & 1:  # negative
        if sink.wanted:
            sink.valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            sink.nulls += 1
            sink.ends[row + 1] = sink.used
        return sink
    n = v.value >> 1
    if n > limit - v.pos:
        sink.fault = RECORD_OVERRUN
        return sink
    if sink.wanted:
        _copy(sink.data, sink.used, p, v.pos, n, slack)
        sink.used += n
        sink.ends[row + 1] = sink.used
    sink.pos += n
    return sink


def _put_headers(columns, p, pos, limit, row):
    """Take in the headers of row `row`, their count first; answers where they end, or minus the fault."""
    v: Var = _varint(p, pos, limit, 28, False)
    wanted: cython.bint = columns.headers_mode == HEADERS
    count: cython.longlong = v.value >> 1
    if v.fault != 0:
        return -v.fault
    if v.value & 1 or count > limit - v.pos:
        return -RECORD_OVERRUN
    if count > 0 and columns.headers_mode == HEADERS_UNSEEN:
        return -NO_ROOM
    if count > 0 and wanted:
        if count > columns.header_keys.capacity - columns.headers:
            return -NO_ROOM
        columns.header_valid[row >> 3] |= 1 << (row & 7)
    pos = v.pos
    for _ in range(count):
        v = _varint(p, pos, limit, 28, False)
        if v.fault != 0:
            return -v.fault
        if v.value & 1 or cython.cast(cython.Py_ssize_t, v.value >> 1) > limit - v.pos:
            return -RECORD_OVERRUN
        if wanted:
            columns.header_keys.put(columns.headers, p, v.pos, v.value >> 1)
        v = _varint(p, v.pos + cython.cast(cython.Py_ssize_t, v.value >> 1), limit, 28, False)
        if v.fault != 0:
            return -v.fault
        if not v.value & 1 and cython.cast(cython.Py_ssize_t, v.value >> 1) > limit - v.pos:
            return -RECORD_OVERRUN
        if wanted:
            columns.header_values.put(columns.headers, p, v.pos, _signed(v.value))
            columns.headers += 1
        pos = v.pos if v.value & 1 else v.pos + cython.cast(cython.Py_ssize_t, v.value >> 1)
    return pos


# ---- a batch


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _sink(columns: Columns, keys: cython.bint) -> Sink:
    """The state of a column of bytes, for a loop to keep at hand."""
    out: Sink = Sink(
        ends=cython.NULL,
        valid=cython.NULL,
        data=cython.NULL,
        used=0,
        nulls=0,
        pos=0,
        fault=0,
        wanted=columns.has_keys if keys else columns.has_values,
    )
    if keys and columns.has_keys:
        out.ends, out.valid, out.data = columns.keys.ends, columns.keys.valid, columns.keys.data
        out.used, out.nulls = columns.keys.used, columns.keys.nulls
    elif not keys and columns.has_values:
        out.ends, out.valid, out.data = columns.values.ends, columns.values.valid, columns.values.data
        out.used, out.nulls = columns.values.used, columns.values.nulls
    return out


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _head(p: _Bytes, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, slack: cython.bint) -> Head:
    """A record up to its key; with `slack`, one that reaches past `end` is not OVERRUN but UNUSUAL."""
    v: Var = _varint(p, pos, end, 28, slack)
    out: Head = Head(limit=v.pos, pos=0, timestamp=0, offset=0, fault=v.fault)
    out.limit += cython.cast(cython.Py_ssize_t, v.value >> 1)
    if v.fault != 0 or v.value & 1 or out.limit > end:
        if slack:
            out.fault = UNUSUAL
        elif pos >= end:
            out.fault = COUNT_MISMATCH
        elif v.fault == 0:
            out.fault = RECORD_OVERRUN
        return out
    v = _varint(p, v.pos + 1, out.limit, 63, slack)
    out.timestamp = v.value
    out.fault = v.fault
    if v.fault != 0:
        return out
    v = _varint(p, v.pos, out.limit, 28, slack)
    out.offset = v.value
    out.pos = v.pos
    out.fault = v.fault
    return out


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_records(
    columns: Columns, p: _Bytes, end: cython.Py_ssize_t, row: _Row, slack: cython.bint, full: cython.bint
) -> cython.int:
    """The loop over the records from `columns.pos` on, as far as they end before `end`; 0 or the fault.

    Compiled anew for each `slack` and `full`: all columns but headers are wanted. What it touches is in local
    variables: through `columns`, the compiler would have to load it all again after each byte that is
    written.
    """
    keys: Sink = _sink(columns, True)
    values: Sink = _sink(columns, False)
    offsets: _Longs = columns.offsets
    timestamps: _Longs = columns.timestamps
    times: Times = _times(columns, row)
    headers: cython.bint = not full and columns.headers_mode == HEADERS
    body: cython.bint = full or keys.wanted or values.wanted or columns.headers_mode != 0
    at: cython.Py_ssize_t = columns.rows
    stop: cython.Py_ssize_t = columns.kept_rows + row[12]
    pos: cython.Py_ssize_t = columns.pos
    bad_timestamp: cython.bint = False
    h: Head
    if full:
        keys.wanted = values.wanted = True
    while at < stop:
        if cython.compiled and slack:
            prefetch(p + pos + _AHEAD)
            prefetch(p + pos + _AHEAD + 64)
        h = _head(p, pos, end, slack)
        if slack and h.fault == UNUSUAL:
            break
        if h.fault != 0:
            return h.fault
        if full or columns.has_offsets:
            offsets[at] = _wrapping_add(times.base_offset, _signed(h.offset))
        if full or columns.has_timestamps:
            bad_timestamp |= h.timestamp >= times.short_delta and _is_bad(times, h.timestamp)
            timestamps[at] = _stamp(times, h.timestamp)
        if body:
            keys = _put_field(keys, at, p, h.pos, h.limit, slack)
            if keys.fault != 0:
                return keys.fault
            values = _put_field(values, at, p, keys.pos, h.limit, slack)
            if values.fault != 0:
                return values.fault
            h.pos = values.pos + 1
            if h.pos != h.limit or p[values.pos] != 0:
                h.pos = _put_headers(columns, p, values.pos, h.limit, at)
                if h.pos != h.limit:
                    return -h.pos if h.pos < 0 else RECORD_OVERRUN
            if headers:
                columns.header_ends[at + 1] = columns.headers
        elif h.pos > h.limit:
            return RECORD_OVERRUN
        pos = h.limit
        at += 1
    columns.rows, columns.pos = at, pos
    if keys.wanted:
        columns.keys.used, columns.keys.nulls = keys.used, keys.nulls
    if values.wanted:
        columns.values.used, columns.values.nulls = values.used, values.nulls
    return BAD_TIMESTAMP if bad_timestamp and columns.microseconds else 0


def put_batch(columns, p, pos, end, readable, row):
    """The records of one v2 batch, p[pos:end], whose header is `row`; 0 or the fault, and then nothing is
    put in.

    `readable` is where the buffer itself ends. What was put in can be taken back by `columns.restore`.
    """
    fault: cython.int = 0
    safe: cython.Py_ssize_t = end if readable - end >= SLACK else readable - SLACK
    columns.keep()
    if row[12] == 0:
        return 0
    if row[12] < 0 or row[12] > (end - pos) // _MIN_RECORD:
        return COUNT_MISMATCH
    if not columns.has_room(row[12], end - pos):
        return NO_ROOM
    columns.pos = pos
    if pos < safe:
        if (
            columns.has_offsets
            and columns.has_timestamps
            and columns.has_keys
            and columns.has_values
            and columns.headers_mode != HEADERS
        ):
            fault = _put_records(columns, p, safe, row, True, True)
        else:
            fault = _put_records(columns, p, safe, row, True, False)
    if fault == 0 and columns.rows < columns.kept_rows + row[12]:
        fault = _put_records(columns, p, end, row, False, False)
    if fault == 0 and columns.pos != end:
        fault = COUNT_MISMATCH
    if fault != 0:
        columns.restore()
    return fault
