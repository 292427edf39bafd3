"""What cleaning leaves, said simply: record by record, over plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tidelog.records import Record
from tidelog.types import Codec

__all__ = ["ModelBatch", "ModelRecord", "clean", "latest_offsets"]


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A record: which key, and a value or a tombstone."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int

    def record(self) -> Record:
        """To be appended."""
        return Record(self.value, self.key, timestamp=self.timestamp)


@dataclass(frozen=True, slots=True)
class ModelBatch:
    """A batch of a log without producers."""

    records: tuple[ModelRecord, ...]
    last_offset: int
    codec: Codec = Codec.NONE
    horizon_ms: int | None = None


def latest_offsets(batches: Iterable[ModelBatch], start: int) -> dict[bytes, int]:
    """The last offset of each key at or after `start`."""
    return {
        record.key: record.offset
        for batch in batches
        for record in batch.records
        if record.key is not None and record.offset >= start
    }


def clean(
    batches: Sequence[ModelBatch], *, start: int, end: int, now_ms: int, retention_ms: int
) -> list[ModelBatch]:
    """What one round over [start, end), with a map that takes all keys, leaves of the batches below `end`."""
    latest = latest_offsets((batch for batch in batches if batch.last_offset < end), start)
    left = []
    for batch in batches:
        if batch.last_offset >= end:
            left.append(batch)
            continue
        due = batch.horizon_ms is not None and batch.horizon_ms <= now_ms
        kept = tuple(
            record
            for record in batch.records
            if record.key is not None
            and record.offset >= latest.get(record.key, -1)
            and (record.value is not None or not due)
        )
        horizon = batch.horizon_ms
        if horizon is None and any(record.value is None for record in kept):
            horizon = now_ms + retention_ms
        if kept:
            left.append(replace(batch, records=kept, horizon_ms=horizon))
        elif batch.last_offset + 1 == end:
            left.append(ModelBatch((), batch.last_offset))
    return left
