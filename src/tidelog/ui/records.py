"""What is wanted of a partition -> its records, in bounded time and memory.

1. The range is resolved as `tidelog cat --corrupt skip` does it. Damage is passed over and told.
2. Segments are planned one at a time, from the start on or, for the last records, from the end back.
3. Reading stops when enough records were found, the answer is long enough, or enough was searched. The page
   says where it ended; the next request goes on from there.

Nothing is locked: a writer may be at work. A file that changes meanwhile is looked at again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import pyarrow as pa

from tidelog.errors import DataLossError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from tidelog.lazy import LazyModule
from tidelog.records.schema import Projection
from tidelog.scanning.bounds import AtDamage, find_offset, resolve, visible
from tidelog.scanning.losses import Corrupt, Loss
from tidelog.scanning.partitions import Partition, look_steadily
from tidelog.scanning.ranges import OffsetRange, plan_range
from tidelog.scanning.salvage import FILE_GONE, run_with
from tidelog.scanning.tasks import NO_END, ScanTask
from tidelog.ui.query import RecordQuery

__all__ = ["Limits", "RecordPage", "read_page", "read_record"]

pc = LazyModule("pyarrow.compute")  # takes long to import
_T = TypeVar("_T")

_COLUMNS = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")
_BATCH_COLUMNS = (
    "codec",
    "magic",
    "base_offset",
    "position",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "sequence",
    "transactional",
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one request may take."""

    field_bytes: int = 4096
    """Of a key or value; the rest is cut off."""
    answer_bytes: int = 4 << 20
    """Of all keys and values together."""
    search_bytes: int = 64 << 20
    """Of files, as they are on disk."""
    search_s: float = 3.0
    task_bytes: int = 1 << 20
    """What is read before the next look at the limits."""
    chunk_rows: int = 4096


@dataclass(slots=True)
class RecordPage:
    """Records in the order of their offsets, and what of the partition they were looked for in."""

    log_start_offset: int
    log_end_offset: int
    searched_from: int
    """The first offset that was looked at."""
    next_offset: int
    """The first that was not."""
    is_complete: bool = True
    """Whether all that was asked for was searched, or enough records were found."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)


class _Budget:
    """What is left of the limits."""

    def __init__(self, limits: Limits, records: int) -> None:
        self.records = records
        self._answer, self._search = limits.answer_bytes, limits.search_bytes
        self._until = time.monotonic() + limits.search_s

    def take(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            self.records -= 1
            self._answer -= _weight(row)

    def search(self, size: int) -> None:
        self._search -= size

    @property
    def has_room(self) -> bool:
        return self.records > 0 and self._answer > 0

    @property
    def may_search(self) -> bool:
        return self._search > 0 and time.monotonic() < self._until


def read_page(partition: Partition, query: RecordQuery, limits: Limits, now_ms: int) -> RecordPage:
    """Records that are wanted. Raises OffsetOutOfRangeError for a start that is not in the log."""
    return _look_while_there(partition, lambda one: _read_page(one, query, limits, now_ms))


def read_record(
    partition: Partition, offset: int, limits: Limits
) -> tuple[dict[str, Any] | None, list[Loss]]:
    """One record with what its batch and file are, None if there is none at this offset; and damage there."""

    def look(one: Partition) -> tuple[dict[str, Any] | None, list[Loss]]:
        losses: list[Loss] = []
        for task in _tasks(OffsetRange(one, offset, offset + 1), limits, committed_only=False):
            for found in _run(task, (*_COLUMNS, *_BATCH_COLUMNS), limits):
                if isinstance(found, Loss):
                    losses.append(found)
                elif found.num_rows:
                    return _rows(found, limits)[0] | {"log_name": task.log_name}, losses
        return None, losses

    return _look_while_there(partition, look)


def _look_while_there(partition: Partition, look: Callable[[Partition], _T]) -> _T:
    """As `look_steadily`; UnknownTopicOrPartitionError if the partition is deleted meanwhile."""
    try:
        return look_steadily(partition, look)
    except DataLossError as error:
        if partition.has_gone():
            raise UnknownTopicOrPartitionError(
                f"{partition.topic_partition} was deleted meanwhile"
            ) from error
        raise


def _read_page(partition: Partition, query: RecordQuery, limits: Limits, now_ms: int) -> RecordPage:
    seen = visible(partition, committed_only=query.committed, at_damage=AtDamage.SKIP)
    log_start = partition.log_start_offset
    first = find_offset(partition, query.start(now_ms), log_start, seen, AtDamage.SKIP)
    if not log_start <= first <= seen.log_end:
        raise OffsetOutOfRangeError(
            f"offset {first} is not in {partition.topic_partition}, which has [{log_start}, {seen.log_end}]"
        )
    asked = resolve(partition, first, query.end(now_ms), seen, AtDamage.SKIP)
    page = RecordPage(log_start, seen.log_end, asked.start, max(asked.start, min(asked.end, seen.end)))
    budget = _Budget(limits, query.limit)
    if query.from_end:
        _read_back(asked, page, query, budget, limits)
    else:
        _read_on(asked, page, query, budget, limits)
    return page


def _read_on(
    asked: OffsetRange, page: RecordPage, query: RecordQuery, budget: _Budget, limits: Limits
) -> None:
    """Fill a page from the start of a range on."""
    reached = asked.start
    for task in _tasks(asked, limits, committed_only=query.committed):
        for found in _run(task, _COLUMNS, limits):
            if isinstance(found, Loss):
                page.losses.append(found)
                continue
            rows, is_all = _fitting(query.wanted.apply(found), budget, limits)
            page.rows += rows
            reached = _last_offset(found) + 1 if is_all else rows[-1]["offset"] + 1 if rows else reached
            if not is_all or not budget.has_room:
                page.next_offset = reached
                page.is_complete = budget.records <= 0
                return
            if not budget.may_search:  # a small file may be a lot of records
                page.next_offset, page.is_complete = reached, False
                return
        budget.search(task.size)
        if not budget.may_search and reached > asked.start:
            page.next_offset, page.is_complete = reached, False
            return


def _read_back(
    asked: OffsetRange, page: RecordPage, query: RecordQuery, budget: _Budget, limits: Limits
) -> None:
    """Fill a page from the end of a range back."""
    reached = page.next_offset
    pieces: list[list[dict[str, Any]]] = []
    for task in _tasks_back(asked, limits, committed_only=query.committed):
        matches: list[pa.RecordBatch] = []
        first = None
        for found in _run(task, _COLUMNS, limits):
            if isinstance(found, Loss):
                page.losses.append(found)
                continue
            first = found.column("offset")[0].as_py() if first is None else first
            matches.append(query.wanted.apply(found))
            while matches and sum(one.num_rows for one in matches[1:]) >= budget.records:
                del matches[0]
        rows = _last_fitting(matches, budget, limits)
        pieces.append(rows)
        reached = reached if first is None else first
        if not budget.has_room:
            reached = rows[0]["offset"] if rows else reached
            page.is_complete = budget.records <= 0
            break
        budget.search(task.size)
        if not budget.may_search and reached < page.next_offset:
            page.is_complete = False
            break
    else:
        reached = asked.start
    page.rows = [row for piece in reversed(pieces) for row in piece]
    page.searched_from = reached


def _tasks(asked: OffsetRange, limits: Limits, *, committed_only: bool) -> Iterator[ScanTask]:
    """The tasks of a range, planned segment by segment."""
    for part in _by_segment(asked):
        yield from _plan(part, limits, committed_only)


def _tasks_back(asked: OffsetRange, limits: Limits, *, committed_only: bool) -> Iterator[ScanTask]:
    for part in reversed(_by_segment(asked)):
        yield from reversed(_plan(part, limits, committed_only))


def _plan(part: OffsetRange, limits: Limits, committed_only: bool) -> list[ScanTask]:
    return plan_range(
        part,
        committed_only=committed_only,
        with_control=False,
        split_bytes=limits.task_bytes,
        with_missing=True,
    )


def _by_segment(asked: OffsetRange) -> list[OffsetRange]:
    bases = [segment.base_offset for segment in asked.partition.segments]
    parts = (
        OffsetRange(asked.partition, max(base, asked.start), min(end, asked.end))
        for base, end in pairwise([*bases, NO_END])
    )
    return [part for part in parts if len(part)]


def _run(task: ScanTask, columns: Sequence[str], limits: Limits) -> Iterator[pa.RecordBatch | Loss]:
    """The records of a task, and damage, but for a write that is not finished yet."""
    projection = Projection.of(columns)
    for found in run_with(
        Corrupt.SKIP, task, projection, max_rows=limits.chunk_rows, max_bytes=limits.answer_bytes
    ):
        if isinstance(found, Loss) and found.reason == FILE_GONE:
            raise DataLossError(str(found))  # listed again, the partition tells whether it was deleted
        if not (isinstance(found, Loss) and found.is_unfinished):
            yield found


def _last_offset(batch: pa.RecordBatch) -> int:
    return int(batch.column("offset")[-1].as_py())


def _fitting(batch: pa.RecordBatch, budget: _Budget, limits: Limits) -> tuple[list[dict[str, Any]], bool]:
    """The first rows of a batch that the limits leave room for, one at least; and whether they are all."""
    rows = _rows(batch.slice(0, budget.records), limits)
    for count, row in enumerate(rows, 1):
        budget.take([row])
        if not budget.has_room:
            return rows[:count], count == batch.num_rows
    return rows, len(rows) == batch.num_rows


def _last_fitting(batches: Sequence[pa.RecordBatch], budget: _Budget, limits: Limits) -> list[dict[str, Any]]:
    """The last rows of batches that the limits leave room for, one at least."""
    kept: list[dict[str, Any]] = []
    for batch in reversed(batches):
        rows = _rows(batch.slice(max(batch.num_rows - budget.records, 0)), limits)
        for row in reversed(rows):
            if not budget.has_room:
                return kept[::-1]
            budget.take([row])
            kept.append(row)
    return kept[::-1]


def _rows(batch: pa.RecordBatch, limits: Limits) -> list[dict[str, Any]]:
    """A few records as dicts; keys and values are cut to what is shown before they are copied."""
    sizes = {name: pc.binary_length(batch.column(name)).to_pylist() for name in ("key", "value")}
    for name in ("key", "value"):
        cut = pc.binary_slice(batch.column(name), 0, limits.field_bytes)
        batch = batch.set_column(batch.schema.get_field_index(name), name, cut)
    rows: list[dict[str, Any]] = batch.to_pylist()
    for row, key_size, value_size in zip(rows, sizes["key"], sizes["value"], strict=True):
        row["key_size"], row["value_size"] = key_size, value_size
    return rows


def _weight(row: Mapping[str, Any]) -> int:
    headers = sum(len(one["key"]) + len(one["value"] or b"") for one in row["headers"] or ())
    return 64 + len(row["key"] or b"") + len(row["value"] or b"") + headers
