"""What `cat`, `tail` and `search` read: partitions -> ranges of offsets -> record batches that pass a filter.

Control records are left out. The last N records of a partition are found from its end on: a stretch of N
offsets is read, and one twice as long as long as records are lacking (cleaning and markers leave gaps).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from tidelog.cli.errors import FOUND_WRONG, UsageError
from tidelog.cli.render.output import Output
from tidelog.cli.render.units import parse_time
from tidelog.errors import CorruptRecordError, DataLossError, OffsetOutOfRangeError
from tidelog.records.schema import Projection
from tidelog.scanning.bounds import AtDamage, AtTime, OffsetBound, find_offset, resolve, visible
from tidelog.scanning.filters import RecordFilter
from tidelog.scanning.losses import Corrupt, Loss
from tidelog.scanning.partitions import Partition, find_partitions, look_steadily
from tidelog.scanning.ranges import OffsetRange, check_replaced, plan_range
from tidelog.scanning.salvage import run_with
from tidelog.scanning.tasks import ScanTask

__all__ = ["Bounds", "DamageReport", "Selection", "last_records", "read_tasks", "select"]


_AT_DAMAGE = {Corrupt.FAIL: AtDamage.STOP, Corrupt.STOP: AtDamage.MEET, Corrupt.SKIP: AtDamage.SKIP}


@dataclass(frozen=True, slots=True)
class Bounds:
    """From where to where: offsets, or times as people write them; the end is not included."""

    start_offset: int | None = None
    start_time: str | None = None
    end_offset: int | None = None
    end_time: str | None = None

    def __post_init__(self) -> None:
        """One of each at most."""
        if None not in (self.start_offset, self.start_time) or None not in (self.end_offset, self.end_time):
            raise UsageError("an offset and a time were given for the same end: choose one")


class DamageReport:
    """What reading does at damage, and what was lost by it."""

    def __init__(self, corrupt: Corrupt = Corrupt.FAIL) -> None:
        self.corrupt = corrupt
        self._losses: dict[tuple[str, int], Loss] = {}
        self._stopped: set[str] = set()

    @property
    def losses(self) -> list[Loss]:
        """All losses, in the order of reading."""
        return list(self._losses.values())

    def add(self, loss: Loss) -> None:
        """Take in a loss; one that was met before counts once."""
        self._losses[loss.source, loss.start_position] = loss
        if self.corrupt is Corrupt.STOP:
            self._stopped.add(loss.source.rpartition("/")[0])

    def take(self, other: DamageReport) -> None:
        """Take in what another one found."""
        for loss in other.losses:
            self.add(loss)

    def has_stopped(self, task: ScanTask) -> bool:
        """Whether reading its partition has stopped."""
        return task.url in self._stopped

    def tell(self, out: Output) -> int:
        """Tell the losses; the exit code."""
        for loss in self.losses:
            out.warn(f"tidelog: {loss}")
        return 0 if all(loss.is_unfinished for loss in self.losses) else FOUND_WRONG


@dataclass(frozen=True, slots=True)
class Selection:
    """What is to be read of each partition."""

    ranges: Sequence[OffsetRange]
    committed_only: bool = False
    wanted: RecordFilter = field(default_factory=RecordFilter)
    faults: Sequence[CorruptRecordError] = ()
    """Damage at the end of logs that were to be read to their end: reading stops before it."""
    find: Callable[[], list[Partition]] = list
    """The partitions that it stands for, looked for again."""
    damage: DamageReport = field(default_factory=DamageReport)
    """What reading does at damage, and what was lost by it."""

    def complain(self) -> None:
        """Raise the first fault, once all that comes before it has been shown."""
        if self.faults and self.damage.corrupt is Corrupt.FAIL:
            raise self.faults[0]

    def tasks(self) -> list[ScanTask]:
        """The tasks that read all of it, in order."""
        return [task for one in self.ranges for task in self.plan(one)]

    def plan(self, wanted: OffsetRange) -> list[ScanTask]:
        """The tasks that read a range."""
        if self.damage.corrupt is not Corrupt.SKIP:
            check_replaced(wanted)
        return plan_range(
            wanted,
            committed_only=self.committed_only,
            with_control=False,
            with_missing=self.damage.corrupt is Corrupt.SKIP,
        )


def select(
    paths: Sequence[str],
    *,
    topics: Sequence[str] | None = None,
    partitions: Sequence[int] | None = None,
    bounds: Bounds | None = None,
    committed_only: bool = False,
    wanted: RecordFilter | None = None,
    corrupt: str = "fail",
) -> Selection:
    """Find the partitions and their ranges. Raises UsageError for an offset that a lone partition lacks."""
    bounds = bounds or Bounds()
    policy = Corrupt.parse(corrupt)
    now_ms = time.time_ns() // 1_000_000
    start = _bound(bounds.start_offset, bounds.start_time, now_ms)
    end = _bound(bounds.end_offset, bounds.end_time, now_ms)

    def find() -> list[Partition]:
        return [
            one
            for one in find_partitions(list(paths), topics or None, internal=False)
            if not partitions or one.topic_partition.partition in partitions
        ]

    found = find()
    if not found:
        raise UsageError(f"no partition {', '.join(map(str, partitions or ()))} under {', '.join(paths)}")
    ranges, faults = [], []
    for one in found:
        try:
            asked, fault = look_steadily(
                one,
                lambda partition: _range(
                    partition,
                    start,
                    end,
                    _AT_DAMAGE[policy],
                    committed_only=committed_only,
                    alone=len(found) == 1,
                ),
            )
        except DataLossError:
            if len(found) == 1 or "://" in one.url or Path(one.url).is_dir():
                raise
            continue  # deleted since it was listed, as if it had been before
        ranges.append(asked)
        if fault is not None:
            faults.append(fault)
    damage = DamageReport(policy)
    return Selection(ranges, committed_only, wanted or RecordFilter(), faults, find, damage)


def _bound(offset: int | None, moment: str | None, now_ms: int) -> OffsetBound:
    return offset if moment is None else AtTime(parse_time(moment, now_ms))


def _range(
    one: Partition,
    start: OffsetBound,
    end: OffsetBound,
    at_damage: AtDamage,
    *,
    committed_only: bool,
    alone: bool,
) -> tuple[OffsetRange, CorruptRecordError | None]:
    """What is to be read of a partition, and the damage that ends it."""
    seen = visible(one, committed_only=committed_only, at_damage=at_damage)
    first = find_offset(one, start, one.log_start_offset, seen, at_damage)
    if alone and not one.log_start_offset <= first <= seen.log_end:
        raise OffsetOutOfRangeError(
            f"offset {first} is not in {one.topic_partition}, "
            f"which has [{one.log_start_offset}, {seen.log_end}]"
        )
    asked = resolve(one, first, end, seen, at_damage)
    return asked, seen.fault if asked.end == seen.end else None


def read_tasks(
    tasks: Sequence[ScanTask],
    columns: Sequence[str],
    wanted: RecordFilter,
    advance: Callable[[int], None] | None = None,
    damage: DamageReport | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of tasks that pass the filter; `advance` is told the bytes of each task that is done."""
    damage = damage or DamageReport()
    shown = list(columns)
    asked = () if wanted.is_empty else (name for name in wanted.columns if name not in shown)
    projection = Projection.of([*shown, *asked])
    for task in tasks:
        if damage.has_stopped(task):
            continue
        for found in run_with(damage.corrupt, task, projection):
            if isinstance(found, Loss):
                damage.add(found)
                continue
            kept = wanted.apply(found)
            if kept.num_rows:
                yield kept.select(shown)
        if advance is not None:
            advance(task.size)


def last_records(
    selection: Selection, one: OffsetRange, count: int, columns: Sequence[str]
) -> list[pa.RecordBatch]:
    """The last `count` records of a range that pass the filter."""
    width = count
    while True:
        part = one.last(width)
        tasks = selection.plan(part)
        found: list[pa.RecordBatch] = []
        for batch in read_tasks(tasks, columns, selection.wanted, damage=selection.damage):
            found.append(batch)
            while found and sum(b.num_rows for b in found[1:]) >= count:
                found.pop(0)
        rows = sum(batch.num_rows for batch in found)
        if rows >= count or part.start == one.start:
            if rows > count:
                found[0] = found[0].slice(rows - count)
            return found
        width *= 4
