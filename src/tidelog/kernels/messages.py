# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Messages of magic 0 and 1 into columns, single ones and the sets in compressed wrappers.

A message: offset i64 | size i32 | crc u32 | magic i8 | attributes i8 | [timestamp i64, magic 1] |
key length i32, key | value length i32, value. A negative length means null; as in Kafka's reader, bytes
after the value are passed over. A wrapper's value is, decompressed, a set of messages one after the other.
"""

import cython

if cython.compiled:
    from cython.cimports.tidelog.kernels.columns import HEADERS, Columns
    from cython.cimports.tidelog.kernels.crc import crc32_range
    from cython.cimports.tidelog.kernels.faults import (
        BAD_LENGTH,
        BAD_OFFSET,
        BAD_TIMESTAMP,
        CHECKSUM,
        COUNT_MISMATCH,
        NESTED_COMPRESSION,
        NO_ROOM,
        RECORD_OVERRUN,
        UNKNOWN_MAGIC,
    )
    from cython.cimports.tidelog.kernels.scan import i32, i64, wrapping_add
else:
    from types import SimpleNamespace as Count

    from tidelog.kernels.columns import HEADERS, Columns
    from tidelog.kernels.crc import crc32_range
    from tidelog.kernels.faults import (
        BAD_LENGTH,
        BAD_OFFSET,
        BAD_TIMESTAMP,
        CHECKSUM,
        COUNT_MISMATCH,
        NESTED_COMPRESSION,
        NO_ROOM,
        RECORD_OVERRUN,
        UNKNOWN_MAGIC,
    )
    from tidelog.kernels.scan import i32, i64, wrapping_add

_Row = cython.typedef(cython.pointer[cython.const[cython.longlong]])

_MAX_MS = cython.declare(
    cython.longlong, 9223372036854775
)  # the largest millisecond that fits as microseconds
_MIN_MESSAGE = cython.declare(cython.longlong, 26)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _row(columns: Columns, i: cython.Py_ssize_t) -> _Row:
    """The numbers that describe top-level message `i`."""
    if cython.compiled:
        return cython.address(columns.table[i, 0])
    else:
        return [columns.table[i, k] for k in range(16)]


def _put_message(columns, p, pos, end, offset, row):
    """The message p[pos:end], in or under the top-level message `row`; 0 or the fault."""
    timestamp: cython.longlong = -1
    key: cython.longlong
    value: cython.longlong
    at: cython.Py_ssize_t = pos + 18
    if p[pos + 16] == 1:
        timestamp = row[8] if row[6] & 8 and row[5] == 1 else i64(p, pos + 18)
        at += 8
    if end - at < 8:
        return RECORD_OVERRUN
    key = i32(p, at)
    at += 4
    if key > end - at - 4:
        return RECORD_OVERRUN
    pos = at + key if key > 0 else at
    value = i32(p, pos)
    if value > end - pos - 4:
        return RECORD_OVERRUN
    if columns.has_timestamps:
        if columns.microseconds:
            if timestamp > _MAX_MS or timestamp < -_MAX_MS:
                return BAD_TIMESTAMP
            timestamp *= 1000
        columns.timestamps[columns.rows] = timestamp
    if columns.has_offsets:
        columns.offsets[columns.rows] = offset
    if columns.has_keys:
        columns.keys.put(columns.rows, p, at, key)
    if columns.has_values:
        columns.values.put(columns.rows, p, pos + 4, value)
    columns.rows += 1
    if columns.headers_mode == HEADERS:
        columns.header_ends[columns.rows] = columns.headers
    return 0


def _put_messages(columns, p, size, origin, last, check_crc):
    start: cython.longlong
    end: cython.longlong
    fault: cython.int
    row: _Row
    while columns.batches < last:
        row = _row(columns, columns.batches)
        start = row[0] - origin
        end = start + row[1]
        if start < 0 or row[1] < _MIN_MESSAGE or end > size:
            return RECORD_OVERRUN
        if check_crc and crc32_range(p, start + 16, end) != row[13]:
            return CHECKSUM
        if not columns.has_room(1, row[1]):
            return NO_ROOM
        fault = _put_message(columns, p, start, end, row[2], row)
        if fault != 0:
            return fault
        columns.batches += 1
    return 0


def take_messages(
    columns: Columns,
    buf: cython.const[cython.uchar][::1],
    origin: cython.longlong,
    last: cython.Py_ssize_t,
    check_crc: cython.bint,
) -> cython.int:
    """Decode uncompressed messages, up to row `last`; 0 or the fault (as in kernels/decode.py)."""
    fault: cython.int
    if last > columns.table.shape[0]:
        raise IndexError(last)
    if cython.compiled:
        with cython.nogil:
            fault = _put_messages(columns, cython.address(buf[0]), buf.shape[0], origin, last, check_crc)
    else:
        fault = _put_messages(columns, buf, len(buf), origin, last, check_crc)
    return fault


def _count(p, end):
    out: Count = Count(messages=0, last=0, fault=0)
    pos: cython.Py_ssize_t = 0
    size: cython.longlong
    while end - pos >= 12 and out.fault == 0:
        size = i32(p, pos + 8)
        if size < 14:
            out.fault = BAD_LENGTH
        elif size > end - pos - 12:
            break
        elif p[pos + 16] > 1:
            out.fault = UNKNOWN_MAGIC
        elif p[pos + 16] == 1 and size < 22:
            out.fault = BAD_LENGTH
        elif p[pos + 17] & 7:
            out.fault = NESTED_COMPRESSION
        else:
            out.last = i64(p, pos)
            out.messages += 1
            pos += 12 + size
    if out.fault == 0 and out.messages == 0:
        out.fault = COUNT_MISMATCH
    return out


def count_messages(payload: cython.const[cython.uchar][::1]) -> tuple:
    """(messages, offset of the last) in a decompressed message set, or (minus the fault, 0).

    As in Kafka's reader, a last message that is cut short is not there at all.
    """
    found: Count
    if cython.compiled:
        with cython.nogil:
            found = _count(cython.address(payload[0]), payload.shape[0])
    else:
        found = _count(payload, len(payload))
    if found.fault != 0:
        return -found.fault, 0
    return found.messages, found.last


def _put_set(columns, p, end, messages, base, row):
    pos: cython.Py_ssize_t = 0
    size: cython.longlong
    fault: cython.int
    for _ in range(messages):
        if end - pos < _MIN_MESSAGE:
            return RECORD_OVERRUN
        size = i32(p, pos + 8)
        if size < 14 or size > end - pos - 12 or (p[pos + 16] == 1 and size < 22):
            return RECORD_OVERRUN
        fault = _put_message(columns, p, pos, pos + 12 + size, wrapping_add(base, i64(p, pos)), row)
        if fault != 0:
            return fault
        pos += 12 + size
    return 0


def take_message_set(
    columns: Columns,
    payload: cython.const[cython.uchar][::1],
    messages: cython.longlong,
    last: cython.longlong,
) -> cython.int:
    """Decode the `messages` of a decompressed wrapper, as `count_messages` counted them; 0 or the fault.

    Magic 1 counts inner offsets from the set's start and the wrapper holds the last one's absolute offset;
    a wrapper offset of 0 came from old librdkafka producers, which left it out.
    """
    i: cython.Py_ssize_t = columns.batches
    base: cython.longlong = 0
    fault: cython.int = 0
    if i >= columns.table.shape[0]:
        raise IndexError(i)
    if columns.table[i, 5] == 1 and columns.table[i, 2] != 0:
        if columns.table[i, 2] < last:
            return BAD_OFFSET
        base = wrapping_add(columns.table[i, 2], wrapping_add(~last, 1))
    if not columns.has_room(messages, len(payload)):
        return NO_ROOM
    columns.keep()
    if cython.compiled:
        with cython.nogil:
            fault = _put_set(
                columns, cython.address(payload[0]), payload.shape[0], messages, base, _row(columns, i)
            )
    else:
        fault = _put_set(columns, payload, len(payload), messages, base, _row(columns, i))
    if fault == 0:
        columns.batches += 1
    else:
        columns.restore()
    return fault
