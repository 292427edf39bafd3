"""What retention would delete from files at rest; nothing is changed, nothing locked.

The log start is the checkpoint's, or the first segment's base offset. The high watermark is the log end, but
the checkpoint's where other brokers hold the partition too. The configuration is the metadata's, over it what
is given. Partitions of somebody's root that the metadata does not know are skipped: nobody here can say how
long their records are to be kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidelog.cleanup import RetentionPlan, plan_retention
from tidelog.config import LogConfig
from tidelog.layout.config import log_config
from tidelog.layout.roots import Checkpoint, RootFacts, look_at
from tidelog.manager.metadata.files import read_cluster_metadata
from tidelog.manager.metadata.image import MetadataImage
from tidelog.scanning.log_end import log_end_offset
from tidelog.scanning.partitions import Partition, look_steadily
from tidelog.scanning.views import SegmentView, segment_views
from tidelog.storage import FileSystem
from tidelog.storage.names import CLUSTER_METADATA_TOPIC, parse_partition_directory
from tidelog.types import TopicPartition

__all__ = ["PlannedRetention", "is_planned", "plan_partition_retention", "plan_root_retention"]


@dataclass(frozen=True, slots=True)
class PlannedRetention:
    """A partition and what would go."""

    partition: TopicPartition
    path: str
    config: LogConfig
    segments: int
    plan: RetentionPlan
    views: Sequence[SegmentView] = ()
    """The segments that it was planned for."""
    high_watermark: int = 0
    log_end_offset: int = 0


def plan_root_retention(
    fs: FileSystem,
    root: str,
    names: list[str],
    now_ms: int,
    settings: Mapping[str, str],
    defaults: LogConfig | None = None,
    *,
    image: MetadataImage | None = None,
) -> Iterator[PlannedRetention]:
    """The plan for each of a root's partition directories; the metadata log is never among them.

    `image` is the metadata of the node's other roots, where this one has none.
    """
    facts = look_at(fs, root)
    image = image or read_cluster_metadata(fs, root).image
    for name in names:
        partition = parse_partition_directory(name).topic_partition
        if not is_planned(facts, image, partition):
            continue
        config = log_config(image.topic_config(partition.topic), defaults, settings)
        yield plan_partition_retention(facts, image, Partition(f"{root}/{name}", partition), config, now_ms)


def is_planned(facts: RootFacts, image: MetadataImage, partition: TopicPartition) -> bool:
    """Whether somebody here can say how long the records of a partition are to be kept."""
    if partition.topic == CLUSTER_METADATA_TOPIC:
        return False
    return facts.meta is None or image.has(partition)


def plan_partition_retention(
    facts: RootFacts, image: MetadataImage, at_rest: Partition, config: LogConfig, now_ms: int
) -> PlannedRetention:
    """The plan for one partition of a root."""
    partition = at_rest.topic_partition
    starts, marks = facts.checkpoints[Checkpoint.LOG_STARTS], facts.checkpoints[Checkpoint.HIGH_WATERMARKS]
    segments, end = look_steadily(at_rest, lambda one: (segment_views(one), log_end_offset(one)))
    first = segments[0].base_offset if segments else 0
    mark = marks.get(partition, end) if _is_replicated(facts, image, partition) else end
    plan = plan_retention(
        segments,
        config,
        log_start_offset=max(starts.get(partition, 0), first),
        high_watermark=min(mark, end),
        log_end_offset=end,
        now_ms=now_ms,
    )
    return PlannedRetention(
        partition, at_rest.url, config, len(segments), plan, segments, min(mark, end), end
    )


def _is_replicated(facts: RootFacts, image: MetadataImage, partition: TopicPartition) -> bool:
    """Whether other brokers hold a partition, too."""
    if facts.meta is None or not image.has(partition):
        return False
    replicas = image.topics[partition.topic].partitions[partition.partition].replicas
    return any(replica != facts.meta.node_id for replica in replicas)
