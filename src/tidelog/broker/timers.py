"""Deadlines of a coordinator: what is to be done when, by name.

A name has one deadline; setting it again moves it. Nothing runs by itself: the coordinator asks for what is
due at each tick, and tells the broker the earliest deadline with `Wake`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Sequence

from tidelog.broker.effects import Effect

__all__ = ["Action", "Timers"]

_SLACK = 64

Action = Callable[[int], Sequence[Effect]]
"""What is done when the time has come; it is given the time."""


class Timers:
    """Actions by name, each with its deadline."""

    def __init__(self) -> None:
        self._set: dict[Hashable, tuple[int, int, Action]] = {}
        self._queue: list[tuple[int, int, Hashable]] = []
        self._count = 0

    def set(self, name: Hashable, at_ms: int, action: Action) -> None:
        """Do `action` at `at_ms`, in place of what was set under the name."""
        self._count += 1
        self._set[name] = (at_ms, self._count, action)
        heapq.heappush(self._queue, (at_ms, self._count, name))
        if len(self._queue) > _SLACK + 4 * len(self._set):
            # Members that are heard of often move their deadlines often.
            self._queue = [(at, count, each) for each, (at, count, _) in self._set.items()]
            heapq.heapify(self._queue)

    def cancel(self, name: Hashable) -> None:
        """Forget what was set under the name."""
        self._set.pop(name, None)

    def deadline(self, name: Hashable) -> int | None:
        """When the action under the name is due."""
        found = self._set.get(name)
        return None if found is None else found[0]

    @property
    def earliest(self) -> int | None:
        """The next deadline."""
        self._skip()
        return self._queue[0][0] if self._queue else None

    def due(self, now_ms: int) -> Action | None:
        """Take the next action whose time has come."""
        self._skip()
        if not self._queue or self._queue[0][0] > now_ms:
            return None
        _, _, name = heapq.heappop(self._queue)
        return self._set.pop(name)[2]

    def _skip(self) -> None:
        """Drop what was cancelled or moved."""
        while self._queue and self._set.get(self._queue[0][2], (0, 0))[1] != self._queue[0][1]:
            heapq.heappop(self._queue)
