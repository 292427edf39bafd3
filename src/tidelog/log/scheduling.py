"""Work that a log leaves for later: files to be deleted after a delay, rolled segments to be flushed.

A log has no threads of its own. Who runs many of them gives each a `Scheduler`; without one, files are
deleted at once (whoever reads them keeps them), and rolled segments are flushed by the next `flush`, `close`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["Scheduler"]


class Scheduler(Protocol):
    """Runs actions later, on another thread."""

    def schedule_once(self, name: str, action: Callable[[], None], delay_ms: int = 0) -> None:
        """Run `action` once, in `delay_ms` milliseconds or a little later; `name` is for messages."""
