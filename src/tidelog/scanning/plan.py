"""From a range of offsets to tasks: a pure decision over what the directory and the sparse index say.

    segments   |----0----|----1----|----2----|----3---        range [a, b) takes segments 1 to 3
    index of 1    .   .   .   .   .                           cut at entries, near multiples of `split_bytes`

An offset index entry is (last offset of a batch, position of that batch): a task may begin at any entry's
position. Segments outside the range get no task and are never opened.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.scanning.partitions import SegmentFacts

__all__ = ["DEFAULT_SPLIT_BYTES", "Stretch", "plan_stretches", "segments_in_range"]

DEFAULT_SPLIT_BYTES = 64 << 20
_SMALL_BYTES = 16 << 10
"""So much is read sooner than the index that tells which part of it is wanted."""

_base_offset = attrgetter("base_offset")

Int64s = npt.NDArray[np.int64]


class Stretch(NamedTuple):
    """Bytes [start, end) of a segment's log, from batch to batch; `is_last` if the log ends there."""

    segment: SegmentFacts
    start: int
    end: int
    is_last: bool
    first_last_offset: int = -1
    """The last offset of the batch at the start, as the offset index has it; -1 where that is not known."""
    next_base: int = (1 << 63) - 1
    """Where the next segment begins."""


def segments_in_range(segments: Sequence[SegmentFacts], start: int, end: int) -> list[SegmentFacts]:
    """The segments that can hold offsets of [start, end): a segment's ends where the next one begins."""
    first, last = _places(segments, start, end)
    return list(segments[first:last])


def _places(segments: Sequence[SegmentFacts], start: int, end: int) -> tuple[int, int]:
    if start >= end:
        return 0, 0
    first = max(bisect_right(segments, start, key=_base_offset) - 1, 0)
    return first, bisect_left(segments, end, key=_base_offset)


def plan_stretches(
    segments: Sequence[SegmentFacts],
    start: int,
    end: int,
    entries: Callable[[SegmentFacts], tuple[Int64s, Int64s]],
    split_bytes: int = DEFAULT_SPLIT_BYTES,
) -> list[Stretch]:
    """Stretches that together hold [start, end), about `split_bytes` long.

    `entries` answers a segment's offset index (offsets and positions); it is asked only where a segment has
    to be cut, at the range's ends or because it is long.
    """
    stretches = []
    for at in range(*_places(segments, start, end)):
        segment = segments[at]
        is_last = at + 1 == len(segments)
        inner_start = start > segment.base_offset
        next_base = (1 << 63) - 1 if is_last else segments[at + 1].base_offset
        inner_end = end < next_base and not is_last
        is_cut = segment.size > split_bytes or inner_start or inner_end
        if not is_cut or segment.size <= min(_SMALL_BYTES, split_bytes):
            cuts, known = [0, segment.size], {}
        else:
            offsets, positions = entries(segment)
            cuts = _cuts(segment.size, start, end, offsets, positions, split_bytes)
            slots = np.searchsorted(positions, cuts)
            known = {
                cut: int(offsets[slot]) for cut, slot in zip(cuts, slots, strict=True) if slot < len(offsets)
            }
        stretches += [
            Stretch(segment, a, b, is_last and b == segment.size, known.get(a, -1) if a else -1, next_base)
            for a, b in pairwise(cuts)
            if b > a
        ]
    return stretches


def _cuts(size: int, start: int, end: int, offsets: Int64s, positions: Int64s, split_bytes: int) -> list[int]:
    """Positions to cut at: `start`'s floor entry, entries near the multiples, the entry safely past `end`."""
    inside = positions < size
    offsets, positions = offsets[inside], positions[inside]
    floor = int(np.searchsorted(offsets, start, side="right")) - 1
    first = int(positions[floor]) if floor >= 0 else 0
    # The first entry at or past `end` may still lie in the batch that holds end - 1: stop at the one after
    # it.
    past = int(np.searchsorted(offsets, end, side="left")) + 1
    last = int(positions[past]) if past < len(positions) else size
    wanted = np.arange(first + split_bytes, last - split_bytes // 2, split_bytes)
    nearest = np.searchsorted(positions, wanted)
    middle = np.unique(positions[nearest[nearest < len(positions)]])
    return [first, *(int(position) for position in middle if first < position < last), last]
