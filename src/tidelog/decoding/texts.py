"""Payloads that are text."""

from __future__ import annotations

import json
from typing import Any

from tidelog.decoding.decoder import Decoded, Undecodable

__all__ = ["JsonDecoder", "StringDecoder", "visible"]

_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def visible(data: bytes) -> str:
    """Text that cannot command a terminal: control characters and what is not UTF-8 are escaped."""
    text = data.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(_visible_character(one) for one in text)


def _visible_character(one: str) -> str:
    code = ord(one)
    if code >= 0x20 and not 0x7F <= code < 0xA0:
        return one
    return _ESCAPES.get(one) or "".join(f"\\x{byte:02x}" for byte in one.encode())


class StringDecoder:
    """Text."""

    def decode(self, key: bytes | None, value: bytes | None) -> Decoded:
        """Both as text."""
        return Decoded(
            None if key is None else key.decode("utf-8", "backslashreplace"),
            None if value is None else value.decode("utf-8", "backslashreplace"),
            key is not None,
            value is not None,
        )


class JsonDecoder:
    """JSON values; keys too, where they are JSON, else they are text."""

    def decode(self, key: bytes | None, value: bytes | None) -> Decoded:
        """The value as JSON has it."""
        return Decoded(
            self._key(key), None if value is None else _parse(value), key is not None, value is not None
        )

    def _key(self, key: bytes | None) -> Any:
        if key is None:
            return None
        try:
            return _parse(key)
        except Undecodable:
            return key.decode("utf-8", "backslashreplace")


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise Undecodable(f"not JSON: {error}") from None
    except RecursionError:
        raise Undecodable("JSON that is nested too deeply") from None
