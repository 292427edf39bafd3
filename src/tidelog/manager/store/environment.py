"""What a store works with: the file system, the configuration, the clock, the tasks to come, who is told."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from tidelog.config import LogConfig
from tidelog.log import Log, Scheduler
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.store.events import EventDispatcher
from tidelog.storage import FileSystem

__all__ = ["Environment"]


@dataclass(frozen=True, slots=True)
class Environment:
    """The configuration, clock and file system of a store."""

    fs: FileSystem
    config: BrokerConfig
    now_ms: Callable[[], int]
    scheduler: Scheduler
    tell: EventDispatcher

    def open_log(
        self,
        path: str,
        config: LogConfig,
        *,
        topic_id: uuid.UUID | None = None,
        clean: bool = False,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        recovered: Callable[[int], None] = lambda size: None,
    ) -> Log:
        """A log as this store runs it."""
        return Log.open(
            path,
            config,
            clean=clean,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            topic_id=topic_id,
            fs=self.fs,
            now_ms=self.now_ms,
            scheduler=self.scheduler,
            producer_id_expiration_ms=self.config.producer_id_expiration_ms,
            max_transaction_timeout_ms=self.config.transaction_max_timeout_ms,
            recovered=recovered,
        )
