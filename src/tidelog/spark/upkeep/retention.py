"""`retention` and `trim` over whole roots: planned by tasks, a partition each, carried out by the driver.

Finding out what goes is what takes time: a look at every segment of every partition. Deleting is a matter of
names and is done under the root's lock, through the store, as the local commands do it; what the store then
deletes is decided there once more, since things may have changed since the look: by a writer, or by recovery.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError
from tidelog.layout.roots import look_at
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.metadata.files import home_of_metadata, read_cluster_metadata
from tidelog.manager.metadata.image import MetadataImage
from tidelog.manager.publishing.waiting import open_waiting
from tidelog.manager.store.store import Store
from tidelog.manager.upkeep.retention_plan import is_planned, plan_root_retention
from tidelog.manager.upkeep.trimming import plan_trim
from tidelog.manager.upkeep.trimming import trim as trim_partition
from tidelog.scanning.partitions import Partition, list_partitions
from tidelog.spark.runtime.jobs import report_frame, run_job
from tidelog.spark.sink.options import SinkOptions
from tidelog.storage import LOCAL
from tidelog.storage.names import CLUSTER_METADATA_TOPIC
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["RETENTION_SCHEMA", "TRIM_SCHEMA", "retention", "retention_is_due", "trim", "trim_is_due"]

RETENTION_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("base_offset", pa.int64()),
        pa.field("end_offset", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
    ]
)
"""A row for each segment that goes."""

TRIM_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("log_start_offset", pa.int64()),
        pa.field("new_log_start_offset", pa.int64()),
        pa.field("segments", pa.int64()),
        pa.field("bytes", pa.int64()),
    ]
)
"""A row for each partition whose log start moves."""


@dataclass(frozen=True, slots=True)
class RootSplit:
    """Some partitions of a root, and what the metadata says about their topics."""

    root: str
    names: tuple[str, ...]
    image: MetadataImage

    @property
    def size(self) -> int:
        """How much there is to look at."""
        return len(self.names)


@dataclass(frozen=True, slots=True)
class RetentionWork:
    """Plans retention."""

    now_ms: int
    settings: Mapping[str, str] = field(default_factory=dict)
    defaults: LogConfig | None = None

    def __call__(self, number: int, split: RootSplit) -> list[dict[str, Any]]:
        """What goes of each partition."""
        rows = []
        names, known = list(split.names), split.image
        for one in plan_root_retention(
            LOCAL, split.root, names, self.now_ms, self.settings, self.defaults, image=known
        ):
            rows += _retention_rows(one.partition.topic, one.partition.partition, one.plan.deletions)
        return rows


def _retention_rows(topic: str, partition: int, deletions: Iterable[Any]) -> list[dict[str, Any]]:
    return [
        {
            "topic": topic,
            "partition": partition,
            "base_offset": one.base_offset,
            "end_offset": one.end_offset,
            "bytes": one.size,
            "reason": one.reason.value,
            "detail": one.detail,
        }
        for one in deletions
    ]


@dataclass(frozen=True, slots=True)
class TrimWork:
    """Plans trimming."""

    before_offset: int | None
    before_ms: int | None

    def __call__(self, number: int, split: RootSplit) -> list[dict[str, Any]]:
        """Where each partition's log start moves to."""
        there = list_partitions([f"{split.root}/{name}" for name in split.names])
        return [row for one in there if (row := self._row(one)) is not None]

    def _row(self, partition: Partition) -> dict[str, Any] | None:
        plan = plan_trim(partition, before_offset=self.before_offset, before_ms=self.before_ms)
        return _trim_row(plan) if plan.new_log_start_offset > plan.log_start_offset else None


def _trim_row(plan: Any) -> dict[str, Any]:
    return {
        "topic": plan.partition.topic,
        "partition": plan.partition.partition,
        "log_start_offset": plan.log_start_offset,
        "new_log_start_offset": plan.new_log_start_offset,
        "segments": plan.segments,
        "bytes": plan.size_bytes,
    }


def retention(
    spark: SparkSession,
    root: str | Path,
    *,
    topics: Iterable[str] | None = None,
    dry_run: bool = False,
    settings: Mapping[str, str] | None = None,
    now_ms: int | None = None,
    config: BrokerConfig | None = None,
    recover: bool = False,
) -> DataFrame:
    """Delete old segments by the topics' configs, as `tidelog retention` does; see RETENTION_SCHEMA.

    `settings` (configs other than the topics') and `now_ms` are for a dry run. `config` is the broker's,
    whose defaults topics have, and whose `log.dirs` say where the metadata is if the root has none. What the
    metadata does not know is left alone. A root that was not closed cleanly is refused unless `recover` is
    set.
    """
    if (settings or now_ms is not None) and not dry_run:
        raise InvalidInputError("settings and now_ms are for a dry run: what goes follows the topic's config")
    options = SinkOptions.parse({"path": str(root)})
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    disks = (config or BrokerConfig()).disks_of(options.roots)
    splits = _splits(options.roots[0], topics, disks)
    defaults = None if config is None else config.topic_defaults
    rows = _run(spark, RetentionWork(now, settings or {}, defaults), splits, RETENTION_SCHEMA)
    if not dry_run and rows:
        due = {TopicPartition(row["topic"], row["partition"]) for row in rows}
        with _opened(disks, options, config, due, recover=recover) as store:
            rows = []
            for one in sorted(due):
                for plan in store.apply_retention(one).values():
                    rows += _retention_rows(one.topic, one.partition, plan.deletions)
    return report_frame(spark, rows, RETENTION_SCHEMA)


def trim(
    spark: SparkSession,
    root: str | Path,
    *,
    topics: Iterable[str] | None = None,
    before_offset: int | None = None,
    before_ms: int | None = None,
    dry_run: bool = False,
    config: BrokerConfig | None = None,
    recover: bool = False,
) -> DataFrame:
    """Delete the records below an offset, or up to the first one of a time or later; see TRIM_SCHEMA.

    `config` is the broker's, whose `log.dirs` say where the metadata is if the root has none. Partitions that
    the metadata does not know are left alone; if their topic is named, that is refused. A root that was not
    closed cleanly is refused unless `recover` is set.
    """
    if (before_offset is None) == (before_ms is None):
        raise InvalidInputError("give either before_offset or before_ms")
    options = SinkOptions.parse({"path": str(root)})
    disks = (config or BrokerConfig()).disks_of(options.roots)
    splits = _splits(options.roots[0], topics, disks, refuse_unknown=True)
    rows = _run(spark, TrimWork(before_offset, before_ms), splits, TRIM_SCHEMA)
    if not dry_run and rows:
        due = {TopicPartition(row["topic"], row["partition"]) for row in rows}
        with _opened(disks, options, config, due, recover=recover) as store:
            rows = [
                _trim_row(
                    trim_partition(
                        store.partition(row["topic"], row["partition"]), row["new_log_start_offset"]
                    )
                )
                for row in rows
            ]
    return report_frame(spark, rows, TRIM_SCHEMA)


def retention_is_due(root: str | Path, topics: Iterable[str] | None, now_ms: int) -> bool:
    """Whether retention would delete something now: a look without Spark that ends with the first find."""
    work = RetentionWork(now_ms)
    return any(work(0, split) for split in _splits(str(root), topics))


def trim_is_due(
    root: str | Path,
    topics: Iterable[str] | None,
    *,
    before_offset: int | None = None,
    before_ms: int | None = None,
) -> bool:
    """Whether a trim would move a log start now, likewise."""
    work = TrimWork(before_offset, before_ms)
    return any(work(0, split) for split in _splits(str(root), topics))


def _splits(
    root: str,
    topics: Iterable[str] | None,
    disks: Sequence[str] | None = None,
    *,
    refuse_unknown: bool = False,
) -> list[RootSplit]:
    """The partitions of a root that the metadata on one of its broker's disks knows, a few at a time."""
    named = None if topics is None else set(topics)
    found = (one.topic_partition for one in list_partitions(root))
    there = [one for one in found if one.topic != CLUSTER_METADATA_TOPIC]
    for topic in sorted((named or set()) - {one.topic for one in there}):
        raise InvalidInputError(f"there is no topic {topic!r} in {root}")
    home = home_of_metadata(LOCAL, disks or [root])
    facts, image = look_at(LOCAL, root), read_cluster_metadata(LOCAL, home).image
    asked = [one for one in there if named is None or one.topic in named]
    wanted = [one for one in asked if is_planned(facts, image, one)]
    if refuse_unknown and named is not None and len(wanted) < len(asked):
        raise _unknown(root, next(one for one in asked if one not in wanted))
    each = max(len(wanted) // _MOST_SPLITS, 1)
    parts = [wanted[at : at + each] for at in range(0, len(wanted), each)]
    return [
        RootSplit(root, tuple(map(str, part)), image.restricted_to({one.topic for one in part}))
        for part in parts
    ]


def _unknown(root: str, partition: TopicPartition) -> InvalidInputError:
    return InvalidInputError(
        f"{root} has a directory {partition}, but its metadata does not know the partition: it may be one of "
        "several disks of a broker, and the metadata on another. Name all of them with --server-properties "
        "(config=)"
    )


def _opened(
    disks: Sequence[str],
    options: SinkOptions,
    config: BrokerConfig | None,
    due: Collection[TopicPartition],
    *,
    recover: bool,
) -> Store:
    wait_ms = options.lock_timeout_ms
    return open_waiting(disks, wait_ms=wait_ms, config=config, create=False, recover=recover, topics=due)


_MOST_SPLITS = 64


def _run(
    spark: SparkSession,
    work: Callable[[int, Any], list[dict[str, Any]]],
    splits: list[RootSplit],
    schema: pa.Schema,
) -> list[dict[str, Any]]:
    rows = run_job(spark, work, splits, schema)
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], *list(row.values())[2:3]))
