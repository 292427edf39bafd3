"""Batches and batch tables made by hand, also ones that no producer would send."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidelog.records.batches import BatchTable, scan_batches
from tidelog.records.checksums import crc32c

__all__ = ["Batch", "craft", "table"]

_COLUMNS = {
    "base_offset": 2,
    "last_offset": 3,
    "leader_epoch": 4,
    "magic": 5,
    "attributes": 6,
    "max_timestamp": 8,
}
_COLUMNS |= {
    "producer_id": 9,
    "producer_epoch": 10,
    "base_sequence": 11,
    "count": 12,
    "position": 0,
    "size": 1,
}

TRANSACTIONAL, CONTROL, LOG_APPEND_TIME, GZIP = 0x10, 0x20, 0x08, 0x01


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A v2 batch; what is None is computed from the records (timestamp, key, value)."""

    records: Sequence[tuple[int, bytes | None, bytes | None]] = ((1000, b"k", b"v"),)
    base_offset: int = 0
    leader_epoch: int = 0
    attributes: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    last_offset_delta: int | None = None
    max_timestamp: int | None = None
    count: int | None = None

    def encode(self) -> bytes:
        """The batch with a right checksum, whatever else is wrong with it."""
        base_timestamp = self.records[0][0] if self.records else -1
        body = b"".join(_record(i, record, base_timestamp) for i, record in enumerate(self.records))
        if self.attributes & 7 == GZIP:
            body = gzip.compress(body, mtime=0)
        delta = len(self.records) - 1 if self.last_offset_delta is None else self.last_offset_delta
        largest = (
            max((r[0] for r in self.records), default=-1)
            if self.max_timestamp is None
            else self.max_timestamp
        )
        checked = struct.pack(
            ">hiqqqhii",
            self.attributes,
            delta,
            base_timestamp,
            largest,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            len(self.records) if self.count is None else self.count,
        )
        checked += body
        head = struct.pack(
            ">qiibI", self.base_offset, len(checked) + 9, self.leader_epoch, 2, crc32c(checked)
        )
        return head + checked


def _record(index: int, record: tuple[int, bytes | None, bytes | None], base_timestamp: int) -> bytes:
    timestamp, key, value = record
    body = (
        b"\0"
        + _varint(timestamp - base_timestamp)
        + _varint(index)
        + _field(key)
        + _field(value)
        + _varint(0)
    )
    return _varint(len(body)) + body


def _field(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def craft(*batches: Batch) -> tuple[bytearray, BatchTable]:
    """The bytes of the batches one after the other, and the table of their headers."""
    data = bytearray(b"".join(batch.encode() for batch in batches))
    return data, scan_batches(bytes(data)).require()


def table(*rows: dict[str, int]) -> BatchTable:
    """Rows of a table of v2 batches, each from what matters of it; positions follow from the sizes."""
    made = []
    position = 0
    for row in rows:
        full = {
            "count": 1,
            "magic": 2,
            "size": 100,
            "max_timestamp": 1000,
            "position": position,
            "leader_epoch": 0,
        }
        full |= {
            "producer_id": -1,
            "producer_epoch": -1,
            "base_sequence": -1,
            "attributes": 0,
            "base_offset": 0,
        }
        full |= row
        full.setdefault("last_offset", full["base_offset"] + full["count"] - 1)
        numbers = np.zeros(16, dtype=np.int64)
        for name, value in full.items():
            numbers[_COLUMNS[name]] = value
        made.append(numbers)
        position += full["size"]
    return BatchTable(np.stack(made))
