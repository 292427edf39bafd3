"""Records to append, from a file or standard input, as Arrow batches.

    lines     one value per line; with a key separator, a key before its first occurrence
    json      one object per line, as `tidelog cat --json` prints them: key, value, headers (pairs), timestamp
              (ms); other members are passed over, control records left out; payloads are text, or
              {"base64": ...}, or all of them base64, as `tidelog dump --json` has them
    parquet   columns key, value, timestamp and headers, of any kind that can be written; others that records
              are read with (offset, partition...) are passed over

Lines are read in blocks. An error names the line; what came before its block has been handed out. Only blocks
with a payload that is no text are taken apart line by line.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.cli.errors import UsageError
from tidelog.lazy import LazyModule
from tidelog.records.inputs import INPUT_COLUMNS
from tidelog.records.schema import ALL_COLUMNS, HEADERS_TYPE

__all__ = ["FORMATS", "InputOptions", "read_records"]

pc = LazyModule("pyarrow.compute")  # takes long to import

FORMATS = ("lines", "json", "parquet")

_BLOCK_BYTES = 8 << 20
_PARQUET_ROWS = 1 << 16
_LINE_END, _RETURN = 10, 13
_PAIRS = pa.list_(pa.list_(pa.large_string()))
_JSON_SCHEMA = pa.schema(
    {
        "key": pa.large_string(),
        "value": pa.large_string(),
        "headers": _PAIRS,
        "timestamp": pa.int64(),
        "control": pa.bool_(),
    }
)

_ROW_SCHEMA = pa.schema(
    {"key": pa.binary(), "value": pa.binary(), "headers": HEADERS_TYPE, "timestamp": pa.int64()}
)

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class InputOptions:
    """How records are written down."""

    format: str = "lines"
    key_separator: str | None = None
    base64: bool = False

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.format not in FORMATS:
            raise UsageError(f"--format {self.format}: choose from {', '.join(FORMATS)}")
        if self.key_separator is not None and (self.format != "lines" or not self.key_separator):
            raise UsageError("--key-separator is for --format lines, and is not empty")
        if self.base64 and self.format != "json":
            raise UsageError("--base64 is for --format json")


def read_records(source: BufferedReader, options: InputOptions) -> Iterator[pa.RecordBatch]:
    """The records of a source as batches of columns that can be appended."""
    if options.format == "parquet":
        yield from _from_parquet(source)
        return
    first_line = 1
    for block in _line_blocks(source):
        if options.format == "json":
            batch = _from_json(block, first_line, options.base64)
        else:
            batch = _from_lines(block, first_line, options.key_separator)
        if batch.num_rows:
            yield batch
        first_line += block.count(b"\n")


def _line_blocks(source: BufferedReader) -> Iterator[bytes]:
    """Whole lines, many at a time, as they arrive; the last one may lack its end, which is added."""
    rest = b""
    while block := source.read1(_BLOCK_BYTES):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield rest + block[:cut]
            rest = block[cut:]
        else:
            rest += block
    if rest:
        yield rest + b"\n"


# Lines


def _from_lines(block: bytes, first_line: int, separator: str | None) -> pa.RecordBatch:
    lines = _split(np.frombuffer(block, np.uint8))
    if separator is None:
        return pa.record_batch([lines], ["value"])
    parts = pc.split_pattern(lines, separator.encode(), max_splits=1)
    lengths = pc.list_value_length(parts).to_numpy(zero_copy_only=False)
    if (lengths < 2).any():
        raise UsageError(
            f"line {first_line + int((lengths < 2).argmax())} has no key: {separator!r} is not in it"
        )
    return pa.record_batch([pc.list_element(parts, 0), pc.list_element(parts, 1)], ["key", "value"])


def _split(data: Bytes) -> pa.Array:
    """The lines without their ends, which may have a carriage return before them."""
    ends = data == _LINE_END
    returns = data == _RETURN
    returns[:-1] &= ends[1:]
    returns[-1:] = False
    places = np.flatnonzero(ends)
    gone = np.arange(1, len(places) + 1) + np.searchsorted(np.flatnonzero(returns), places)
    offsets = np.zeros(len(places) + 1, np.int64)
    offsets[1:] = places + 1 - gone
    return _binary(offsets, data[~(ends | returns)])


def _binary(offsets: Int64s, data: Bytes) -> pa.Array:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


# JSON


def _from_json(block: bytes, first_line: int, base64: bool) -> pa.RecordBatch:
    from pyarrow import json

    try:
        table = json.read_json(
            pa.BufferReader(block),
            json.ReadOptions(use_threads=False, block_size=len(block)),
            json.ParseOptions(explicit_schema=_JSON_SCHEMA, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:  # something is wrong, or not UTF-8 and so no text
        return _line_by_line(block, first_line, base64)
    columns = {name: table.column(name).combine_chunks() for name in table.schema.names}
    keep = pc.invert(columns.pop("control").fill_null(False))
    columns["headers"] = _headers(columns["headers"], base64)
    if base64:
        for name in ("key", "value"):
            columns[name] = _decoded(columns[name], name, first_line)
    return pa.record_batch(list(columns.values()), list(columns)).filter(keep)


def _line_by_line(block: bytes, first_line: int, base64: bool) -> pa.RecordBatch:
    """Objects one after the other; UsageError names the line that is wrong."""
    import json

    rows = []
    for number, line in enumerate(block.split(b"\n"), first_line):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise UsageError(f"line {number} is not an object with key and value")
            if not row.get("control"):
                rows.append(_row(row, base64))
        except ValueError as error:
            raise UsageError(f"line {number} is not JSON: {error}") from None
        except _BadMemberError as error:
            raise UsageError(f"line {number}: {error}") from None
    return pa.RecordBatch.from_pylist(rows, schema=_ROW_SCHEMA)


class _BadMemberError(Exception):
    """A member of an object is not what it should be."""


def _row(row: dict[str, Any], base64: bool) -> dict[str, Any]:
    timestamp, headers = row.get("timestamp"), row.get("headers") or []
    if not isinstance(timestamp, int | None):
        raise _BadMemberError("timestamp is not a number of milliseconds")
    if not isinstance(headers, list) or any(not _is_pair(pair) for pair in headers):
        raise _BadMemberError("headers are pairs: a key and a value")
    return {
        "key": _payload(row.get("key"), "key", base64),
        "value": _payload(row.get("value"), "value", base64),
        "headers": [{"key": name, "value": _payload(value, "header", base64)} for name, value in headers],
        "timestamp": timestamp,
    }


def _is_pair(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)


def _payload(found: Any, name: str, base64: bool) -> bytes | None:
    """A payload's bytes: of a text, or of {"base64": text}."""
    match found:
        case None:
            return None
        case str() if not base64:
            return found.encode()
        case str() | {"base64": str()}:
            text = found if isinstance(found, str) else found["base64"]
            try:
                return binascii.a2b_base64(text, strict_mode=True)
            except ValueError as error:
                raise _BadMemberError(
                    f"{name} is not base64: {error}; without --base64 it is taken as text"
                ) from None
    raise _BadMemberError(f"{name} is not text; quote it")


def _headers(array: pa.Array, base64: bool) -> pa.Array:
    """Lists of pairs as lists of structs."""
    pairs = array.flatten()
    if not len(pairs):
        return pa.nulls(len(array), HEADERS_TYPE)
    if pairs.null_count or (pc.list_value_length(pairs).to_numpy(zero_copy_only=False) != 2).any():
        raise UsageError("headers are pairs: a key and a value")
    values = pc.list_element(pairs, 1)
    values = _decoded(values, "headers", None) if base64 else values.cast(pa.large_binary())
    structs = pa.StructArray.from_arrays(
        [pc.list_element(pairs, 0), values],
        fields=[pa.field("key", pa.large_string()), pa.field("value", pa.large_binary())],
    )
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), structs)


def _decoded(array: pa.Array, name: str, first_line: int | None) -> pa.Array:
    """Texts in base64 as bytes, all in one call: padding is decoded too, as zeros, and then left out."""
    texts = array.fill_null("") if array.null_count else array
    offsets = np.frombuffer(texts.buffers()[1], np.int64, len(texts) + 1, 8 * texts.offset)
    content = texts.buffers()[2]
    data = b"" if content is None else content.to_pybytes()[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    lengths = np.diff(offsets)
    if (lengths % 4).any():
        raise UsageError(_base64_fault(texts, name, first_line))
    raw = np.frombuffer(_base64(data.replace(b"=", b"A")), np.uint8)
    if len(raw) * 4 != len(data) * 3:
        raise UsageError(_base64_fault(texts, name, first_line))
    padding = np.concatenate([[0], np.cumsum(np.frombuffer(data, np.uint8) == ord("="))])
    pads = np.diff(padding[offsets])
    ends = offsets[1:] // 4 * 3
    keep = np.ones(len(raw), np.bool_)
    for count in (1, 2):
        keep[(ends - count)[pads >= count]] = False
    sizes = lengths // 4 * 3 - pads
    found = _binary(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), raw[keep])
    return pc.if_else(array.is_valid(), found, None) if array.null_count else found


def _base64(data: bytes) -> bytes:
    """The bytes; fewer than there should be where something in it is no base64."""
    try:
        return binascii.a2b_base64(data)
    except binascii.Error:
        return b""


def _base64_fault(texts: pa.Array, name: str, first_line: int | None) -> str:
    for number, text in enumerate(texts.to_pylist()):
        try:
            binascii.a2b_base64(text, strict_mode=True)
        except (ValueError, binascii.Error) as error:
            where = "" if first_line is None else f"line {first_line + number}: "
            return f"{where}{name} is not base64: {error}; without --base64 it is taken as text"
    return f"{name} is not base64; without --base64 it is taken as text"


# Parquet


def _from_parquet(source: BufferedReader) -> Iterator[pa.RecordBatch]:
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(source if source.seekable() else pa.BufferReader(source.read()))
    except pa.ArrowInvalid as error:
        raise UsageError(f"this is not a Parquet file: {error}") from None
    names = [name for name in INPUT_COLUMNS if name in file.schema_arrow.names]
    if not {"key", "value"} & set(names):
        there = ", ".join(file.schema_arrow.names)
        raise UsageError(f"the file has no column key or value; it has {there}")
    strange = [name for name in file.schema_arrow.names if name not in ALL_COLUMNS]
    if strange:
        raise UsageError(f"column {strange[0]!r} cannot be written: records have {', '.join(INPUT_COLUMNS)}")
    yield from file.iter_batches(batch_size=_PARQUET_ROWS, columns=names)
