"""The time index: maps timestamps to offsets.

    0  i64  the largest timestamp in the segment so far (ms)
    8  i32  offset of the batch that holds it (its last record), relative to the segment's base offset

Timestamps grow strictly; offsets never decrease. An entry (t, o) means that records later than t come after
o. `(-1, base offset)` stands for the segment's start, which has no entry.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.index.base import IndexFile, Int64Array
from tidelog.storage.names import FileKind
from tidelog.types import TimestampOffset

__all__ = ["NO_TIMESTAMP", "TimeIndex"]

NO_TIMESTAMP = -1


class TimeIndex(IndexFile):
    """A sealed segment's time index, read-only and mapped at first use."""

    __slots__ = ()

    KIND = FileKind.TIME_INDEX
    ENTRY_SIZE = 12

    def lookup(self, target_timestamp: int) -> TimestampOffset:
        """The entry with the largest timestamp <= target; the segment's start if there is none."""
        found = (self._entries or self._loaded()).floor(target_timestamp)
        if found is None:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(found[0], self.base_offset + found[1])

    def lookup_many(self, target_timestamps: npt.ArrayLike) -> tuple[Int64Array, Int64Array]:
        """`lookup` for an array of timestamps: an array of timestamps and one of offsets."""
        return self._floor_many(target_timestamps, 0, self.base_offset, NO_TIMESTAMP)

    def entry(self, n: int) -> TimestampOffset:
        """The entry in slot `n`; IndexError if there is none."""
        found = (self._entries or self._loaded()).entry(n)
        if found is None:
            raise IndexError(f"{self.path} has {self.entries} entries, none in slot {n}")
        return TimestampOffset(found[0], self.base_offset + found[1])

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry; the segment's start if there is none."""
        found = (self._entries or self._loaded()).last()
        if found is None:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(found[0], self.base_offset + found[1])

    def entries_array(self) -> tuple[Int64Array, Int64Array]:
        """All entries: an array of timestamps and one of offsets."""
        timestamps, relative = self.raw_entries()
        relative += self.base_offset
        return timestamps, relative

    @staticmethod
    def _first_is_sound(key: int, value: int) -> bool:
        return key >= 0 and value >= 0

    @staticmethod
    def _grows(keys: Int64Array, values: Int64Array) -> npt.NDArray[np.bool_]:
        return (keys[1:] > keys[:-1]) & (values[1:] >= values[:-1])
