"""Which bytes of a segment are sound: a look at all of it, past any damage.

1. Every batch whose checksum holds is found (`records.resync`); between them lies damage.
2. Batches that lie in a value of a damaged one (`records.nesting`) are none of the segment's.
3. No checksum covers a base offset. A compressed message of magic 0 whose records end at another offset than
   it says is damaged. Batches that follow each other without a gap make a run. Runs that
   contradict each other (a flipped bit in a base offset, stale bytes from elsewhere in the file) cannot all
   be right: of all ways to choose runs with growing offsets, the one that keeps the most bytes is taken,
   where bytes count less that are not where the offset index has them (`witness`).
   A single batch that fits exactly where it was left out speaks for its neighbours; so does a first run that
   begins where the segment does.
4. What is not sound is told as gaps: byte ranges, with the offsets between the sound batches around them.

Memory grows with the number of runs of one segment, not with the data.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.errors import CorruptRecordError
from tidelog.records.decode import decode_batches
from tidelog.records.nesting import HEAD_BYTES, has_header, is_nested
from tidelog.records.resync import walk_sound
from tidelog.records.windows import ByteSource, Window
from tidelog.scanning.witness import IndexWitness
from tidelog.storage.files import LARGEST_READ

__all__ = ["MAX_RELATIVE_OFFSET", "Gap", "Sound", "Survey", "survey_segment"]

MAX_RELATIVE_OFFSET = (1 << 31) - 1
"""Index files hold offsets relative to the base of their segment in so much room."""

Int64s = npt.NDArray[np.int64]

_WIDTH = 5


@dataclass(frozen=True, slots=True)
class Sound:
    """Bytes [start, end) that hold sound batches without a gap between them, and their offsets."""

    start: int
    end: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes [start, end) that hold no sound batch, and the offsets [first_offset, end_offset) around it."""

    start: int
    end: int
    first_offset: int
    end_offset: int | None
    """None at the end of a log."""
    reason: str
    is_unfinished: bool = False
    """Whether it is what a write leaves that was cut short."""


@dataclass(frozen=True, slots=True)
class Survey:
    """A segment's sound bytes and the gaps between them, by position."""

    sound: tuple[Sound, ...]
    gaps: tuple[Gap, ...]

    @property
    def last_offset(self) -> int | None:
        """The last sound offset."""
        return self.sound[-1].last_offset if self.sound else None


class _Runs:
    """Batches that follow each other in bytes and offsets: columns start, end, first, last, and how many."""

    def __init__(self, witness: IndexWitness) -> None:
        self._witness = witness
        self._parts: list[Int64s] = []
        self.reasons: dict[int, str] = {}
        """By position: why the batch there can be no part of the segment."""

    def add(self, window: Window, floor: int, limit: int) -> None:
        """Take in the next batches."""
        table = window.table
        last = table.last_offset
        first, decoded = _decoded_offsets(window)
        other = decoded != last
        for at in np.flatnonzero(other).tolist():
            self.reasons[int(table.position[at])] = (
                f"the message has offset {last[at]}, but its records end at {decoded[at]}"
            )
        self._witness.meet(table, first, last)
        wrong = (first < floor) | (last < first) | (last >= limit)
        bad = wrong | other
        for at in np.flatnonzero(wrong).tolist():
            self.reasons[int(table.position[at])] = (
                f"the batch has offsets {first[at]} to {last[at]}, which are not those of its segment"
            )
        begins = np.ones(len(table), np.bool_)
        ends = table.position + table.size
        begins[1:] = (first[1:] != last[:-1] + 1) | (table.position[1:] != ends[:-1])
        begins[1:] |= bad[1:] | bad[:-1]
        starts = np.flatnonzero(begins)
        stops = np.append(starts[1:], len(table)) - 1
        counts = stops - starts + 1
        part = np.column_stack((table.position[starts], ends[stops], first[starts], last[stops], counts))
        self._parts.append(part[~bad[starts]])

    def joined(self, end: int) -> Int64s:
        """All runs, by position; those that follow each other without a gap are one."""
        if not self._parts:
            return np.empty((0, _WIDTH), np.int64)
        runs = np.concatenate(self._parts)
        joined = _merged(runs, runs[1:, 2] == runs[:-1, 3] + 1)
        kept = np.ones(len(joined), np.bool_)
        for number, (start, _, first, last, _) in enumerate(joined.tolist()):
            told = self._witness.contradicts(start, last, end)
            if told is not None:
                kept[number] = False
                self.reasons[start] = f"offsets {first} to {last}, where the offset index has {told}"
        return joined[kept]


def _decoded_offsets(window: Window) -> tuple[Int64s, Int64s]:
    """The first and last offsets of batches: compressed messages of magic 0 and 1 are decoded for them."""
    table = window.table
    first, last = table.base_offset.copy(), table.last_offset.copy()
    for at in np.flatnonzero((table.magic < 2) & (table.codec != 0)).tolist():
        try:
            inner = decode_batches(window.data, table[at : at + 1], columns=("offset",), origin=window.origin)
        except CorruptRecordError:
            continue  # whoever decodes it will tell
        if inner.num_rows:
            first[at], last[at] = (inner.column("offset")[n].as_py() for n in (0, -1))
    return first, last


def _merged(runs: Int64s, follows: npt.NDArray[np.bool_]) -> Int64s:
    """Runs put together where one `follows` the one before and touches it."""
    if len(runs) < 2:
        return runs
    begins = np.append(True, ~(follows & (runs[1:, 0] == runs[:-1, 1])))
    starts = np.flatnonzero(begins)
    stops = np.append(starts[1:], len(runs)) - 1
    counts = np.add.reduceat(runs[:, 4], starts)
    return np.column_stack((runs[starts, 0], runs[stops, 1], runs[starts, 2], runs[stops, 3], counts))


def survey_segment(
    source: ByteSource,
    end: int,
    *,
    floor: int,
    limit: int,
    is_last: bool,
    index: bytes = b"",
    name: str | None = None,
) -> Survey:
    """Look at bytes [0, end) of a segment whose offsets are in [floor, limit).

    `is_last` if it is the last one of its log: where its offsets end is not known then. `index` is its offset
    index, if there is one. No segment is larger than positions in an index can tell: a file that is vast is
    not searched to its end.
    """
    limit = min(limit, floor + MAX_RELATIVE_OFFSET)
    witness = IndexWitness(index, floor)
    runs, damage = _Runs(witness), []
    for found in walk_sound(source, min(end, LARGEST_READ), floor=floor, limit=limit, name=name):
        if isinstance(found, Window):
            runs.add(found, floor, limit)
        else:
            damage.append(found)
    all_runs = _without_nested(runs, source, end, floor)
    kept = np.ones(len(all_runs), np.bool_)
    if (all_runs[1:, 2] <= all_runs[:-1, 3]).any():
        kept = _choose(all_runs, witness.weights(all_runs, _counted_bytes(all_runs, source, end)), floor)
    for start, _, first, last, _ in all_runs[~kept].tolist():
        runs.reasons[start] = f"offsets {first} to {last} contradict those of the batches around them"
    for one in damage:
        runs.reasons[one.start] = one.reason
    chosen = all_runs[kept]
    merged = _merged(chosen, np.ones(max(len(chosen) - 1, 0), np.bool_))
    sound = [Sound(*row[:4]) for row in merged.tolist()]
    unfinished = damage[-1].start if damage and damage[-1].is_unfinished else None
    gaps = _gaps(sound, end, floor, None if is_last else limit, runs.reasons, unfinished)
    return Survey(tuple(sound), tuple(gaps))


def _without_nested(runs: _Runs, source: ByteSource, end: int, floor: int) -> Int64s:
    """All runs but those in values of damaged batches. Runs that touch each other are judged together."""
    found = runs.joined(end)
    begins = np.append(True, found[1:, 0] != found[:-1, 1])[: len(found)]
    blocks = np.split(found, np.flatnonzero(begins)[1:]) if len(found) else []
    starts = {int(block[0, 0]) for block in blocks}
    kept, position, expected = [], 0, floor
    for block in blocks:
        place, offsets = (
            range(int(block[0, 0]), int(block[-1, 1])),
            range(int(block[0, 2]), int(block[-1, 3]) + 1),
        )
        if place.start > position and is_nested(
            lambda at: bytes(source.read(at, HEAD_BYTES)),
            position,
            place,
            expected,
            offsets,
            lambda at: at == end or at in starts,
        ):
            runs.reasons[place.start] = "the batch is part of a value of a damaged batch"
        else:
            kept.append(block)
            position, expected = place.stop, offsets.stop
    return np.concatenate(kept) if kept else np.empty((0, _WIDTH), np.int64)


def _gaps(
    sound: Sequence[Sound],
    end: int,
    floor: int,
    limit: int | None,
    reasons: dict[int, str],
    unfinished: int | None,
) -> Iterator[Gap]:
    """The bytes between what is sound."""
    starts = sorted(reasons)
    position, offset = 0, floor
    for one in [*sound, None]:
        stop = end if one is None else one.start
        if stop > position:
            within = starts[bisect.bisect_left(starts, position) : bisect.bisect_left(starts, stop)]
            reason = reasons[within[0]] if within else "there is no sound batch"
            if len(within) > 1:
                reason += f", and {len(within) - 1} more damaged pieces after it"
            yield Gap(
                position,
                stop,
                offset,
                limit if one is None else one.first_offset,
                reason,
                one is None and unfinished == position,
            )
        if one is not None:
            position, offset = one.end, one.last_offset + 1


def _counted_bytes(runs: Int64s, source: ByteSource, end: int) -> Int64s:
    """How many bytes of each run count: half of them if no batch, sound or damaged, follows it.

    A batch of the log is followed by the header of the next one, unless that is damaged. A batch in a value
    is followed by the rest of its record.
    """
    starts, ends = runs[:, 0], runs[:, 1]
    goes_on = np.isin(ends, starts) | (ends == end)
    for at in np.flatnonzero(~goes_on).tolist():
        after = int(ends[at])
        goes_on[at] = has_header(bytes(source.read(after, HEAD_BYTES)), end - after)
    return np.where(goes_on, ends - starts, (ends - starts) // 2)


def _choose(runs: Int64s, weights: Sequence[int], floor: int) -> npt.NDArray[np.bool_]:
    """Which runs to keep, so that offsets grow and the most weight stays."""
    rows = runs.tolist()
    lasts = sorted({row[3] for row in rows})
    best: list[int] = []
    before: list[int] = []
    tree = [-1] * (len(lasts) + 1)  # of each stretch of `lasts` the run that ends the best choice
    total = sum(weights)
    for n, (start, _, first, last, _) in enumerate(rows):
        chosen = _best_below(tree, best, bisect.bisect_left(lasts, first))
        score = best[chosen] if chosen >= 0 else 0
        if n >= 2 and _fits(rows[n - 2], rows[n - 1], rows[n]):
            fitting = best[n - 2] + weights[n - 1]
            if fitting > score:
                chosen, score = n - 2, fitting
        bonus = total if n == 0 and start == 0 and first == floor else 0
        best.append(score + weights[n] + bonus)
        before.append(chosen)
        at = bisect.bisect_left(lasts, last) + 1
        while at < len(tree):
            if tree[at] < 0 or best[tree[at]] < best[n]:
                tree[at] = n
            at += at & -at
    kept = np.zeros(len(rows), np.bool_)
    at = max(range(len(rows)), key=best.__getitem__)
    while at >= 0:
        kept[at] = True
        at = before[at]
    return kept


def _best_below(tree: list[int], best: list[int], count: int) -> int:
    """The run that ends the best choice of those with one of the `count` lowest last offsets; -1: none."""
    found = -1
    while count:
        if tree[count] >= 0 and (found < 0 or best[tree[count]] > best[found]):
            found = tree[count]
        count -= count & -count
    return found


def _fits(left: list[int], out: list[int], right: list[int]) -> bool:
    """Whether a batch between two that it touches, left out, would fill the offsets between them exactly."""
    is_between = out[4] == 1 and left[1] == out[0] and out[1] == right[0]
    return is_between and left[3] < right[2] and right[2] - left[3] - 1 == out[3] - out[2] + 1
