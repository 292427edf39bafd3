"""What a payload decoder is, and the choice of them.

string              text; what is not UTF-8 is escaped
json                JSON text
avro                Avro, with a schema file; also behind the five bytes of a schema registry
consumer-offsets    the records of __consumer_offsets
transaction-state   the records of __transaction_state
share-group-state   the records of __share_group_state
cluster-metadata    the records of KRaft's metadata log
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tidelog.errors import InvalidInputError

__all__ = ["DECODERS", "Decoded", "Decoder", "Undecodable", "make_decoder", "text_of"]

DECODERS = (
    "string",
    "json",
    "avro",
    "consumer-offsets",
    "transaction-state",
    "share-group-state",
    "cluster-metadata",
)


class Undecodable(Exception):
    """A payload that is not what the decoder was made for; it says why."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A record's key and value as JSON has them; `has_key` and `has_value` tell null from nothing to show."""

    key: Any = None
    value: Any = None
    has_key: bool = True
    has_value: bool = True


class Decoder(Protocol):
    """Reads keys and values of one kind."""

    def decode(self, key: bytes | None, value: bytes | None) -> Decoded:
        """What a record says. Raises Undecodable."""


def make_decoder(
    name: str, *, avro_schema: Path | None = None, avro_key_schema: Path | None = None
) -> Decoder:
    """The decoder of that name. Raises InvalidInputError if there is none, or it cannot be had."""
    if name not in DECODERS:
        raise InvalidInputError(f"--decode {name}: choose from {', '.join(DECODERS)}")
    if (avro_schema or avro_key_schema) and name != "avro":
        raise InvalidInputError("--avro-schema is for --decode avro")
    if name in ("string", "json"):
        from tidelog.decoding.texts import JsonDecoder, StringDecoder

        return StringDecoder() if name == "string" else JsonDecoder()
    if name == "avro":
        from tidelog.decoding.avro import AvroDecoder

        return AvroDecoder(avro_schema, avro_key_schema)
    if name == "cluster-metadata":
        from tidelog.decoding.metadata import MetadataDecoder

        return MetadataDecoder()
    from tidelog.decoding.coordinator import coordinator_decoder

    return coordinator_decoder(name)


def text_of(value: Any) -> str:
    """A decoded key or value in a line of text: text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
