"""Batches to append, and segments to append them to."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import count
from typing import Any

from tidelog.config import LogConfig
from tidelog.index import AbortedTxn
from tidelog.records import BatchTable, Record, encode_legacy_records, encode_records, scan_batches
from tidelog.segment import ActiveSegment
from tidelog.storage import Directory
from tidelog.types import Codec

NOW_MS = 1_700_000_000_000
CODECS = tuple(Codec)
LEGACY_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


class Nothing:
    """A recovery's state that takes no interest."""

    def take(self, buffer: memoryview, batches: BatchTable) -> Iterable[AbortedTxn]:
        return ()


def clock() -> int:
    return NOW_MS


def config(**values: Any) -> LogConfig:
    """A config with small indexes and an entry about every hundred bytes."""
    return LogConfig(**{"index_interval_bytes": 100, "segment_index_bytes": 4096} | values)


def created(directory: Directory, base_offset: int = 0, **values: Any) -> ActiveSegment:
    return ActiveSegment.create(directory, base_offset, config(**values), clock=clock)


def opened(directory: Directory, base_offset: int = 0, **values: Any) -> ActiveSegment:
    return ActiveSegment.open(directory, base_offset, config(**values), clock=clock)


def batch(
    base_offset: int,
    timestamps: Iterable[int] = (NOW_MS,),
    *,
    size: int = 20,
    codec: Codec = Codec.NONE,
    magic: int = 2,
    **options: Any,
) -> bytes:
    """A batch (magic 0 and 1: messages) with a record for each timestamp; values tell the offset."""
    records = [
        Record(f"{base_offset + i}".encode().ljust(size, b"."), b"k", timestamp=timestamp)
        for i, timestamp in enumerate(timestamps)
    ]
    if magic < 2:
        return encode_legacy_records(records, magic=magic, base_offset=base_offset, codec=codec, **options)
    return encode_records(records, base_offset=base_offset, codec=codec, **options)


def table_of(data: bytes | bytearray | memoryview) -> BatchTable:
    """The table of what is known to be sound."""
    return scan_batches(data, max_batches=1 << 20).require()


def append(segment: ActiveSegment, data: bytes) -> None:
    segment.append(data, table_of(data))


def random_batches(
    rng: random.Random, base_offset: int, number: int, *, magic: int = 2, holes: bool = True
) -> list[bytes]:
    """Batches of all sizes and codecs, with gaps between their offsets, and times that jump back at times."""
    batches = []
    offset, now = base_offset, NOW_MS
    for i in count():
        if i == number:
            return batches
        records = rng.choice([1, 1, 2, 5, 30])
        times = []
        for _ in range(records):
            now += rng.choice([-1000, 0, 1, 7, 500])
            times.append(max(now, 0))
        codec = rng.choice(CODECS if magic == 2 else LEGACY_CODECS)
        batches.append(batch(offset, times, size=rng.choice([1, 40, 300]), codec=codec, magic=magic))
        offset += records + (rng.choice([0, 0, 0, 3]) if holes else 0)
    raise AssertionError
