"""Talking to a broker on a plain socket, frame by frame."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kio.index import load_response_schema
from kio.serial import entity_reader

from tests.broker.asking import frame_of, request
from tests.waiting import PATIENCE_S
from tidelog.testing.brokers import TestBroker

__all__ = ["answer", "asked", "connected", "is_closed", "still_serves"]


@contextmanager
def connected(broker: TestBroker) -> Iterator[socket.socket]:
    host, port = broker.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as client:
        client.settimeout(PATIENCE_S)
        yield client


def received(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = client.recv(size - len(data))
        if not more:
            raise ConnectionError("closed")
        data += more
    return data


def answer(client: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", received(client, 4))
    return received(client, size)


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True


def asked(client: socket.socket, message: Any) -> Any:
    client.sendall(frame_of(message))
    frame = answer(client)
    schema: Any = load_response_schema(message.__api_key__, message.__version__)
    at = 4 + (schema.__flexible__ and message.__api_key__ != 18)
    return entity_reader(schema)(frame, at)[0]


def still_serves(broker: TestBroker) -> bool:
    with connected(broker) as client:
        return bool(asked(client, request("ApiVersions", 3)).error_code == 0)
