"""Staging and publishing without Spark: what tasks and the commit do, in a few lines; for several tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tidelog
from tidelog.config import LogConfig
from tidelog.manager import BrokerConfig, Store
from tidelog.manager.publishing.committing import Published, Write, publish
from tidelog.manager.publishing.staging import PieceFacts, TaskStaging
from tidelog.records import Record
from tidelog.records.builder import encode_batches
from tidelog.records.record import to_arrow
from tidelog.storage import LOCAL, FileSystem
from tidelog.types import TopicPartition

__all__ = ["CONFIG", "NOW", "contents", "open_root", "publish_values", "stage"]

NOW = 1_700_000_000_000

CONFIG = BrokerConfig.from_properties(
    {
        "log.index.size.max.bytes": "600",
        "log.index.interval.bytes": "100",
        "log.retention.ms": "-1",
        "log.segment.delete.delay.ms": "0",
        "num.recovery.threads.per.data.dir": "1",
    }
)

Values = Mapping[tuple[str, int], Sequence[bytes]]
"""By topic and partition."""


def open_root(root: str, fs: FileSystem = LOCAL, **options: Any) -> Store:
    return tidelog.open(root, config=CONFIG, fs=fs, now_ms=lambda: NOW, background=False, **options)


def stage(
    fs: FileSystem,
    directory: str,
    name: str,
    values: Values,
    partitions: Mapping[str, int],
    config: LogConfig | None = None,
    batch_bytes: int = 200,
) -> str:
    """What a task does; the name of its manifest."""
    task = TaskStaging(directory, name, fs)
    for topic, count in partitions.items():
        task.expect(topic, count)
    for (topic, number), some in values.items():
        columns = to_arrow([Record(value, b"k", timestamp=NOW) for value in some])
        encoded = encode_batches(columns, max_batch_bytes=batch_bytes, now_ms=NOW)
        task.add(TopicPartition(topic, number), encoded, PieceFacts(NOW, 0), config or LogConfig())
    task.finish()
    return name


def publish_values(
    store: Store, fs: FileSystem, staging: str, tasks: Sequence[Values], **options: Any
) -> Published:
    """Stage and publish what several tasks have, into topics of two partitions."""
    config = options.pop("log_config", None)
    topics = {topic: 2 for values in tasks for topic, _ in values}
    names = tuple(
        stage(fs, staging, f"task-{number}", values, topics, config) for number, values in enumerate(tasks)
    )
    return publish(store, Write(staging, names, **options), fs)


def contents(store: Store) -> dict[TopicPartition, list[bytes]]:
    """All values, by partition; offsets must be dense."""
    found = {}
    for partition in store:
        offset, values = partition.log_start_offset, []
        while offset < partition.log_end_offset:
            batch = partition.read_arrow(offset, 1 << 20, columns=("offset", "value"))
            assert batch.num_rows, f"{partition}: nothing at {offset}"
            assert batch.column(0).to_pylist() == list(range(offset, offset + batch.num_rows))
            values += batch.column(1).to_pylist()
            offset += batch.num_rows
        found[partition.topic_partition] = values
    return found
