"""Deleting the oldest records of partitions (Kafka's delete-records): the log start moves up.

1. The log start becomes the offset that was asked for; from then on nothing below it is served.
2. Segments that lie below it as a whole go, as they would with the next look at retention.
3. The log start is written to the checkpoint, with the store's next one: it may lie inside of a segment.

The offset may not lie past the high watermark. One below the log start changes nothing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from tidelog.cleanup import apply_retention, plan_retention
from tidelog.config import LogConfig
from tidelog.errors import OffsetOutOfRangeError
from tidelog.manager.store.partition import Partition
from tidelog.scanning.log_end import log_end_offset
from tidelog.scanning.partitions import Partition as PartitionAtRest
from tidelog.scanning.timestamps import offset_for_timestamp
from tidelog.scanning.views import segment_views
from tidelog.types import TopicPartition

__all__ = ["Trim", "plan_trim", "trim"]


@dataclass(frozen=True, slots=True)
class Trim:
    """What goes from a partition."""

    partition: TopicPartition
    log_start_offset: int
    """Before."""
    new_log_start_offset: int
    segments: int
    size_bytes: int

    @property
    def is_due(self) -> bool:
        """Whether it changes anything."""
        return self.new_log_start_offset > self.log_start_offset or self.segments > 0


def plan_trim(
    partition: PartitionAtRest, *, before_offset: int | None = None, before_ms: int | None = None
) -> Trim:
    """What `trim` would do to files at rest, up to an offset or to a time; nothing is changed."""
    end = log_end_offset(partition)
    if before_offset is None:
        found = None if before_ms is None else offset_for_timestamp(partition, before_ms)
        before_offset = end if found is None else found.offset
    _check(partition.topic_partition, before_offset, end)
    start = max(before_offset, partition.log_start_offset)
    plan = plan_retention(
        segment_views(partition),
        _by_log_start(LogConfig()),
        log_start_offset=start,
        high_watermark=end,
        log_end_offset=end,
        now_ms=0,
    )
    return Trim(partition.topic_partition, partition.log_start_offset, start, len(plan.deletions), plan.size)


def trim(partition: Partition, before_offset: int) -> Trim:
    """Delete the records below an offset: the new log start of a plan."""
    with partition.gate:
        log = partition.log
        _check(partition.topic_partition, before_offset, log.high_watermark)
        before = log.log_start_offset
        start = partition.delete_records(before_offset)
        plan = apply_retention(log, 0, _by_log_start(log.config))
        return Trim(partition.topic_partition, before, start, len(plan.deletions), plan.size)


def _by_log_start(config: LogConfig) -> LogConfig:
    """A configuration by which segments go for no other reason than the log start."""
    return dataclasses.replace(config, retention_ms=-1, retention_bytes=-1)


def _check(partition: TopicPartition, before_offset: int, end: int) -> None:
    if before_offset > end:
        raise OffsetOutOfRangeError(
            f"{partition} has nothing at offset {before_offset} yet: it ends at {end}"
        )
