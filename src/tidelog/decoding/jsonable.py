"""Keys, values and headers as JSON has them: text, or {"base64": "..."} for bytes that are not UTF-8."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["header_pairs", "jsonable"]


def jsonable(value: Any) -> Any:
    """Bytes as text, or in base64 where they are none; anything else as it is."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def header_pairs(headers: Iterable[Mapping[str, Any]] | None) -> list[list[Any]]:
    """The headers of a record, as Arrow has them, as pairs of key and value."""
    return [[header["key"], jsonable(header["value"])] for header in headers or ()]
