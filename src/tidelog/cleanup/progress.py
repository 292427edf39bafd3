"""Who is told of each step of cleaning, and may stop it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypedDict

__all__ = ["CleanProgress", "CleanStage", "Hooks", "Steps"]


class CleanStage(Enum):
    """What a round is doing."""

    MAPPING = "mapping keys"
    REWRITING = "rewriting"


@dataclass(frozen=True, slots=True)
class CleanProgress:
    """How far a round is, in bytes read; the total is of this stage."""

    stage: CleanStage
    done: int
    total: int


class Hooks(TypedDict, total=False):
    """What cleaning calls on its way, as far as it is given.

    `throttle` is told bytes read and written and may wait; `check` is called before each run of batches and
    may raise to stop: then the segments that were swapped in by then stay, and all others are as they were.
    `progress` is told how far it is.
    """

    throttle: Callable[[int], None] | None
    check: Callable[[], None] | None
    progress: Callable[[CleanProgress], None] | None


class Steps:
    """Tells the hooks of each step."""

    def __init__(self, hooks: Hooks) -> None:
        self._throttle = hooks.get("throttle")
        self._check = hooks.get("check")
        self._progress = hooks.get("progress")
        self._now = CleanProgress(CleanStage.MAPPING, 0, 0)

    def begin(self, stage: CleanStage, total: int) -> None:
        """Another stage begins."""
        self._now = CleanProgress(stage, 0, total)
        self.step(0)

    def step(self, size: int) -> None:
        """So many bytes are about to be read, or were written."""
        if self._check is not None:
            self._check()
        if self._throttle is not None and size:
            self._throttle(size)
        if self._progress is not None:
            self._now = replace(self._now, done=min(self._now.done + size, self._now.total))
            self._progress(self._now)
