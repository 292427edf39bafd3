"""Indexes as plain lists, with Kafka's rules: what the real ones are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tidelog.errors import IndexFullError, IndexOffsetOverflowError, OffsetsOutOfOrderError, TidelogError

MAX_RELATIVE = 2**31 - 1


@dataclass
class ModelIndex:
    """What both kinds share. `slots` is what the file has room for."""

    base: int
    max_size: int
    entries: list[tuple[int, int]] = field(default_factory=list)
    slots: int = -1

    size: ClassVar[int]

    def __post_init__(self) -> None:
        self.slots = self.max_size // self.size

    def resize(self, new_size: int) -> bool:
        changed = new_size // self.size != self.slots
        self.slots = new_size // self.size
        return changed

    def trim(self) -> None:
        self.slots = len(self.entries)

    def reset(self) -> None:
        self.entries = []
        self.slots = self.max_size // self.size

    def overflow(self, offset: int) -> TidelogError | None:
        if 0 <= offset - self.base <= MAX_RELATIVE:
            return None
        return IndexOffsetOverflowError()


class ModelOffsetIndex(ModelIndex):
    """Entries are (offset, position)."""

    size = 8

    @property
    def full(self) -> bool:
        return len(self.entries) >= self.slots

    def append(self, offset: int, position: int) -> TidelogError | None:
        if self.full:
            return IndexFullError()
        if self.entries and offset <= self.entries[-1][0] and not self.overflow(offset):
            return OffsetsOutOfOrderError()
        error = self.overflow(offset)
        if error is None:
            self.entries.append((offset, position))
        return error

    def lookup(self, target: int) -> tuple[int, int]:
        return max((entry for entry in self.entries if entry[0] <= target), default=(self.base, 0))

    def upper(self, position: int) -> tuple[int, int] | None:
        above = [entry for entry in self.entries if entry[1] >= position]
        if above and above[0] == self.entries[0] and above[0][1] == position:
            above.pop(0)  # as Kafka: see kernels.search
        return above[0] if above else None

    def truncate_to(self, offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry[0] < offset]


class ModelTimeIndex(ModelIndex):
    """Entries are (timestamp, offset)."""

    size = 12

    @property
    def full(self) -> bool:
        return len(self.entries) >= self.slots - 1

    def maybe_append(self, timestamp: int, offset: int, skip: bool) -> TidelogError | bool:
        if self.full and not skip:
            return IndexFullError()
        last_time, last_offset = self.entries[-1] if self.entries else (-1, self.base)
        if self.entries and (offset < last_offset or timestamp < last_time):
            return OffsetsOutOfOrderError()
        if timestamp <= last_time:
            return False
        error = self.overflow(offset)
        if error is not None:
            return error
        if len(self.entries) >= self.slots:
            return IndexFullError()
        self.entries.append((timestamp, offset))
        return True

    def lookup(self, target: int) -> tuple[int, int]:
        return max((entry for entry in self.entries if entry[0] <= target), default=(-1, self.base))

    def truncate_to(self, offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry[1] < offset]
