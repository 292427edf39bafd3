"""A partition as its indexes and batch headers show it: facts of its segments, and how they spread.

Offsets, and time, are divided into so many columns. How many records lie in a column is told by batch
headers: a batch's records are spread evenly over its offsets, so that what cleaning removed, and gaps
between batches, show as columns that are not full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tidelog.errors import CorruptRecordError, TornBatchError
from tidelog.kernels import scan as _kernel
from tidelog.records.batches import BatchTable
from tidelog.scanning.log_end import stable_offset
from tidelog.scanning.overview import Overview, overview
from tidelog.scanning.partitions import Partition, SegmentFacts
from tidelog.scanning.tasks import ScanTask, read_batches
from tidelog.scanning.volumes import FileView
from tidelog.types import Codec

__all__ = ["Axis", "Look", "Picture", "SegmentPicture", "look_at"]

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]
Look = Callable[[BatchTable, Int64s], object]
"""Told of batches as they are met, and of how many records each of them has."""

_NO_END = (1 << 63) - 1
_COUNTED_AT_ONCE = 1 << 12
_CODECS = {int(codec): codec.label for codec in Codec}


@dataclass(frozen=True, slots=True)
class Axis:
    """Numbers [start, end) in so many columns."""

    start: int
    end: int
    columns: int

    @property
    def edges(self) -> Floats:
        """Where the columns begin and end, counted from `start`: large numbers are not exact as floats."""
        return np.linspace(0, max(self.end - self.start, 1), self.columns + 1)

    def place(self, numbers: Int64s) -> Floats:
        """Numbers, counted from `start`; all negative ones are as -1."""
        return (np.maximum(numbers, -1) - self.start).astype(np.float64)

    def column(self, number: int) -> int:
        """The column that a number lies in; the nearest one for what lies outside."""
        width = max(self.end - self.start, 1) / self.columns
        return min(max(int((number - self.start) / width), 0), self.columns - 1)


@dataclass(slots=True)
class SegmentPicture:
    """What there is to know of a segment. Timestamps are -1 if there is none."""

    base_offset: int
    size: int
    end_offset: int
    batches: int = 0
    records: int = 0
    offset_entries: int = 0
    time_entries: int = 0
    first_timestamp: int = -1
    last_timestamp: int = -1
    codecs: tuple[str, ...] = ()
    gaps: int = 0
    missing_offsets: int = 0
    damage: str | None = None
    damage_offset: int | None = None
    is_unfinished: bool = False
    """The damage is the log's end, an unfinished write."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A partition, looked at."""

    facts: Overview
    stable_offset: int | None
    """None where damage keeps it from being known."""
    segments: list[SegmentPicture]
    offsets: Axis
    times: Axis | None
    records: Floats
    """Records in each column of offsets."""
    entries: Floats
    """Offset index entries in each column of offsets."""
    records_by_time: Floats
    read_logs: bool
    """Whether the logs were read, not only their indexes."""
    damage: list[str] = field(default_factory=list)


def look_at(
    partition: Partition,
    columns: int,
    *,
    read_logs: bool = True,
    check: bool = False,
    advance: Callable[[int], None] = lambda size: None,
    meet: Look = lambda table, counts: None,
) -> Picture:
    """Look at a partition: its indexes and, with `read_logs`, all batch headers; `check` checksums too.

    `meet` is told of the batches.
    """
    facts = overview(partition)
    first = partition.segments[0].base_offset if partition.segments else facts.log_start_offset
    offsets = Axis(min(first, facts.log_start_offset), facts.log_end_offset, columns)
    times = None
    if facts.first_timestamp >= 0 and facts.last_timestamp >= facts.first_timestamp:
        times = Axis(facts.first_timestamp, facts.last_timestamp + 1, columns)
    picture = Picture(
        facts,
        _stable(partition, facts.log_end_offset),
        [],
        offsets,
        times,
        np.zeros(columns),
        np.zeros(columns),
        np.zeros(columns),
        read_logs,
        list(facts.damage),
    )
    ends = [segment.base_offset for segment in partition.segments[1:]] + [facts.log_end_offset]
    for segment, end in zip(partition.segments, ends, strict=False):  # of no segment, there is an end
        seen = SegmentPicture(segment.base_offset, segment.size, max(end, segment.base_offset))
        _look_at_indexes(partition, segment, seen, picture)
        if read_logs:
            _look_at_log(partition, segment, seen, picture, meet, check=check)
        picture.segments.append(seen)
        advance(segment.size)
    return picture


def _stable(partition: Partition, end: int) -> int | None:
    try:
        return stable_offset(partition, end)
    except CorruptRecordError:
        return None


def _look_at_indexes(
    partition: Partition, segment: SegmentFacts, seen: SegmentPicture, picture: Picture
) -> None:
    offsets, _ = partition.offset_index(segment).entries_array()
    times = partition.time_index(segment)
    seen.offset_entries, seen.time_entries = len(offsets), times.entries
    if times.entries:
        stamps, _ = times.entries_array()
        seen.first_timestamp, seen.last_timestamp = int(stamps[0]), int(stamps[-1])
    picture.entries[:] += np.histogram(picture.offsets.place(offsets), picture.offsets.edges)[0]


def _look_at_log(
    partition: Partition,
    segment: SegmentFacts,
    seen: SegmentPicture,
    picture: Picture,
    meet: Look,
    *,
    check: bool,
) -> None:
    """Read the headers of a segment's batches up to the first damage."""
    is_last = segment is partition.segments[-1]
    task = ScanTask(partition.url, segment.log_name, "", 0, 0, segment.size, 0, _NO_END, False)
    expected = segment.base_offset
    codecs: set[int] = set()
    seen.first_timestamp = -1
    try:
        for table in _tables(task, partition.volume.view(segment.log_name), check):
            expected = _note(table, expected, seen, picture, meet)
            codecs.update(np.unique(table.codec[~table.is_control]).tolist())
    except CorruptRecordError as error:
        where = f"position {error.position}"
        seen.damage = f"{where}: {error.reason}"
        seen.damage_offset = expected if error.offset is None else error.offset
        seen.is_unfinished = is_last and isinstance(error, TornBatchError)
        told = f"{segment.log_name}, {seen.damage}"
        if not seen.is_unfinished and told not in picture.damage:
            picture.damage.append(told)
    seen.codecs = tuple(sorted(_CODECS.get(codec, "unknown") for codec in codecs))


def _tables(task: ScanTask, view: FileView, check: bool) -> Iterator[BatchTable]:
    """The headers of a log, some thousands at a time: counting takes as long for a few of them.

    What is wrong is raised after the batches before it.
    """
    held: list[Int64s] = []
    count, wrong = 0, None
    try:
        for data, origin, table in read_batches(task, view):
            held.append(table.rows.copy())  # a window's few rows keep a large buffer: it is used again
            count += len(table)
            if check and (bad := _kernel.verify(data, table.rows, origin)) >= 0:
                raise CorruptRecordError(
                    "a batch's checksum does not match its bytes",
                    position=int(table.position[bad]),
                    offset=int(table.base_offset[bad]),
                )
            if count >= _COUNTED_AT_ONCE:
                yield BatchTable(np.concatenate(held))
                held, count = [], 0
    except CorruptRecordError as error:
        wrong = error
    if held:
        yield BatchTable(np.concatenate(held))
    if wrong is not None:
        raise wrong


def _note(table: BatchTable, expected: int, seen: SegmentPicture, picture: Picture, meet: Look) -> int:
    """Add batches to what is known; the offset that should come next."""
    last = table.last_offset
    wrapped = (table.magic < 2) & (table.codec != 0)
    counts = np.where(wrapped, 1, np.maximum(table.count, 0))
    # Where a wrapper begins is not known before it is decoded: where the one before it ended.
    previous = np.concatenate(([expected - 1], last[:-1]))
    bases = np.where(wrapped, np.minimum(previous + 1, last), table.base_offset)
    counts = np.where(wrapped, last - bases + 1, counts)
    between = np.maximum(bases - previous - 1, 0)
    inside = np.maximum(last - bases + 1 - counts, 0)
    meet(table, counts)
    seen.batches += len(table)
    seen.records += int(counts.sum())
    seen.gaps += int(((between > 0) | (inside > 0)).sum())
    seen.missing_offsets += int(between.sum() + inside.sum())
    stamps = table.max_timestamp[table.max_timestamp >= 0]
    if len(stamps):
        oldest = int(stamps.min())
        seen.first_timestamp = oldest if seen.first_timestamp < 0 else min(seen.first_timestamp, oldest)
        seen.last_timestamp = max(seen.last_timestamp, int(stamps.max()))
    _spread(bases, last, counts, picture)
    if picture.times is not None:
        edges = picture.times.edges
        stamped = np.clip(picture.times.place(table.max_timestamp), edges[0], edges[-1])
        picture.records_by_time[:] += np.histogram(stamped, edges, weights=counts)[0]
    return int(last[-1]) + 1


def _spread(bases: Int64s, last: Int64s, counts: Int64s, picture: Picture) -> None:
    """Spread each batch's records over its offsets, and add up what falls into each column."""
    points = np.empty(2 * len(bases))
    points[0::2] = picture.offsets.place(bases)
    points[1::2] = picture.offsets.place(last) + 1
    total = np.empty(2 * len(bases))
    total[1::2] = np.cumsum(counts)
    total[0::2] = total[1::2] - counts
    picture.records[:] += np.diff(np.interp(picture.offsets.edges, points, total))
