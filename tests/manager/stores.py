"""Small stores to test with: records to put in, and what is in them."""

from __future__ import annotations

from tidelog.manager import Partition, Store
from tidelog.records import Record

SIMULATED = {
    "log.index.size.max.bytes": "600",
    "log.index.interval.bytes": "100",
    "log.retention.ms": "-1",
    "log.segment.delete.delay.ms": "0",
    "num.recovery.threads.per.data.dir": "1",
}
"""A broker's settings for stores on a simulated disk: small files, and one thing after the other."""

SMALL = {"internal.segment.bytes": 400, "segment.index.bytes": 600, "file.delete.delay.ms": 0}


def values(store: Store, topic: str, number: int = 0) -> list[bytes]:
    """All values of a partition; a read gives what one segment has."""
    partition = store.partition(topic, number)
    found: list[bytes] = []
    offset = partition.log_start_offset
    while offset < partition.log_end_offset:
        batch = partition.read_arrow(offset, 1 << 24, columns=("offset", "value"))
        found += batch.column(1).to_pylist()
        offset = batch.column(0)[-1].as_py() + 1
    return found


def some(count: int, prefix: str = "v") -> list[Record]:
    return [Record(f"{prefix}{i}".encode(), b"key", timestamp=1_700_000_000_000 + i) for i in range(count)]


def fill(partition: Partition, count: int) -> None:
    """Append so many records, five at a time: enough to roll small segments."""
    records = some(count)
    for start in range(0, count, 5):
        partition.append(records[start : start + 5])
