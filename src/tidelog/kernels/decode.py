# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Records of v2 batches into Arrow's own layout: offsets, validity bits and bytes, one column each.

A record: length varint | attributes i8 | timestamp delta varlong | offset delta varint |
key length varint, key | value length varint, value | header count varint, { key length, key, value length, value }.
A negative key or value length means null, as in Kafka's reader.

The caller allocates: `Columns` is given one row of room per record and, for each column of bytes, as much room as the
records themselves take, so a column can never outgrow it; both are checked again here, batch by batch. Nothing is
read outside [start, end) of the buffer, whatever the varints say. Columns that were not given are skipped over, and
with none of key, value and headers the rest of a record is not even parsed.

Messages of magic 0 and 1 go into the same columns: offset i64 | size i32 | crc u32 | magic i8 | attributes i8 |
[timestamp i64, magic 1] | key length i32, key | value length i32, value. A compressed wrapper's value is a set of them.

Faults (see `records.faults`): BAD_VARINT, RECORD_OVERRUN, COUNT_MISMATCH, BAD_TIMESTAMP, NO_ROOM, and for wrappers
UNKNOWN_MAGIC, NESTED_COMPRESSION, BAD_OFFSET.
"""

from types import SimpleNamespace

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy
    from cython.cimports.tidelog.kernels.crc import crc32c_range
    from cython.cimports.tidelog.kernels.lz4 import decompress_frame
else:
    from tidelog.kernels.crc import crc32c_range
    from tidelog.kernels.lz4 import decompress_frame

_BAD_LENGTH = cython.declare(cython.int, 2)
_CHECKSUM = cython.declare(cython.int, 3)
_UNKNOWN_MAGIC = cython.declare(cython.int, 4)
_BAD_VARINT = cython.declare(cython.int, 6)
_RECORD_OVERRUN = cython.declare(cython.int, 7)
_COUNT_MISMATCH = cython.declare(cython.int, 8)
_NO_ROOM = cython.declare(cython.int, 9)
_BAD_TIMESTAMP = cython.declare(cython.int, 10)
_NESTED_COMPRESSION = cython.declare(cython.int, 11)
_BAD_OFFSET = cython.declare(cython.int, 12)
_UNUSUAL = cython.declare(cython.int, 13)
_SCRATCH_FULL = cython.declare(cython.int, 14)

_SIGN32 = cython.declare(cython.longlong, 0x80000000)
_MASK32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_MASK64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_MAX_MS = cython.declare(cython.longlong, 9223372036854775)  # the largest millisecond that fits as microseconds

_Var = cython.struct(value=cython.longlong, pos=cython.Py_ssize_t)  # pos < 0: minus the fault


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _long_varint(
    p: cython.pointer[cython.const[cython.uchar]],
    pos: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    max_shift: cython.int,
) -> _Var:
    """A zigzag varint that ends before `limit`; its last byte is shifted by `max_shift` bits at most.

    That is 28 for an int of five bytes and 63 for a long of ten.
    """
    out: _Var = _Var(value=0, pos=0)
    raw: cython.ulonglong = 0
    shift: cython.int = 0
    while True:
        if shift > max_shift:
            out.pos = -_BAD_VARINT
            return out
        if pos >= limit:
            out.pos = -_RECORD_OVERRUN
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


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _varint(
    p: cython.pointer[cython.const[cython.uchar]],
    pos: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    max_shift: cython.int,
) -> _Var:
    """`_long_varint` with a short way for one and two bytes, which most are."""
    out: _Var = _Var(value=0, pos=0)
    raw: cython.uint
    if pos >= limit:
        out.pos = -_RECORD_OVERRUN
        return out
    raw = p[pos]
    if raw < 0x80:
        out.pos = pos + 1
    elif limit - pos > 1 and p[pos + 1] < 0x80:
        raw = (raw & 0x7F) | (cython.cast(cython.uint, p[pos + 1]) << 7)
        out.pos = pos + 2
    else:
        return _long_varint(p, pos, limit, max_shift)
    out.value = cython.cast(cython.longlong, raw >> 1) ^ -cython.cast(cython.longlong, raw & 1)
    return out


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


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _i32(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.longlong:
    v: cython.longlong = (
        (cython.cast(cython.longlong, p[i]) << 24)
        | (cython.cast(cython.longlong, p[i + 1]) << 16)
        | (cython.cast(cython.longlong, p[i + 2]) << 8)
        | cython.cast(cython.longlong, p[i + 3])
    )
    return (v ^ _SIGN32) - _SIGN32


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _i64(p: cython.pointer[cython.const[cython.uchar]], i: cython.Py_ssize_t) -> cython.longlong:
    return (_i32(p, i) << 32) | (_i32(p, i + 4) & cython.cast(cython.longlong, _MASK32))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _headers(
    p: cython.pointer[cython.const[cython.uchar]],
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    count: cython.longlong,
) -> cython.longlong:
    """How many headers the records in p[pos:end] say they have; minus the fault."""
    total: cython.longlong = 0
    k: cython.longlong
    field: cython.int
    limit: cython.Py_ssize_t
    v: _Var
    for k in range(count):
        v = _varint(p, pos, end, 28)
        if v.pos < 0:
            return v.pos
        if v.value < 1 or v.value > end - v.pos:
            return -_RECORD_OVERRUN
        limit = v.pos + v.value
        v = _varint(p, v.pos + 1, limit, 63)
        if v.pos < 0:
            return v.pos
        v = _varint(p, v.pos, limit, 28)
        for field in range(2):
            if v.pos < 0:
                return v.pos
            v = _varint(p, v.pos, limit, 28)
            if v.pos < 0:
                return v.pos
            if v.value > limit - v.pos:
                return -_RECORD_OVERRUN
            if v.value > 0:
                v.pos += v.value
        v = _varint(p, v.pos, limit, 28)
        if v.pos < 0:
            return v.pos
        if v.value < 0 or v.value > limit - v.pos:
            return -_RECORD_OVERRUN
        total += v.value
        pos = limit
    return total


def count_headers(
    buf: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.longlong
) -> cython.longlong:
    """How many headers the `count` records in buf[start:end] have in all; minus the fault."""
    total: cython.longlong
    if start < 0 or end > len(buf) or start > end:
        raise ValueError("range outside the buffer")
    if start == end:
        return 0
    if cython.compiled:
        with cython.nogil:
            total = _headers(cython.address(buf[0]), start, end, count)
    else:
        total = _headers(buf, start, end, count)
    return total


def count_headers_in_run(
    buf: cython.const[cython.uchar][::1], rows: cython.longlong[:, ::1], origin: cython.longlong
) -> tuple:
    """(headers, 0) of the uncompressed v2 batches `rows` in `buf`, or (the row at fault, minus the fault)."""
    i: cython.Py_ssize_t = 0
    n: cython.Py_ssize_t = rows.shape[0]
    size: cython.Py_ssize_t = len(buf)
    start: cython.longlong
    found: cython.longlong = 0
    total: cython.longlong = 0
    with cython.nogil:
        while i < n:
            start = rows[i, 0] - origin
            if start < 0 or rows[i, 1] < 61 or rows[i, 1] > size - start:
                found = -_RECORD_OVERRUN
            elif cython.compiled:
                found = _headers(cython.address(buf[0]), start + 61, start + rows[i, 1], rows[i, 12])
            else:
                found = _headers(buf, int(start) + 61, int(start + rows[i, 1]), int(rows[i, 12]))
            if found < 0:
                break
            total += found
            i += 1
    if found < 0:
        return i, found
    return total, 0


def count_messages(payload: cython.const[cython.uchar][::1]) -> tuple:
    """(messages, offset of the last) in a decompressed message set, or (minus the fault, 0).

    As in Kafka's reader, a last message that is cut short is not there at all.
    """
    pos: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = len(payload)
    n: cython.longlong = 0
    last: cython.longlong = 0
    size: cython.longlong
    fault: cython.int = 0
    if cython.compiled:
        p: cython.pointer[cython.const[cython.uchar]] = cython.address(payload[0])
    else:
        p = payload
    with cython.nogil:
        while end - pos >= 12:
            size = _i32(p, pos + 8)
            if size < 14:
                fault = _BAD_LENGTH
                break
            if size > end - pos - 12:
                break
            if p[pos + 16] > 1:
                fault = _UNKNOWN_MAGIC
                break
            if p[pos + 16] == 1 and size < 22:
                fault = _BAD_LENGTH
                break
            if p[pos + 17] & 7:
                fault = _NESTED_COMPRESSION
                break
            last = _i64(p, pos)
            n += 1
            pos += 12 + size
    if fault == 0 and n == 0:
        fault = _COUNT_MISMATCH
    if fault != 0:
        return -fault, 0
    return n, last


if cython.compiled:
    _Sink = cython.struct(
        ends=cython.pointer[cython.int],
        valid=cython.pointer[cython.uchar],
        data=cython.pointer[cython.uchar],
        used=cython.Py_ssize_t,
        nulls=cython.Py_ssize_t,
    )
else:
    _Sink = SimpleNamespace


@cython.final
@cython.cclass
class Bytes:
    """A growing column of byte strings: ends (n + 1 of them, the first 0), validity bits (all set), bytes."""

    ends: cython.int[::1]
    valid: cython.uchar[::1]
    data: cython.uchar[::1]
    used = cython.declare(cython.Py_ssize_t, visibility="readonly")
    nulls = cython.declare(cython.Py_ssize_t, visibility="readonly")

    def __init__(self, ends, valid, data):
        self.ends = ends
        self.valid = valid
        self.data = data if cython.compiled else memoryview(data)
        self.used = 0
        self.nulls = 0
        self.ends[0] = 0

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def sink(self) -> _Sink:
        """This column's state, for a loop to keep at hand."""
        if cython.compiled:
            return _Sink(
                ends=cython.address(self.ends[0]),
                valid=cython.address(self.valid[0]),
                data=cython.address(self.data[0]),
                used=self.used,
                nulls=self.nulls,
            )
        else:
            return _Sink(ends=self.ends, valid=self.valid, data=self.data, used=self.used, nulls=self.nulls)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def advance(self, sink: _Sink) -> cython.void:
        """Take over what a loop did."""
        self.used = sink.used
        self.nulls = sink.nulls

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put(
        self,
        row: cython.Py_ssize_t,
        p: cython.pointer[cython.const[cython.uchar]],
        pos: cython.Py_ssize_t,
        n: cython.longlong,
    ) -> cython.void:
        """Row `row` is p[pos:pos+n], or null if n < 0; the caller has checked that there is room."""
        if n < 0:
            self.valid[row >> 3] &= ~(1 << (row & 7)) & 0xFF
            self.nulls += 1
        else:
            if cython.compiled:
                memcpy(cython.address(self.data[self.used]), p + pos, n)
            else:
                self.data[self.used : self.used + n] = p[pos : pos + n]
            self.used += n
        self.ends[row + 1] = self.used


@cython.final
@cython.cclass
class Columns:
    """Where the records of `table`'s batches go. Every column may be None; `rows` counts the records put in so far.

    A call that meets a fault leaves the records before the batch at fault in place and names it in `fault_batch`.
    """

    table: cython.longlong[:, ::1]
    offsets: cython.longlong[::1]
    timestamps: cython.longlong[::1]
    keys: Bytes
    values: Bytes
    header_ends: cython.int[::1]
    header_valid: cython.uchar[::1]
    header_keys: Bytes
    header_values: Bytes
    capacity: cython.Py_ssize_t
    microseconds: cython.bint
    has_offsets: cython.bint
    has_timestamps: cython.bint
    has_keys: cython.bint
    has_values: cython.bint
    has_headers: cython.bint
    rows = cython.declare(cython.Py_ssize_t, visibility="readonly")
    headers = cython.declare(cython.Py_ssize_t, visibility="readonly")
    fault_batch = cython.declare(cython.Py_ssize_t, visibility="readonly")

    def __init__(
        self,
        table,
        capacity,
        offsets=None,
        timestamps=None,
        microseconds=False,
        keys=None,
        values=None,
        headers=None,
    ):
        self.table = table
        self.capacity = capacity
        self.microseconds = microseconds
        self.has_offsets = offsets is not None
        self.has_timestamps = timestamps is not None
        self.has_keys = keys is not None
        self.has_values = values is not None
        self.has_headers = headers is not None
        self.offsets = offsets
        self.timestamps = timestamps
        self.keys = keys
        self.values = values
        if headers is not None:
            self.header_ends, self.header_valid, self.header_keys, self.header_values = headers
            self.header_ends[0] = 0
        self.rows = 0
        self.headers = 0
        self.fault_batch = -1

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def put_head(self, offset: cython.longlong, timestamp: cython.longlong) -> cython.int:
        """The fixed-size columns of the next record; `rows` moves on when the whole record is in."""
        if self.has_offsets:
            self.offsets[self.rows] = offset
        if self.has_timestamps:
            if self.microseconds:
                if timestamp > _MAX_MS or timestamp < -_MAX_MS:
                    return _BAD_TIMESTAMP
                timestamp *= 1000
            self.timestamps[self.rows] = timestamp
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def has_room(self, records: cython.longlong, size: cython.Py_ssize_t) -> cython.bint:
        """Is there room for so many records in so many bytes, whatever they hold?"""
        if records > self.capacity - self.rows:
            return False
        if self.has_keys and size > self.keys.data.shape[0] - self.keys.used:
            return False
        if self.has_values and size > self.values.data.shape[0] - self.values.used:
            return False
        if (
            self.has_headers
            and self.header_keys.ends.shape[0] > 1
            and (
                size > self.header_keys.data.shape[0] - self.header_keys.used
                or size > self.header_values.data.shape[0] - self.header_values.used
            )
        ):
            return False
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put_headers(
        self,
        p: cython.pointer[cython.const[cython.uchar]],
        pos: cython.Py_ssize_t,
        limit: cython.Py_ssize_t,
        count: cython.longlong,
    ) -> cython.Py_ssize_t:
        """Take in `count` headers; answers where they end, or minus the fault."""
        i: cython.longlong
        v: _Var
        if count > 0 and self.has_headers:
            if count > self.header_keys.ends.shape[0] - 1 - self.headers:
                return -_NO_ROOM
            self.header_valid[self.rows >> 3] |= 1 << (self.rows & 7)
        for i in range(count):
            v = _varint(p, pos, limit, 28)
            if v.pos < 0:
                return v.pos
            pos = v.pos
            if v.value < 0 or v.value > limit - pos:
                return -_RECORD_OVERRUN
            if self.has_headers:
                self.header_keys.put(self.headers, p, pos, v.value)
            pos += v.value
            v = _varint(p, pos, limit, 28)
            if v.pos < 0:
                return v.pos
            pos = v.pos
            if v.value > limit - pos:
                return -_RECORD_OVERRUN
            if self.has_headers:
                self.header_values.put(self.headers, p, pos, v.value)
                self.headers += 1
            if v.value > 0:
                pos += v.value
        if self.has_headers:
            self.header_ends[self.rows + 1] = self.headers
        return pos

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put_batch(
        self,
        p: cython.pointer[cython.const[cython.uchar]],
        pos: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        row: cython.pointer[cython.longlong],
    ) -> cython.int:
        """The records of one v2 batch, p[pos:end], whose header is `row`; 0 or the fault.

        What the loop touches is in local variables: through `self`, the compiler would have to load it all again
        after each byte that is written.
        """
        base_offset: cython.longlong = row[2]
        base_timestamp: cython.longlong = row[7]
        append_time: cython.bint = (row[6] & 8) != 0
        max_timestamp: cython.longlong = row[8]
        count: cython.longlong = row[12]
        has_offsets: cython.bint = self.has_offsets
        has_timestamps: cython.bint = self.has_timestamps
        microseconds: cython.bint = self.microseconds
        has_keys: cython.bint = self.has_keys
        has_values: cython.bint = self.has_values
        has_headers: cython.bint = self.has_headers
        body: cython.bint = has_keys or has_values or has_headers
        at: cython.Py_ssize_t = self.rows
        limit: cython.Py_ssize_t
        timestamp: cython.longlong
        k: cython.longlong
        v: _Var
        if count < 0:
            return _COUNT_MISMATCH
        if not self.has_room(count, end - pos):
            return _NO_ROOM
        keys: _Sink
        values: _Sink
        if has_keys:
            keys = self.keys.sink()
        if has_values:
            values = self.values.sink()
        if cython.compiled:
            offsets: cython.pointer[cython.longlong] = cython.NULL
            timestamps: cython.pointer[cython.longlong] = cython.NULL
            if has_offsets:
                offsets = cython.address(self.offsets[0])
            if has_timestamps:
                timestamps = cython.address(self.timestamps[0])
        else:
            offsets, timestamps = self.offsets, self.timestamps
        for k in range(count):
            if pos >= end:
                return _COUNT_MISMATCH
            v = _varint(p, pos, end, 28)
            if v.pos < 0:
                return -v.pos
            if v.value < 1 or v.value > end - v.pos:
                return _RECORD_OVERRUN
            limit = v.pos + v.value
            v = _varint(p, v.pos + 1, limit, 63)
            if v.pos < 0:
                return -v.pos
            timestamp = max_timestamp if append_time else _wrapping_add(base_timestamp, v.value)
            v = _varint(p, v.pos, limit, 28)
            if v.pos < 0:
                return -v.pos
            if has_offsets:
                offsets[at] = base_offset + v.value
            if has_timestamps:
                if microseconds:
                    if timestamp > _MAX_MS or timestamp < -_MAX_MS:
                        return _BAD_TIMESTAMP
                    timestamp *= 1000
                timestamps[at] = timestamp
            if body:
                v = _varint(p, v.pos, limit, 28)
                if v.pos < 0:
                    return -v.pos
                if v.value > limit - v.pos:
                    return _RECORD_OVERRUN
                if has_keys:
                    if v.value < 0:
                        keys.valid[at >> 3] &= ~(1 << (at & 7)) & 0xFF
                        keys.nulls += 1
                    else:
                        if cython.compiled:
                            memcpy(keys.data + keys.used, p + v.pos, v.value)
                        else:
                            keys.data[keys.used : keys.used + v.value] = p[v.pos : v.pos + v.value]
                        keys.used += v.value
                    keys.ends[at + 1] = keys.used
                v = _varint(p, v.pos + (v.value if v.value > 0 else 0), limit, 28)
                if v.pos < 0:
                    return -v.pos
                if v.value > limit - v.pos:
                    return _RECORD_OVERRUN
                if has_values:
                    if v.value < 0:
                        values.valid[at >> 3] &= ~(1 << (at & 7)) & 0xFF
                        values.nulls += 1
                    else:
                        if cython.compiled:
                            memcpy(values.data + values.used, p + v.pos, v.value)
                        else:
                            values.data[values.used : values.used + v.value] = p[v.pos : v.pos + v.value]
                        values.used += v.value
                    values.ends[at + 1] = values.used
                v = _varint(p, v.pos + (v.value if v.value > 0 else 0), limit, 28)
                if v.pos < 0:
                    return -v.pos
                if v.value < 0 or v.value > limit - v.pos:
                    return _RECORD_OVERRUN
                if v.value > 0 or has_headers:
                    self.rows = at
                    v.pos = self.put_headers(p, v.pos, limit, v.value)
                    if v.pos < 0:
                        return -v.pos
                if v.pos != limit:
                    return _RECORD_OVERRUN
            pos = limit
            at += 1
        if pos != end and count > 0:
            return _COUNT_MISMATCH
        self.rows = at
        if has_keys:
            self.keys.advance(keys)
        if has_values:
            self.values.advance(values)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put_whole_batch(
        self,
        p: cython.pointer[cython.const[cython.uchar]],
        pos: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        row: cython.pointer[cython.longlong],
    ) -> cython.int:
        """`put_batch`, all or nothing: at a fault the columns are as before."""
        rows: cython.Py_ssize_t = self.rows
        headers: cython.Py_ssize_t = self.headers
        keys: cython.Py_ssize_t = 0
        values: cython.Py_ssize_t = 0
        nulls: cython.Py_ssize_t = 0
        fault: cython.int
        if self.has_headers:
            keys = self.header_keys.used
            values = self.header_values.used
            nulls = self.header_values.nulls
        fault = self.put_batch(p, pos, end, row)
        if fault != 0:
            self.rows = rows
            self.headers = headers
            if self.has_headers:
                self.header_keys.used = keys
                self.header_values.used = values
                self.header_values.nulls = nulls
        return fault

    def take_run(
        self,
        buf: cython.const[cython.uchar][::1],
        origin: cython.longlong,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
        check_crc: cython.bint = False,
    ) -> cython.int:
        """Decode the uncompressed v2 batches in rows [first, last), at their positions less `origin`; 0 or the fault.

        With `check_crc` each batch's checksum is taken right after its records were decoded, from the cache: one
        pass over memory, not two.
        """
        i: cython.Py_ssize_t = first
        start: cython.longlong
        fault: cython.int = 0
        crc: cython.longlong = 0
        size: cython.Py_ssize_t = len(buf)
        if first < 0 or last > self.table.shape[0]:
            raise IndexError(first)
        with cython.nogil:
            while i < last:
                start = self.table[i, 0] - origin
                if start < 0 or self.table[i, 1] < 61 or self.table[i, 1] > size - start:
                    fault = _RECORD_OVERRUN
                elif cython.compiled:
                    fault = self.put_whole_batch(
                        cython.address(buf[0]),
                        start + 61,
                        start + self.table[i, 1],
                        cython.address(self.table[i, 0]),
                    )
                    if check_crc:
                        crc = crc32c_range(cython.address(buf[0]), start + 21, start + self.table[i, 1])
                else:
                    end = int(start + self.table[i, 1])
                    fault = self.put_whole_batch(buf, int(start) + 61, end, self.table[i].tolist())
                    crc = crc32c_range(buf, int(start) + 21, end)
                if check_crc and crc != self.table[i, 13]:
                    fault = _CHECKSUM
                if fault != 0:
                    self.fault_batch = i
                    break
                i += 1
        return fault

    def take_lz4_run(
        self,
        buf: cython.const[cython.uchar][::1],
        origin: cython.longlong,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
        scratch: cython.uchar[::1],
        check_crc: cython.bint,
    ) -> cython.int:
        """Decompress to `scratch` and decode the v2 LZ4 batches in rows [first, last), one after the other.

        Stops at `fault_batch` with SCRATCH_FULL if one does not fit, UNUSUAL if it takes another way to decompress.
        """
        i: cython.Py_ssize_t = first
        start: cython.longlong
        end: cython.longlong
        n: cython.longlong
        fault: cython.int = 0
        size: cython.Py_ssize_t = len(buf)
        if not cython.compiled:
            self.fault_batch = first
            return _UNUSUAL
        if first < 0 or last > self.table.shape[0]:
            raise IndexError(first)
        with cython.nogil:
            while i < last:
                start = self.table[i, 0] - origin
                end = start + self.table[i, 1]
                if start < 0 or self.table[i, 1] < 61 or end > size:
                    fault = _RECORD_OVERRUN
                elif check_crc and crc32c_range(cython.address(buf[0]), start + 21, end) != self.table[i, 13]:
                    fault = _CHECKSUM
                elif self.table[i, 12] != 0:
                    n = decompress_frame(
                        cython.address(buf[0]),
                        start + 61,
                        end,
                        cython.address(scratch[0]),
                        scratch.shape[0],
                    )
                    if n == -9:
                        fault = _SCRATCH_FULL
                    elif n < 0:
                        fault = _UNUSUAL
                    else:
                        fault = self.put_whole_batch(
                            cython.address(scratch[0]), 0, n, cython.address(self.table[i, 0])
                        )
                if fault != 0:
                    self.fault_batch = i
                    break
                i += 1
        return fault

    def take_payload(self, payload: cython.const[cython.uchar][::1], i: cython.Py_ssize_t) -> cython.int:
        """Decode the decompressed records of the batch in row `i`; 0 or the fault."""
        fault: cython.int
        if i < 0 or i >= self.table.shape[0]:
            raise IndexError(i)
        if cython.compiled:
            with cython.nogil:
                fault = self.put_whole_batch(
                    cython.address(payload[0]), 0, payload.shape[0], cython.address(self.table[i, 0])
                )
        else:
            fault = self.put_whole_batch(payload, 0, len(payload), self.table[i].tolist())
        if fault != 0:
            self.fault_batch = i
        return fault

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def put_message(
        self,
        p: cython.pointer[cython.const[cython.uchar]],
        pos: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        offset: cython.longlong,
        row: cython.pointer[cython.longlong],
    ) -> cython.int:
        """The magic 0 or 1 message p[pos:end], in or under the top-level message `row`; 0 or the fault."""
        timestamp: cython.longlong = -1
        n: cython.longlong
        fault: cython.int
        if p[pos + 16] == 1:
            timestamp = row[8] if row[6] & 8 and row[5] == 1 else _i64(p, pos + 18)
            pos += 26
        else:
            pos += 18
        fault = self.put_head(offset, timestamp)
        if fault != 0:
            return fault
        if end - pos < 8:
            return _RECORD_OVERRUN
        n = _i32(p, pos)
        pos += 4
        if n > end - pos - 4:
            return _RECORD_OVERRUN
        if self.has_keys:
            self.keys.put(self.rows, p, pos, n)
        if n > 0:
            pos += n
        n = _i32(p, pos)
        pos += 4
        if n > end - pos:
            return _RECORD_OVERRUN
        if self.has_values:
            self.values.put(self.rows, p, pos, n)
        if self.has_headers:
            self.header_ends[self.rows + 1] = self.headers
        self.rows += 1
        return 0

    def take_messages(
        self,
        buf: cython.const[cython.uchar][::1],
        origin: cython.longlong,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
    ) -> cython.int:
        """Decode the uncompressed magic 0 or 1 messages in rows [first, last), at their positions less `origin`."""
        i: cython.Py_ssize_t = first
        start: cython.longlong
        fault: cython.int = 0
        size: cython.Py_ssize_t = len(buf)
        if first < 0 or last > self.table.shape[0]:
            raise IndexError(first)
        with cython.nogil:
            while i < last:
                start = self.table[i, 0] - origin
                if start < 0 or self.table[i, 1] < 26 or self.table[i, 1] > size - start:
                    fault = _RECORD_OVERRUN
                elif not self.has_room(1, self.table[i, 1]):
                    fault = _NO_ROOM
                elif cython.compiled:
                    fault = self.put_message(
                        cython.address(buf[0]),
                        start,
                        start + self.table[i, 1],
                        self.table[i, 2],
                        cython.address(self.table[i, 0]),
                    )
                else:
                    row = self.table[i].tolist()
                    fault = self.put_message(buf, int(start), int(start) + row[1], row[2], row)
                if fault != 0:
                    self.fault_batch = i
                    break
                i += 1
        return fault

    def take_message_set(
        self,
        payload: cython.const[cython.uchar][::1],
        i: cython.Py_ssize_t,
        messages: cython.longlong,
        last: cython.longlong,
    ) -> cython.int:
        """Decode the `messages` of the decompressed wrapper in row `i`, as `count_messages` counted them.

        Magic 1 counts inner offsets from the set's start and the wrapper holds the last one's absolute offset;
        a wrapper offset of 0 came from old librdkafka producers, which left it out.
        """
        pos: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = len(payload)
        rows: cython.Py_ssize_t = self.rows
        size: cython.longlong
        k: cython.longlong
        base: cython.longlong = 0
        fault: cython.int = 0
        if i < 0 or i >= self.table.shape[0]:
            raise IndexError(i)
        if self.table[i, 5] == 1 and self.table[i, 2] != 0:
            base = self.table[i, 2] - last
            if base < 0:
                fault = _BAD_OFFSET
        if fault == 0 and not self.has_room(messages, end):
            fault = _NO_ROOM
        if cython.compiled:
            p: cython.pointer[cython.const[cython.uchar]] = cython.address(payload[0])
            row: cython.pointer[cython.longlong] = cython.address(self.table[i, 0])
        else:
            p = payload
            row = self.table[i].tolist()
        with cython.nogil:
            k = 0
            while fault == 0 and k < messages:
                if end - pos < 26:
                    fault = _RECORD_OVERRUN
                    break
                size = _i32(p, pos + 8)
                if size < 14 or size > end - pos - 12 or (p[pos + 16] == 1 and size < 22):
                    fault = _RECORD_OVERRUN
                    break
                fault = self.put_message(p, pos, pos + 12 + size, _wrapping_add(base, _i64(p, pos)), row)
                pos += 12 + size
                k += 1
        if fault != 0:
            self.rows = rows
            self.fault_batch = i
        return fault
