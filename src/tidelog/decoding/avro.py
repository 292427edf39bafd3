"""Avro payloads, by a schema that a file holds, through the fastavro package.

A payload is the bare encoding, or stands behind the five bytes that clients of a schema registry put there:
0 and the schema's id (4 bytes). Which it is, the first byte and what is left over tell. Keys are text
unless they have a schema of their own.
"""

from __future__ import annotations

import io
import json
from importlib import import_module
from pathlib import Path
from typing import Any

from tidelog.decoding.decoder import Decoded, Undecodable
from tidelog.errors import InvalidInputError

__all__ = ["AvroDecoder"]

_REGISTRY_BYTES = 5


class AvroDecoder:
    """Reads Avro values, and keys where they have a schema."""

    def __init__(self, schema: Path | None, key_schema: Path | None = None) -> None:
        if schema is None:
            raise InvalidInputError("--decode avro needs the values' schema: add --avro-schema FILE")
        try:
            self._avro: Any = import_module("fastavro")
        except ImportError:
            raise InvalidInputError(
                "--decode avro needs the fastavro package: install it with pip install 'tidelog[avro]'"
            ) from None
        self._schema = self._read(schema)
        self._key_schema = None if key_schema is None else self._read(key_schema)

    def decode(self, key: bytes | None, value: bytes | None) -> Decoded:
        """The record."""
        told = None
        if key is not None:
            text = key.decode("utf-8", "backslashreplace")
            told = text if self._key_schema is None else self._parse(key, self._key_schema)
        found = None if value is None else self._parse(value, self._schema)
        return Decoded(told, found, key is not None, value is not None)

    def _read(self, path: Path) -> Any:
        data = path.read_bytes()
        try:
            return self._avro.parse_schema(json.loads(data))
        except Exception as error:  # a parser's, whatever the file holds
            raise InvalidInputError(f"{path} is not an Avro schema: {error!r}") from None

    def _parse(self, data: bytes, schema: Any) -> Any:
        starts = [_REGISTRY_BYTES, 0] if data[:1] == b"\0" else [0]
        for start in starts:
            body = io.BytesIO(data[start:])
            try:
                found = self._avro.schemaless_reader(body, schema, None)
            except Exception:  # whatever a reader raises over bytes that are not its own
                continue
            if not body.read(1):
                return _plain(found)
        raise Undecodable("not a value of this Avro schema")


def _plain(value: Any) -> Any:
    """With what JSON has no type for as text."""
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, str | int | float | bool | None) else str(value)
