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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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

    @property
    def winner(self) -> Copy:
        """The copy with the newest epoch, and the longest of those."""
        return self.copies[self.order[0]]


def decide(copies: Sequence[Copy]) -> History:
    """Find the history, and where each copy leaves it."""
    order = sorted(
        range(len(copies)), key=lambda n: (-copies[n].lineage.last_epoch, -copies[n].end, copies[n].start, n)
    )
    lineage = copies[order[0]].lineage
    agreed = [0] * len(copies)
    apart = set()
    for number in order:
        own = copies[number].lineage
        agreed[number] = min(agreed_end(lineage, own), own.end)
        mark = copies[number].partition.high_watermark
        if mark is not None and mark < agreed[number] and is_apart(lineage, own):
            agreed[number] = mark
            apart.add(number)
        lineage = joined(lineage, own, agreed[number])
    cleaned_end = max(min(one.cleaned_end, agreed[one.number]) for one in copies)
    whole = tuple(_whole_from(one, agreed[one.number], cleaned_end) for one in copies)
    return History(tuple(copies), tuple(order), lineage, tuple(agreed), cleaned_end, whole, frozenset(apart))


def _whole_from(copy: Copy, agreed: int, cleaned_end: int) -> int:
    if agreed < cleaned_end:
        return NO_END
    ends = [min(end, NO_END) for first, end in copy.damaged() if first < cleaned_end]
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
        limits = np.array(history.agreed, np.int64)[rows[:, Row.COPY]]
        outside = rows[:, Row.LAST] >= limits
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
        for first, end in one.damaged():
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
