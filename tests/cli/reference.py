"""What kafka-dump-log says of records, written down plainly; input are Kafka's own answers (tests/golden)."""

from __future__ import annotations

import base64
import struct
from typing import Any

__all__ = ["record_line"]


def record_line(record: dict[str, Any], *, payloads: bool = False) -> str:
    """The line of a record, but for its checksum in magic 0 and 1."""
    key, value = (_bytes(record[name]) for name in ("key", "value"))
    parts = [
        f"| offset: {record['offset']} {record['timestamp_type']}: {record['timestamp']}",
        f"keySize: {-1 if key is None else len(key)} valueSize: {-1 if value is None else len(value)}",
    ]
    if record["magic"] == 2:
        names = ",".join(name for name, _ in record["headers"])
        parts.append(f"sequence: {record['sequence']} headerKeys: [{names}]")
    if record["control"]:
        assert key is not None
        assert value is not None
        kind = struct.unpack(">hh", key[:4])[1]
        if kind <= 1:
            epoch = struct.unpack(">hi", value[:6])[1]
            parts.append(f"endTxnMarker: {('ABORT', 'COMMIT')[kind]} coordinatorEpoch: {epoch}")
    elif payloads:
        parts += [f"key: {visible(key)}"] if key is not None else []
        parts += [f"payload: {visible(value)}"] if value is not None else []
    return " ".join(parts)


def visible(data: bytes) -> str:
    """Bytes as text on one line."""
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    text = data.decode(errors="surrogateescape")
    shown = []
    for character in text:
        code = ord(character)
        if character in short:
            shown.append(short[character])
        elif 0xDC80 <= code <= 0xDCFF:
            shown.append(f"\\x{code - 0xDC00:02x}")
        elif code < 32 or 127 <= code < 160:
            shown.append("".join(f"\\x{byte:02x}" for byte in character.encode()))
        else:
            shown.append(character)
    return "".join(shown)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
