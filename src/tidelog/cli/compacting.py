"""What `compact` does with a root or a partition, told through the output.

Ctrl-C is heard between two batches: the segment that is being written is removed, those that were finished
stay, and the log is closed in order. A second one ends at once; the next opening finishes or undoes the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tidelog.cleanup.choice import LogFacts, LogToClean, plan_cleaning, when_rolled
from tidelog.cli.checking import existing_directory, parse_settings
from tidelog.cli.errors import FOUND_WRONG, UsageError
from tidelog.cli.finding import one_partition, view_at_rest
from tidelog.cli.interrupts import interruptible
from tidelog.cli.onspark import compact_on_spark
from tidelog.cli.output import Cell, Column, Output
from tidelog.config import LogConfig
from tidelog.manager.compacting import Advance, Compacted, Compaction, compact_at_rest, compaction_config
from tidelog.manager.metadata.files import read_cluster_metadata
from tidelog.manager.metadata.image import MetadataImage
from tidelog.manager.recovery import is_partition
from tidelog.manager.root import Checkpoint
from tidelog.manager.verification.root import partition_directories
from tidelog.storage import LOCAL, read_offset_checkpoint
from tidelog.storage.files import parent
from tidelog.storage.names import META_PROPERTIES_FILE, DirectoryState, parse_partition_directory
from tidelog.types import TopicPartition

__all__ = ["compact_path"]

_PLANNED = (
    Column("partition", "PARTITION"),
    Column("first_dirty_offset", "FROM", right=True),
    Column("end_offset", "UP TO", right=True),
    Column("segments", "SEGMENTS", right=True, optional=True),
    Column("size_bytes", "BYTES", right=True),
    Column("dirty_bytes", "DIRTY", right=True),
    Column("dirty_ratio", "DIRTY RATIO", right=True),
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
    Column("error", "ERROR"),
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
) -> int:
    """Compact a root or partition, with Spark if a master is given, or show what would be; the exit code."""
    directory = existing_directory(path)
    if master is not None:
        if settings:
            raise UsageError("--config is not for --spark; what goes follows the topic's own config")
        compact_on_spark(
            directory, master, output, topics=topics, dry_run=dry_run, now_ms=now_ms, from_start=from_start
        )
        return 0
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
    )
    image = read_cluster_metadata(LOCAL, request.root).image
    for name in names if request.by_name else ():  # before anything is changed
        compaction_config(request, parse_partition_directory(name).topic_partition, image)
    return _show(request, output, image) if dry_run else _compact(request, output)


def _one(directory: str) -> str:
    """The name of a partition's directory; UsageError where it holds no log, or one that is to be deleted."""
    one_partition(Path(directory))
    name = Path(directory).name
    if parse_partition_directory(name).state is not DirectoryState.LIVE:
        raise UsageError(
            f"{directory} is not in use: its name says that it is to be deleted or was set aside"
        )
    return name


def _names(root: str, topics: Sequence[str]) -> list[str]:
    """The partitions of a root that are asked for."""
    found = partition_directories(LOCAL, root)[0]
    if not found and not LOCAL.exists(f"{root}/{META_PROPERTIES_FILE}"):
        raise UsageError(
            f"{root} is neither a partition's directory, <topic>-<partition>, nor a root that holds any"
        )
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

    done: list[Compacted] = []

    def rows(check: Callable[[], None]) -> Iterator[Sequence[Cell]]:
        for one in compact_at_rest(request, observe=observe, check=check):
            done.append(one)
            yield _row(one)

    with interruptible() as check:
        output.table(_COMPACTED, rows(check))
    failed = sum(one.error is not None for one in done)
    before, after = sum(one.bytes_before for one in done), sum(one.size_bytes for one in done)
    less = f" ({100 * (before - after) / before:.1f} % less)" if before else ""
    skipped = len(request.names) - len(done)
    output.say(
        f"{len(done) - failed} logs compacted, {failed} failed, {skipped} left alone; "
        f"{before} bytes before, {after} after{less}"
    )
    return FOUND_WRONG if failed else 0


def _row(one: Compacted) -> Sequence[Cell]:
    report = one.report
    return (
        str(one.partition),
        one.first_dirty_offset,
        one.end_offset,
        one.segments_before,
        one.segments,
        one.bytes_before,
        one.size_bytes,
        0 if report is None else report.records_read,
        0 if report is None else report.stats.records_kept,
        0 if report is None else report.stats.tombstones_dropped,
        0 if report is None else report.stats.markers_dropped,
        0 if report is None else report.stats.keyless,
        0 if report is None else report.rounds,
        0.0 if report is None else round(report.elapsed_s, 3),
        one.error,
    )


# ---- only looking


def _show(request: Compaction, output: Output, image: MetadataImage) -> int:
    read = [0, 0]

    def rows() -> Iterator[Sequence[Cell]]:
        for name in request.names:
            partition = parse_partition_directory(name).topic_partition
            config = compaction_config(request, partition, image)
            if config is None:
                continue
            facts, checkpoint = _facts(request, name, config)
            plan = plan_cleaning(facts, checkpoint, request.now_ms)
            if plan.cleanable_bytes:
                read[0] += 1
                read[1] += plan.total_bytes
            yield (
                str(partition),
                plan.first_dirty_offset,
                max(plan.first_uncleanable_offset, plan.first_dirty_offset),
                sum(segment.size > 0 for segment in facts.segments),
                sum(segment.size for segment in facts.segments),
                plan.cleanable_bytes,
                round(plan.cleanable_ratio, 3),
            )

    output.table(_PLANNED, rows())
    output.say(f"{read[0]} logs would be compacted, {read[1]} bytes rewritten")
    return 0


def _facts(request: Compaction, name: str, config: LogConfig) -> tuple[LogFacts, int | None]:
    """A log as it would be when its active segment is rolled, and the cleaner's checkpoint."""
    partition = parse_partition_directory(name).topic_partition
    segments, offsets = view_at_rest(one_partition(Path(request.root, name)))
    end = offsets.log_end.message_offset
    marks, cleaned = (
        read_offset_checkpoint(request.fs, f"{request.root}/{kind.value}")
        for kind in (Checkpoint.HIGH_WATERMARKS, Checkpoint.CLEANED)
    )
    stable = min(offsets.last_stable_offset, marks.get(partition, end))
    facts = when_rolled(LogFacts(tuple(segments), config, offsets.log_start, stable, end))
    return facts, None if request.from_start else cleaned.get(partition)
