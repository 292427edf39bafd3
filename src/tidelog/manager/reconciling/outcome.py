"""What reconciling comes to: what was taken from where and why, what left the history, what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tidelog.manager.reconciling.choosing import Block, Conflict, History
from tidelog.manager.reconciling.copies import Copy, Int64s, Row, loss_end
from tidelog.types import TopicPartition

__all__ = ["MAX_REPORTED", "Ledger", "Lost", "Outcome", "Range", "Truncated"]

Bools = npt.NDArray[np.bool_]

MAX_REPORTED = 1000
"""Conflicts and gaps of one partition that are told one by one."""


@dataclass(slots=True)
class Range:
    """Offsets [first_offset, end_offset) that were taken from a copy, and why from this one."""

    copy: str
    first_offset: int
    end_offset: int
    batches: int
    records: int
    size_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Truncated:
    """What a copy has that is no part of the history: an election has cut it off elsewhere."""

    copy: str
    first_offset: int
    end_offset: int
    batches: int
    records: int
    was_committed: bool
    """Whether its high watermark says that some of it was committed: the election was unclean."""
    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets [first_offset, end_offset) that no copy has, and that no cleaning explains."""

    first_offset: int
    end_offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a partition."""

    partition: TopicPartition
    copies: tuple[str, ...]
    winner: str
    why: str
    log_start_offset: int
    log_end_offset: int
    leader_epoch: int
    """The newest of the history; -1 if there is none."""
    largest_producer_id: int
    ranges: tuple[Range, ...]
    truncated: tuple[Truncated, ...]
    lost: tuple[Lost, ...]
    notes: tuple[str, ...]

    @property
    def batches(self) -> int:
        """How many were taken."""
        return sum(one.batches for one in self.ranges)

    @property
    def records(self) -> int:
        """How many were taken; a compressed message of magic 0 or 1 counts as one."""
        return sum(one.records for one in self.ranges)

    @property
    def size_bytes(self) -> int:
        """How many were taken."""
        return sum(one.size_bytes for one in self.ranges)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is lost and nothing that was committed has been cut off."""
        return not self.lost and not any(one.was_committed for one in self.truncated)


@dataclass
class Ledger:
    """Takes note of what is chosen, block by block."""

    history: History
    log_start: int
    ranges: list[Range] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    restamped: int = 0
    _left: dict[int, list[int]] = field(default_factory=dict)
    _aside: dict[int, list[int]] = field(default_factory=dict)
    _thinned: dict[int, Range] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin at the log start."""
        self._reached = self.log_start

    def add(self, block: Block) -> None:
        """The next block."""
        self.conflicts += block.conflicts[: MAX_REPORTED - len(self.conflicts)]
        is_aside = self.history.is_aside(block.left)
        self._add_left(self._left, block.left[~is_aside])
        self._add_left(self._aside, block.left[is_aside])
        if len(block.chosen):
            self._note_gaps(block.chosen)
            self._note_ranges(block.chosen)
            self.restamped += int(block.chosen[:, Row.STRAY].sum())
            self._reached = int(block.chosen[-1, Row.LAST]) + 1

    def _add_left(self, left: dict[int, list[int]], found: Int64s) -> None:
        for number in np.unique(found[:, Row.COPY]).tolist():
            rows = found[found[:, Row.COPY] == number]
            rows = rows[rows[:, Row.LAST] >= self.history.copies[number].start]
            if len(rows):
                known = left.setdefault(number, [int(rows[0, Row.BASE]), 0, 0, 0])
                known[1] = int(rows[-1, Row.LAST]) + 1
                known[2] += len(rows)
                known[3] += int(rows[:, Row.COUNT].sum())

    def close(self, end: int) -> None:
        """All has been added; the log ends at `end`."""
        if self._reached < end:
            self._explain(np.array([[self._reached, end]], np.int64))
        marks = [
            copy.partition.high_watermark or 0
            for copy in self.history.copies
            if copy.number not in self._left
        ]
        if max(marks, default=0) > end:
            reason = f"a high watermark says that they were committed; {self._why_lost(end, max(marks))}"
            self.lost.append(Lost(end, max(marks), reason))
        self.ranges += sorted(self._thinned.values(), key=lambda one: one.first_offset)

    def truncated(self) -> Iterator[Truncated]:
        """What each copy has besides the history."""
        for number, (first, end, batches, records) in sorted(self._aside.items()):
            reason = (
                f"it has a gap up to offset {self.history.aside[number][1]}, where an election cut off what "
                "it had; another copy has no gap there, and other records before it"
            )
            yield Truncated(self.history.copies[number].name, first, end, batches, records, False, reason)
        for number, (first, end, batches, records) in sorted(self._left.items()):
            copy = self.history.copies[number]
            agreed = self.history.agreed[number]
            mark = copy.partition.high_watermark or 0
            reason = self._why_left(number, first)
            committed = mark > max(first, agreed)
            if committed:
                reason += f"; its high watermark is {mark}: the election was unclean"
            yield Truncated(copy.name, first, end, batches, records, committed, reason)

    def _why_left(self, number: int, first: int) -> str:
        lineage, agreed = self.history.lineage, self.history.agreed[number]
        if number in self.history.apart:
            return (
                f"its high watermark is {agreed}, and no other copy knows its later leader epochs: nothing "
                "tells whether they were committed"
            )
        if agreed < lineage.end:
            epoch = int(lineage.epochs_at(np.array([max(agreed, first)], np.int64))[0])
            began = any(one.epoch == epoch and one.earliest <= agreed <= one.start for one in lineage.epochs)
            return f"leader epoch {epoch} {'began' if began else 'went on'} at offset {agreed} without them"
        return f"the history of leader epoch {lineage.last_epoch} ends at offset {agreed}"

    def _note_ranges(self, chosen: Int64s) -> None:
        winner = self.history.winner
        copies = chosen[:, Row.COPY]
        starts = np.flatnonzero(np.concatenate(([True], np.diff(copies) != 0)))
        for first, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(chosen)], strict=True):
            rows = chosen[first:stop]
            number = int(copies[first])
            base = int(rows[0, Row.BASE])
            one = Range(
                self.history.copies[number].name,
                max(base, self.log_start),
                int(rows[-1, Row.LAST]) + 1,
                len(rows),
                int(rows[:, Row.COUNT].sum()),
                int(rows[:, Row.SIZE].sum()),
                _reason(winner, self.history.copies[number], base, self.history.cleaned_end),
            )
            if base < self.history.cleaned_end and number != winner.number:
                self._add_to(self._thinned.setdefault(number, _empty(one)), one)
            elif self.ranges and (self.ranges[-1].copy, self.ranges[-1].reason) == (one.copy, one.reason):
                self._add_to(self.ranges[-1], one)
            else:
                self.ranges.append(one)

    @staticmethod
    def _add_to(known: Range, more: Range) -> None:
        known.end_offset = more.end_offset
        known.batches += more.batches
        known.records += more.records
        known.size_bytes += more.size_bytes

    def _note_gaps(self, chosen: Int64s) -> None:
        before = np.concatenate(([self._reached], chosen[:-1, Row.LAST] + 1))
        base = np.where(
            (chosen[:, Row.MAGIC] < 2) & (chosen[:, Row.FLAGS] & 7 != 0), before, chosen[:, Row.BASE]
        )
        at = base > before
        if at.any():
            self._explain(np.column_stack((before[at], base[at])))

    def _counted_end(self, number: int) -> int:
        """Up to where a copy's batches count: one that reaches past where the copy agrees does not."""
        agreed, left = self.history.agreed[number], self._left.get(number)
        return agreed if left is None else min(agreed, left[0])

    def _explain(self, gaps: Int64s) -> None:
        """Of gaps in the offsets, keep those that no copy was sound at: the others are cleaning's."""
        open_gaps = np.ones(len(gaps), np.bool_)
        for copy in self.history.copies:
            covers = (gaps[:, 0] >= copy.start) & (gaps[:, 1] <= self._counted_end(copy.number))
            for first, end in self.history.missing(copy.number):
                covers &= (gaps[:, 1] <= first) | (gaps[:, 0] >= end)
            open_gaps &= ~covers
        open_gaps |= self._may_be_cut(gaps)
        for first, end in gaps[open_gaps].tolist():
            if len(self.lost) < MAX_REPORTED:
                self.lost.append(Lost(first, end, self._why_lost(first, end)))
            else:
                self.lost[-1] = Lost(self.lost[-1].first_offset, end, "more than can be told one by one")

    def _may_be_cut(self, gaps: Int64s) -> Bools:
        """Which gaps end where a copy starts, with a new leader epoch.

        A follower whose leader knows no older epochs cuts off what is above that offset, and with it a whole
        batch that lies across it: its log then goes on behind a gap.
        """
        starts = {copy.start for copy in self.history.copies}
        cut: Bools = np.isin(
            gaps[:, 1], [one.start for one in self.history.lineage.epochs if one.start in starts]
        )
        return cut

    def _why_lost(self, first: int, end: int) -> str:
        told = []
        if self._may_be_cut(np.array([[first, end]], np.int64))[0]:
            told.append(
                "no copy has them, and a new leader epoch began behind them: an election may have cut them "
                "off, and may have ended the history of what lies before them"
            )
        for copy in self.history.copies:
            harm = [loss for loss in copy.losses if loss.first_offset < end and first < loss_end(loss)]
            if harm:
                told.append(f"damaged in {copy.name} ({harm[0].reason})")
            elif self._counted_end(copy.number) < end:
                told.append(f"{copy.name} ends, or leaves the history, at {self._counted_end(copy.number)}")
            else:
                told.append(f"{copy.name} starts at {copy.start}")
        return "; ".join(told)


def _empty(like: Range) -> Range:
    return Range(like.copy, like.first_offset, like.end_offset, 0, 0, 0, like.reason)


def _reason(winner: Copy, copy: Copy, offset: int, cleaned_end: int) -> str:
    """Why a batch comes from this copy."""
    if copy is winner:
        return "the winner has it"
    for loss in winner.losses:
        if loss.first_offset <= offset < loss_end(loss):
            return f"damaged in the winner: {loss.reason}"
    if offset < winner.start:
        return f"the winner starts at offset {winner.start}"
    if offset < cleaned_end:
        return "it has records that cleaning has taken out of the winner"
    return "the winner's leader epoch is not the history's there"
