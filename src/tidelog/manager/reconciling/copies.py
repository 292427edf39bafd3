"""A replica's copy of a partition, looked through past its damage.

1. Each segment is surveyed (`scanning.soundness`): which bytes are sound batches, and what lies between.
2. The headers of the sound batches tell the leader epochs, and where cleaning has taken records out.

A batch is a row of 12 numbers (`Row`). Rows are read when they are needed, in blocks: memory grows with the
damage and the epochs of a copy, not with its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tidelog.errors import InvalidIndexError
from tidelog.manager.reconciling.lineage import EpochRun, Lineage, lineage_of
from tidelog.records.batches import BatchTable
from tidelog.records.windows import read_windows
from tidelog.scanning.log_end import segment_task
from tidelog.scanning.losses import Loss
from tidelog.scanning.partitions import Partition, SegmentFacts
from tidelog.scanning.ranges import missing_tasks
from tidelog.scanning.soundness import Survey, survey_segment
from tidelog.scanning.tasks import NO_END
from tidelog.scanning.witness import index_bytes
from tidelog.storage import EpochEntry
from tidelog.storage.checkpoints import parse_epochs
from tidelog.storage.names import LEADER_EPOCH_FILE, FileKind, format_segment_file

__all__ = ["Copy", "Int64s", "Row", "look_through", "loss_end"]

Int64s = npt.NDArray[np.int64]


class Row:
    """The columns of a batch of a copy."""

    BASE, LAST, EPOCH, POSITION, SIZE, COUNT, CRC, FLAGS, MAGIC, SEGMENT, COPY, STRAY = range(12)
    """STRAY is 1 if its epoch is not the one that the history has there."""
    WIDTH = 12


@dataclass(frozen=True, slots=True)
class _Segment:
    facts: SegmentFacts
    survey: Survey


@dataclass(frozen=True)
class Copy:
    """One replica's copy of a partition."""

    number: int
    partition: Partition
    segments: tuple[_Segment, ...]
    lineage: Lineage
    start: int
    """The log start offset."""
    cleaned_end: int
    """The offset after the last place at which records are missing that no damage has taken; -1: none."""
    losses: tuple[Loss, ...]
    """What is damaged."""
    notes: tuple[str, ...]
    knows_epochs: bool = True
    """Whether its `leader-epoch-checkpoint` tells any epoch."""
    gaps: tuple[EpochRun, ...] = ()
    """The runs of epochs before which records are missing that no damage has taken."""

    @property
    def name(self) -> str:
        """What the copy is called in reports: its directory."""
        return self.partition.url

    @property
    def size(self) -> int:
        """Bytes of all logs."""
        return sum(one.facts.size for one in self.segments)

    @property
    def end(self) -> int:
        """The offset after the last sound batch."""
        return self.lineage.end

    @property
    def segment_bases(self) -> list[int]:
        """The base offsets of its segments."""
        return [one.facts.base_offset for one in self.segments]

    def damaged(self) -> list[tuple[int, int]]:
        """The offsets [first, end) that damage may have taken."""
        return [(one.first_offset, loss_end(one)) for one in self.losses]

    def rows(self) -> Iterator[Int64s]:
        """Its sound batches, by offset, in blocks."""
        for number, one in enumerate(self.segments):
            for table in _sound_tables(self.partition, one.facts, one.survey):
                yield _rows(table, number, self.number)

    def read(self, segment: int, position: int, size: int) -> memoryview:
        """Bytes of a segment's log; good until the next read of it."""
        return self.partition.log_view(self.segments[segment].facts).read(position, size)


def loss_end(loss: Loss) -> int:
    """The offset at which a loss ends; NO_END if it reaches to the end of the log."""
    return NO_END if loss.end_offset is None else loss.end_offset


def _sound_tables(partition: Partition, segment: SegmentFacts, survey: Survey) -> Iterator[BatchTable]:
    view = partition.log_view(segment)
    for sound in survey.sound:
        for window in read_windows(view, sound.start, sound.end, name=f"{partition.url}/{segment.log_name}"):
            yield window.table


def _rows(table: BatchTable, segment: int, copy: int) -> Int64s:
    rows = np.zeros((len(table), Row.WIDTH), np.int64)
    columns = (
        table.base_offset,
        table.last_offset,
        table.leader_epoch,
        table.position,
        table.size,
        table.count,
        table.crc,
        table.attributes,
        table.magic,
    )
    for number, column in enumerate(columns):
        rows[:, number] = column
    rows[:, Row.SEGMENT] = segment
    rows[:, Row.COPY] = copy
    return rows


def look_through(
    number: int, partition: Partition, advance: Callable[[int], None] = lambda size: None
) -> Copy:
    """Read a copy, and check every batch; its files must not change meanwhile."""
    segments, losses = [], []
    facts = partition.segments
    for segment in facts:
        task = segment_task(partition, segment)
        view = partition.log_view(segment)
        index_name = format_segment_file(segment.base_offset, FileKind.OFFSET_INDEX)
        survey = survey_segment(
            view,
            view.size,
            floor=segment.base_offset,
            limit=task.next_base,
            is_last=task.next_base == NO_END,
            index=index_bytes(partial(partition.volume.content, index_name)),
            name=task.source,
        )
        segments.append(_Segment(segment, survey))
        for gap in survey.gaps:
            where = (task.topic, task.partition, task.source, gap.start, gap.end)
            losses.append(Loss(*where, gap.first_offset, gap.end_offset, gap.reason, gap.is_unfinished))
        advance(segment.size)
    for task in missing_tasks(partition):
        end = None if task.next_base == NO_END else task.next_base
        base = int(task.log_name.partition(".")[0])
        losses.append(
            Loss(task.topic, task.partition, task.source, 0, 0, base, end, "the log file is missing")
        )
    losses.sort(key=lambda loss: (loss.first_offset, loss.start_position))
    walk = _Walk(losses)
    for one in segments:
        for table in _sound_tables(partition, one.facts, one.survey):
            walk.add(table)
    start = partition.log_start_offset
    end = max([walk.last + 1, start, *(one.base_offset for one in facts[-1:])])
    entries, unreadable = _checkpoint(partition)
    lineage, notes = lineage_of(walk.runs, entries, end, start)
    return Copy(
        number,
        partition,
        tuple(segments),
        lineage,
        start,
        walk.cleaned_end,
        tuple(losses),
        (*notes, *unreadable),
        bool(entries),
        tuple(walk.behind_gaps()),
    )


class _Walk:
    """What the headers of all batches add up to."""

    def __init__(self, losses: list[Loss]) -> None:
        self.runs: list[EpochRun] = []
        self.last = -1
        self.cleaned_end = -1
        self._damage_ends = np.array(sorted(map(loss_end, losses)), np.int64)

    def add(self, table: BatchTable) -> None:
        """The next batches, by offset."""
        base, last = table.base_offset, table.last_offset
        is_v2 = table.magic >= 2
        before = np.concatenate(([self.last if self.last >= 0 else int(base[0]) - 1], last[:-1]))
        # A compressed message of magic 0 or 1 tells its last offset only: it seems to leave a gap.
        gap = (base > before + 1) & (is_v2 | (table.codec == 0))
        gap &= ~np.isin(base, self._damage_ends)
        thinned = is_v2 & (table.count < last - base + 1)
        if gap.any():
            self.cleaned_end = max(self.cleaned_end, int(base[gap].max()))
        if thinned.any():
            self.cleaned_end = max(self.cleaned_end, int(last[thinned].max()) + 1)
        self.last = int(last[-1])
        epochs = table.leader_epoch
        starts = np.flatnonzero(np.concatenate(([True], np.diff(epochs) != 0)))
        stops = np.append(starts[1:], len(epochs)) - 1
        for first, final in zip(starts.tolist(), stops.tolist(), strict=True):
            run = EpochRun(int(epochs[first]), int(base[first]), int(last[final]), final - first + 1)
            if self.runs and self.runs[-1].epoch == run.epoch:
                old = self.runs.pop()
                run = EpochRun(run.epoch, old.first, run.last, old.batches + run.batches)
            self.runs.append(run)

    def behind_gaps(self) -> Iterator[EpochRun]:
        """The runs of epochs before which records are missing that no damage has taken."""
        for before, run in pairwise(self.runs):
            if run.first > before.last + 1 and run.first not in self._damage_ends:
                yield run


def _checkpoint(partition: Partition) -> tuple[list[EpochEntry], list[str]]:
    """What `leader-epoch-checkpoint` says, and why it could not be read."""
    with suppress(FileNotFoundError):
        try:
            return parse_epochs(partition.volume.content(LEADER_EPOCH_FILE), LEADER_EPOCH_FILE), []
        except (InvalidIndexError, IsADirectoryError, PermissionError) as error:
            return [], [f"{LEADER_EPOCH_FILE} cannot be read ({error}): the batches tell the epochs"]
    return [], []
