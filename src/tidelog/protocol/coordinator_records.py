"""Records of the coordinators' topics as values, from bytes and to bytes.

    key     i16 what the record is about, then the key's message
    value   i16 version, then the value's message; none for a tombstone

A record is a `CoordinatorRecord`: the kind (`OffsetCommit`, `ConsumerGroupMetadata`, `TransactionLog`, ...),
and the fields of key and value by their names in the format tables, with bytes and UUIDs as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.errors import InvalidInputError
from tidelog.protocol.coordinator_formats import (
    GROUP_KEYS,
    GROUP_VALUES,
    TRANSACTION_KEYS,
    TRANSACTION_VALUES,
)
from tidelog.protocol.notation import Message, parse_messages
from tidelog.protocol.primitives import Reader

__all__ = [
    "CoordinatorRecord",
    "decode_group_record",
    "decode_transaction_record",
    "encode_group_record",
    "encode_transaction_record",
]


@dataclass(frozen=True, slots=True)
class CoordinatorRecord:
    """What a record says; a value of None is a tombstone."""

    kind: str
    key: Mapping[str, Any]
    value: Mapping[str, Any] | None
    version: int = -1
    """Of the value: the newest unless told."""


@dataclass(frozen=True, slots=True)
class _Formats:
    """The formats of one topic."""

    keys: dict[int, Message]
    values: dict[int, Message]

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        head = Reader(key, "record key")
        number = head.i16()
        if number not in self.keys:
            return None
        kind = self.keys[number].name.removesuffix("Key")
        names = self.keys[number].decode(head, 0, native=True)
        if value is None:
            return CoordinatorRecord(kind, names, None)
        body = Reader(value, "record value")
        version = body.version()
        if version > self.values[number].newest_version:
            return None
        return CoordinatorRecord(kind, names, self.values[number].decode(body, version, native=True), version)

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        number = self._numbers().get(record.kind)
        if number is None:
            raise InvalidInputError(f"there is no record of the kind {record.kind!r}")
        key = number.to_bytes(2, "big") + self.keys[number].encode(record.key, 0)
        if record.value is None:
            return key, None
        message = self.values[number]
        version = record.version if record.version >= 0 else message.newest_version
        return key, version.to_bytes(2, "big") + message.encode(record.value, version)

    def _numbers(self) -> dict[str, int]:
        return {message.name.removesuffix("Key"): number for number, message in self.keys.items()}


@functools.cache
def _groups() -> _Formats:
    return _Formats(parse_messages(GROUP_KEYS), parse_messages(GROUP_VALUES))


@functools.cache
def _transactions() -> _Formats:
    return _Formats(parse_messages(TRANSACTION_KEYS), parse_messages(TRANSACTION_VALUES))


def decode_group_record(key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    """A record of `__consumer_offsets`; None for a kind or version that is not known."""
    return _groups().decode(key, value)


def encode_group_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Key and value of a record of `__consumer_offsets`, as Kafka writes them."""
    return _groups().encode(record)


def decode_transaction_record(key: bytes, value: bytes | None) -> CoordinatorRecord | None:
    """A record of `__transaction_state`; None for a kind or version that is not known."""
    return _transactions().decode(key, value)


def encode_transaction_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Key and value of a record of `__transaction_state`, as Kafka writes them."""
    return _transactions().encode(record)
