"""Background work: one thread, one queue ordered by time.

    TaskQueue           tasks and when they are due; runs those that are when it is told the time. No thread.
    BackgroundThread    tells it the time

Tasks run one after the other, so they need no locks among themselves, and a slow one delays the others: each
must be a short step. A task that fails is reported and, if it repeats, tried again at its next turn. Periods
count from the end of a run.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["BackgroundThread", "TaskQueue", "monotonic_ms"]

_logger = logging.getLogger(__name__)

_FOREVER_MS = 1 << 53


def monotonic_ms() -> int:
    """A clock that never goes back."""
    return time.monotonic_ns() // 1_000_000


@dataclass(order=True, slots=True)
class _Task:
    due_ms: int
    number: int
    name: str = field(compare=False)
    action: Callable[[], object] = field(compare=False)
    period_ms: int | None = field(compare=False, default=None)


class TaskQueue:
    """What is to be done, and when. Any thread may add to it; one at a time runs it."""

    def __init__(
        self, now_ms: Callable[[], int], on_failure: Callable[[str, Exception], None] | None = None
    ) -> None:
        self._now_ms = now_ms
        self._on_failure = on_failure
        self._tasks: list[_Task] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()

    def schedule_once(self, name: str, action: Callable[[], object], delay_ms: int = 0) -> None:
        """Run `action` once, in `delay_ms` milliseconds or a little later."""
        self._add(name, action, delay_ms, None)

    def schedule(self, name: str, action: Callable[[], object], *, period_ms: int, delay_ms: int = 0) -> None:
        """Run `action` again and again, with `period_ms` between two runs."""
        self._add(name, action, delay_ms, period_ms)

    def _add(self, name: str, action: Callable[[], object], delay_ms: int, period_ms: int | None) -> None:
        with self._changed:
            due = self._now_ms() + min(delay_ms, _FOREVER_MS)
            heapq.heappush(self._tasks, _Task(due, next(self._numbers), name, action, period_ms))
            self._changed.notify_all()

    def run_one(self) -> bool:
        """Run the task that is due longest; False if none is."""
        task = self._take()
        if task is None:
            return False
        self._run(task)
        if task.period_ms is not None:
            self._add(task.name, task.action, max(task.period_ms, 1), task.period_ms)
        return True

    def run_due(self) -> int:
        """Run all that are due; how many that were."""
        ran = 0
        while self.run_one():
            ran += 1
        return ran

    def drain(self) -> None:
        """Run everything that is to be done once, due or not, and forget the rest."""
        while self._tasks:
            with self._changed:
                tasks, self._tasks = sorted(self._tasks), []
            for task in tasks:
                if task.period_ms is None:
                    self._run(task)

    def wait(self, closing: Callable[[], bool]) -> None:
        """Wait until a task is due, or `closing` says so after a `wake`."""
        with self._changed:
            while not closing():
                left = self._tasks[0].due_ms - self._now_ms() if self._tasks else _FOREVER_MS
                if left <= 0:
                    return
                self._changed.wait(min(left / 1000, 3600))

    def wake(self) -> None:
        """Make `wait` look again."""
        with self._changed:
            self._changed.notify_all()

    def _take(self) -> _Task | None:
        with self._changed:
            if not self._tasks or self._tasks[0].due_ms > self._now_ms():
                return None
            return heapq.heappop(self._tasks)

    def _run(self, task: _Task) -> None:
        try:
            task.action()
        except Exception as error:
            _logger.error("background task %s failed: %s", task.name, error, exc_info=True)
            if self._on_failure is not None:
                self._on_failure(task.name, error)


class BackgroundThread:
    """Runs a queue's tasks as they become due, until it is stopped."""

    def __init__(self, queue: TaskQueue, name: str = "tidelog-background") -> None:
        self._queue = queue
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Wait until the task in progress, if any, has ended; no other begins."""
        self._closing = True
        self._queue.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._closing:
            self._queue.wait(lambda: self._closing)
            if not self._closing:
                self._queue.run_one()
