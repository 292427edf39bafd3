"""What retention would delete from files at rest; nothing is changed, nothing locked.

The log start and the high watermark are the root's checkpoints'; without one, the first segment's base offset
and the log end. The configuration is the metadata's, over it what is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidelog.cleanup import RetentionPlan, plan_retention
from tidelog.config import LogConfig
from tidelog.layout.roots import Checkpoint, read_checkpoint
from tidelog.manager.metadata.files import read_cluster_metadata
from tidelog.manager.store.topics import known_config
from tidelog.scanning.partitions import Partition, look_steadily
from tidelog.scanning.stability import log_end_offset
from tidelog.scanning.views import segment_views
from tidelog.storage import FileSystem
from tidelog.storage.names import CLUSTER_METADATA_TOPIC, parse_partition_directory
from tidelog.types import TopicPartition

__all__ = ["PlannedRetention", "plan_root_retention"]


@dataclass(frozen=True, slots=True)
class PlannedRetention:
    """A partition and what would go."""

    partition: TopicPartition
    path: str
    config: LogConfig
    segments: int
    plan: RetentionPlan


def plan_root_retention(
    fs: FileSystem,
    root: str,
    names: list[str],
    now_ms: int,
    settings: Mapping[str, str],
    defaults: LogConfig | None = None,
) -> Iterator[PlannedRetention]:
    """The plan for each of a root's partition directories; the metadata log is never among them."""
    starts = read_checkpoint(fs, root, Checkpoint.LOG_STARTS)
    marks = read_checkpoint(fs, root, Checkpoint.HIGH_WATERMARKS)
    image = read_cluster_metadata(fs, root).image
    for name in names:
        partition = parse_partition_directory(name).topic_partition
        if partition.topic == CLUSTER_METADATA_TOPIC:
            continue
        known, _ = known_config(image.topic_config(partition.topic), defaults or LogConfig())
        config = LogConfig.from_properties(settings, known)
        path = f"{root}/{name}"
        at_rest = Partition(path, partition)
        segments, end = look_steadily(at_rest, lambda one: (segment_views(one), log_end_offset(one)))
        first = segments[0].base_offset if segments else 0
        plan = plan_retention(
            segments,
            config,
            log_start_offset=max(starts.get(partition, 0), first),
            high_watermark=min(marks.get(partition, end), end),
            log_end_offset=end,
            now_ms=now_ms,
        )
        yield PlannedRetention(partition, path, config, len(segments), plan)
