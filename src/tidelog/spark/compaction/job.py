"""`compact`: the compacted topics of a root, by many tasks, swapped in by the driver under the lock.

1. The driver opens the root, rolls what has to be rolled and plans each partition as `tidelog compact` does.
2. Partitions that are no larger than a task's share are compacted whole, in one job (`whole`). Of
   a larger one the two passes are done by many tasks, in three jobs a round (`passes`).
3. Tasks write into a staging directory beside the root. The driver links each new segment into the partition
   as `.cleaned` and has the log put it in the place of those it stands for, oldest first; then the cleaner's
   checkpoint moves.

So the result is that of the local command. A job that dies leaves the logs unchanged, or with some groups of
segments compacted. A task needs memory for its map of keys and a run of batches.
"""

from __future__ import annotations

import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.cleanup.cleaner import CleanReport, clean_log
from tidelog.cleanup.selection import LogToClean, facts_of, plan_cleaning
from tidelog.errors import DataLossError, InvalidInputError, LogError, TidelogError
from tidelog.layout.roots import Checkpoint
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.metadata.files import home_of_metadata
from tidelog.manager.publishing.committing import sweep_staging
from tidelog.manager.publishing.waiting import open_waiting
from tidelog.manager.store.partition import Partition
from tidelog.manager.store.store import Store
from tidelog.manager.upkeep.compacting import Compaction
from tidelog.manager.upkeep.compaction_plans import plan_at_rest
from tidelog.manager.verification.root import partition_directories
from tidelog.spark.compaction.passes import DistributedPasses
from tidelog.spark.compaction.staged_segments import sweep
from tidelog.spark.compaction.whole import WholeDone, WholeSplit, WholeWork, put_in_place
from tidelog.spark.runtime.jobs import (
    Bin,
    pack,
    parallelism,
    report_frame,
    run_job,
    share_bytes,
    share_on,
)
from tidelog.spark.sink.options import SinkOptions
from tidelog.spark.sink.writing import begin_staging
from tidelog.storage import LOCAL
from tidelog.storage.processes import owner
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["COMPACT_SCHEMA", "cleanable", "compact", "whole_tasks"]

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
        pa.field("tombstones_dropped", pa.int64()),
        pa.field("markers_dropped", pa.int64()),
        pa.field("keyless_dropped", pa.int64()),
        pa.field("rounds", pa.int64()),
        pa.field("seconds", pa.float64()),
    ]
)
"""A row for each partition that was dirty; in a dry run what comes out is not known, and null."""

_ANSWERS = pa.schema([pa.field("number", pa.int64()), pa.field("answer", pa.binary())])
_STAGED = "compact@"
"""What its directories' names begin with, and no write's: so under the lock all others are of dead runs."""
_DEDUPE_BYTES = 128 << 20
_LOAD_FACTOR = 0.9
_MIN_SHARE_BYTES = 256 << 20
_MOST_AT_ONCE = 16


def compact(
    spark: SparkSession,
    root: str | Path,
    *,
    topics: Iterable[str] | None = None,
    now_ms: int | None = None,
    from_start: bool = False,
    dry_run: bool = False,
    dedupe_bytes: int = _DEDUPE_BYTES,
    max_bytes_per_task: int | None = None,
    report: Callable[[int, int], None] | None = None,
    config: BrokerConfig | None = None,
    recover: bool = False,
) -> DataFrame:
    """Compact the compacted topics of a root, or the named ones, as `tidelog compact` does; see
    COMPACT_SCHEMA.

    `now_ms` is the time for tombstones and lags. `dedupe_bytes` is the memory of each task's map of keys. A
    partition larger than `max_bytes_per_task` is compacted by several tasks; by default, a partition that
    would keep one core busy for longer than all others together. The root is locked during the job; the
    staging directory beside it needs room for the result. `config` is the broker's configuration, whose
    defaults topics have, and whose `log.dirs` say where the metadata is if the root has none. A root that was
    not closed cleanly is refused unless `recover` is set.
    """
    options = SinkOptions.parse({"path": str(root)})
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    if dry_run:
        rows = cleanable(options.roots, topics, now, from_start=from_start, config=config)
        return report_frame(spark, rows, COMPACT_SCHEMA)
    disks = (config or BrokerConfig()).disks_of(options.roots)
    staging = Path(options.staging, f"{_STAGED}{uuid.uuid4().hex}")
    try:
        with open_waiting(
            disks, wait_ms=options.lock_timeout_ms, config=config, create=False, recover=recover
        ) as store:
            sweep_staging(options.staging, prefix=_STAGED, root=options.roots[0])
            chosen = []
            for partition in _selected(store, options.roots[0], topics):
                size, segments = partition.log.size, len(partition.log.segments)
                plan = _planned(partition, now, from_start)
                if plan.cleanable_bytes:
                    chosen.append(_Chosen(partition, plan, now, size, segments))
            begin_staging(str(staging), owner())
            job = _Job(spark, staging, dedupe_bytes, max_bytes_per_task, report)
            rows = job.run(chosen)
    finally:
        sweep(staging)
    return report_frame(spark, rows, COMPACT_SCHEMA)


def _selected(store: Store, root: str, topics: Iterable[str] | None) -> list[Partition]:
    """The partitions of a root to compact; the other disks of the store are open for their metadata only."""
    named = None if topics is None else set(topics)

    def is_here(one: Partition) -> bool:
        return one.root is not None and one.root.path == root

    for topic in named or ():
        of_topic = [one for one in store.topic(topic) if is_here(one)]
        if not all(one.log.config.compact for one in of_topic):
            policy = ",".join(of_topic[0].log.config.cleanup_policy)
            raise InvalidInputError(f"topic {topic} is not compacted but has cleanup.policy={policy}")
    return [
        one
        for one in store.partitions
        if (named is None or one.topic_partition.topic in named) and is_here(one) and one.log.config.compact
    ]


def cleanable(
    roots: Iterable[str],
    topics: Iterable[str] | None,
    now_ms: int,
    *,
    from_start: bool,
    config: BrokerConfig | None = None,
) -> list[dict[str, Any]]:
    """What a run would compact. The roots are not changed or locked."""
    named = None if topics is None else set(topics)
    broker = config or BrokerConfig()
    found = {root: partition_directories(LOCAL, root)[0] for root in roots}
    there = {name.topic for names in found.values() for name in names.values()}
    if named is not None and named - there:
        raise InvalidInputError(f"there is no topic {', '.join(sorted(named - there))} in {', '.join(found)}")
    rows = []
    for root, partitions in found.items():
        request = Compaction(
            LOCAL,
            root,
            tuple(path for path, name in partitions.items() if named is None or name.topic in named),
            now_ms,
            from_start=from_start,
            by_name=named is not None,
            defaults=broker.topic_defaults,
            metadata=home_of_metadata(LOCAL, broker.disks_of([root])),
        )
        for one in plan_at_rest(request):
            if one.plan is None:
                raise LogError(f"{root}: {one.partition}: {one.error}")
            if one.plan.cleanable_bytes:
                rows.append(_plan_row(one.partition, one.plan, one.size_bytes, one.segments))
    return rows


def _plan_row(name: TopicPartition, plan: LogToClean, size: int, segments: int) -> dict[str, Any]:
    """What is known of a log before it is compacted."""
    return {
        "topic": name.topic,
        "partition": name.partition,
        "first_dirty_offset": plan.first_dirty_offset,
        "end_offset": plan.first_uncleanable_offset,
        "segments_before": segments,
        "bytes_before": size,
    }


def _planned(partition: Partition, now_ms: int, from_start: bool) -> LogToClean:
    """What there is to clean after a roll, which brings all that is stable into sealed segments."""
    log = partition.log
    if facts_of(log).gains_by_a_roll:
        log.roll()
    partition.flush()
    root = partition.root
    known = {} if root is None or from_start else root.checkpoints[Checkpoint.CLEANED]
    return plan_cleaning(facts_of(log), known.get(partition.topic_partition), now_ms)


class _Chosen:
    """A partition that has something to clean."""

    def __init__(self, partition: Partition, plan: LogToClean, now_ms: int, size: int, segments: int) -> None:
        """`size` is the bytes of its log and `segments` their number, both before it was rolled."""
        self.partition = partition
        self.plan = plan
        self.now_ms = now_ms
        self.size = size
        self._segments = segments

    def row(self, report: CleanReport) -> dict[str, Any]:
        """What is reported of it."""
        log = self.partition.log
        row = _plan_row(self.partition.topic_partition, self.plan, self.size, self._segments)
        return row | {
            "end_offset": report.end_offset,
            "segments": len(log.segments),
            "bytes": log.size,
            "records_read": report.records_read,
            "records_kept": report.stats.records_kept,
            "tombstones_dropped": report.stats.tombstones_dropped,
            "markers_dropped": report.stats.markers_dropped,
            "keyless_dropped": report.stats.keyless,
            "rounds": report.rounds,
            "seconds": round(report.elapsed_s, 3),
        }

    def whole(self) -> WholeSplit:
        """For a task that compacts all of it."""
        log = self.partition.log
        log.take_producer_snapshot()
        return WholeSplit(
            log.path,
            log.config.overrides(),
            log.log_start_offset,
            log.high_watermark,
            self.plan.first_dirty_offset,
            self.plan.first_uncleanable_offset,
            log.segments.last.base_offset,
            self.now_ms,
            self.size,
        )


class _Job:
    """Runs the jobs of one compaction."""

    def __init__(
        self,
        spark: SparkSession,
        staging: Path,
        dedupe_bytes: int,
        max_bytes_per_task: int | None,
        report: Callable[[int, int], None] | None,
    ) -> None:
        self._spark = spark
        self._staging = staging
        self._dedupe_bytes = dedupe_bytes
        self._most = max_bytes_per_task
        self._report = report
        self._lock = threading.Lock()
        self._done = self._total = 0

    def run(self, chosen: Sequence[_Chosen]) -> list[dict[str, Any]]:
        """Compact them all; a row each, in their order."""
        total = sum(one.size for one in chosen)
        share = self._most or max(_MIN_SHARE_BYTES, total // parallelism(self._spark))
        whole = [one for one in chosen if one.size <= share]
        large = [one for one in chosen if one.size > share]
        self._total = total + sum(one.size for one in large)
        rows = self._compact_whole(whole)
        if large:
            part = self._most or share_bytes(self._spark, sum(one.size for one in large))
            with ThreadPoolExecutor(min(len(large), _MOST_AT_ONCE)) as threads:
                futures = [threads.submit(self._compact_large, one, part) for one in large]
            rows += _results(futures)
        if self._report is not None:
            self._report(self._total, self._total)
        return sorted(rows, key=lambda row: (row["topic"], row["partition"]))

    def _compact_whole(self, chosen: Sequence[_Chosen]) -> list[dict[str, Any]]:
        splits = [one.whole() for one in chosen]
        tasks = whole_tasks(splits, parallelism(self._spark), self._most)
        work = WholeWork(str(self._staging), self._dedupe_bytes, _LOAD_FACTOR)
        answers: list[list[WholeDone]] = self._tasks(work, tasks)
        rows = []
        for one, done in zip(chosen, (done for answer in answers for done in answer), strict=True):
            put_in_place(one.partition, Path(done.staged))
            self._checkpoint(one.partition, done.report.end_offset)
            rows.append(one.row(done.report))
        return rows

    def _compact_large(self, one: _Chosen, share: int) -> dict[str, Any]:
        log = one.partition.log
        passes = DistributedPasses(
            self._tasks,
            self._staging / str(one.partition.topic_partition),
            share_bytes=share,
            dedupe_bytes=self._dedupe_bytes,
            load_factor=_LOAD_FACTOR,
            gate=one.partition.gate,
        )
        report = clean_log(
            log,
            passes,
            first_dirty_offset=one.plan.first_dirty_offset,
            upper_bound=one.plan.first_uncleanable_offset,
            now_ms=one.now_ms,
            checkpoint=lambda end: self._checkpoint(one.partition, end),
        )
        return one.row(report)

    def _checkpoint(self, partition: Partition, end_offset: int) -> None:
        root, name = partition.root, partition.topic_partition
        if root is not None:
            root.add_to_checkpoint(Checkpoint.CLEANED, {name: end_offset})

    def _tasks(self, work: Callable[[int, Any], Any], splits: Sequence[Any]) -> list[Any]:
        """What tasks answer for each split, in order."""
        before = 0

        def tell(done: int, _: int) -> None:
            nonlocal before
            with self._lock:
                self._done += done - before
                before = done
            if self._report is not None:
                self._report(min(self._done, self._total), self._total)

        report = None if self._report is None else tell
        rows = run_job(self._spark, _Answering(work), splits, _ANSWERS, report)
        answers = {row["number"]: row["answer"] for row in rows}
        if len(rows) != len(splits) or len(answers) != len(splits):
            raise DataLossError(f"Spark answered {len(rows)} times for {len(splits)} splits")
        return [pickle.loads(answers[number]) for number in range(len(splits))]


def whole_tasks(
    splits: Sequence[WholeSplit], cores: int, max_bytes_per_task: int | None = None
) -> list[Bin[WholeSplit]]:
    """Partitions that are compacted whole, shared out among tasks."""
    share = share_on(cores, sum(one.size for one in splits))
    return pack(splits, min(max_bytes_per_task or _MIN_SHARE_BYTES, share))


def _results(futures: Sequence[Future[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What threads found; or an error of ours rather than one of Spark's.

    Spark may hand the worker of a failed task, which is about to end, to another job's task: so the error of
    one partition can come with others that only say that a worker has ended.
    """
    errors = [error for future in futures if (error := future.exception()) is not None]
    for error in errors:
        if isinstance(error, TidelogError):
            raise error
    return [future.result() for future in futures]


@dataclass(frozen=True, slots=True)
class _Answering:
    """A work whose answers are objects of ours, pickled."""

    work: Callable[[int, Any], Any]

    def __call__(self, number: int, split: Any) -> list[dict[str, Any]]:
        """The answer in a row."""
        return [{"number": number, "answer": pickle.dumps(self.work(number, split))}]
