"""Waiting for logs to grow, without a thread for each who waits.

Whoever appends for a client or a coordinator notifies, on the event loop, the fetches that wait for that
partition. A fetch waits for many partitions, for the first of them or a time. (`Partition.wait` and
`Partition.listen` are the same for other threads.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tidelog.types import TopicPartition

__all__ = ["Watchers"]


class Watchers:
    """Who waits for which partition; of one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, set[asyncio.Future[None]]] = {}
        self.notified = 0
        """How often there was something to tell: who has read before it changed must not wait."""

    async def wait(self, partitions: Iterable[TopicPartition], timeout_s: float) -> None:
        """Return when one of the partitions has grown, or after a time."""
        wanted = list(partitions)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = asyncio.get_running_loop().call_later(timeout_s, _wake, woken)
        for partition in wanted:
            self._waiting.setdefault(partition, set()).add(woken)
        try:
            await woken
        finally:
            timer.cancel()
            for partition in wanted:
                waiting = self._waiting.get(partition)
                if waiting is not None:
                    waiting.discard(woken)
                    if not waiting:
                        del self._waiting[partition]

    def notify(self, partition: TopicPartition) -> None:
        """Wake those who wait for a partition."""
        self.notified += 1
        for woken in tuple(self._waiting.get(partition, ())):
            _wake(woken)

    def __len__(self) -> int:
        """How many partitions are waited for."""
        return len(self._waiting)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
