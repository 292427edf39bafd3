"""`compact`: the compacted topics of a root, a partition a task, swapped in by the driver under the lock.

1. The driver opens the root, rolls what has to be rolled and plans each partition as `tidelog compact` does.
2. A task works on a copy of its partition outside of the root: sealed segments are hard links (they are never
   written), the rest is copied. The cleaner runs there as it is. A task that runs again makes another copy.
3. The driver links each new segment into the partition as `.cleaned` and has the log put it in the place of
   those it stands for, group by group, oldest first; then the cleaner's checkpoint moves.

So what comes out is what the local command leaves, and a job that dies leaves the logs as they were, or with
some partitions compacted.
"""

from __future__ import annotations

import errno
import shutil
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.cleanup.choice import LogToClean, facts_of, plan_cleaning
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.cleanup.splitting import clean_splitting
from tidelog.config import LogConfig
from tidelog.errors import DataLossError, InvalidInputError
from tidelog.log import Log
from tidelog.manager.partition import Partition
from tidelog.manager.publishing.waiting import open_waiting
from tidelog.manager.root import Checkpoint
from tidelog.manager.store import Store
from tidelog.segment import SealedSegment
from tidelog.spark.jobs import report_frame, run_job
from tidelog.spark.sink_options import SinkOptions
from tidelog.storage import LOCAL
from tidelog.storage.names import FileKind, Transient, format_segment_file, parse_segment_file
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["COMPACT_SCHEMA", "compact"]

COMPACT_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("first_dirty_offset", pa.int64()),
        pa.field("end_offset", pa.int64()),
        pa.field("segments_before", pa.int64()),
        pa.field("segments", pa.int64()),
        pa.field("bytes_before", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("records_read", pa.int64()),
        pa.field("records_kept", pa.int64()),
    ]
)
"""A row for each partition that was dirty; in a dry run what comes out is not known, and null."""

_REPORT = pa.schema([*COMPACT_SCHEMA, pa.field("staged", pa.string())])
_FILES = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
_CANNOT_LINK = (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK)
_DEDUPE_BYTES = 128 << 20
_LOAD_FACTOR = 0.9


@dataclass(frozen=True, slots=True)
class CompactSplit:
    """A partition to be compacted, as a task needs to know it."""

    directory: str
    partition: TopicPartition
    config: Mapping[str, str]
    log_start_offset: int
    high_watermark: int
    first_dirty_offset: int
    upper_bound: int
    active_base_offset: int
    now_ms: int
    size: int


@dataclass(frozen=True, slots=True)
class CompactWork:
    """What a task does: compacts a copy."""

    staging: str
    dedupe_bytes: int

    def __call__(self, number: int, split: CompactSplit) -> list[dict[str, Any]]:
        """Compact a partition's copy; its report, with where the copy is."""
        copy = Path(self.staging, f"{number:06}-{uuid.uuid4().hex}", str(split.partition))
        copy.mkdir(parents=True)
        _copy(Path(split.directory), copy, split.active_base_offset)
        log = Log.open(
            copy,
            LogConfig.from_properties(split.config),
            clean=True,
            log_start_offset=split.log_start_offset,
            high_watermark=split.high_watermark,
        )
        with log:
            before, size = len(log.segments), log.size
            report = clean_splitting(
                log,
                OffsetMap(self.dedupe_bytes, _LOAD_FACTOR),
                first_dirty_offset=split.first_dirty_offset,
                upper_bound=split.upper_bound,
                now_ms=split.now_ms,
            )
            return [
                {
                    "topic": split.partition.topic,
                    "partition": split.partition.partition,
                    "first_dirty_offset": split.first_dirty_offset,
                    "end_offset": report.end_offset,
                    "segments_before": before,
                    "segments": len(log.segments),
                    "bytes_before": size,
                    "bytes": log.size,
                    "records_read": report.records_read,
                    "records_kept": report.stats.records_kept,
                    "staged": str(copy),
                }
            ]


def _copy(source: Path, target: Path, active_base_offset: int) -> None:
    """A partition's files: links to those of sealed segments, copies of all others."""
    for path in source.iterdir():
        file = parse_segment_file(path.name)
        if file is not None and file.transient is not Transient.NONE:
            continue
        if file is not None and file.kind in _FILES and file.offset < active_base_offset:
            _bring(path, target / path.name)
        elif file is not None and file.kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            (target / path.name).touch()  # of the segment that is being written: preallocated; made anew
        elif path.is_file():
            shutil.copy2(path, target / path.name)


def _bring(source: Path, target: Path) -> None:
    """A link to a file, or where there can be none a copy on the disk."""
    try:
        target.hardlink_to(source)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        shutil.copy2(source, target)
        file = LOCAL.open(target, writable=True)
        try:
            file.sync()
        finally:
            file.close()


def compact(
    spark: SparkSession,
    root: str | Path,
    *,
    topics: Iterable[str] | None = None,
    now_ms: int | None = None,
    from_start: bool = False,
    dry_run: bool = False,
    dedupe_bytes: int = _DEDUPE_BYTES,
    report: Callable[[int, int], None] | None = None,
) -> DataFrame:
    """Compact the compacted topics of a root (or those named), as `tidelog compact` does; see COMPACT_SCHEMA.

    `now_ms` judges tombstones and lags, `dedupe_bytes` is the memory of each task's map of keys. The root is
    held meanwhile; the staging beside it needs room for what comes out.
    """
    options = SinkOptions.parse({"path": str(root)})
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    staging = Path(options.staging, f"compact-{uuid.uuid4().hex}")
    with open_waiting(options.roots, wait_ms=options.lock_timeout_ms) as store:
        splits = []
        for partition in _selected(store, topics):
            plan = _planned(partition, now, from_start, roll=not dry_run)
            if plan.cleanable_bytes:
                splits.append(_split(partition, plan, now))
        if dry_run:
            return _frame(spark, [_row_of(store, split) for split in splits])
        staging.mkdir(parents=True)
        try:
            rows = run_job(spark, CompactWork(str(staging), dedupe_bytes), splits, _REPORT, report)
            if len(rows) != len(splits):
                raise DataLossError(f"Spark answered {len(rows)} reports for {len(splits)} partitions")
            for row in rows:
                _swap_in(store.partition(row["topic"], row["partition"]), row)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return _frame(spark, rows)


def _selected(store: Store, topics: Iterable[str] | None) -> list[Partition]:
    named = None if topics is None else set(topics)
    for topic in named or ():
        if not all(one.log.config.compact for one in store.topic(topic)):
            policy = ",".join(store.partition(topic).log.config.cleanup_policy)
            raise InvalidInputError(f"topic {topic} is not compacted but has cleanup.policy={policy}")
    return [
        partition
        for partition in store
        if (named is None or partition.topic_partition.topic in named) and partition.log.config.compact
    ]


def _planned(partition: Partition, now_ms: int, from_start: bool, *, roll: bool) -> LogToClean:
    """What there is to clean, after a roll that brings all that is stable into sealed segments."""
    log = partition.log
    last = log.segments.last
    if roll and last.size and log.last_stable_offset > last.base_offset:
        log.roll()
    partition.flush()
    root = partition.root
    known = {} if root is None or from_start else root.checkpoints[Checkpoint.CLEANED]
    return plan_cleaning(facts_of(log), known.get(partition.topic_partition), now_ms)


def _split(partition: Partition, plan: LogToClean, now_ms: int) -> CompactSplit:
    log = partition.log
    log.take_producer_snapshot()
    return CompactSplit(
        log.path,
        partition.topic_partition,
        log.config.overrides(),
        log.log_start_offset,
        log.high_watermark,
        plan.first_dirty_offset,
        plan.first_uncleanable_offset,
        log.segments.last.base_offset,
        now_ms,
        log.size,
    )


def _swap_in(partition: Partition, row: Mapping[str, Any]) -> None:
    """Put a task's segments in the place of those that they stand for; the cleaner's checkpoint moves."""
    log, staged = partition.log, Path(row["staged"])
    live = Path(log.path)
    active = log.segments.last.base_offset
    new = sorted(
        file.offset
        for path in staged.iterdir()
        if (file := parse_segment_file(path.name)) is not None
        and (file.kind, file.transient) == (FileKind.LOG, Transient.NONE)
        and file.offset < active
        and not _is_same(path, live / path.name)
    )
    bounds = [*new[1:], max(int(row["end_offset"]), *new) if new else 0]
    for base, end in zip(new, bounds, strict=True):
        old = [one for one in log.segments if base <= one.base_offset < max(end, base + 1)]
        for kind in _FILES:
            made = live / format_segment_file(base, kind, Transient.CLEANED)
            made.unlink(missing_ok=True)
            if (staged / format_segment_file(base, kind)).exists():
                _bring(staged / format_segment_file(base, kind), made)
        with partition.gate:
            log.directory.sync()
            cleaned = SealedSegment.open(log.directory, base, transient=Transient.CLEANED)
            log.replace_segments([cleaned], old)
    if partition.root is not None:
        name = partition.topic_partition
        known = partition.root.checkpoints[Checkpoint.CLEANED]
        partition.root.write_checkpoint(Checkpoint.CLEANED, {**known, name: int(row["end_offset"])})


def _is_same(one: Path, two: Path) -> bool:
    return two.exists() and one.samefile(two)


def _row_of(store: Store, split: CompactSplit) -> dict[str, Any]:
    log = store.partition(split.partition.topic, split.partition.partition).log
    return {
        "topic": split.partition.topic,
        "partition": split.partition.partition,
        "first_dirty_offset": split.first_dirty_offset,
        "end_offset": split.upper_bound,
        "segments_before": len(log.segments),
        "bytes_before": log.size,
    }


def _frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    kept = [{name: row.get(name) for name in COMPACT_SCHEMA.names} for row in rows]
    kept.sort(key=lambda row: (row["topic"], row["partition"]))
    return report_frame(spark, kept, COMPACT_SCHEMA)
