"""The records of the coordinators' topics, as kafka-dump-log shows them.

    key {"type":"1","data":{"group":"billing","topic":"orders","partition":0}}
    value {"version":"4","data":{"offset":42,"leaderEpoch":-1,"metadata":"","commitTimestamp":...}}

A record without value deletes what its key names: its value is shown as <DELETE>.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cache
from typing import Any

from tidelog.decoding.decoder import Decoded, Undecodable
from tidelog.errors import CorruptRecordError
from tidelog.protocol import coordinator_formats as formats
from tidelog.protocol.notation import Message, parse_messages
from tidelog.protocol.primitives import Reader

__all__ = ["CoordinatorDecoder", "coordinator_decoder"]

DELETED = "<DELETE>"

_GROUP_METADATA = 2
_SUBSCRIPTION, _ASSIGNMENT = 0, 1


class CoordinatorDecoder:
    """Reads records with keys and values of these tables; `refine` may replace what a value holds."""

    def __init__(self, keys: str, values: str, refine: Callable[[int, Any], None] | None = None) -> None:
        self._keys = parse_messages(keys)
        self._values = parse_messages(values)
        self._refine = refine

    def decode(self, key: bytes | None, value: bytes | None) -> Decoded:
        """The record."""
        if key is None:
            raise Undecodable("a coordinator's record has a key, this one has none")
        try:
            body = Reader(key, "key")
            kind = body.i16()
            if kind not in self._keys:
                return Decoded({"type": f"UNKNOWN({kind})", "hex": key.hex()}, None, has_value=False)
            told = {"type": str(kind), "data": self._keys[kind].decode(body, 0)}
            return Decoded(told, DELETED if value is None else self._value(kind, value))
        except CorruptRecordError as error:
            raise Undecodable(error.reason) from None

    def _value(self, kind: int, value: bytes) -> Any:
        body = Reader(value, "value")
        version = body.i16()
        message = self._values[kind]
        if not 0 <= version <= message.newest_version:
            return {"version": f"UNKNOWN({version})", "hex": value.hex()}
        data = message.decode(body, version)
        if self._refine is not None:
            self._refine(kind, data)
        return {"version": str(version), "data": data}


def coordinator_decoder(name: str) -> CoordinatorDecoder:
    """The decoder for consumer-offsets, transaction-state or share-group-state."""
    match name:
        case "consumer-offsets":
            return CoordinatorDecoder(formats.GROUP_KEYS, formats.GROUP_VALUES, _open_members)
        case "transaction-state":
            return CoordinatorDecoder(formats.TRANSACTION_KEYS, formats.TRANSACTION_VALUES)
        case _:
            return CoordinatorDecoder(formats.SHARE_KEYS, formats.SHARE_VALUES)


def _open_members(kind: int, data: Any) -> None:
    """Show what a group's members subscribe to and were assigned, where they are consumers."""
    if kind != _GROUP_METADATA or data.get("protocolType") != "consumer":
        return
    for member in data["members"]:
        for field, which in (("subscription", _SUBSCRIPTION), ("assignment", _ASSIGNMENT)):
            member[field] = _opened(member[field], _protocol()[which])


@cache
def _protocol() -> dict[int, Message]:
    return parse_messages(formats.CONSUMER_PROTOCOL)


def _opened(encoded: str, message: Message) -> Any:
    """The message, or the bytes as they were where it is of another kind or a later version."""
    body = Reader(base64.b64decode(encoded), message.name)
    try:
        version = body.i16()
        return message.decode(body, version) if 0 <= version <= message.newest_version else encoded
    except CorruptRecordError:
        return encoded
