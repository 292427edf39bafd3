"""Open handles in a forked child: they belong to the parent, and raise ForkedError.

A fork copies memory but neither threads nor record locks. A child that appended through its parent's log
would assign offsets that the parent assigns too; a child that closed its parent's store would mark files as
clean that are still being written. So in the child every watched handle changes its type to one that raises
ForkedError on every use, and whose `close` does nothing, so that `with` blocks end quietly. In the process
that opened them, handles pay nothing for this.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

from tidelog.errors import ForkedError

__all__ = ["is_orphan", "watch"]

_handles: weakref.WeakSet[Any] = weakref.WeakSet()
_NOTHING = frozenset({"close", "close_handlers", "release"})


def watch(handle: object) -> None:
    """Make a handle raise in processes that are forked from this one."""
    _handles.add(handle)


def is_orphan(handle: object) -> bool:
    """Whether a handle came into this process by a fork. For a `close` that was looked up before it."""
    return type(handle).__getattribute__ is _refuse


def _refuse(self: object, name: str) -> Any:
    """What an orphaned handle answers when it is asked for an attribute."""
    if name in _NOTHING:
        return _do_nothing
    if name.startswith("__"):
        return object.__getattribute__(self, name)
    raise ForkedError(
        f"this {type(self).__name__} belongs to the process that opened it; process {os.getpid()} was forked "
        "from that one and cannot use it. Open the root here once the other has closed it, or read it with "
        "tidelog.scan, which needs no hold on it"
    )


def _do_nothing() -> None:
    """The `close` of an orphaned handle."""


def _describe(self: object) -> str:
    return f"<{type(self).__name__} of another process>"


def _orphaned(kind: type) -> type:
    """A handle's type in a forked child."""
    members = {"__slots__": (), "__getattribute__": _refuse, "__repr__": _describe, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), members)


def _orphan_all() -> None:
    handles = list(_handles)
    kinds = {kind: _orphaned(kind) for kind in {type(handle) for handle in handles}}
    for handle in handles:
        handle.__class__ = kinds[type(handle)]
    _handles.clear()


os.register_at_fork(after_in_child=_orphan_all)
