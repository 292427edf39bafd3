"""Numbers about a store, taken at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidelog.errors import LogOfflineError
from tidelog.manager.background.cleaning import CleaningMetrics
from tidelog.manager.store.events import LoadFinished
from tidelog.manager.store.partition import FlushTimes, Partition
from tidelog.types import TopicPartition

__all__ = ["PartitionMetrics", "StoreMetrics", "measure"]


@dataclass(frozen=True, slots=True)
class PartitionMetrics:
    """One partition's offsets, sizes and flushes."""

    partition: TopicPartition
    root: str
    segments: int
    size_bytes: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    recovery_point: int
    """Everything below this offset is on the disk."""
    last_flush_ms: int
    flushes: FlushTimes
    producers: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class StoreMetrics:
    """All partitions that are online; what is not is named with its reason."""

    partitions: Mapping[TopicPartition, PartitionMetrics]
    offline_partitions: Mapping[TopicPartition, str]
    offline_roots: Mapping[str, str]
    cleaning: CleaningMetrics = field(default_factory=CleaningMetrics)
    """What compaction did, and what it cannot do."""
    loads: Mapping[str, LoadFinished] = field(default_factory=dict)
    """How each root was loaded, and what of it had to be recovered."""

    @property
    def size_bytes(self) -> int:
        """The bytes of all logs."""
        return sum(one.size_bytes for one in self.partitions.values())

    @property
    def segments(self) -> int:
        """The segments of all logs."""
        return sum(one.segments for one in self.partitions.values())

    @property
    def unflushed_records(self) -> int:
        """How many offsets a power cut could lose now."""
        return sum(one.log_end_offset - one.recovery_point for one in self.partitions.values())


def measure(
    partitions: Iterable[Partition],
    offline_roots: Mapping[str, str],
    cleaning: CleaningMetrics,
    loads: Mapping[str, LoadFinished],
) -> StoreMetrics:
    """The numbers of this moment."""
    online, offline = {}, {}
    for partition in partitions:
        try:
            online[partition.topic_partition] = _measure(partition)
        except LogOfflineError as error:
            offline[partition.topic_partition] = partition.offline_reason or str(error)
    return StoreMetrics(online, offline, offline_roots, cleaning, dict(loads))


def _measure(partition: Partition) -> PartitionMetrics:
    log = partition.log
    segments, offsets = log.view
    flushes = partition.flushes
    return PartitionMetrics(
        partition.topic_partition,
        "" if partition.root is None else partition.root.path,
        len(segments),
        segments.size_in_bytes,
        offsets.log_start,
        offsets.last_stable_offset,
        offsets.high_watermark.message_offset,
        offsets.log_end.message_offset,
        log.recovery_point,
        log.last_flush_ms,
        FlushTimes(flushes.count, flushes.total_ms, flushes.longest_ms),
        len(log.active_producers),
        partition.leader_epoch,
    )
