"""Splits -> tasks: small ones share a task, as those of Spark's file sources do.

A task costs milliseconds before it reads a byte, and so does a file before it gives one. So a file counts for
some bytes more than it has (`spark.sql.files.openCostInBytes` is the same idea), and neighbours share a task
until they make up a task's share. Of small files that are read together a thousand cost about as much as a
task. What is large enough goes alone. Splits stay in order: those of a partition are read one after the
other, by one task or by several that follow each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelog.scanning.splits import Split, is_small

__all__ = ["pack_splits", "split_cost", "task_bytes"]

_BUNDLED_FILE_BYTES = 3 << 10
_LOCAL_FILE_BYTES = 32 << 10
_REMOTE_FILE_BYTES = 1 << 20
"""What opening a file counts for: with others on a file system, by itself, and in an object store."""
_MIN_TASK_BYTES = 4 << 20
_TASKS = 32
"""As many tasks as there should be, if they come to a good size, where the number of cores is not known."""


def split_cost(split: Split, *, bundled: bool = False) -> int:
    """What a split counts for: its bytes, and something for each of its files.

    `bundled` says that small splits are read together (`scanning.bundles`).
    """
    if bundled and is_small(split):
        return split.tasks[0].size + _BUNDLED_FILE_BYTES
    per_file = _REMOTE_FILE_BYTES if "://" in split.tasks[0].url else _LOCAL_FILE_BYTES
    return split.size + per_file * len(split.tasks)


def task_bytes(total: int, max_bytes: int, tasks: int = _TASKS) -> int:
    """How much a task should read of `total`: enough tasks for all cores, none too small to be worth it."""
    return min(max(total // tasks, _MIN_TASK_BYTES), max_bytes)


def pack_splits(
    splits: Sequence[Split],
    *,
    max_bytes: int,
    tasks: int = _TASKS,
    min_tasks: int | None = None,
    max_records: int | None = None,
    bundled: bool = False,
) -> list[tuple[Split, ...]]:
    """Put neighbours together into tasks of at most `max_bytes`, and of at most `max_records` records.

    There are `min_tasks` at least, as far as there are so many splits. `bundled` as of `split_cost`.
    """
    costs = [split_cost(split, bundled=bundled) for split in splits]
    limit = task_bytes(sum(costs), max_bytes, tasks)
    wanted = min(min_tasks or 1, len(splits))
    packed = list(_packed(splits, costs, limit, max_records))
    while len(packed) < wanted:
        limit //= 2
        packed = list(_packed(splits, costs, limit, max_records))
    return packed


def _packed(
    splits: Sequence[Split], costs: Sequence[int], limit: int, max_records: int | None
) -> Iterator[tuple[Split, ...]]:
    group: list[Split] = []
    filled = records = 0
    for split, cost in zip(splits, costs, strict=True):
        more = _records(split, group[-1] if group else None)
        too_many = max_records is not None and records + more > max_records
        if group and (filled + cost > limit or too_many):
            yield tuple(group)
            group, filled, records, more = [], 0, 0, _records(split, None)
        group.append(split)
        filled += cost
        records += more
    if group:
        yield tuple(group)


def _records(split: Split, before: Split | None) -> int:
    """The most records that a split adds: splits of one range have its offsets between them."""
    task = split.tasks[0]
    if before is not None:
        last = before.tasks[-1]
        if (last.url, last.start_offset, last.end_offset) == (task.url, task.start_offset, task.end_offset):
            return 0
    return task.end_offset - task.start_offset
