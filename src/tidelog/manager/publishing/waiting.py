"""Taking a root that another process may have for a moment.

Other writers release a root after each of their commits: so one that is held is asked for again, for a while.
A broker does not, and neither does the application that started us if it has the root open itself.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from tidelog.errors import LogLockedError
from tidelog.layout.roots import check_clean, look_at
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.store.opener import open_store
from tidelog.manager.store.store import Store
from tidelog.storage import LOCAL
from tidelog.storage.lock import holder_of, refusal
from tidelog.storage.processes import ancestors
from tidelog.types import TopicPartition

__all__ = ["await_free", "open_waiting"]

_POLL_S = 0.05


def open_waiting(
    roots: Sequence[str],
    *,
    wait_ms: int,
    config: BrokerConfig | None = None,
    create: bool = True,
    recover: bool = False,
    topics: Collection[str | TopicPartition] | None = None,
) -> Store:
    """Open a store without background work, waiting for its roots; LogLockedError names who has one.

    Roots that are missing are made, unless `create` is false. Roots that were not closed cleanly are refused
    unless they are to be recovered. With `topics`, only these topics and partitions are opened.
    """
    deadline = time.monotonic() + wait_ms / 1000
    while True:
        try:
            return open_store(
                roots, config=config, create=create, background=False, recover=recover, topics=topics
            )
        except LogLockedError as error:
            if _is_own(roots) or time.monotonic() >= deadline:
                raise _told(error, roots, wait_ms) from None
            time.sleep(_POLL_S)


def await_free(roots: Sequence[str], *, wait_ms: int, recover: bool = False) -> None:
    """Wait until nobody has the roots; LogLockedError names who has one all the time.

    Refuses roots as `open_waiting` would, before any work is done.
    """
    deadline = time.monotonic() + wait_ms / 1000
    while holders := [(root, pid) for root in roots if (pid := holder_of(root)) is not None]:
        root, pid = holders[0]
        if _is_own(roots) or time.monotonic() >= deadline:
            raise _told(refusal(root, pid), roots, wait_ms)
        time.sleep(_POLL_S)
    for root in roots:
        if not recover and LOCAL.exists(root):
            facts = look_at(LOCAL, root)
            if holder_of(root) is None:  # nobody has taken it meanwhile
                check_clean(LOCAL, facts)


def _told(error: LogLockedError, roots: Sequence[str], wait_ms: int) -> LogLockedError:
    if _is_own(roots):
        return LogLockedError(
            f"{error}. That is this very application: it has the root open with tidelog.open, and Spark "
            "publishes from a process of its own; close the store before writing"
        )
    return LogLockedError(f"{error} (waited {wait_ms} ms for it)")


def _is_own(roots: Sequence[str]) -> bool:
    """Whether a root is held by this process or by one that it comes from."""
    ours = ancestors()
    return any(holder_of(root) in ours for root in roots)
