"""What clients may take of a broker: connections, in all and per address, and memory for large requests.

Small requests are read without asking, and so is the beginning of a large one: a length alone takes nothing.
With more than `SMALL_BYTES` of it here, a request takes its size from a budget while it is read and handled.
Where that is used up, its connection is not read from until others have finished; the smallest is next. A
request that has begun must come in within a time; while others wait for memory it has to keep pace, so that
nobody keeps the budget by being slow.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable

__all__ = ["SMALL_BYTES", "Budget", "Connections"]

SMALL_BYTES = 64 << 10


class Connections:
    """Who is connected."""

    def __init__(self, most: int, most_per_address: int) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._by_address: Counter[str] = Counter()
        self.total = 0

    def admit(self, address: str) -> bool:
        """Whether one more connection of an address is let in; then it counts until `leave`."""
        if self.total >= self._most or self._by_address[address] >= self._most_per_address:
            return False
        self.total += 1
        self._by_address[address] += 1
        return True

    def leave(self, address: str) -> None:
        """A connection that was let in has gone."""
        self.total -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class Budget:
    """Bytes that large requests may take in all; -1 for no limit."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self.taken_bytes = 0
        self._waiting: list[tuple[int, Callable[[], None]]] = []  # the smallest first

    @property
    def is_short(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    def take(self, size: int, when_free: Callable[[], None]) -> bool:
        """Take so many bytes; False where there is no room: `when_free` is called when they are taken.

        One request is always let in, however large.
        """
        if self._fits(size) and not (self._waiting and self._waiting[0][0] <= size):
            self.taken_bytes += size
            return True
        bisect.insort(self._waiting, (size, when_free), key=lambda one: one[0])
        return False

    def _fits(self, size: int) -> bool:
        return self._limit < 0 or not self.taken_bytes or self.taken_bytes + size <= self._limit

    def forget(self, when_free: Callable[[], None]) -> None:
        """Wait no more."""
        self._waiting = [one for one in self._waiting if one[1] != when_free]

    def give_back(self, size: int) -> None:
        """Let go of bytes that were taken."""
        self.taken_bytes -= size
        while self._waiting and self._fits(self._waiting[0][0]):
            waiting_size, when_free = self._waiting.pop(0)
            self.taken_bytes += waiting_size
            when_free()
