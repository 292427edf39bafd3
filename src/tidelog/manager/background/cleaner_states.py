"""Who works on a partition's segments: one at a time, and whoever must have it can have it.

begin, end     around cleaning and retention; `begin` says no where somebody is at work or has paused it
check          asked by who is at work, again and again: raises when it is to stop
paused         around what must not meet them (deletion, moves, truncation): stops who is at work, waits
               until that has ended, and lets nobody begin. Pauses may overlap.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidelog.errors import LogError
from tidelog.types import TopicPartition

__all__ = ["CleanerStates", "CleaningAbortedError"]


class CleaningAbortedError(LogError):
    """Cleaning was stopped; the log is as it was, but for segments that were replaced by then."""


@dataclass(slots=True)
class _State:
    working: bool = False
    aborted: bool = False
    pauses: int = 0


class CleanerStates:
    """The partitions that are being worked on, or are not to be. Any thread may ask."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._states: dict[TopicPartition, _State] = {}
        self._closing = False

    def begin(self, partition: TopicPartition) -> bool:
        """Begin to work on a partition; False if that may not be now."""
        with self._changed:
            if self._closing or partition in self._states:
                return False
            self._states[partition] = _State(working=True)
            return True

    def end(self, partition: TopicPartition) -> None:
        """Work has ended, however."""
        with self._changed:
            self._states[partition].working = False
            self._tidy(partition)

    def check(self, partition: TopicPartition) -> None:
        """Raise CleaningAbortedError if work on a partition is to stop."""
        state = self._states.get(partition)
        if self._closing or (state is not None and state.aborted):
            raise CleaningAbortedError(f"cleaning {partition} was stopped")

    @contextmanager
    def paused(self, partition: TopicPartition) -> Iterator[None]:
        """Have a partition for oneself."""
        with self._changed:
            state = self._states.setdefault(partition, _State())
            state.pauses += 1
            state.aborted = state.working
            while state.working:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                state.pauses -= 1
                self._tidy(partition)

    def is_working(self, partition: TopicPartition) -> bool:
        """Whether somebody works on it."""
        with self._changed:
            state = self._states.get(partition)
            return state is not None and state.working

    def is_paused(self, partition: TopicPartition) -> bool:
        """Whether somebody has it for oneself."""
        with self._changed:
            state = self._states.get(partition)
            return state is not None and state.pauses > 0

    def close(self) -> None:
        """Stop who is at work, and let nobody begin any more."""
        self._closing = True

    def _tidy(self, partition: TopicPartition) -> None:
        state = self._states[partition]
        if not state.working and not state.pauses:
            del self._states[partition]
        self._changed.notify_all()
