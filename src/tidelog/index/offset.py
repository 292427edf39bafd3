"""The offset index: maps offsets to positions in the segment's file.

    0  i32  offset of an indexed batch's last record, relative to the segment's base offset
    4  i32  position of that batch in the `.log` file

Entries grow in both fields. The index is sparse: a look-up returns the nearest entry at or below the target,
and the reader continues from its position. `(base offset, 0)` stands for the segment's start, which has no
entry.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.index.base import IndexFile, Int64Array
from tidelog.storage.names import FileKind
from tidelog.types import OffsetPosition

__all__ = ["OffsetIndex"]


class OffsetIndex(IndexFile):
    """A sealed segment's offset index, read-only and mapped at first use."""

    __slots__ = ()

    KIND = FileKind.OFFSET_INDEX
    ENTRY_SIZE = 8

    def lookup(self, target_offset: int) -> OffsetPosition:
        """The entry with the largest offset <= target; the segment's start if there is none."""
        base = self.base_offset
        found = (self._entries or self._loaded()).floor(target_offset - base)
        if found is None:
            return OffsetPosition(base, 0)
        return OffsetPosition(base + found[0], found[1])

    def lookup_position(self, target_offset: int) -> int:
        """`lookup(target_offset).position`, cheaper."""
        found = (self._entries or self._loaded()).floor(target_offset - self.base_offset)
        return 0 if found is None else found[1]

    def lookup_many(self, target_offsets: npt.ArrayLike) -> tuple[Int64Array, Int64Array]:
        """`lookup` for an array of offsets: an array of offsets and one of positions."""
        return self._floor_many(target_offsets, self.base_offset, 0, self.base_offset)

    def fetch_upper_bound_offset(self, fetch_start: OffsetPosition, fetch_size: int) -> OffsetPosition | None:
        """The first entry at or after the end of a fetch of that many bytes; None if all are before it.

        Its offset is outside of what was fetched, though rarely the smallest such offset.
        """
        entries = self._entries or self._loaded()
        return self._absolute(entries.ceiling_by_value(fetch_start.position + fetch_size))

    def entry(self, n: int) -> OffsetPosition:
        """The entry in slot `n`; IndexError if there is none."""
        found = self._absolute((self._entries or self._loaded()).entry(n))
        if found is None:
            raise IndexError(f"{self.path} has {self.entries} entries, none in slot {n}")
        return found

    @property
    def last_entry(self) -> OffsetPosition:
        """The last entry; the segment's start if there is none."""
        last = self._absolute((self._entries or self._loaded()).last())
        return OffsetPosition(self.base_offset, 0) if last is None else last

    @property
    def last_offset(self) -> int:
        """The offset of the last entry; the base offset if there is none."""
        return self.last_entry.offset

    def entries_array(self) -> tuple[Int64Array, Int64Array]:
        """All entries: an array of offsets and one of positions."""
        relative, positions = self.raw_entries()
        relative += self.base_offset
        return relative, positions

    def _absolute(self, found: tuple[int, int] | None) -> OffsetPosition | None:
        return None if found is None else OffsetPosition(self.base_offset + found[0], found[1])

    @staticmethod
    def _first_is_sound(key: int, value: int) -> bool:
        return key >= 0 and value > 0  # a segment's first batch never has an entry

    @staticmethod
    def _grows(keys: Int64Array, values: Int64Array) -> npt.NDArray[np.bool_]:
        return (keys[1:] > keys[:-1]) & (values[1:] > values[:-1])
