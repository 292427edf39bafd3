"""Stores in which time passes, and things happen, when they are told to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.log.logs import Clock
from tests.manager.compacted import Opener
from tidelog.manager import BrokerConfig, Store
from tidelog.manager.store.events import Event


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def open_store(tmp_path: Path, clock: Clock, events: list[Event]) -> Opener:
    """A store over two roots in which nothing happens by itself."""

    def opened(**options: Any) -> Store:
        properties = {
            "log.cleaner.dedupe.buffer.size": 1 << 20,
            "log.initial.task.delay.ms": 0,
            "log.retention.check.interval.ms": 1000,
        } | options.pop("properties", {})
        quiet: dict[str, Any] = {"background": False, "now_ms": clock, "on_event": events.append}
        return tidelog.open(
            [tmp_path / "a", tmp_path / "b"],
            config=BrokerConfig.from_properties(properties),
            **(quiet | options),
        )

    return opened
