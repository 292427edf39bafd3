"""Records as the page shows them: rows as `tidelog cat --json` has them, and one record in every form.

The page never gets markup, only text in JSON. Text that was cut off ends at a whole character.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.decoding import Decoder, Undecodable
from tidelog.decoding.jsonable import header_pairs, jsonable

__all__ = ["hex_dump", "in_forms", "record_row"]

_MAX_HEADERS = 100
_HEX_COLUMNS = 16
_MAX_HEX_BYTES = 16 << 10


def record_row(row: Mapping[str, Any], field_bytes: int) -> dict[str, Any]:
    """A record as `tidelog cat --json` has it; besides, its offset as text and the sizes of what was cut.

    A browser's numbers are exact up to 2**53 only.
    """
    told = {
        "topic": row["topic"],
        "partition": row["partition"],
        "offset": row["offset"],
        "timestamp": row["timestamp_ms"],
        "key": jsonable(_whole(row["key"], row["key_size"])),
        "value": jsonable(_whole(row["value"], row["value_size"])),
        "headers": header_pairs(_cut_headers(row["headers"], field_bytes)),
        "at": str(row["offset"]),
    }
    cut = {name: row[f"{name}_size"] for name in ("key", "value") if _is_cut(row, name)}
    if len(row["headers"] or ()) > _MAX_HEADERS:
        cut["headers"] = len(row["headers"])
    return told | ({"cut": cut} if cut else {})


def in_forms(row: Mapping[str, Any], decoders: Mapping[str, Decoder]) -> list[dict[str, Any]]:
    """Key and value in the forms of the decoders that can read them, then as text and in hex."""
    forms: list[dict[str, Any]] = []
    is_cut = _is_cut(row, "key") or _is_cut(row, "value")
    for name, decoder in decoders.items():
        if is_cut:
            forms.append({"name": name, "error": "it is too long to be decoded here: use the command"})
            continue
        try:
            found = decoder.decode(row["key"], row["value"])
        except Undecodable as error:
            forms.append({"name": name, "error": str(error)})
            continue
        forms.append({"name": name, "key": _pretty(found.key), "value": _pretty(found.value)})
    texts = {part: _text(_whole(row[part], row[f"{part}_size"])) for part in ("key", "value")}
    dumps = {part: None if row[part] is None else hex_dump(row[part]) for part in ("key", "value")}
    return [*forms, {"name": "text", **texts}, {"name": "hex", **dumps}]


def hex_dump(data: bytes, limit: int = _MAX_HEX_BYTES) -> str:
    """Bytes as lines of position, hexadecimal digits and ASCII; no more than the first `limit`."""
    lines = []
    for start in range(0, min(len(data), limit), _HEX_COLUMNS):
        part = data[start : min(start + _HEX_COLUMNS, limit)]
        seen = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{3 * _HEX_COLUMNS - 1}}  {seen}")
    return "\n".join(lines)


def _is_cut(row: Mapping[str, Any], name: str) -> bool:
    return row[name] is not None and len(row[name]) < row[f"{name}_size"]


def _whole(data: bytes | None, size: int | None) -> bytes | None:
    """Bytes that were cut off end at a whole character, if they are text."""
    if data is None or size is None or len(data) == size:
        return data
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=False).encode()
    except UnicodeDecodeError:
        return data


def _cut_headers(headers: Sequence[Mapping[str, Any]] | None, field_bytes: int) -> list[dict[str, Any]]:
    return [
        {"key": one["key"][:field_bytes], "value": _whole_or_none(one["value"], field_bytes)}
        for one in (headers or ())[:_MAX_HEADERS]
    ]


def _whole_or_none(value: bytes | None, field_bytes: int) -> bytes | None:
    return None if value is None else _whole(value[:field_bytes], len(value))


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _pretty(value: Any) -> str | None:
    """Text as it is, anything else as JSON over several lines."""
    if value is None or isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, indent=2)
    except RecursionError:
        return json.dumps(str(type(value).__name__)) + " nested too deeply to be shown"
