"""Events of a store, reported while it is opened and run (`open(on_event=...)`).

Events come from several threads, one at a time and in order. No lock of the store is held during a call: a
listener may call any method of the store.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.cleanup.cleaner import CleanReport

__all__ = [
    "Event",
    "EventDispatcher",
    "LoadFinished",
    "LoadProgress",
    "LoadStarted",
    "LogCleaned",
    "LogFailed",
    "LogStrayed",
    "LogUncleanable",
    "RootWentOffline",
]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadStarted:
    """A root's logs are about to be loaded; without `clean`, all past their recovery points is checked."""

    root: str
    clean: bool
    logs: int
    segments: int
    """How many segments will be recovered."""
    size_bytes: int
    """And how many bytes they have."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """One more segment of a log was recovered, or all of the log is loaded."""

    root: str
    partition: TopicPartition
    """The log that it is about."""
    logs_done: int
    logs: int
    segments_done: int
    segments: int
    bytes_done: int
    size_bytes: int
    elapsed_ms: int

    @property
    def left_ms(self) -> int:
        """The estimated time left."""
        if self.bytes_done:
            return self.elapsed_ms * (self.size_bytes - self.bytes_done) // self.bytes_done
        return self.elapsed_ms * (self.logs - self.logs_done) // max(self.logs_done, 1)


@dataclass(frozen=True, slots=True)
class LoadFinished:
    """All logs of a root are loaded, or have failed."""

    root: str
    logs: int
    failed: int
    elapsed_ms: int
    clean: bool
    """Whether the root was closed cleanly."""
    segments: int
    """How many segments were recovered, or lost with a cut."""
    size_bytes: int
    """And how many bytes they had."""


@dataclass(frozen=True, slots=True)
class LogFailed:
    """A log could not be loaded, or its disk failed later; it is offline."""

    partition: TopicPartition
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class LogStrayed:
    """A directory belongs to no topic, and was renamed."""

    partition: TopicPartition
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class RootWentOffline:
    """A root cannot be used any more, and none of its logs."""

    root: str
    reason: str


@dataclass(frozen=True, slots=True)
class LogCleaned:
    """A log was compacted."""

    partition: TopicPartition
    report: CleanReport


@dataclass(frozen=True, slots=True)
class LogUncleanable:
    """A log could not be compacted. It stays in use, and is not compacted until the store is opened again."""

    partition: TopicPartition
    path: str
    reason: str


Event = (
    LoadStarted
    | LoadProgress
    | LoadFinished
    | LogFailed
    | LogStrayed
    | RootWentOffline
    | LogCleaned
    | LogUncleanable
)


class EventDispatcher:
    """Calls the listener: in order, one event at a time, and without holding a lock of the store.

    Code that holds a lock uses `deferring`; events are delivered when it ends. A thread with an event while
    another thread is delivering leaves it to that thread. So a listener may use the store freely. An
    exception of a listener is logged and ignored.
    """

    def __init__(self, listener: Callable[[Event], None] | None = None) -> None:
        self.loads: dict[str, LoadFinished] = {}
        """How each root was loaded."""
        self._listener = listener
        self._lock = threading.Lock()
        self._waiting: deque[Event] = deque()
        self._telling = False
        self._thread = threading.local()

    def __call__(self, event: Event) -> None:
        """Deliver an event now, or as soon as no lock is held."""
        if isinstance(event, LoadFinished):
            self.loads[event.root] = event
        if self._listener is not None:
            self._waiting.append(event)
            self._tell_waiting()

    @contextmanager
    def deferring(self) -> Iterator[None]:
        """Around what holds locks: events of this thread wait for its end."""
        self._thread.depth = self._depth + 1
        try:
            yield
        finally:
            self._thread.depth -= 1
            self._tell_waiting()

    @property
    def _depth(self) -> int:
        return getattr(self._thread, "depth", 0)

    def _tell_waiting(self) -> None:
        listener = self._listener
        while listener is not None and not self._depth:
            with self._lock:
                if self._telling or not self._waiting:
                    return
                self._telling = True
                event = self._waiting.popleft()
            try:
                listener(event)
            except Exception:
                _logger.exception("the listener failed on %s", event)
            finally:
                with self._lock:
                    self._telling = False
