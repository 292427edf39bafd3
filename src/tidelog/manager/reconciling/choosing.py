"""Of the batches that copies have at the same offsets, the one that is taken.

A batch is told by its last offset, which cleaning keeps. Of each copy, only what agrees with the winner's
history counts (`lineage`).

1. Where no copy was cleaned, all sound copies of a batch are the same. The winner's is taken, and from
   another copy what the winner does not have or has damaged.
2. Cleaning takes out records that later ones replace. Up to the last place at which any copy was cleaned,
   records that another copy still has may be taken only from one that is whole from there to that place: else
   a value could come back whose deletion is lost. Of whole copies, the batch with the most records is taken.
   If no copy is whole, the one that was cleaned furthest speaks for all offsets at which it is sound.
3. A batch whose leader epoch is not the history's (no checksum covers it) is taken if nobody has a better
   one, and gets the right epoch.

Copies are merged in blocks of offsets that all of them have reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tidelog.manager.reconciling.copies import Copy, Int64s, Row
from tidelog.manager.reconciling.lineage import Lineage, agreed_end, is_apart, joined
from tidelog.scanning.tasks import NO_END

__all__ = ["Block", "Conflict", "History", "choose", "decide", "merge"]

Bools = npt.NDArray[np.bool_]

_DELETE_HORIZON = 0x40


@dataclass(frozen=True)
class History:
    """The one history that copies justify, and how far each of them agrees with it."""

    copies: tuple[Copy, ...]
    order: tuple[int, ...]
    """The numbers of the copies, the winner first."""
    lineage: Lineage
    agreed: tuple[int, ...]
    """By copy: the offset from which on it is no part of the history."""
    cleaned_end: int
    """The offset up to which cleaning has taken records out of some copy; -1: of none."""
    whole_from: tuple[int, ...]
    """By copy: from which offset on it is whole up to `cleaned_end`; NO_END: nowhere."""
    apart: frozenset[int] = frozenset()
    """The copies of which only what they know to be committed counts."""
    aside: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By copy: offsets [first, end) at which it is no part of the history, though it is behind them."""
    outvoted: int | None = None
    """The newest leader epoch, if its records are cut off because none of them was ever committed."""

    @property
    def winner(self) -> Copy:
        """The copy with the newest epoch, and the longest of those, or one that was elected later."""
        return self.copies[self.order[0]]

    def missing(self, number: int) -> list[tuple[int, int]]:
        """The offsets [first, end) below the agreed one at which a copy tells nothing of the history."""
        aside = self.aside.get(number)
        return self.copies[number].damaged() + ([] if aside is None else [aside])

    def is_left(self, rows: Int64s) -> Bools:
        """Which rows are no part of the history."""
        limits = np.array(self.agreed, np.int64)[rows[:, Row.COPY]]
        return (rows[:, Row.LAST] >= limits) | self.is_aside(rows)

    def is_aside(self, rows: Int64s) -> Bools:
        """Which rows lie where their copy is no part of the history for a while."""
        places = [self.aside.get(one.number, (0, 0)) for one in self.copies]
        at = np.array(places, np.int64)[rows[:, Row.COPY]]
        found: Bools = (rows[:, Row.LAST] >= at[:, 0]) & (rows[:, Row.BASE] < at[:, 1])
        return found


def decide(copies: Sequence[Copy]) -> History:
    """Find the history, and where each copy leaves it."""
    order = sorted(
        range(len(copies)), key=lambda n: (-copies[n].lineage.last_epoch, -copies[n].end, copies[n].start, n)
    )
    elected = _elected_later(copies, order)
    outvoted = None if elected is None else copies[order[0]].lineage.last_epoch
    if elected is not None:
        order.insert(0, order.pop(order.index(elected)))
    cuts = [_cut_at(one, copies) for one in copies]
    lineage = copies[order[0]].lineage.split(cuts[order[0]])[1]
    agreed = [0] * len(copies)
    apart = set()
    for number in order:
        own = copies[number].lineage
        agreed[number] = min(agreed_end(lineage, own), own.end)
        mark = copies[number].partition.high_watermark
        if mark is not None and mark < agreed[number] and is_apart(lineage, own):
            agreed[number] = mark
            apart.add(number)
        if agreed[number] > cuts[number]:
            own = own.split(cuts[number])[1]
        lineage = joined(lineage, own, agreed[number])
    aside = {}
    for number in order:
        if 0 < cuts[number] < agreed[number]:
            own = copies[number].lineage.split(cuts[number])[0]
            parted = min(agreed_end(lineage, own), own.end)
            lineage = joined(lineage, own, parted)
            if parted < cuts[number]:
                aside[number] = (parted, cuts[number])
    cleaned_end = max(min(one.cleaned_end, agreed[one.number]) for one in copies)
    whole = tuple(_whole_from(one, agreed[one.number], cleaned_end, aside.get(one.number)) for one in copies)
    return History(
        tuple(copies),
        tuple(order),
        lineage,
        tuple(agreed),
        cleaned_end,
        whole,
        frozenset(apart),
        aside,
        outvoted,
    )


def _cut_at(copy: Copy, copies: Sequence[Copy]) -> int:
    """The offset before which a copy must have had other records than the others; 0: none.

    It has a gap there, before an epoch with which another copy starts: a batch across it was cut off.
    A third copy knows the epoch, and goes on to it without a gap.
    """
    own = {(one.epoch, one.start) for one in copy.lineage.epochs}
    starts = {one.start for one in copies}
    found = 0
    for run in copy.gaps:
        if (run.epoch, run.first) in own and run.first in starts and run.first > copy.start:
            whole = any(
                one.start < run.first
                and run.epoch in {each.epoch for each in one.lineage.epochs}
                and run.first not in {each.first for each in one.gaps}
                for one in copies
            )
            found = run.first if whole else found
    return found


def _elected_later(copies: Sequence[Copy], order: Sequence[int]) -> int | None:
    """The copy that must have been elected after the newest epoch that is known, though it cannot tell.

    Its `leader-epoch-checkpoint` is gone, and with it an election after which nothing was written yet. But it
    knows records to be committed that the newest known epoch does not have. Of that epoch nobody knows any
    record to be committed: its leader had been cut off from the others.
    """
    newest = copies[order[0]].lineage
    holders = [one for one in copies if one.lineage.last_epoch == newest.last_epoch]
    marks = [one.partition.high_watermark for one in holders]
    start = newest.epochs[-1].earliest if newest.epochs else 0
    if any(mark is None or mark > start for mark in marks):
        return None
    elected, most = None, -1
    for number in order:
        one = copies[number]
        mark = min(one.partition.high_watermark or 0, one.end)
        # Either may have lost an epoch of the other to damage: what it had there is then not known.
        agreed = max(agreed_end(newest, one.lineage), agreed_end(one.lineage, newest))
        if one in holders or one.knows_epochs or mark <= max(most, agreed):
            continue
        elected, most = number, mark
    return elected


def _whole_from(copy: Copy, agreed: int, cleaned_end: int, aside: tuple[int, int] | None) -> int:
    if agreed < cleaned_end:
        return NO_END
    ends = [min(end, NO_END) for first, end in copy.damaged() if first < cleaned_end]
    if aside is not None and aside[0] < cleaned_end:
        ends.append(aside[1])
    return max([copy.start, *ends])


@dataclass(frozen=True, slots=True)
class Conflict:
    """A batch that two copies have with the same offsets and epoch, but not with the same bytes."""

    first_offset: int
    last_offset: int
    epoch: int
    taken: int
    left: int
    """The numbers of the copies."""


@dataclass(frozen=True, slots=True)
class Block:
    """The next offsets: the rows that are taken, those that left the history, and what was odd."""

    chosen: Int64s
    left: Int64s
    conflicts: tuple[Conflict, ...]


def merge(history: History, log_start: int) -> Iterator[Block]:
    """All batches from the log start on, by offset."""
    last = -1
    for rows in _blocks(history.copies):
        outside = history.is_left(rows)
        left = rows[outside]
        inside = rows[~outside & (rows[:, Row.LAST] >= log_start)]
        chosen, conflicts = choose(inside, history, last)
        if len(chosen):
            last = int(chosen[-1, Row.LAST])
        yield Block(chosen, left, tuple(conflicts))


def _blocks(copies: Sequence[Copy]) -> Iterator[Int64s]:
    """The rows of all copies, in blocks that end at the same offset for all of them."""
    streams = [copy.rows() for copy in copies]
    waiting: list[Int64s | None] = [next(stream, None) for stream in streams]
    while True:
        ends = [int(rows[-1, Row.LAST]) for rows in waiting if rows is not None]
        if not ends:
            return
        limit = min(ends)
        taken = []
        for number, rows in enumerate(waiting):
            if rows is None:
                continue
            at = int(rows[:, Row.LAST].searchsorted(limit, side="right"))
            taken.append(rows[:at])
            waiting[number] = rows[at:] if at < len(rows) else next(streams[number], None)
        yield np.concatenate(taken)


def choose(rows: Int64s, history: History, before: int) -> tuple[Int64s, list[Conflict]]:
    """One row for each batch, by offset; `before` is the last offset that was taken so far."""
    rows = rows[_may_be_taken(rows, history)]
    if not len(rows):
        return rows, []
    rows[:, Row.STRAY] = rows[:, Row.EPOCH] != history.lineage.epochs_at(rows[:, Row.BASE])
    ranks = np.empty(len(history.order), np.int64)
    ranks[list(history.order)] = np.arange(len(history.order))
    rank = ranks[rows[:, Row.COPY]]
    at = np.lexsort((rank, -rows[:, Row.COUNT], rows[:, Row.STRAY], rows[:, Row.LAST]))
    rows, rank = rows[at], rank[at]
    first = np.concatenate(([True], np.diff(rows[:, Row.LAST]) != 0))
    conflicts = list(_conflicts(rows, first))
    return _apart(rows[first], rank[first], before), conflicts


def _may_be_taken(rows: Int64s, history: History) -> Bools:
    """Where cleaning was at work: which rows bring nothing back that was deleted (2.)."""
    base, copy = rows[:, Row.BASE], rows[:, Row.COPY]
    cleaned = base < history.cleaned_end
    allowed: Bools = np.ones(len(rows), np.bool_)
    if not cleaned.any():
        return allowed
    whole_from = np.array(history.whole_from, np.int64)
    has_whole = base >= whole_from.min()
    allowed = ~cleaned | (has_whole & (base >= whole_from[copy]))
    open_to_all = cleaned & ~has_whole
    if open_to_all.any():
        allowed |= open_to_all & (_speaker(rows, history) == copy)
    return allowed


def _speaker(rows: Int64s, history: History) -> Int64s:
    """For each row the copy that was cleaned furthest of those that are sound there."""
    base, last = rows[:, Row.BASE], rows[:, Row.LAST]
    speaker = np.full(len(rows), -1, np.int64)
    ranked = sorted(
        history.order, key=lambda number: -min(history.copies[number].cleaned_end, history.agreed[number])
    )
    for number in ranked:
        one = history.copies[number]
        sound = (base >= one.start) & (last < history.agreed[number])
        for first, end in history.missing(number):
            sound &= (last < first) | (base >= end)
        speaker[sound & (speaker < 0)] = number
    return speaker


def _conflicts(rows: Int64s, first: Bools) -> Iterator[Conflict]:
    """Rows of the same offsets and as many records that differ, and not by what cleaning writes."""
    taken = rows[np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))]
    same = (rows[:, Row.BASE] == taken[:, Row.BASE]) & (rows[:, Row.COUNT] == taken[:, Row.COUNT])
    same &= (rows[:, Row.EPOCH] == taken[:, Row.EPOCH]) & ~first
    horizon = ((rows[:, Row.FLAGS] | taken[:, Row.FLAGS]) & _DELETE_HORIZON) != 0
    differs = same & (rows[:, Row.CRC] != taken[:, Row.CRC]) & ~(horizon & (rows[:, Row.MAGIC] == 2))
    for at in np.flatnonzero(differs).tolist():
        one, other = rows[at], taken[at]
        yield Conflict(
            int(one[Row.BASE]),
            int(one[Row.LAST]),
            int(one[Row.EPOCH]),
            int(other[Row.COPY]),
            int(one[Row.COPY]),
        )


def _apart(rows: Int64s, rank: Int64s, before: int) -> Int64s:
    """Rows that do not overlap; of two that do, the one of the better copy.

    Copies of one history have the same batches. Only a copy that was written anew has others.
    """
    base, last = rows[:, Row.BASE], rows[:, Row.LAST]
    if (base > np.concatenate(([before], last[:-1]))).all():
        return rows
    kept: list[int] = []
    for at in range(len(rows)):
        if base[at] <= before:
            continue
        while kept and base[at] <= last[kept[-1]] and rank[at] < rank[kept[-1]]:
            kept.pop()
        if not kept or base[at] > last[kept[-1]]:
            kept.append(at)
    return rows[kept]
