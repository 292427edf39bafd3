"""Lines of a log whose payloads are decoded, in JSON or in the words of kafka-dump-log.

The line kernel writes what is the same for all payloads; keys and values are put in here, record by record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidelog.cli.render.lines import LineStyle, LogBytes, LogLines
from tidelog.decoding import Decoded, Decoder, Undecodable, text_of
from tidelog.decoding.texts import visible
from tidelog.records import BatchTable
from tidelog.records.columns import numbers

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["DecodedLines"]

_RECORD = b"|"


class DecodedLines(LogLines):
    """Like LogLines; `undecodable` counts the records that the decoder could not read."""

    def __init__(
        self,
        log: LogBytes,
        style: LineStyle,
        write: Callable[[Buffer], None],
        decoder: Decoder | None,
    ) -> None:
        super().__init__(log, replace(style, payloads=False), self._collect)
        self._out = write
        self._decoder = decoder
        self._parts: list[bytes] = []
        self.undecodable = 0

    def _collect(self, lines: Buffer) -> None:
        self._parts.append(bytes(lines))

    def _put(self, table: BatchTable, chunk: pa.RecordBatch | None, *, sound: bool = True) -> None:
        super()._put(table, chunk, sound=sound)
        lines = b"".join(self._parts).splitlines(keepends=True)
        self._parts = []
        if chunk is not None:
            lines = self._with_payloads(table, chunk, lines)
        self._out(b"".join(lines))

    def _with_payloads(self, table: BatchTable, chunk: pa.RecordBatch, lines: Sequence[bytes]) -> list[bytes]:
        control = np.isin(numbers(chunk.column("position")), table.position[table.is_control]).tolist()
        offsets = numbers(chunk.column("offset")).tolist()
        records = zip(chunk.column("key").to_pylist(), chunk.column("value").to_pylist(), strict=True)
        put = self._json if self._style.json else self._text
        found = []
        row = 0
        for line in lines:
            if self._style.json or line.startswith(_RECORD):
                key, value = next(records)
                found.append(put(line, offsets[row], None if control[row] else (key, value)))
                row += 1
            else:
                found.append(line)
        return found

    def _json(self, line: bytes, offset: int, record: tuple[bytes | None, bytes | None] | None) -> bytes:
        if record is None or self._decoder is None:
            return line
        told = json.loads(line)
        try:
            decoded = self._decoder.decode(*record)
            told["key"], told["value"] = decoded.key, decoded.value
        except Undecodable as error:
            self.undecodable += 1
            told["decode_error"] = str(error)
        return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    def _text(self, line: bytes, offset: int, record: tuple[bytes | None, bytes | None] | None) -> bytes:
        payload = "" if record is None or self._decoder is None else self._words(offset, *record)
        if self._style.skip_metadata:
            return f"| {payload}\n".encode() if payload else b"\n"
        return line.rstrip(b"\n") + (f" {payload}\n" if payload else "\n").encode()

    def _words(self, offset: int, key: bytes | None, value: bytes | None) -> str:
        try:
            decoded = self._decoder.decode(key, value) if self._decoder is not None else Decoded()
        except Undecodable as error:
            self.undecodable += 1
            return f"payload: Error at offset {offset}, skipping. {error}"
        parts = [f"key: {_safe(decoded.key)}"] if decoded.has_key else []
        parts += [f"payload: {_safe(decoded.value)}"] if decoded.has_value else []
        return " ".join(parts)


def _safe(value: object) -> str:
    return visible(text_of(value).encode("utf-8", "backslashreplace"))
