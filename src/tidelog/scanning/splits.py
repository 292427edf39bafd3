"""Ranges -> splits: the pieces of a scan that are handed out, one to a worker.

1. The size of a split: `max_bytes`, or less where so many splits are wanted that each has to be smaller.
2. Each partition's range is cut at index entries into stretches a quarter of that long, and neighbours are
   put together again until a split has its share; so sizes come out even, whatever the segments' sizes are.
3. With `max_records` a range is first cut by offsets: a piece of n offsets cannot hold more than n records.

A split is of one partition, its tasks are in offset order, and the splits of a partition are too. Which
splits there are depends on the ranges and the files only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tidelog.errors import InvalidInputError
from tidelog.scanning.bundles import can_be_bundled
from tidelog.scanning.plan import DEFAULT_SPLIT_BYTES
from tidelog.scanning.ranges import OffsetRange, plan_range, range_bytes
from tidelog.scanning.tasks import ScanTask

__all__ = ["Split", "is_small", "plan_splits"]

_FINENESS = 4


@dataclass(frozen=True, slots=True)
class Split:
    """Tasks of one partition, to be run one after the other."""

    tasks: tuple[ScanTask, ...]

    def __reduce__(self) -> tuple[type[Split], tuple[object, ...]]:
        """As of a task: thousands are pickled for a plan, and Python's own way is slow."""
        return type(self), (self.tasks,)

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.tasks[0].size if len(self.tasks) == 1 else sum(task.size for task in self.tasks)

    @property
    def topic(self) -> str:
        """The topic it is of."""
        return self.tasks[0].topic

    @property
    def partition(self) -> int:
        """The partition it is of."""
        return self.tasks[0].partition


def is_small(split: Split) -> bool:
    """Whether it is read together with its neighbours, if they are small too (`bundles`)."""
    return len(split.tasks) == 1 and can_be_bundled(split.tasks[0])


def plan_splits(
    ranges: Sequence[OffsetRange],
    *,
    committed_only: bool = False,
    with_control: bool = True,
    max_bytes: int = DEFAULT_SPLIT_BYTES,
    max_records: int | None = None,
    min_splits: int | None = None,
    with_missing: bool = False,
) -> list[Split]:
    """Cut ranges into splits of at most about `max_bytes`, and into about `min_splits` at least.

    The sparse indexes and the size of a batch are as fine as it gets.
    """
    for name, limit in (("max_bytes", max_bytes), ("max_records", max_records), ("min_splits", min_splits)):
        if limit is not None and limit < 1:
            raise InvalidInputError(f"{name} must be 1 or more, not {limit}")
    if min_splits is not None:
        total = sum(range_bytes(wanted) for wanted in ranges)
        max_bytes = max(1, min(max_bytes, -(-total // min_splits)))
    splits = []
    for wanted in (piece for one in ranges for piece in _by_records(one, max_records)):
        tasks = plan_range(
            wanted,
            committed_only=committed_only,
            with_control=with_control,
            split_bytes=max(max_bytes // _FINENESS, 1),
            with_missing=with_missing,
        )
        splits += [Split(tuple(group)) for group in _groups(tasks, max_bytes)]
    return splits


def _by_records(wanted: OffsetRange, max_records: int | None) -> Iterator[OffsetRange]:
    if max_records is None:
        yield wanted
        return
    pieces = -(-len(wanted) // max_records)
    for n in range(pieces):
        first = wanted.start + len(wanted) * n // pieces
        yield replace(wanted, start=first, end=wanted.start + len(wanted) * (n + 1) // pieces)


def _groups(tasks: Sequence[ScanTask], max_bytes: int) -> Iterator[list[ScanTask]]:
    """Neighbours put together into groups of even size; where they touch in one file they become one task."""
    if len(tasks) == 1:
        yield list(tasks)
        return
    total = sum(task.size for task in tasks)
    even = total / max(-(-total // max_bytes), 1)
    group: list[ScanTask] = []
    done = filled = 0
    for task in tasks:
        if group and done + task.size / 2 > (filled + 1) * even:
            yield group
            group = []
            filled = int((done + task.size / 2) // even)
        if group and group[-1].log_name == task.log_name and group[-1].end_position == task.start_position:
            group[-1] = replace(group[-1], end_position=task.end_position, is_tail=task.is_tail)
        else:
            group.append(task)
        done += task.size
    if group:
        yield group
