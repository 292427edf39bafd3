"""Calls that are interrupted: at one of their steps another thread does something else.

The two take turns, so that a seed gives the same steps each time. The interrupted thread waits until the
other one has finished, or waits for a lock that the interrupted one holds; from then on it looks again at
each of its own steps. No thread loses its turn to the interpreter's clock meanwhile.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import PATIENCE_S
from tidelog.testing.faults import FaultyFileSystem

__all__ = ["interrupted"]

_POLL_S = 0.0005
_IDLE_POLLS = 3
_FALLBACK_POLLS = 60  # where the system does not tell what a thread does


@contextmanager
def interrupted(
    fs: FaultyFileSystem, step: int, action: Callable[[], None], only: Collection[str] = ()
) -> Iterator[None]:
    """While this lasts, do `action` in another thread at the `step`th step of this one.

    With `only`, these operations are its steps. What `action` raises is raised here.
    """
    main, left = threading.get_ident(), step
    errors: list[BaseException] = []
    threads: list[threading.Thread] = []
    interval = sys.getswitchinterval()

    def come_between() -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    def interrupt(operation: str) -> None:
        nonlocal left
        if threading.get_ident() != main:
            return
        left -= not only or operation in only
        if left == 0 and not threads:
            threads.append(threading.Thread(target=come_between, daemon=True))
            threads[0].start()
        if threads:
            _give_way(threads[0])

    fs.interrupt = interrupt
    sys.setswitchinterval(10)
    try:
        yield
    finally:
        fs.interrupt = None
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads), "they wait for each other"
    if errors:
        raise errors[0]


def _give_way(thread: threading.Thread) -> None:
    """Wait until a thread has finished, or waits for something that is not there yet."""
    idle, before = 0, None
    while thread.is_alive():
        time.sleep(_POLL_S)
        now = _place(thread)
        idle = idle + 1 if now == before else 0
        before = now
        if now is not None and idle >= (_IDLE_POLLS if now[0] == "S" else _FALLBACK_POLLS):
            return


def _place(thread: threading.Thread) -> tuple[str, int, int] | None:
    """What a thread does (S: it sleeps) and where it is."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return None
    try:
        told = Path(f"/proc/self/task/{thread.native_id}/stat").read_text()
        state = told.rpartition(")")[2].split()[0]
    except OSError:
        state = "?"
    return state, id(frame), frame.f_lasti
