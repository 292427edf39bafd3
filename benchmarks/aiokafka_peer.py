"""aiokafka's Cython record codec, the fastest for Python that is not ours, where it is installed."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable
from pathlib import Path

try:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder
    from aiokafka.record.memory_records import MemoryRecords
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = True

__all__ = ["AVAILABLE", "decode", "encode", "name"]


def name() -> str:
    """The peer's name and version."""
    return f"aiokafka {importlib.metadata.version('aiokafka')}"


def decode(log: Path) -> Callable[[], int]:
    """Decodes every record of a `.log` file, CRCs checked; the bytes wait in memory."""
    data = log.read_bytes()

    def work() -> int:
        count = 0
        records = MemoryRecords(data)
        while (batch := records.next_batch()) is not None:
            if not batch.validate_crc():
                raise ValueError("a CRC does not match")
            for _ in batch:
                count += 1
        return count

    return work


def encode(values: Iterable[bytes], per_batch: int) -> Callable[[], int]:
    """Encodes values without keys into uncompressed batches."""
    ready = list(values)

    def work() -> int:
        size = 0
        for first in range(0, len(ready), per_batch):
            builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
            for index, value in enumerate(ready[first : first + per_batch]):
                builder.append(index, 1_700_000_000_000 + index, None, value, [])
            size += len(builder.build())
        return size

    return work
