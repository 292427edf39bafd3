"""A range of one partition's offsets -> scan tasks.

What a partition's directory says (segments, indexes, aborted transactions) is read here, on the planning
side; the tasks carry all that running them needs. Aborted transactions are told to the tasks by segment: a
segment's first offset is its file's name, which damage to an index cannot change.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import numpy as np

from tidelog.scanning.partitions import Partition, SegmentFacts
from tidelog.scanning.plan import DEFAULT_SPLIT_BYTES, Int64s, plan_stretches
from tidelog.scanning.stability import aborted_transactions
from tidelog.scanning.tasks import Aborted, ScanTask
from tidelog.storage.names import FileKind, format_segment_file
from tidelog.types import FetchIsolation

__all__ = ["OffsetRange", "is_committed", "missing_tasks", "plan_range", "range_bytes"]

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


def plan_range(
    wanted: OffsetRange,
    *,
    committed_only: bool = False,
    with_control: bool = True,
    split_bytes: int = DEFAULT_SPLIT_BYTES,
    with_missing: bool = False,
) -> list[ScanTask]:
    """The tasks that together read a range, in offset order, each about `split_bytes` long.

    `with_missing` adds a task for each log file that is known to be missing: to salvage it is to tell of it.
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
    for base in partition.missing_logs:
        at = bisect.bisect_right(bases, base)
        next_base = bases[at] if at < len(bases) else _NO_END
        if base < end and next_base > start:
            found.append(
                ScanTask(
                    partition.url,
                    format_segment_file(base, FileKind.LOG),
                    name.topic,
                    name.partition,
                    0,
                    0,
                    start,
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
