"""Small stores of compacted topics to test cleaning with; the fixtures are in `conftest`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.log.logs import NOW_MS
from tidelog.manager import Partition, Store
from tidelog.records import Record, StoredRecord
from tidelog.storage import LOCAL, read_offset_checkpoint

CLEANED = "cleaner-offset-checkpoint"
COMPACT = {
    "cleanup.policy": "compact",
    "segment.index.bytes": 4096,
    "file.delete.delay.ms": 0,
    "retention.ms": 60_000,
}

Opener = Callable[..., Store]


def fill(
    partition: Partition, count: int = 300, keys: int = 10, roll_every: int = 100, **options: Any
) -> None:
    """Append so many records of so many keys, and roll now and then."""
    for number in range(count):
        at = partition.log_end_offset
        key, value = b"key %d" % (number % keys), b"%d" % at
        partition.append([Record(value, key, timestamp=options.get("timestamp", NOW_MS))])
        if (number + 1) % roll_every == 0:
            partition.log.roll()


def records_of(partition: Partition) -> list[StoredRecord]:
    log = partition.log
    found = (log.read_record(offset) for offset in range(log.log_start_offset, log.log_end_offset))
    return [record for record in found if record is not None]


def offsets_of(partition: Partition) -> list[int]:
    return [record.offset for record in records_of(partition)]


def checkpointed(root: Path) -> dict[str, int]:
    return {str(name): offset for name, offset in read_offset_checkpoint(LOCAL, root / CLEANED).items()}


def both(tmp_path: Path) -> dict[str, int]:
    return checkpointed(tmp_path / "a") | checkpointed(tmp_path / "b")
