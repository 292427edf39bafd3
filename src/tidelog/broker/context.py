"""What a handler may look at: the broker's state, and who asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tidelog.broker.catalog import Catalog, StoreCatalog
from tidelog.broker.effects import Partition
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.settings import Endpoint, Settings
from tidelog.broker.watching import Watchers
from tidelog.broker.wire.versions import APIS

__all__ = ["Answer", "Broker", "Client", "Handler", "Values"]

_T = TypeVar("_T")

Verify = Callable[[str | None, tuple[int, int], Sequence[Partition], int], Mapping[Partition, int]]

Values = Mapping[str, Any]
Answer = Values | None | Awaitable[Values | None]
"""A response; None for no response; or one that takes a while."""


@dataclass(slots=True)
class Client:
    """Who asks."""

    host: str = "127.0.0.1"
    client_id: str = ""
    principal: str = "User:ANONYMOUS"
    listener: int = 0
    """Which of the broker's listeners it came to."""


@dataclass(slots=True)
class Broker:
    """The state that requests work on. All of it belongs to one event loop."""

    catalog: Catalog
    settings: Settings = field(default_factory=Settings)
    advertised: list[Endpoint] = field(default_factory=lambda: [Endpoint("localhost", 9092)])
    """Where clients find this broker, by listener."""
    watchers: Watchers = field(default_factory=Watchers)
    sessions: FetchSessions = field(default_factory=FetchSessions)
    served: frozenset[int] = frozenset(APIS)
    """The keys of the APIs that are answered."""
    threads: ThreadPoolExecutor | None = None
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    topics_deleted: Callable[[tuple[str, ...]], None] = lambda names: None
    """Told which topics are gone."""
    verify: Verify = lambda transactional_id, producer, partitions, version: {}
    """Asked whether a producer may write to partitions in its transaction (`executor`)."""

    async def in_thread(self, work: Callable[[], _T]) -> _T:
        """Have something done that takes long, such as waiting for the disk."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    def refresh(self) -> None:
        """Note that topics have changed."""
        if isinstance(self.catalog, StoreCatalog):
            self.catalog.refresh()


Handler = Callable[[Any, Broker, Client], Answer]
