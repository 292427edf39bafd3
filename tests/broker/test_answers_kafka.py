"""What is refused gets the same error codes as from a stock broker."""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.broker.asking import request
from tests.broker.odd_requests import ODD, PREPARING, Odd
from tests.broker.sockets import asked
from tests.oracle import Oracle
from tests.waiting import PATIENCE_S, wait_until
from tidelog.testing.brokers import start_broker

Answer = list[list[object]] | str
TOPIC_ALREADY_EXISTS = 36


def told(message: Any) -> Iterator[list[object]]:
    """The error codes of a response, in order, and what stands for "nothing" in answers about offsets."""
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if field.name in ("error_code", "offset", "end_offset", "low_watermark", "base_offset"):
            yield [field.name, int(value)]
        elif dataclasses.is_dataclass(value):
            yield from told(value)
        elif isinstance(value, tuple):
            for one in value:
                if dataclasses.is_dataclass(one):
                    yield from told(one)


def is_done(ask: Callable[[Odd], Answer], odd: Odd) -> bool:
    """Whether a broker does what it is asked for, or has."""
    answer = ask(odd)
    return isinstance(answer, list) and all(
        code in (0, TOPIC_ALREADY_EXISTS) for name, code in answer if name == "error_code"
    )


def answers(where: str) -> dict[str, Answer]:
    """What a broker says to each request, on a connection of its own."""

    def ask(odd: Odd) -> Answer:
        host, port = where.split(":")
        name, version, fields = odd
        with socket.create_connection((host, int(port)), PATIENCE_S) as client:
            client.settimeout(PATIENCE_S)
            try:
                return list(told(asked(client, request(name, version, **fields))))
            except ConnectionError:
                return "closed"

    for odd in PREPARING:
        wait_until(partial(is_done, ask, odd), odd[0])
    return {label: ask(odd) for label, odd in ODD.items()}


CONFIG = {"auto.create.topics.enable": "false"}
RECORDED = Path(__file__).with_name("odd_answers.json")
"""What Kafka 4.3 says to them."""


def test_odd_requests_get_the_answers_of_a_stock_broker(tmp_path: Path) -> None:
    with start_broker(tmp_path, CONFIG) as broker:
        assert answers(broker.bootstrap_servers) == json.loads(RECORDED.read_text())


@pytest.mark.slow
def test_the_recorded_answers_are_those_of_a_stock_broker(tmp_path: Path, oracle: Oracle) -> None:
    with oracle.broker(tmp_path, config=CONFIG) as broker:
        assert answers(broker.address) == json.loads(RECORDED.read_text())
