"""What a segment's offset index tells of batches whose offsets are in doubt.

No checksum covers a base offset, and stale bytes from elsewhere in a file are sound batches. The offset index
was written apart from the log: an entry is the last offset of a batch and its position.

1. An entry is confirmed if a batch begins at its position, and its offsets lie behind those of the entry
   before and do not go beyond its own. (Before Kafka 4, it could be of several batches.)
2. Offsets of a batch that begins at an entry's position and does not confirm it are wrong if a later entry
   is confirmed: then nothing has been moved there. They are wrong, too, if they differ by more than the file
   has bytes: no other batch of it can have been moved there.
3. Where runs of batches contradict each other, those with a confirmed entry outdo those without. Bytes that
   were put in or taken out move what comes behind them; so of the others, those count less that lie further
   from where the index has their offsets, and next to nothing if a later entry is confirmed: then nothing
   has been moved there.

An index of which nothing is confirmed tells nothing: it may be damaged itself.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tidelog.records.batches import BatchTable

__all__ = ["IndexWitness", "index_bytes"]

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_FARTHEST = (1 << 31) - 1
_NEAR_BYTES = 512
"""A run that lies so far from its place counts half."""


def index_bytes(read: Callable[[], bytes]) -> bytes:
    """An index file, nothing if it cannot be read: it can be done without."""
    try:
        return read()
    except OSError:
        return b""


class IndexWitness:
    """The entries of an offset index, and which of them the batches that were found confirm."""

    def __init__(self, data: bytes, base_offset: int) -> None:
        entries = np.frombuffer(data[: len(data) // 8 * 8], ">i4").astype(np.int64).reshape(-1, 2)
        grows = np.ones(len(entries), np.bool_)
        if len(entries):
            grows[0] = entries[0, 1] > 0
            grows[1:] = (entries[1:] > entries[:-1]).all(axis=1)
        entries = entries[: len(entries) if grows.all() else int(grows.argmin())]
        self._offsets: Int64s = entries[:, 0] + base_offset
        self._positions: Int64s = np.ascontiguousarray(entries[:, 1])
        self._confirmed: Bools = np.zeros(len(entries), np.bool_)
        self._denied: Bools = np.zeros(len(entries), np.bool_)

    def meet(self, table: BatchTable, first: Int64s, last: Int64s) -> None:
        """Take in batches; `first` and `last` are their offsets."""
        if not len(self._positions):
            return
        found = np.minimum(self._positions.searchsorted(table.position), len(self._positions) - 1)
        at = np.flatnonzero(self._positions[found] == table.position)
        entry = found[at]
        before = np.where(entry > 0, self._offsets[entry - 1], -1)
        fits = (first[at] > before) & (last[at] <= self._offsets[entry])
        self._confirmed[entry[fits]] = True
        self._denied[entry[~fits]] = True

    def contradicts(self, position: int, last: int, end: int) -> int | None:
        """The last offset that the index has for a batch at a position, if it is known to be right.

        `last` is what the batch says, and `end` where the file ends.
        """
        at = int(self._positions.searchsorted(position))
        if at == len(self._positions) or self._positions[at] != position or not self._denied[at]:
            return None
        told = int(self._offsets[at])
        return told if self._confirmed[at + 1 :].any() or abs(last - told) > end else None

    def weights(self, runs: Int64s, sizes: Int64s) -> list[int]:
        """How much each run counts: its bytes, less far from its place, more with a confirmed entry.

        `sizes` are the bytes of each run that count.
        """
        if not self._confirmed.any() or self._denied.sum() > self._confirmed.sum():
            return [int(size) for size in sizes]
        lowest, highest = self._places(runs[:, 2])
        away = np.maximum(np.maximum(lowest - runs[:, 0], runs[:, 0] - highest), 0)
        lowest, highest = self._places(runs[:, 3])
        ends_away = (runs[:, 1] <= lowest) | (runs[:, 0] > highest)
        there = self._positions[self._confirmed]
        is_there = there.searchsorted(runs[:, 1]) > there.searchsorted(runs[:, 0])
        is_stale = (away > 0) & ends_away & (runs[:, 1] <= there[-1])
        counted = np.where(is_stale, 1, np.maximum(sizes * _NEAR_BYTES // (_NEAR_BYTES + away), 1))
        weights = counted + is_there * int(sizes.sum())
        return [int(one) for one in weights]

    def _places(self, offsets: Int64s) -> tuple[Int64s, Int64s]:
        """Between which positions the batches of these offsets begin."""
        at = self._offsets.searchsorted(offsets)
        return np.append(0, self._positions)[at], np.append(self._positions, _FARTHEST)[at]
