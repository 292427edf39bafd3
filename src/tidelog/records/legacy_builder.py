"""Messages in the formats before v2, as Kafka's builder writes them: for tests, and for who still needs them.

    at  size  field                                   at  size  field
     0     8  offset                                  16     1  magic: 0 or 1
     8     4  size (of all below)                     17     1  attributes: bits 0-2 codec, 3 timestamp type
    12     4  CRC-32 of all below                     18     8  timestamp (magic 1 only)
     then     key length i32, key, value length i32, value; the length of null is -1

A compressed set is one message, the wrapper, without a key, whose value is the messages' bytes compressed. It
carries the last message's offset and the largest timestamp (or the log's append time). In magic 1 the inner
offsets count from the set's base offset, in magic 0 they are absolute. Neither has headers, nor zstd.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence

from tidelog.errors import InvalidInputError, InvalidTimestampError, RecordTooLargeError
from tidelog.records.compression import compress
from tidelog.records.record import Record
from tidelog.types import Codec, TimestampType

__all__ = ["encode_legacy_records"]

_INT32_MAX = (1 << 31) - 1
_NO_TIMESTAMP = -1
_pack_length = struct.Struct(">i").pack
_pack_crc = struct.Struct(">I").pack
_pack_frame = struct.Struct(">qi").pack
_HEADERS = (struct.Struct(">bb"), struct.Struct(">bbq"))


def encode_legacy_records(
    records: Iterable[Record],
    *,
    magic: int,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    now_ms: int = _NO_TIMESTAMP,
) -> bytes:
    """The records as magic 0 or 1 messages, wrapped into one if `codec` is not NONE.

    With LOG_APPEND_TIME (magic 1) all records get `now_ms`, which also stands for timestamps that are None.
    """
    records = list(records)
    _check(records, magic, codec, timestamp_type, base_offset)
    appended = timestamp_type == TimestampType.LOG_APPEND_TIME and magic == 1
    times = [now_ms if appended or record.timestamp is None else record.timestamp for record in records]
    attributes = 8 if appended else 0
    relative = magic == 1 and codec != Codec.NONE
    first = 0 if relative else base_offset
    messages = b"".join(
        _message(first + i, magic, attributes, timestamp, record.key, record.value)
        for i, (record, timestamp) in enumerate(zip(records, times, strict=True))
    )
    if codec == Codec.NONE or not records:
        return messages
    wrapped = compress(codec, messages, magic=magic, level=level)
    last = base_offset + len(records) - 1
    return _message(last, magic, attributes | codec, max(times), None, wrapped)


def _message(
    offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None
) -> bytes:
    header = _HEADERS[0].pack(0, attributes) if magic == 0 else _HEADERS[1].pack(1, attributes, timestamp)
    body = b"".join((header, *_field(key), *_field(value)))
    if len(body) + 4 > _INT32_MAX:
        raise RecordTooLargeError(f"the message at offset {offset} is larger than {_INT32_MAX} bytes")
    return b"".join((_pack_frame(offset, len(body) + 4), _pack_crc(zlib.crc32(body)), body))


def _field(data: bytes | None) -> tuple[bytes, bytes]:
    return (_pack_length(-1), b"") if data is None else (_pack_length(len(data)), data)


def _check(
    records: Sequence[Record], magic: int, codec: Codec, timestamp_type: TimestampType, base_offset: int
) -> None:
    if magic not in (0, 1):
        raise InvalidInputError(f"magic {magic} is not a format before v2: use 0 or 1")
    if codec == Codec.ZSTD:
        raise InvalidInputError(f"magic {magic} has no zstd")
    if magic == 1 and timestamp_type == TimestampType.NO_TIMESTAMP_TYPE:
        raise InvalidInputError("magic 1 messages have a timestamp type: CREATE_TIME or LOG_APPEND_TIME")
    if base_offset < 0 or base_offset + len(records) > 1 << 63:
        raise InvalidInputError(f"base_offset {base_offset} is out of range")
    for i, record in enumerate(records):
        if record.headers:
            raise InvalidInputError(f"record {i} has headers, which magic {magic} does not know")
        if record.timestamp is not None and record.timestamp < -1:
            raise InvalidTimestampError(f"record {i}: a negative timestamp other than -1 (none)")
