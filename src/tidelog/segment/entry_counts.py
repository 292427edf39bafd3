"""How many index entries a segment would have, were it written anew: told without a file."""

from __future__ import annotations

import numpy as np

from tidelog.kernels.entries import index_entries
from tidelog.records.batches import BatchTable

__all__ = ["EntryCounts"]


class EntryCounts:
    """Counts the entries of batches that are appended to a new segment, from the first on."""

    def __init__(self, base_offset: int, interval: int) -> None:
        self._base_offset = base_offset
        self._interval = interval
        self._progress = np.array([0, base_offset - 1, 0, -1, base_offset, -1], np.int64)
        self._times = 0
        self.offsets = 0
        """Entries of the offset index."""

    @property
    def times(self) -> int:
        """Entries of the time index, with the one that sealing adds."""
        return self._times + int(self._progress[3] > self._progress[5])

    def add(self, batches: BatchTable) -> bool:
        """Count those of more batches; False if the segment would not take them."""
        offsets, times = np.empty((2, len(batches)), np.int64), np.empty((2, len(batches)), np.int64)
        _, fault, some, fewer = index_entries(
            batches.rows, self._base_offset, self._interval, self._progress, offsets, times
        )
        self.offsets += some
        self._times += fewer
        return not fault
