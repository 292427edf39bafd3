"""Ctrl-C, heard where it suits the work.

Python raises KeyboardInterrupt wherever it happens to be. In the middle of a change that leaves more to clean
up than need be, and inside of a `__del__` it is dropped: a command that runs until Ctrl-C may not hear it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["interruptible"]


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Let Ctrl-C stop the work where it is safe: what is given raises KeyboardInterrupt after one."""
    heard = False

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        if heard:
            raise KeyboardInterrupt
        heard = True

    def check() -> None:
        if heard:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, hear)
    try:
        yield check
        check()
    finally:
        signal.signal(signal.SIGINT, before)
