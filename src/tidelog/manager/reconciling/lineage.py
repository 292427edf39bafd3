"""Which leader epoch wrote which offsets of a copy, and where two copies diverge.

A follower takes records of an epoch only from that epoch's leader, after it has cut off what the leader does
not have. So two copies that both have records of an epoch agree on everything before them, and on as much of
the epoch as both have. From that follows:

1. The copy with the newest epoch wins, and of several the longest: it has what that epoch's leader had.
2. Another copy agrees with it up to the end, in either of them, of the newest epoch that both know. That is
   what a follower finds out with OffsetForLeaderEpoch. What the copy has behind it, an election cut off.
3. What the winner does not tell (it starts later, or is damaged) the next best copy does, and so on.
4. Where a copy ends before the oldest epoch begins that the history knows, no epoch tells whether it agrees.
   Only what it knows to be committed counts: what lies below its high watermark.
5. A follower whose leader was trimmed cuts off only what lies above the leader's log start. If a batch lay
   across that offset, a gap is left there before the leader's epoch: the follower had other records below.
   Where another copy goes on without a gap, that one tells what came before.

A copy's epochs come from its sound batches. `leader-epoch-checkpoint` adds epochs that have left no sound
batch, unless it contradicts the batches. No checksum covers the epoch in a batch: where epochs go back, the
batches that fit the most others are believed. Messages of magic 0 and 1 have the epoch -1.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.storage import EpochEntry

__all__ = ["EpochRun", "EpochStart", "Lineage", "agreed_end", "is_apart", "joined", "lineage_of"]

Int64s = npt.NDArray[np.int64]


class EpochRun(NamedTuple):
    """Sound batches of one epoch that follow each other: offsets [first, last]."""

    epoch: int
    first: int
    last: int
    batches: int


class EpochStart(NamedTuple):
    """An epoch whose first offset is one of [earliest, start]."""

    epoch: int
    earliest: int
    start: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """The epochs of a history, oldest first, and where it ends."""

    epochs: tuple[EpochStart, ...]
    end: int

    @property
    def last_epoch(self) -> int:
        """The newest epoch; -2 if there is none."""
        return self.epochs[-1].epoch if self.epochs else -2

    def split(self, offset: int) -> tuple[Lineage, Lineage]:
        """The history before an offset, and that from there on."""
        before = tuple(one for one in self.epochs if one.start < offset)
        return Lineage(before, min(offset, self.end)), Lineage(self.epochs[len(before) :], self.end)

    def end_of(self, epoch: int) -> tuple[int, int]:
        """Between which offsets an epoch ended: the earliest and the latest that are possible."""
        at = bisect.bisect_right([one.epoch for one in self.epochs], epoch)
        if at == len(self.epochs):
            return self.end, self.end
        return self.epochs[at].earliest, self.epochs[at].start

    def epochs_at(self, offsets: Int64s) -> Int64s:
        """The epoch of each offset; that of the first one below it."""
        if not self.epochs:
            return np.full(len(offsets), -1, np.int64)
        starts = np.array([one.start for one in self.epochs], np.int64)
        numbers = np.array([one.epoch for one in self.epochs], np.int64)
        found: Int64s = numbers[np.maximum(starts.searchsorted(offsets, side="right") - 1, 0)]
        return found


def lineage_of(
    runs: Sequence[EpochRun], entries: Iterable[EpochEntry], end: int, log_start: int = 0
) -> tuple[Lineage, list[str]]:
    """The history of a copy, and what in it could not be believed.

    `runs` are those of its sound batches, by offset; `entries` what `leader-epoch-checkpoint` says; `end` is
    the offset after the last sound batch. Records before `log_start` are deleted: the checkpoint then begins
    there, though batches before it are still in the file.
    """
    kept = _in_line(runs)
    notes = [
        f"{one.batches} batches from offset {one.first} to {one.last} are stamped with leader epoch "
        f"{one.epoch}, between others that contradict it"
        for one in runs
        if one not in kept
    ]
    starts: dict[int, EpochStart] = {}
    before = 0
    for one in kept:
        starts.setdefault(one.epoch, EpochStart(one.epoch, before, one.first))
        before = one.last + 1
    for number, entry in enumerate(entries):
        against = [
            one
            for one in kept
            if (
                one.first < entry.start_offset if one.epoch >= entry.epoch else one.last >= entry.start_offset
            )
        ]
        if against:
            # Where records were deleted inside of an epoch, the oldest entry begins at the log start.
            trimmed = number == 0 and all(one.epoch == entry.epoch for one in against)
            if entry.start_offset > max(kept[0].first, log_start) and not trimmed:
                notes.append(
                    f"leader-epoch-checkpoint says that epoch {entry.epoch} begins at offset "
                    f"{entry.start_offset}; the batches there say otherwise, and are believed"
                )
            continue
        starts[entry.epoch] = EpochStart(entry.epoch, entry.start_offset, entry.start_offset)
    return Lineage(tuple(sorted(starts.values())), end), notes


def _in_line(runs: Sequence[EpochRun]) -> list[EpochRun]:
    """The runs that make the most batches with epochs that do not go back."""
    if all(left.epoch <= right.epoch for left, right in pairwise(runs)):
        return list(runs)
    best: list[int] = []
    before: list[int] = []
    ends: dict[int, int] = {}  # by epoch, the run that ends the best choice of those with this last epoch
    for at, one in enumerate(runs):
        found = max((ends[epoch] for epoch in ends if epoch <= one.epoch), key=best.__getitem__, default=-1)
        best.append(one.batches + (best[found] if found >= 0 else 0))
        before.append(found)
        if one.epoch not in ends or best[at] > best[ends[one.epoch]]:
            ends[one.epoch] = at
    kept = []
    at = max(range(len(runs)), key=best.__getitem__)
    while at >= 0:
        kept.append(runs[at])
        at = before[at]
    return kept[::-1]


def agreed_end(winner: Lineage, other: Lineage) -> int:
    """Up to which offset a history agrees with the winner's."""
    if not other.epochs or not winner.epochs:
        return other.end
    known = {one.epoch for one in winner.epochs}
    common = max((one.epoch for one in other.epochs if one.epoch in known), default=None)
    if common is None:
        first = winner.epochs[0]
        if other.epochs[0].epoch <= first.epoch:
            return min(first.start, other.end_of(first.epoch)[1])
        common = max(one.epoch for one in winner.epochs if one.epoch < other.epochs[0].epoch)
        earliest, latest = winner.end_of(common)
        agreed = other.epochs[0].earliest
    else:
        earliest, latest = winner.end_of(common)
        agreed = min(latest, other.end_of(common)[1])
    if earliest < latest:  # what the winner has there is not known: later epochs of the other may fit in
        following = next(one.epoch for one in winner.epochs if one.epoch > common)
        for one in other.epochs:
            if common < one.epoch < following and earliest <= one.start < latest:
                agreed = max(agreed, min(latest, other.end_of(one.epoch)[1]))
    return agreed


def is_apart(winner: Lineage, other: Lineage) -> bool:
    """Whether a history ends before the oldest epoch begins that the winner's knows: they may have parted."""
    if not other.epochs or not winner.epochs:
        return False
    first = winner.epochs[0]
    return other.last_epoch < first.epoch and other.end < first.start


def joined(winner: Lineage, other: Lineage, agreed: int) -> Lineage:
    """The winner's history with what another one, which agrees with it so far, knows besides."""
    starts = {one.epoch: one for one in winner.epochs}
    for one in other.epochs:
        if one.start >= agreed:
            continue
        known = starts.get(one.epoch)
        if known is not None:
            earliest, start = max(known.earliest, one.earliest), min(known.start, one.start)
            starts[one.epoch] = EpochStart(one.epoch, min(earliest, start), start)
            continue
        below = [each for each in starts.values() if each.epoch < one.epoch]
        above = [each for each in starts.values() if each.epoch > one.epoch]
        if all(each.start <= one.start for each in below) and all(each.start > one.start for each in above):
            starts[one.epoch] = one
    return Lineage(tuple(sorted(starts.values())), winner.end)
