"""What `compact` does with a root or a partition, told through the output.

Ctrl-C is heard between two batches: the segment that is being written is removed, those that were finished
stay, and the log is closed cleanly. A second one ends at once; the next opening finishes or undoes the rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidelog.cleanup.selection import LogToClean
from tidelog.cli.actions.directories import existing_directory, live_partition, parse_settings
from tidelog.cli.actions.find import one_partition
from tidelog.cli.actions.loading import RootOptions
from tidelog.cli.actions.spark_upkeep import compact_on_spark, root_for_spark
from tidelog.cli.errors import FOUND_WRONG, UsageError
from tidelog.cli.interrupts import interruptible
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.units import counted
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.metadata.files import home_of_metadata
from tidelog.manager.upkeep.compacting import (
    Advance,
    Compacted,
    Compaction,
    compact_at_rest,
    compaction_config,
)
from tidelog.manager.upkeep.compaction_plans import plan_at_rest
from tidelog.manager.verification.root import partition_directories
from tidelog.storage import LOCAL
from tidelog.storage.directory import is_partition
from tidelog.storage.files import parent
from tidelog.storage.names import parse_partition_directory
from tidelog.types import TopicPartition

__all__ = ["compact_path"]

_Row = Mapping[str, Any]
"""What became of a log, by the names of `_COMPACTED`."""

_PLANNED = (
    Column("partition", "PARTITION"),
    Column("first_dirty_offset", "FROM", right=True),
    Column("end_offset", "UP TO", right=True),
    Column("segments", "SEGMENTS", right=True, optional=True),
    Column("size_bytes", "BYTES", right=True),
    Column("dirty_bytes", "DIRTY", right=True),
    Column("dirty_ratio", "DIRTY RATIO", right=True),
    Column("error", "ERROR", folds=True),
)
_COMPACTED = (
    Column("partition", "PARTITION"),
    Column("first_dirty_offset", "FROM", right=True, optional=True),
    Column("end_offset", "UP TO", right=True),
    Column("segments_before", "SEGMENTS", right=True, optional=True),
    Column("segments_after", "AFTER", right=True, optional=True),
    Column("bytes_before", "BYTES", right=True),
    Column("bytes_after", "AFTER", right=True),
    Column("records_read", "RECORDS", right=True, optional=True),
    Column("records_kept", "KEPT", right=True, optional=True),
    Column("tombstones_dropped", "TOMBSTONES GONE", right=True, optional=True),
    Column("markers_dropped", "MARKERS GONE", right=True, optional=True),
    Column("keyless_dropped", "KEYLESS GONE", right=True, optional=True),
    Column("rounds", "ROUNDS", right=True, optional=True),
    Column("seconds", "SECONDS", right=True, optional=True),
    Column("error", "ERROR", folds=True),
)


def compact_path(
    path: Path,
    output: Output,
    *,
    topics: Sequence[str],
    dry_run: bool,
    now_ms: int | None,
    from_start: bool,
    settings: Sequence[str],
    master: str | None = None,
    options: RootOptions,
) -> int:
    """Compact a root or partition, with Spark if a master is given, or show what would be; the exit code."""
    if master is not None and settings:
        raise UsageError("--config is not for --spark; what goes follows the topic's own config")
    directory = existing_directory(path) if master is None else root_for_spark(path)
    alone = is_partition(LOCAL, directory)
    if alone and topics:
        raise UsageError(f"--topic is for roots; {directory} is one partition")
    names = [_one(directory)] if alone else _names(directory, topics)
    request = Compaction(
        LOCAL,
        parent(directory) if alone else directory,
        tuple(names),
        time.time_ns() // 1_000_000 if now_ms is None else now_ms,
        from_start=from_start,
        by_name=alone or bool(topics),
        settings=parse_settings(settings),
        defaults=options.broker.topic_defaults,
        metadata=home_of_metadata(LOCAL, options.roots(parent(directory) if alone else directory)),
    )
    if request.by_name:  # what cannot be compacted is refused before anything is changed
        image = request.image()
        for name in names:
            compaction_config(request, parse_partition_directory(name).topic_partition, image)
    if dry_run:  # a matter of names and sizes: nothing for Spark
        return _show(request, output)
    if master is None:
        return _compact(request, output)
    return _compact_on_spark(request, topics, output, master, options.broker)


def _one(directory: str) -> str:
    """The name of a partition's directory; UsageError if it holds no log, or one that is to be deleted."""
    one_partition(Path(directory))
    live_partition(directory)
    return Path(directory).name


def _names(root: str, topics: Sequence[str]) -> list[str]:
    """The partitions of a root that are asked for."""
    found = partition_directories(LOCAL, root)[0]
    missing = set(topics) - {partition.topic for partition in found.values()}
    if missing:
        raise UsageError(f"there is no topic {', '.join(sorted(missing))} in {root}")
    return [name for name, partition in found.items() if not topics or partition.topic in topics]


# ---- doing it


def _compact(request: Compaction, output: Output) -> int:
    @contextmanager
    def observe(partition: TopicPartition, plan: LogToClean) -> Iterator[Advance]:
        # the dirty part is read twice: to map its keys, and to be rewritten
        with output.progress(plan.cleanable_bytes + plan.total_bytes, f"compacting {partition}") as progress:
            yield progress.advance

    with interruptible() as check:
        return _tell(map(_row, compact_at_rest(request, observe=observe, check=check)), request, output)


def _compact_on_spark(
    request: Compaction, topics: Sequence[str], output: Output, master: str, config: BrokerConfig
) -> int:
    found = compact_on_spark(
        request.root,
        master,
        output,
        topics=topics,
        now_ms=request.now_ms,
        from_start=request.from_start,
        config=config,
    )
    return _tell((_job_row(partition, row) for partition, row in found), request, output)


def _tell(rows: Iterable[_Row], request: Compaction, output: Output) -> int:
    """Show what becomes of logs; the exit code."""
    done = failed = before = after = 0

    def cells() -> Iterator[Sequence[Cell]]:
        nonlocal done, failed, before, after
        for row in rows:
            done += 1
            failed += row["error"] is not None
            before += row["bytes_before"]
            after += row["bytes_after"]
            yield [row[column.name] for column in _COMPACTED]

    output.table(_COMPACTED, cells())
    less = f" ({100 * (before - after) / before:.1f} % less)" if before else ""
    output.say(
        f"{counted(done - failed, 'log')} compacted, {failed} failed, "
        f"{len(request.names) - done} left alone; {before} bytes before, {after} after{less}"
    )
    return FOUND_WRONG if failed else 0


def _row(one: Compacted) -> _Row:
    report = one.report
    return {
        "partition": str(one.partition),
        "first_dirty_offset": one.first_dirty_offset,
        "end_offset": one.end_offset,
        "segments_before": one.segments_before,
        "segments_after": one.segments,
        "bytes_before": one.bytes_before,
        "bytes_after": one.size_bytes,
        "records_read": 0 if report is None else report.records_read,
        "records_kept": 0 if report is None else report.stats.records_kept,
        "tombstones_dropped": 0 if report is None else report.stats.tombstones_dropped,
        "markers_dropped": 0 if report is None else report.stats.markers_dropped,
        "keyless_dropped": 0 if report is None else report.stats.keyless,
        "rounds": 0 if report is None else report.rounds,
        "seconds": 0.0 if report is None else round(report.elapsed_s, 3),
        "error": one.error,
    }


def _job_row(partition: TopicPartition, row: _Row) -> _Row:
    """The same of what Spark's job reports; it has one error for all, and raises it."""
    renamed = {"segments_after": row["segments"], "bytes_after": row["bytes"]}
    return {**row, **renamed, "partition": str(partition), "error": None}


# ---- only looking


def _show(request: Compaction, output: Output) -> int:
    logs = size = failed = 0

    def rows() -> Iterator[Sequence[Cell]]:
        nonlocal logs, size, failed
        for one in plan_at_rest(request):
            plan = one.plan
            failed += one.error is not None
            if plan is not None and plan.cleanable_bytes:
                logs += 1
                size += plan.total_bytes
            yield (
                str(one.partition),
                0 if plan is None else plan.first_dirty_offset,
                one.end_offset,
                one.segments,
                one.size_bytes,
                0 if plan is None else plan.cleanable_bytes,
                0.0 if plan is None else round(plan.cleanable_ratio, 3),
                one.error,
            )

    output.table(_PLANNED, rows())
    failing = f", {failed} would fail" if failed else ""
    output.say(f"{counted(logs, 'log')} would be compacted{failing}, {size} bytes rewritten")
    return FOUND_WRONG if failed else 0
