"""Values as columns: bytes as they are, text, or JSON under a schema.

JSON is parsed by Arrow, many values at a time, as one stream of objects. A value that is no JSON, or does not
fit the schema, must not take its neighbours with it, nor may two that are broken make up for one another:

1. each value is wrapped as `{"row": <its number>, "v": <value>}`; the parsed numbers must be complete and in
   order;
2. where they are not, or parsing fails, the values that are no JSON objects are picked out one by one;
3. where it still fails, some do not fit the schema, and halving finds them.

What cannot be decoded is null in `value` and kept as it was in `value_invalid`.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from tidelog.errors import InvalidInputError

__all__ = ["Decoded", "ValueDecoder", "ValueFormat", "infer_struct"]

INVALID = "value_invalid"


class ValueFormat(enum.StrEnum):
    """What values are read as."""

    BYTES = "bytes"
    STRING = "string"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Decoded:
    """The columns of a run of values, and how many could not be decoded."""

    columns: tuple[pa.Array, ...]
    invalid: int


@dataclass(frozen=True, slots=True)
class ValueDecoder:
    """Decodes values; `struct` is the type of JSON objects."""

    format: ValueFormat = ValueFormat.BYTES
    struct: pa.DataType | None = None

    @property
    def fields(self) -> list[pa.Field]:
        """The columns that a value becomes."""
        if self.format is ValueFormat.BYTES:
            return [pa.field("value", pa.binary())]
        kind = pa.string() if self.format is ValueFormat.STRING else self.struct
        return [pa.field("value", kind), pa.field(INVALID, pa.binary())]

    def decode(self, values: pa.Array) -> Decoded:
        """Binary values as columns."""
        if self.format is ValueFormat.BYTES:
            return Decoded((values,), 0)
        decoded = _decode_text(values) if self.format is ValueFormat.STRING else self._decode_json(values)
        bad = pc.and_(pc.is_valid(values), pc.is_null(decoded))
        invalid = pc.if_else(bad, values, pa.scalar(None, pa.binary()))
        return Decoded((decoded, invalid), bad.true_count)

    def _decode_json(self, values: pa.Array) -> pa.Array:
        if self.struct is None:
            raise InvalidInputError("JSON values need a schema")
        present = pc.drop_null(values)
        parsed = _parse(present, self.struct)
        if parsed is None:
            parsed = self._pick(present)
        if len(present) == len(values):
            return parsed
        places = np.cumsum(pc.is_valid(values).to_numpy(zero_copy_only=False)) - 1
        return parsed.take(pa.array(places, mask=pc.is_null(values).to_numpy(zero_copy_only=False)))

    def _pick(self, values: pa.Array) -> pa.Array:
        """The objects among values of which some are none."""
        sound = np.array([_object(value) is not None for value in values.to_pylist()], np.bool_)
        parsed = self._halve(values.filter(pa.array(sound)))
        return parsed.take(pa.array(np.cumsum(sound) - 1, mask=~sound))

    def _halve(self, values: pa.Array) -> pa.Array:
        """The objects that fit the schema, null for those that do not."""
        parsed = _parse(values, self.struct)
        if parsed is not None:
            return parsed
        if len(values) == 1:
            return pa.nulls(1, self.struct)
        middle = len(values) // 2
        return pa.concat_arrays([self._halve(values[:middle]), self._halve(values[middle:])])


def _decode_text(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(value) for value in values.to_pylist()], pa.string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _parse(values: pa.Array, struct: pa.DataType) -> pa.Array | None:
    """JSON objects as one struct each; None where any of them is none, or does not fit."""
    if not len(values):
        return pa.nulls(0, struct)
    numbers = pa.array(np.arange(len(values)).astype("S"), pa.binary())
    lines = pc.binary_join_element_wise(b'{"row":', numbers, b',"v":', values, b"}\n", b"")
    text = lines.buffers()[2]
    schema = pa.schema([pa.field("row", pa.int64()), pa.field("v", struct)])
    try:
        values.cast(pa.string())  # Arrow's parser takes text that is no UTF-8
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    if not np.array_equal(table.column("row").to_numpy(), np.arange(len(values))):
        return None
    return _single(table.column("v"))


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _object(value: bytes) -> bytes | None:
    """A value that is a JSON object; None for anything else."""
    try:
        found = json.loads(value, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(found, dict) else None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def infer_struct(values: Iterable[bytes | None]) -> pa.DataType:
    """The type that fits all objects among `values`; what is never more than null becomes a string."""
    kind: Any = None
    for value in values:
        found = None if value is None else _object(value)
        if found is not None:
            kind = _merge(kind, _kind_of(json.loads(found)), "value")
    if not isinstance(kind, dict) or not kind:
        raise InvalidInputError("no JSON object to infer a schema from; give one")
    return _arrow_type(kind)


def _kind_of(value: Any) -> Any:
    """A type: a dict for an object, a list of one for an array, a name for the rest, None for null."""
    if isinstance(value, dict):
        return {name: _kind_of(inner) for name, inner in value.items()}
    if isinstance(value, list):
        kind: Any = None
        for inner in value:
            kind = _merge(kind, _kind_of(inner), "an array")
        return [kind]
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 63) <= value < 1 << 63:
        return "float"
    return type(value).__name__


def _merge(a: Any, b: Any, where: str) -> Any:
    if a is None or a == b:
        return b
    if b is None:
        return a
    if isinstance(a, dict) and isinstance(b, dict):
        return {name: _merge(a.get(name), b.get(name), f"{where}.{name}") for name in a | b}
    if isinstance(a, list) and isinstance(b, list):
        return [_merge(a[0], b[0], f"{where}[]")]
    if {str(a), str(b)} == {"int", "float"}:
        return "float"
    raise InvalidInputError(f"{where} has values of different types, so no schema fits; give one")


def _arrow_type(kind: Any) -> pa.DataType:
    if isinstance(kind, dict):
        return pa.struct([pa.field(name, _arrow_type(inner)) for name, inner in kind.items()])
    if isinstance(kind, list):
        return pa.list_(_arrow_type(kind[0]))
    return {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}.get(kind, pa.string())
