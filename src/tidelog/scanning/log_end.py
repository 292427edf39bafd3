"""Where a log at rest ends, and what a committed read may see of it.

Nobody runs the log, so its high watermark is taken as its end. The last stable offset is then the first
offset of the oldest transaction still open at the end: the newest sound producer snapshot tells which were
open there, and the batches after it what has changed since.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tidelog.errors import CorruptRecordError
from tidelog.index import AbortedTxn
from tidelog.log.producers.markers import read_markers
from tidelog.log.producers.producers import ProducerStateManager
from tidelog.log.producers.sequences import ProducerState
from tidelog.records.windows import Window
from tidelog.scanning.partitions import Partition, SegmentFacts
from tidelog.scanning.plan import segments_in_range
from tidelog.scanning.salvage import sound_windows, survey_task
from tidelog.scanning.tasks import NO_END, ScanTask, read_batches, select_batches, settled
from tidelog.storage.names import FileKind, format_segment_file

__all__ = [
    "LogTail",
    "Transactions",
    "aborted_transactions",
    "find_log_end",
    "log_end_offset",
    "log_tail",
    "read_segment",
    "salvaged_end",
    "salvaged_stable_offset",
    "segment_task",
    "sound_segment",
    "stable_offset",
]

_ABORTED_ENTRY = np.dtype(
    [("version", ">i2"), ("producer", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")]
)


@dataclass(frozen=True, slots=True)
class LogTail:
    """Where a log ended when it was looked at."""

    base_offset: int
    """Of the last segment."""

    position: int
    """After its last whole batch."""

    end_offset: int


def log_tail(partition: Partition, since: LogTail | None = None, *, damage_ends_it: bool = False) -> LogTail:
    """Look where a log ends; with an earlier look only what has come since is read.

    A damaged batch after the last index entry raises; with `damage_ends_it` the log ends before it.
    """
    if not partition.segments:
        return LogTail(0, 0, partition.log_start_offset)
    segment = partition.segments[-1]
    if since is not None and since.base_offset == segment.base_offset and since.position <= segment.size:
        if segment.size == since.position:
            return replace(since, end_offset=max(since.end_offset, partition.log_start_offset))
        # Bytes that make no batch there: one that is half written, or a log cut back and written anew.
        with contextlib.suppress(CorruptRecordError):
            tail = _read_tail(partition, since, False)
            if tail.position > since.position:
                return tail
    offsets, positions = partition.offset_index(segment).entries_array()
    within = positions[positions < segment.size]  # after a power cut the index may know more than the log
    last = len(within) - 1
    start = LogTail(segment.base_offset, int(within[last]) if len(within) else 0, segment.base_offset)
    return _read_tail(partition, start, damage_ends_it, int(offsets[last]) if len(within) else -1)


def _read_tail(
    partition: Partition, tail: LogTail, damage_ends_it: bool, first_last_offset: int = -1
) -> LogTail:
    """The tail after what follows `tail`; the index may tell the last offset of the batch there."""
    position, end = tail.position, tail.end_offset
    try:
        for _, _, table in read_segment(
            partition, partition.segments[-1], position, first_last_offset=first_last_offset
        ):
            if table.base_offset[0] < end:
                raise CorruptRecordError(f"offsets go back from {end} to {table.base_offset[0]}")
            position, end = table.end, int(table.last_offset[-1]) + 1
    except CorruptRecordError:
        if not damage_ends_it:
            raise
    return LogTail(tail.base_offset, position, max(end, partition.log_start_offset))


def log_end_offset(partition: Partition, *, damage_ends_it: bool = False) -> int:
    """The offset after the last whole batch on disk, see `log_tail`; a bulk write counts when it is whole."""
    return partition.published_end(log_tail(partition, damage_ends_it=damage_ends_it).end_offset)


def find_log_end(partition: Partition) -> tuple[int, CorruptRecordError | None]:
    """The offset after the last whole batch on disk, or before the damage that ends the log."""
    try:
        return log_end_offset(partition), None
    except CorruptRecordError as error:
        return log_end_offset(partition, damage_ends_it=True), error


class Transactions:
    """The open transactions of a log; each look reads only what has come since the last one."""

    def __init__(self) -> None:
        self._producers: ProducerStateManager | None = None
        self._place = (0, 0)

    def stable_offset(self, partition: Partition, end: int, *, damage_ends_it: bool = False) -> int:
        """The last stable offset of a log that ends at `end`, or whose high watermark that is.

        A damaged batch raises. With `damage_ends_it` the answer is `end` where no transaction is open before
        it: a reader will meet the damage itself.
        """
        try:
            return self._stable_offset(partition, end)
        except CorruptRecordError:
            producers = self._producers
            if not damage_ends_it or producers is None or producers.first_undecided_offset is not None:
                raise
            return end

    @property
    def open_producers(self) -> list[ProducerState]:
        """The producers whose transaction was open at the last look, by its first offset."""
        states = [] if self._producers is None else list(self._producers.producers.values())
        found = [(one.txn_first_offset, one) for one in states if one.txn_first_offset is not None]
        return [one for _, one in sorted(found, key=lambda pair: pair[0])]

    def salvaged(self, partition: Partition, end: int) -> int:
        """The last stable offset as far as the sound batches tell."""
        return self._stable_offset(partition, end, skip_damage=True)

    def _stable_offset(self, partition: Partition, end: int, *, skip_damage: bool = False) -> int:
        producers = self._producers
        if producers is None or producers.map_end_offset > end:
            producers = self._producers = _snapshot_state(partition, end)
            self._place = (0, 0)
        start = producers.map_end_offset
        for segment in segments_in_range(partition.segments, start, end):
            position = 0
            if segment.base_offset == self._place[0] and self._place[1]:
                position = self._place[1]
            elif start > segment.base_offset:
                position = partition.offset_index(segment).lookup(start).position
            windows = (
                sound_segment(partition, segment, start, end)
                if skip_damage
                else read_segment(partition, segment, position, start, end)
            )
            for data, origin, table in windows:
                producers.load(table, read_markers(data, table, origin=origin, source=partition.url))
                self._place = (segment.base_offset, table.end)
        undecided = producers.first_undecided_offset
        return end if undecided is None else max(undecided, partition.log_start_offset)


def stable_offset(partition: Partition, end: int, *, damage_ends_it: bool = False) -> int:
    """The last stable offset of a log that ends at `end`, see `Transactions.stable_offset`."""
    return Transactions().stable_offset(partition, end, damage_ends_it=damage_ends_it)


def salvaged_end(partition: Partition) -> tuple[int, CorruptRecordError | None]:
    """The offset after the last sound batch on disk, past any damage; and the damage near it."""
    if not partition.segments:
        return partition.log_start_offset, None
    segment = partition.segments[-1]
    try:
        tail = log_tail(partition)
        if tail.position == segment.size:
            return partition.published_end(tail.end_offset), None
        fault = CorruptRecordError("the data ends inside a batch", position=tail.position)
    except CorruptRecordError as error:
        fault = error
    survey = survey_task(segment_task(partition, segment), partition.log_view(segment))
    last = segment.base_offset - 1 if survey.last_offset is None else survey.last_offset
    return partition.published_end(max(last + 1, partition.log_start_offset)), fault


def salvaged_stable_offset(partition: Partition, end: int) -> int:
    """The last stable offset of a damaged log that ends at `end`, as far as its sound batches tell."""
    return Transactions().salvaged(partition, end)


def sound_segment(
    partition: Partition, segment: SegmentFacts, start_offset: int = 0, end: int = NO_END
) -> Iterator[Window]:
    """A segment's sound batches that may hold offsets of [start_offset, end)."""
    task = replace(segment_task(partition, segment), start_offset=start_offset, end_offset=end)
    for window in sound_windows(task, partition.log_view(segment), lambda loss: None):
        selected = select_batches(task, window.table)
        if len(selected):
            yield Window(window.data, window.origin, selected)


def segment_task(partition: Partition, segment: SegmentFacts) -> ScanTask:
    """All of a segment."""
    later = [one.base_offset for one in partition.segments if one.base_offset > segment.base_offset]
    return ScanTask(
        partition.url,
        segment.log_name,
        partition.topic_partition.topic,
        partition.topic_partition.partition,
        0,
        segment.size,
        0,
        NO_END,
        is_tail=not later,
        next_base=later[0] if later else NO_END,
    )


def _snapshot_state(partition: Partition, end: int) -> ProducerStateManager:
    """What the newest sound producer snapshot at or before `end` says."""
    producers = ProducerStateManager(snapshot_offsets=partition.snapshot_offsets)

    def read_snapshot(offset: int) -> bytes:
        try:
            return partition.volume.content(format_segment_file(offset, FileKind.SNAPSHOT))
        except FileNotFoundError:
            return b""  # deleted since it was listed: as good as unsound, an older one will do

    # Producers are not expired here: what matters is which transactions are open, and those never expire.
    producers.truncate_and_reload(partition.log_start_offset, end, 0, read_snapshot)
    return producers


def aborted_transactions(partition: Partition, start: int, end: int) -> tuple[AbortedTxn, ...]:
    """The aborted transactions that overlap [start, end).

    An abort stands in the transaction index of the segment that holds its marker, which may be a later
    segment than those in range: all from the first one on are asked.
    """
    found = []
    first = segments_in_range(partition.segments, start, end)[:1]
    for segment in partition.segments:
        if not first or segment.base_offset < first[0].base_offset:
            continue
        data = partition.txn_index(segment)
        entries = np.frombuffer(data, _ABORTED_ENTRY, count=len(data) // _ABORTED_ENTRY.itemsize)
        overlapping = entries[(entries["last"] >= start) & (entries["first"] < end)]
        found += [AbortedTxn(*entry[1:]) for entry in overlapping.tolist()]
    return tuple(found)


def read_segment(
    partition: Partition,
    segment: SegmentFacts,
    position: int,
    start_offset: int = 0,
    end: int = NO_END,
    first_last_offset: int = -1,
    window_bytes: int | None = None,
) -> Iterator[Window]:
    """A segment's batches from a position on (see `read_batches`); of the last one up to a torn one."""
    task = ScanTask(
        partition.url,
        segment.log_name,
        "",
        0,
        position,
        segment.size,
        start_offset,
        end,
        is_tail=segment is partition.segments[-1],
        first_last_offset=first_last_offset,
    )
    view = partition.log_view(segment)
    return settled(task, view, read_batches(task, view, window_bytes))
