"""Requests and handlers without sockets: a request of any version, and what the broker answers to it."""

from __future__ import annotations

import asyncio
import inspect
import io
import struct
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.protocol import Entity

import tidelog
from tidelog.broker.catalog import StoreCatalog
from tidelog.broker.context import Broker, Client
from tidelog.broker.handlers.registry import HANDLERS
from tidelog.broker.messages import _build
from tidelog.broker.wire.requests import encode_response
from tidelog.broker.wire.versions import api_named
from tidelog.records import Record
from tidelog.records.record import encode_records

NOW = 1_700_000_000_000


def request(name: str, version: int, **fields: Any) -> Any:
    """A request, from plain values."""
    return _build(load_request_schema(api_named(name).key, version), fields)


def batch(*values: bytes, **options: Any) -> bytes:
    """Records of these values, encoded."""
    return bytes(
        encode_records([Record(value, b"k", timestamp=NOW + n) for n, value in enumerate(values)], **options)
    )


def broker_on(store: tidelog.Store) -> Broker:
    return Broker(StoreCatalog(store))


def ask(broker: Broker, message: Any, client: Client | None = None) -> Any:
    """The response to a request, encoded and decoded again by kio."""
    name = next(n for n in HANDLERS if api_named(n).key == message.__api_key__)

    async def handle() -> Any:
        answer = HANDLERS[name](message, broker, client or Client())
        return await answer if inspect.isawaitable(answer) else answer

    values = asyncio.run(handle())
    return None if values is None else decoded(message.__api_key__, message.__version__, values)


def decoded(key: int, version: int, values: Any) -> Any:
    """What kio reads from an encoded response."""
    frame = b"".join(bytes(piece) for piece in encode_response(key, version, 7, values))
    size, correlation = struct.unpack_from(">ii", frame)
    assert (size, correlation) == (len(frame) - 4, 7)
    schema: Any = load_response_schema(key, version)
    head = 8 + (schema.__flexible__ and key != 18)
    read, length = entity_reader(schema)(frame, head)
    assert head + length == len(frame)
    return read


def frame_of(message: Entity, correlation: int = 1, client_id: str = "test") -> bytes:
    """A request as a client sends it, with its length."""
    out = io.BytesIO()
    name = client_id.encode()
    head = struct.pack(">hhih", message.__api_key__, message.__version__, correlation, len(name)) + name
    out.write(head + (b"\0" if message.__flexible__ else b""))
    entity_writer(type(message))(out, message)
    return struct.pack(">i", len(out.getvalue())) + out.getvalue()
