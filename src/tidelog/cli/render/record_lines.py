"""Records as lines: plain, JSON or hex. Whole columns are turned into text, no Python object per record.

    plain   what is asked to be shown, then the value, parted by tabs; null is null
    hex     the same with keys and values in hexadecimal digits
    json    {"topic":...,"partition":0,"offset":7,"timestamp":...,"key":...,"value":...,"headers":[[k,v]]}

In JSON, keys and values are text; what is not UTF-8 is {"base64": "..."}. On a terminal control characters
are escaped, whatever the format: a record must not command it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.cli.errors import UsageError
from tidelog.cli.render.lines import column_ends
from tidelog.decoding import Decoder, Undecodable, text_of
from tidelog.decoding.jsonable import header_pairs, jsonable
from tidelog.decoding.texts import visible
from tidelog.lazy import LazyModule
from tidelog.records.columns import constant_string, string_array, text_scalar
from tidelog.values.jsonable import jsonable_values

if TYPE_CHECKING:
    from tidelog.values.spec import ColumnDecoder

__all__ = ["FORMATS", "SHOWN", "RecordLines"]

pc = LazyModule("pyarrow.compute")  # takes long to import

FORMATS = ("plain", "json", "hex")
SHOWN = ("topic", "partition", "offset", "timestamp", "key", "headers")
"""What can stand before the value in plain lines."""

_ERRORS = ("key_error", "value_error")
"""Why a key or value did not decode."""
_CONTROLS = {chr(code): json.dumps(chr(code))[1:-1] for code in range(0x20)}
_UNSAFE = re.compile("[\x7f-\x9f]")


@dataclass(slots=True)
class RecordLines:
    """Makes lines; `undecodable` counts the records that the decoder could not read."""

    format: str = "plain"
    shown: Sequence[str] = ()
    decoder: Decoder | None = None
    terminal: bool = False
    undecodable: int = 0
    typed: Sequence[ColumnDecoder] = ()
    """Decode values and keys by their schemas."""

    def __post_init__(self) -> None:
        """What there is not is bad usage."""
        if self.format not in FORMATS:
            raise UsageError(f"--format {self.format}: choose from {', '.join(FORMATS)}")
        for name in self.shown:
            if name not in SHOWN:
                raise UsageError(f"--show {name}: choose from {', '.join(SHOWN)}")
        if self.format == "hex" and self.decoder is not None:
            raise UsageError("--format hex shows bytes as they are: leave out --decode")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that lines are made from."""
        names = ("topic", "partition", "offset", "timestamp_ms", "key", "value")
        return (*names, "headers") if self.format == "json" or "headers" in self.shown else names

    def lines(self, batch: pa.RecordBatch) -> bytes | memoryview:
        """The lines of a batch."""
        if not batch.num_rows:
            return b""
        if self.terminal or self.decoder is not None or self.typed:
            return "".join(self._one_by_one(batch)).encode("utf-8", "backslashreplace")
        return self._json(batch) if self.format == "json" else self._plain(batch)

    # ---- whole columns

    def _plain(self, batch: pa.RecordBatch) -> memoryview:
        fields = [self._field(batch, name) for name in (*self.shown, "value")]
        null, tab, end, nothing = (text_scalar(text, pa.binary()) for text in ("null", "\t", "\n", ""))
        whole = pc.binary_join_element_wise(*(pc.fill_null(field, null) for field in fields), tab)
        return _bytes_of(pc.binary_join_element_wise(whole, nothing, end))

    def _field(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        if name in ("key", "value"):
            column = batch.column(name)
            return _hex(column) if self.format == "hex" else column
        if name == "headers":
            return _headers_json(batch.column(name)).cast(pa.binary())
        column = batch.column("timestamp_ms" if name == "timestamp" else name)
        return column.cast(pa.string()).cast(pa.binary())

    def _json(self, batch: pa.RecordBatch) -> memoryview:
        parts: list[Any] = ['{"topic":', _json_text(batch.column("topic").cast(pa.binary()))]
        for name, column in (("partition", "partition"), ("offset", "offset"), ("timestamp", "timestamp_ms")):
            parts += [f',"{name}":', batch.column(column).cast(pa.string())]
        for name in ("key", "value"):
            parts += [f',"{name}":', _json_text(batch.column(name))]
        parts += [',"headers":', _headers_json(batch.column("headers")), "}\n"]
        texts = [text_scalar(part) if isinstance(part, str) else part for part in parts]
        return _bytes_of(pc.binary_join_element_wise(*texts, text_scalar("")))

    # ---- one by one, for eyes and decoders

    def _one_by_one(self, batch: pa.RecordBatch) -> Iterable[str]:
        records = batch.to_pylist()
        for decoder in self.typed:
            self._decode_column(decoder, records, batch)
        for record in records:
            yield self._json_line(record) if self.format == "json" else self._plain_line(record)

    def _decode_column(
        self, decoder: ColumnDecoder, records: list[dict[str, Any]], batch: pa.RecordBatch
    ) -> None:
        """Values or keys by their schemas; one that does not decode stays as it is, with the reason."""
        name = decoder.column
        decoded = decoder.decode(batch.column(name), records[0]["topic"])
        values, _, errors = decoded.columns
        for record, value, error in zip(records, jsonable_values(values), errors.to_pylist(), strict=True):
            record[f"{name}_error"] = error
            if error is None:
                record[name] = value
        self.undecodable += decoded.invalid

    def _decoded(self, record: dict[str, Any]) -> tuple[Any, Any]:
        if self.decoder is None:
            return record["key"], record["value"]
        try:
            decoded = self.decoder.decode(record["key"], record["value"])
        except Undecodable:
            self.undecodable += 1
            return record["key"], record["value"]
        return decoded.key, decoded.value

    def _json_line(self, record: dict[str, Any]) -> str:
        key, value = self._decoded(record)
        told = {
            "topic": record["topic"],
            "partition": record["partition"],
            "offset": record["offset"],
            "timestamp": record["timestamp_ms"],
            "key": jsonable(key),
            "value": jsonable(value),
            "headers": header_pairs(record["headers"]),
        }
        told |= {name: record[name] for name in _ERRORS if record.get(name) is not None}
        line = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
        return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", line) + "\n"

    def _plain_line(self, record: dict[str, Any]) -> str:
        key, value = self._decoded(record)
        told = {
            **{name: record[name] for name in ("topic", "partition", "offset")},
            "timestamp": record["timestamp_ms"],
            "headers": header_pairs(record.get("headers")),
            "key": key,
            "value": value,
        }
        return "\t".join(self._word(told[name]) for name in (*self.shown, "value")) + "\n"

    def _word(self, value: Any) -> str:
        if value is None:
            return "null"
        if isinstance(value, bytes):
            return value.hex() if self.format == "hex" else visible(value)
        return visible(text_of(value).encode("utf-8", "backslashreplace"))


def _bytes_of(array: pa.Array) -> memoryview:
    """All values, one after the other, as they lie in memory."""
    ends = column_ends(array)
    return memoryview(array.buffers()[2])[int(ends[0]) : int(ends[-1])]


@cache
def _hex_digits() -> npt.NDArray[np.uint16]:
    return np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)


def _hex(array: pa.Array) -> pa.Array:
    """A column of bytes in hexadecimal digits."""
    ends = column_ends(array)
    data = array.buffers()[2]
    raw = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    digits = _hex_digits()[raw[ends[0] : ends[-1]]]
    valid = array.is_valid().buffers()[1]
    doubled = ((ends - ends[0]) * 2).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(array), [valid, pa.py_buffer(doubled), pa.py_buffer(digits.tobytes())]
    )


def _json_text(array: pa.Array) -> pa.Array:
    """A column of bytes as JSON strings; null is null."""
    try:
        text = array.cast(pa.string())
    except pa.ArrowInvalid:  # not all of it is UTF-8
        told = [json.dumps(jsonable(one), ensure_ascii=False) for one in array.to_pylist()]
        return string_array(told)
    data = np.frombuffer(_bytes_of(text), np.uint8) if len(text) else np.empty(0, np.uint8)
    found = {chr(byte) for byte in np.flatnonzero(np.bincount(data, minlength=256)[:128]).tolist()}
    for sign in [sign for sign in ("\\", '"', *_CONTROLS) if sign in found]:  # the backslash comes first
        text = pc.replace_substring(text, sign, _CONTROLS.get(sign, f"\\{sign}"))
    quote = text_scalar('"')
    quoted = pc.binary_join_element_wise(quote, text, quote, text_scalar(""))
    return pc.fill_null(quoted, text_scalar("null"))


def _headers_json(array: pa.Array) -> pa.Array:
    """Headers as JSON; they are few, where there are any."""
    if array.null_count == len(array):
        return constant_string("[]", len(array))
    told = [
        json.dumps(header_pairs(one), ensure_ascii=False, separators=(",", ":")) for one in array.to_pylist()
    ]
    return string_array(told)
