"""A range of one partition's offsets -> scan tasks.

What a partition's directory says (segments, indexes, aborted transactions) is read here, on the planning
side; the tasks carry all that running them needs. Aborted transactions are told to the tasks by segment: a
segment's first offset is its file's name, which damage to an index cannot change.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import numpy as np

from tidelog.errors import DataLossError
from tidelog.scanning.log_end import aborted_transactions
from tidelog.scanning.partitions import Partition, SegmentFacts
from tidelog.scanning.plan import DEFAULT_SPLIT_BYTES, Int64s, plan_stretches
from tidelog.scanning.tasks import Aborted, ScanTask
from tidelog.storage.names import FileKind, format_segment_file
from tidelog.types import FetchIsolation

__all__ = [
    "OffsetRange",
    "check_replaced",
    "is_committed",
    "missing_tasks",
    "plan_range",
    "range_bytes",
    "replaced_within",
    "replaced_words",
]

_NO_END = (1 << 63) - 1
_NO_SPLIT = 1 << 62


def is_committed(isolation: str) -> bool:
    """Whether an isolation level, in Kafka's words, is that of committed reads."""
    return FetchIsolation(isolation) is FetchIsolation.TXN_COMMITTED


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets [start, end) of a partition."""

    partition: Partition
    start: int
    end: int

    def __len__(self) -> int:
        """How many offsets."""
        return max(self.end - self.start, 0)

    def last(self, count: int) -> OffsetRange:
        """The last `count` offsets of it, or all if there are fewer."""
        return OffsetRange(self.partition, max(self.end - count, self.start), self.end)


def replaced_within(wanted: OffsetRange) -> list[int]:
    """The base offsets of the segments of a range that a crash left half replaced, which readers do not see.

    In the middle of a log such a segment looks like a gap that compaction left, at its beginning like a
    later log start, so a range that begins just behind it may be meant to begin in it.
    """
    bases = [
        segment.base_offset for segment in wanted.partition.segments
    ]  # listed before `unfinished` is asked
    found = []
    for base in wanted.partition.unfinished:
        at = bisect.bisect_right(bases, base)
        if base < wanted.end and (at == len(bases) or wanted.start <= bases[at]):
            found.append(base)
    return found


def check_replaced(wanted: OffsetRange) -> None:
    """Raise DataLossError if a range has segments that a crash left half replaced."""
    for base in replaced_within(wanted):
        raise DataLossError(replaced_words(wanted.partition, base))


def replaced_words(partition: Partition, base: int) -> str:
    """What to say of a segment that a crash left half replaced."""
    return (
        f"replacing the segment at offset {base} of {partition.url} was cut short, and what it holds "
        "is not seen: tidelog recover finishes it"
    )


def plan_range(
    wanted: OffsetRange,
    *,
    committed_only: bool = False,
    with_control: bool = True,
    split_bytes: int = DEFAULT_SPLIT_BYTES,
    with_missing: bool = False,
) -> list[ScanTask]:
    """The tasks that together read a range, in offset order, each about `split_bytes` long.

    `with_missing` adds a task for each log file that is known to be missing. Salvaging such a task
    reports the loss.
    """
    partition, start, end = wanted.partition, wanted.start, wanted.end
    if start >= end:
        return []
    topic_id = partition.topic_id  # before its files are listed, if they have not been
    known = aborted_transactions(partition, start, end) if committed_only else ()
    aborted = tuple(Aborted(txn.producer_id, txn.first_offset, txn.last_offset) for txn in known)
    shares = _by_segment(partition, aborted)
    name = partition.topic_partition
    tasks = [
        ScanTask(
            url=partition.url,
            log_name=stretch.segment.log_name,
            topic=name.topic,
            partition=name.partition,
            start_position=stretch.start,
            end_position=stretch.end,
            start_offset=start,
            end_offset=end,
            is_tail=stretch.is_last,
            committed_only=committed_only,
            aborted=shares.get(stretch.segment.base_offset, ()),
            with_control=with_control,
            first_last_offset=stretch.first_last_offset,
            next_base=stretch.next_base,
            topic_id=topic_id,
        )
        for stretch in plan_stretches(
            partition.segments, start, end, lambda segment: _entries(partition, segment), split_bytes
        )
    ]
    missing = missing_tasks(partition, start, end) if with_missing else []
    return sorted([*tasks, *missing], key=lambda task: task.log_name) if missing else tasks


def missing_tasks(partition: Partition, start: int = 0, end: int = _NO_END) -> list[ScanTask]:
    """Tasks for the log files that are missing."""
    name = partition.topic_partition
    bases = [segment.base_offset for segment in partition.segments]
    found = []
    for base in sorted({*partition.missing_logs, *partition.unfinished}):
        at = bisect.bisect_right(bases, base)
        next_base = bases[at] if at < len(bases) else _NO_END
        # A range from the log's start begins behind a first segment that was being replaced.
        first = base if base in partition.unfinished and next_base == start else start
        if base < end and next_base > first:
            found.append(
                ScanTask(
                    partition.url,
                    format_segment_file(base, FileKind.LOG),
                    name.topic,
                    name.partition,
                    0,
                    0,
                    first,
                    end,
                    next_base=next_base,
                )
            )
    return found


def range_bytes(wanted: OffsetRange) -> int:
    """About how many bytes a range takes on disk, as near as the indexes tell."""
    return sum(task.size for task in plan_range(wanted, split_bytes=_NO_SPLIT))


def _entries(partition: Partition, segment: SegmentFacts) -> tuple[Int64s, Int64s]:
    return partition.offset_index(segment).entries_array()


def _by_segment(partition: Partition, aborted: tuple[Aborted, ...]) -> dict[int, tuple[Aborted, ...]]:
    """For each segment's base offset the aborted transactions that reach into it."""
    if not aborted:
        return {}
    firsts = np.array([txn.first_offset for txn in aborted], np.int64)
    lasts = np.array([txn.last_offset for txn in aborted], np.int64)
    bases = [segment.base_offset for segment in partition.segments]
    ends = [*bases[1:], _NO_END]
    return {
        base: tuple(aborted[i] for i in np.flatnonzero((firsts < end) & (lasts >= base)).tolist())
        for base, end in zip(bases, ends, strict=True)
    }
