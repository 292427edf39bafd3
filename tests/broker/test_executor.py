"""Responses and ticks that come earlier than expected."""

from __future__ import annotations

import asyncio

import pytest

from tests.broker.asking import broker_on
from tests.broker.world import Topics
from tests.waiting import PATIENCE_S
from tidelog import Store
from tidelog.broker.coordinators import COORDINATED, Coordinators
from tidelog.broker.effects import Effect, Event, Tick
from tidelog.broker.executor import Executor, Ticket
from tidelog.broker.handlers.registry import HANDLERS
from tidelog.broker.wire.versions import APIS


def test_a_response_may_come_before_it_is_waited_for() -> None:
    async def run() -> object:
        ticket = Ticket()
        ticket.answer("response")
        return await asyncio.wait_for(ticket.wait(), PATIENCE_S)

    assert asyncio.run(run()) == "response"


def test_a_later_wake_does_not_put_off_an_earlier_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_on(store)
    executor = Executor(broker)
    ticks = asyncio.Event()

    def step(event: Event, now_ms: int) -> list[Effect]:
        assert isinstance(event, Tick)
        ticks.set()
        return []

    async def run() -> None:
        now_ms = broker.now_ms()
        executor.wake(now_ms + 50)
        executor.wake(now_ms + 600_000)
        await asyncio.wait_for(ticks.wait(), PATIENCE_S)
        executor.stop()

    monkeypatch.setattr(executor.coordinators, "step", step)
    asyncio.run(run())


def test_every_api_has_one_handler() -> None:
    handled = Coordinators(Topics(t=1))._handlers.keys()
    assert handled == COORDINATED
    assert not handled & HANDLERS.keys()
    assert {api.name for api in APIS.values()} == handled | HANDLERS.keys()
