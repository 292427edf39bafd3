"""Batches and messages written field by field, also ones that no producer would send."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import google_crc32c

from tests.records.reference import field, varint
from tidelog.records.compression import compress

__all__ = ["batch", "message", "message_set", "record", "seal", "wrapper"]

HEADER_SIZE = 61
INT32_MAX = (1 << 31) - 1

Headers = Sequence[tuple[bytes, bytes | None]]


def record(
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Headers = (),
    *,
    offset_delta: int = 0,
    timestamp_delta: int = 0,
    attributes: int = 0,
) -> bytes:
    """One record of a v2 batch."""
    body = bytes([attributes]) + varint(timestamp_delta) + varint(offset_delta) + field(key) + field(value)
    body += varint(len(headers)) + b"".join(field(name) + field(data) for name, data in headers)
    return varint(len(body)) + body


def batch(
    payload: bytes | Sequence[bytes],
    *,
    base_offset: int = 0,
    length: int | None = None,
    leader_epoch: int = 0,
    magic: int = 2,
    attributes: int = 0,
    codec: int = 0,
    last_delta: int | None = None,
    base_timestamp: int = 1000,
    max_timestamp: int = 2000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    count: int | None = None,
) -> bytes:
    """A v2 batch with a good checksum; `payload` is its records, or what the header is followed by as is."""
    if isinstance(payload, bytes):
        data, found = payload, 1
    else:
        data, found = compress(codec, b"".join(payload)) if codec else b"".join(payload), len(payload)
    count = found if count is None else count
    producer_id, epoch, sequence = producer
    checked = struct.pack(
        ">hiqqqhii",
        attributes | codec,
        max(count - 1, 0) if last_delta is None else last_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        epoch,
        sequence,
        count,
    )
    length = 49 + len(data) if length is None else length
    head = struct.pack(">qiiB", base_offset, length, leader_epoch, magic)
    return head + google_crc32c.value(checked + data).to_bytes(4, "big") + checked + data


def message(
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    magic: int = 1,
    offset: int = 0,
    timestamp: int = 1000,
    attributes: int = 0,
) -> bytes:
    """A message of magic 0 or 1 with a good checksum."""
    body = bytes([magic, attributes]) + (struct.pack(">q", timestamp) if magic else b"")
    for data in (key, value):
        body += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def message_set(values: Sequence[bytes | None], *, magic: int = 1, first: int = 0) -> bytes:
    """Messages at `first` and the offsets after it, as they stand in a wrapper."""
    return b"".join(message(b"k", value, magic=magic, offset=first + i) for i, value in enumerate(values))


def wrapper(
    inner: bytes,
    *,
    codec: int = 1,
    magic: int = 1,
    offset: int = 0,
    timestamp: int = 1000,
    attributes: int = 0,
) -> bytes:
    """A message whose value is the message set `inner`, compressed."""
    payload = compress(codec, inner, magic=magic)
    return message(
        None, payload, magic=magic, offset=offset, timestamp=timestamp, attributes=attributes | codec
    )


def seal(data: bytes | bytearray) -> bytes:
    """The one batch or message `data`, its checksum made good again."""
    out = bytearray(data)
    if out[16] < 2:
        out[12:16] = zlib.crc32(out[16:]).to_bytes(4, "big")
    else:
        out[17:21] = google_crc32c.value(bytes(out[21:])).to_bytes(4, "big")
    return bytes(out)
