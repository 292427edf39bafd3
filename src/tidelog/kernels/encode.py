# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Arrow columns into ready v2 batches, byte for byte as Kafka's MemoryRecordsBuilder writes them.

For each row: 1. size the record; 2. if the batch has no room for it, close the batch and start one with this
row as its first (base timestamp = its timestamp, deltas 0); 3. write it. A batch has room while it holds less
than `max_records` records and stays within `max_bytes` bytes, header included; a first record always fits, as
in Kafka.

A record: length | attributes i8 = 0 | timestamp delta | offset delta | key length, key | value length, value
| header count, { key length, key, value length, value }; numbers are zigzag varints, null's length is -1. A
row of `rows` is a batch header (see `records.batches` and kernels/scan.py).

Nothing is read outside the columns' buffers, whatever their offsets say, and nothing written past the end of
`out`. A walk that stops early answers a fault and the row it stopped at (`records.builder` makes the error):

    1 NO_ROOM       2 TOO_LARGE: a record or its batch over 2^31-1 bytes       3 BAD_TIMESTAMP: below -1
    4 NULL_HEADER_KEY       5 BAD_COLUMN: offsets that shrink or lie outside the data
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
    from cython.cimports.tidelog.kernels.batch_headers import write_header
else:
    from types import SimpleNamespace as _Plain

    from tidelog.kernels.batch_headers import write_header

_NO_ROOM = cython.declare(cython.int, 1)
_TOO_LARGE = cython.declare(cython.int, 2)
_BAD_TIMESTAMP = cython.declare(cython.int, 3)
_NULL_HEADER_KEY = cython.declare(cython.int, 4)
_BAD_COLUMN = cython.declare(cython.int, 5)

_HEADER_SIZE = cython.declare(cython.Py_ssize_t, 61)
_SIZE_MAX = cython.declare(cython.longlong, 0x7FFFFFFF)

_Index = cython.typedef(cython.Py_ssize_t)
_Out = cython.typedef(cython.pointer[cython.uchar])
_Bytes = cython.typedef(cython.pointer[cython.const[cython.uchar]])
_Row = cython.typedef(cython.pointer[cython.longlong])
_Longs = cython.typedef(cython.pointer[cython.const[cython.longlong]])
_Span = cython.struct(at=cython.longlong, size=cython.longlong)  # size -1: null; below -1: BAD_COLUMN
_Batch = cython.struct(
    start=_Index, first=_Index, base=cython.longlong, largest=cython.longlong
)  # the open one
_Walk = cython.struct(batches=_Index, used=_Index, fault=cython.longlong, row=_Index)


# ---- numbers


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _varint_size(n: cython.longlong) -> cython.longlong:
    """Bytes of the varint of n >= -1, which all lengths, counts and offset deltas are."""
    if n < 64:
        return 1
    if n < 8192:
        return 2
    if n < 1048576:
        return 3
    return 4 if n < 134217728 else 5


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _zigzag(n: cython.longlong) -> cython.ulonglong:
    if cython.compiled:
        return (cython.cast(cython.ulonglong, n) << 1) ^ cython.cast(cython.ulonglong, n >> 63)
    else:
        n = ((int(n) + 2**63) & (2**64 - 1)) - 2**63  # a difference of two timestamps can take 65 bits
        return ((n << 1) ^ (n >> 63)) & (2**64 - 1)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _varlong_size(n: cython.longlong) -> cython.longlong:
    z: cython.ulonglong = _zigzag(n) >> 7
    size: cython.longlong = 1
    while z:
        z >>= 7
        size += 1
    return size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_varint(out: _Out, pos: _Index, n: cython.longlong) -> _Index:
    """Write a zigzag varint; answers where it ends."""
    z: cython.ulonglong = _zigzag(n)
    while z >= 0x80:
        out[pos] = cython.cast(cython.uchar, (z & 0x7F) | 0x80)
        z >>= 7
        pos += 1
    out[pos] = cython.cast(cython.uchar, z)
    return pos + 1


# ---- columns

_View = cython.struct(  # a column as the walk sees it
    ends=_Longs,
    data=_Bytes,
    valid=_Bytes,
    first=_Index,  # the first row's bit in `valid`; -1: no row is null; -2: every row is
    limit=cython.longlong,
)
_Views = cython.struct(keys=_View, values=_View, header_lists=_View, header_keys=_View, header_values=_View)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _span(column: _View, i: _Index) -> _Span:
    """Where row i's bytes (or headers) lie."""
    span: _Span = _Span(at=0, size=-1)
    bit: _Index
    end: cython.longlong
    if column.first == -2:
        return span
    span.at = column.ends[i]
    end = column.ends[i + 1]
    span.size = end - span.at
    if span.at < 0 or span.size < 0 or end > column.limit:
        span.size = -2
    elif column.first >= 0:
        bit = column.first + i
        if not (column.valid[bit >> 3] >> (bit & 7)) & 1:
            span.size = -1
    return span


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _field_size(span: _Span) -> cython.longlong:
    """Bytes of a length and that many bytes."""
    return _varint_size(span.size) + (span.size if span.size > 0 else 0)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_field(column: _View, span: _Span, out: _Out, pos: _Index) -> _Index:
    """Write a length and that many bytes; answers where they end."""
    pos = _put_varint(out, pos, span.size)
    if span.size > 0:
        if cython.compiled:
            memcpy(out + pos, column.data + span.at, span.size)
        else:
            out[pos : pos + span.size] = column.data[span.at : span.at + span.size]
        pos += span.size
    return pos


@cython.cclass
class Column:
    """A column of lists, of bytes or of headers: where each ends, validity bits, and what they index.

    `ends` has one entry more than there are rows. `valid` is an Arrow bitmap whose bit `first` is the first
    row's, or None. The lists lie within `limit` bytes of `data`, or (`data` is None) within `limit` headers.
    """

    ends: cython.const[cython.longlong][::1]
    data: cython.const[cython.uchar][::1]
    valid: cython.const[cython.uchar][::1]
    first: _Index
    limit: cython.longlong
    rows: _Index

    def __init__(self, ends, data, valid, first, limit):
        self.ends = ends
        self.data = data
        self.valid = valid
        self.first = -1 if valid is None else first
        self.limit = limit
        self.rows = len(ends) - 1
        if self.rows < 0 or (data is not None and limit > len(data)):
            raise ValueError("limit lies outside the data")
        if first < 0 or (valid is not None and first + self.rows > 8 * len(valid)):
            raise ValueError("validity bits are too few")

    def __len__(self):
        """The number of rows."""
        return self.rows

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def view(self) -> _View:
        """The column as the walk sees it."""
        view: _View
        if cython.compiled:
            view.ends = cython.address(self.ends[0])
            view.data = cython.address(self.data[0])
            view.valid = cython.address(self.valid[0])
        else:  # a struct would make C pointers of them
            view = _Plain(ends=self.ends.tolist(), data=self.data, valid=self.valid)
        view.first = self.first
        view.limit = self.limit
        return view


@cython.cclass
class Records:
    """Columns of the records to write; a column that is None is null in every row.

    Without `timestamps` every record has `now`, which is also the append time of batches with LogAppendTime.
    """

    count: _Index
    now: cython.longlong
    timestamps: cython.const[cython.longlong][::1]
    keys: Column
    values: Column
    header_lists: Column
    header_keys: Column
    header_values: Column

    def __init__(self, count, now, timestamps, keys, values, headers):
        self.count = count
        self.now = now
        self.timestamps = timestamps
        self.keys = keys
        self.values = values
        self.header_lists, self.header_keys, self.header_values = headers or (None, None, None)
        for rows in (timestamps, keys, values, self.header_lists):
            if rows is not None and len(rows) != count:
                raise ValueError("columns of different lengths")
        for column in (keys, values, self.header_keys, self.header_values):
            if column is not None and cython.cast(Column, column).data is None:
                raise ValueError("a column of bytes without its data, which its limit is")
        if headers and self.header_lists.limit > min(len(self.header_keys), len(self.header_values)):
            raise ValueError("fewer headers than their lists hold")

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def views(self) -> _Views:
        """All columns as the walk sees them."""
        views: _Views
        if cython.compiled:
            pass
        else:
            views = _Plain(**{name: _Plain() for name in _Views._members})
        views.keys.first = views.values.first = views.header_lists.first = -2
        if self.keys is not None:
            views.keys = self.keys.view()
        if self.values is not None:
            views.values = self.values.view()
        if self.header_lists is not None:
            views.header_lists = self.header_lists.view()
            views.header_keys = self.header_keys.view()
            views.header_values = self.header_values.view()
        return views


# ---- records

_Record = cython.struct(
    timestamp=cython.longlong,
    key=_Span,
    value=_Span,
    headers=_Span,
    size=cython.longlong,  # bytes of all but the length and the two deltas; below 0: minus the fault
)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _headers_size(keys: _View, values: _View, span: _Span) -> cython.longlong:
    """Bytes that these headers take, without their count; or minus the fault."""
    size: cython.longlong = 0
    i: cython.longlong
    key: _Span
    value: _Span
    for i in range(span.at, span.at + span.size):
        key = _span(keys, i)
        value = _span(values, i)
        if key.size < 0 or value.size < -1:
            return -_NULL_HEADER_KEY if key.size == -1 else -_BAD_COLUMN
        size += _field_size(key) + _field_size(value)
    return size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _measure(views: _Views, i: _Index, timestamp: cython.longlong) -> _Record:
    """Find row i's parts and add up their bytes."""
    more: cython.longlong
    key: _Span = _span(views.keys, i)
    value: _Span = _span(views.values, i)
    headers: _Span = _span(views.header_lists, i)
    if headers.size == -1:
        headers.size = 0
    record: _Record = _Record(timestamp=timestamp, key=key, value=value, headers=headers, size=0)
    if timestamp < -1:
        record.size = -_BAD_TIMESTAMP
    elif key.size < -1 or value.size < -1 or headers.size < 0:
        record.size = -_BAD_COLUMN
    else:
        record.size = 1 + _field_size(key) + _field_size(value) + _varint_size(headers.size)
        if headers.size > 0:
            more = _headers_size(views.header_keys, views.header_values, headers)
            record.size = record.size + more if more > 0 else more
    return record


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put_record(
    views: _Views, record: _Record, body: cython.longlong, batch: _Batch, i: _Index, out: _Out, pos: _Index
) -> _Index:
    """Write row i of the batch, `body` bytes after its length; answers where it ends."""
    h: cython.longlong
    pos = _put_varint(out, pos, body)
    out[pos] = 0
    pos = _put_varint(out, pos + 1, record.timestamp - batch.base)
    pos = _put_varint(out, pos, i - batch.first)
    pos = _put_field(views.keys, record.key, out, pos)
    pos = _put_field(views.values, record.value, out, pos)
    pos = _put_varint(out, pos, record.headers.size)
    for h in range(record.headers.at, record.headers.at + record.headers.size):
        pos = _put_field(views.header_keys, _span(views.header_keys, h), out, pos)
        pos = _put_field(views.header_values, _span(views.header_values, h), out, pos)
    return pos


# ---- batches


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _close(
    batch: _Batch, end: _Index, stop: _Index, row: _Row, template: _Longs, sealed: cython.bint, out: _Out
) -> cython.void:
    """Fill `row` for the batch that lies in out[batch.start:end] and holds the rows [batch.first, stop)."""
    i: cython.int
    for i in range(16):
        row[i] = template[i]
    row[0] = batch.start
    row[1] = end - batch.start
    row[2] = template[2] + batch.first
    row[3] = template[2] + stop - 1
    row[5] = 2
    row[7] = batch.base
    if not template[6] & 8:
        row[8] = batch.largest  # else the log's append time, which the template has
    if template[11] >= 0:
        row[11] = (template[11] + batch.first) & _SIZE_MAX  # after 2^31-1 comes 0
    row[12] = stop - batch.first
    if sealed:
        write_header(out, row)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _row(rows: _Row, n: _Index) -> _Row:
    if cython.compiled:
        return rows + 16 * n
    else:
        return rows[n]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _walk(
    records: Records,
    template: _Longs,
    max_records: cython.longlong,
    max_bytes: cython.longlong,
    sealed: cython.bint,
    out: _Out,
    capacity: _Index,
    rows: _Row,
    row_capacity: _Index,
) -> _Walk:
    """Encode every row of `records` into out[:capacity], batches into rows[:row_capacity]."""
    views: _Views = records.views()
    walk: _Walk = _Walk(batches=0, used=0, fault=0, row=0)
    batch: _Batch = _Batch(start=0, first=0, base=0, largest=0)
    record: _Record
    i: _Index
    pos: _Index = 0
    timed: cython.bint = records.timestamps is not None
    timestamp: cython.longlong = records.now
    body: cython.longlong = 0
    size: cython.longlong
    for i in range(records.count):
        walk.row = i
        if timed:
            timestamp = records.timestamps[i]
        record = _measure(views, i, timestamp)
        if record.size < 0:
            walk.fault = -record.size
            return walk
        if i > batch.first:
            body = record.size + _varlong_size(timestamp - batch.base) + _varint_size(i - batch.first)
            size = _varint_size(body) + body
            if i - batch.first == max_records or pos - batch.start + size > max_bytes:
                _close(batch, pos, i, _row(rows, walk.batches), template, sealed, out)
                walk.batches += 1
                batch.first = i
        if i == batch.first:
            if walk.batches == row_capacity or capacity - pos < _HEADER_SIZE:
                walk.fault = _NO_ROOM
                return walk
            batch = _Batch(start=pos, first=i, base=timestamp, largest=-1)
            if template[6] & 0x40:
                batch.base = template[7]  # the delete horizon takes the base timestamp's place
            pos += _HEADER_SIZE
            body = record.size + _varlong_size(timestamp - batch.base) + 1
        size = _varint_size(body) + body
        if pos - batch.start + size > _SIZE_MAX or size > capacity - pos:
            walk.fault = _NO_ROOM if pos - batch.start + size <= _SIZE_MAX else _TOO_LARGE
            return walk
        if timestamp > batch.largest:
            batch.largest = timestamp
        pos = _put_record(views, record, body, batch, i, out, pos)
    if records.count > 0:
        _close(batch, pos, records.count, _row(rows, walk.batches), template, sealed, out)
        walk.batches += 1
    walk.used = pos
    return walk


def encode(
    records: Records,
    template: cython.const[cython.longlong][::1],
    max_records: cython.longlong,
    max_bytes: cython.longlong,
    sealed: cython.bint,
    out: cython.uchar[::1],
    rows: cython.longlong[:, ::1],
) -> tuple:
    """Encode all records into `out`, the batches told in `rows`; answers (batches, bytes, fault or 0, row).

    `template` is a row with what all batches have in common: leader epoch, attributes, producer id and epoch,
    append time (LogAppendTime) or delete horizon if the attributes say so; and base offset and base sequence
    of the first. If not `sealed`, the records are written with room for a header before each batch, but
    without headers: they are to be compressed first, then sealed (kernels/batch_headers.py).
    """
    walk: _Walk
    if len(template) != 16 or rows.shape[1] != 16:
        raise ValueError("rows have 16 columns")
    if cython.compiled:
        p: _Longs = cython.address(template[0])
        o: _Out = cython.address(out[0])
        r: _Row = cython.address(rows[0, 0])
        with cython.nogil:
            walk = _walk(records, p, max_records, max_bytes, sealed, o, out.shape[0], r, rows.shape[0])
    else:
        o = memoryview(out)
        walk = _walk(records, template, max_records, max_bytes, sealed, o, len(o), rows, len(rows))
    return walk.batches, walk.used, walk.fault, walk.row
