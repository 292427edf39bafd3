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
    )
else:
    from types import SimpleNamespace as Sink
    from types import SimpleNamespace as Var

    from tidelog.kernels.columns import HEADERS, HEADERS_UNSEEN, SLACK, Columns
    from tidelog.kernels.faults import BAD_TIMESTAMP, BAD_VARINT, COUNT_MISMATCH, NO_ROOM, RECORD_OVERRUN

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


# ---- numbers


def _long_varint(p, pos, limit, max_shift):
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
    """`_long_varint` with a short way for one and two bytes, which most are.

    The fault is a field of its own, 0 on the short way, so that the compiler can leave out the question.
    """
    out: Var = Var(value=0, pos=pos, fault=0)
    if not slack and limit - pos < 2:
        return _long_varint(p, pos, limit, max_shift)
    out.value = p[pos]
    out.pos = pos + 1
    if out.value >= 0x80:
        if p[pos + 1] >= 0x80:
            return _long_varint(p, pos, limit, max_shift)
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
        ends=cython.NULL, valid=cython.NULL, data=cython.NULL, used=0, nulls=0, pos=0, fault=0, wanted=False
    )
    if keys and columns.has_keys:
        out.ends, out.valid, out.data = columns.keys.ends, columns.keys.valid, columns.keys.data
        out.used, out.nulls, out.wanted = columns.keys.used, columns.keys.nulls, True
    elif not keys and columns.has_values:
        out.ends, out.valid, out.data = columns.values.ends, columns.values.valid, columns.values.data
        out.used, out.nulls, out.wanted = columns.values.used, columns.values.nulls, True
    return out


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_records(
    columns: Columns,
    p: _Bytes,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    row: _Row,
    slack: cython.bint,
    full: cython.bint,
) -> cython.int:
    """The loop over a batch's records; 0 or the fault.

    What it touches is in local variables: through `columns`, the compiler would have to load it all again
    after each byte that is written.
    """
    offsets: _Longs = columns.offsets
    timestamps: _Longs = columns.timestamps
    has_offsets: cython.bint = full or columns.has_offsets
    has_timestamps: cython.bint = full or columns.has_timestamps
    keys: Sink = _sink(columns, True)
    values: Sink = _sink(columns, False)
    headers: cython.bint = not full and columns.headers_mode == HEADERS
    body: cython.bint = full or keys.wanted or values.wanted or columns.headers_mode != 0
    if full:
        keys.wanted = values.wanted = True
    base_offset: cython.longlong = row[2]
    base_timestamp: cython.longlong = row[8] if row[6] & 8 else row[7]
    delta_mask: cython.longlong = 0 if row[6] & 8 else -1  # append time: all records have the batch's
    scale: cython.longlong = 1000 if columns.microseconds else 1
    bad_timestamp: cython.bint = base_timestamp > _MAX_MS - 0x2000 or base_timestamp < 0x2000 - _MAX_MS
    short: cython.ulonglong = 0 if bad_timestamp else 0x4000  # deltas below this leave a timestamp in bounds
    timestamp: cython.longlong
    at: cython.Py_ssize_t = columns.rows
    stop: cython.Py_ssize_t = at + row[12]
    limit: cython.Py_ssize_t
    v: Var
    bad_timestamp = False
    while at < stop:
        v = _varint(p, pos, end, 28, slack)
        limit = v.pos + cython.cast(cython.Py_ssize_t, v.value >> 1)
        if v.fault != 0 or v.value & 1 or limit > end:
            return COUNT_MISMATCH if pos >= end else RECORD_OVERRUN if v.fault == 0 else v.fault
        v = _varint(p, v.pos + 1, limit, 63, slack)
        if v.fault != 0:
            return v.fault
        if has_timestamps:
            timestamp = _wrapping_add(base_timestamp, _signed(v.value) & delta_mask)
            if v.value >= short:
                bad_timestamp |= timestamp > _MAX_MS or timestamp < -_MAX_MS
            timestamps[at] = _times(timestamp, scale)
        v = _varint(p, v.pos, limit, 28, slack)
        if v.fault != 0:
            return v.fault
        if has_offsets:
            offsets[at] = _wrapping_add(base_offset, _signed(v.value))
        if body:
            keys = _put_field(keys, at, p, v.pos, limit, slack)
            if keys.fault != 0:
                return keys.fault
            values = _put_field(values, at, p, keys.pos, limit, slack)
            if values.fault != 0:
                return values.fault
            v.pos = values.pos + 1
            if v.pos != limit or p[values.pos] != 0:
                v.pos = _put_headers(columns, p, values.pos, limit, at)
                if v.pos != limit:
                    return -v.pos if v.pos < 0 else RECORD_OVERRUN
            if headers:
                columns.header_ends[at + 1] = columns.headers
        elif v.pos > limit:
            return RECORD_OVERRUN
        pos = limit
        at += 1
    if pos != end:
        return COUNT_MISMATCH
    if bad_timestamp and columns.microseconds:
        return BAD_TIMESTAMP
    columns.rows = at
    if keys.wanted:
        columns.keys.used, columns.keys.nulls = keys.used, keys.nulls
    if values.wanted:
        columns.values.used, columns.values.nulls = values.used, values.nulls
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _times(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """a * b, wrapping around as Java's longs do."""
    if cython.compiled:
        return cython.cast(
            cython.longlong, cython.cast(cython.ulonglong, a) * cython.cast(cython.ulonglong, b)
        )
    else:
        return ((a * b + 2**63) & (2**64 - 1)) - 2**63


def put_batch(columns, p, pos, end, readable, row):
    """The records of one v2 batch, p[pos:end], whose header is `row`; 0 or the fault, and then nothing is
    put in.

    `readable` is where the buffer itself ends.
    """
    fault: cython.int
    if row[12] == 0:
        return 0
    if row[12] < 0 or row[12] > (end - pos) // _MIN_RECORD:
        return COUNT_MISMATCH
    if not columns.has_room(row[12], end - pos):
        return NO_ROOM
    if columns.headers_mode == HEADERS:
        columns.keep()
    if readable - end < SLACK:
        fault = _put_records(columns, p, pos, end, row, False, False)
    elif (
        columns.has_offsets
        and columns.has_timestamps
        and columns.has_keys
        and columns.has_values
        and columns.headers_mode != HEADERS
    ):
        fault = _put_records(columns, p, pos, end, row, True, True)
    else:
        fault = _put_records(columns, p, pos, end, row, True, False)
    if fault != 0 and columns.headers_mode == HEADERS:
        columns.restore()
    return fault


# ---- headers counted beforehand


def _count_headers(p, pos, end, count):
    total: cython.longlong = 0
    limit: cython.Py_ssize_t
    v: Var
    for _ in range(count):
        v = _varint(p, pos, end, 28, False)
        if v.fault != 0:
            return -v.fault
        if v.value & 1 or v.value < 2 or cython.cast(cython.Py_ssize_t, v.value >> 1) > end - v.pos:
            return -RECORD_OVERRUN
        limit = v.pos + cython.cast(cython.Py_ssize_t, v.value >> 1)
        v = _varint(p, v.pos + 1, limit, 63, False)
        if v.fault != 0:
            return -v.fault
        v = _varint(p, v.pos, limit, 28, False)
        for _ in range(2):
            if v.fault != 0:
                return -v.fault
            v = _varint(p, v.pos, limit, 28, False)
            if v.fault != 0:
                return -v.fault
            if not v.value & 1:
                if cython.cast(cython.Py_ssize_t, v.value >> 1) > limit - v.pos:
                    return -RECORD_OVERRUN
                v.pos += v.value >> 1
        v = _varint(p, v.pos, limit, 28, False)
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
