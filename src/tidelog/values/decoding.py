"""Values as columns: bytes as they are, text, or JSON under a schema.

A JSON value is decoded on its own terms; which values fit is said by `json_reading`. Nearly all of them take
a faster way:

1. a kernel (`kernels.jsonfit`) looks at each value, and answers whether it surely is one object that fits;
2. those are parsed by Arrow, all at once: nothing in them can reach beyond its own value;
3. the rest is read one by one (`json_reading`).

What cannot be decoded is null in `value` and kept as it was in `value_invalid`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from tidelog.errors import InvalidInputError
from tidelog.kernels import jsonfit
from tidelog.values.json_reading import Misfit, fit, parse
from tidelog.values.json_types import finished, widen
from tidelog.values.versions import Decoded, invalid_name

__all__ = ["Decoded", "Decoder", "ValueDecoder", "ValueFormat", "infer_struct", "widen_struct"]

INVALID = invalid_name("value")
_NOTHING = np.zeros(1, dtype=np.uint8)
_types = pa.types


class ValueFormat(enum.StrEnum):
    """What values are read as."""

    BYTES = "bytes"
    STRING = "string"
    JSON = "json"


class Decoder(Protocol):
    """What decodes a column of bytes. Picklable."""

    @property
    def fields(self) -> list[pa.Field]:
        """The columns that it becomes."""

    @property
    def struct(self) -> pa.DataType | None:
        """The type of the first of them, if it is a struct."""

    def with_struct(self, struct: pa.DataType) -> Decoder:
        """The same with a wider type."""

    def decode(self, values: pa.Array, topic: str = "") -> Decoded:
        """Binary values of a topic as these columns."""


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

    def with_struct(self, struct: pa.DataType) -> ValueDecoder:
        """With another type of JSON objects."""
        return replace(self, struct=struct)

    def decode(self, values: pa.Array, topic: str = "") -> Decoded:
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
        sure = surely_fit(values, self.struct)
        if sure.all():
            parsed = _parse(values, self.struct)
            if parsed is not None:
                return parsed
        chosen = values.filter(pa.array(sure))
        parsed = _parse(chosen, self.struct)
        if parsed is None:  # never seen; then each value is read by itself
            sure[:] = False
            parsed = pa.nulls(0, self.struct)
        rest = values.filter(pa.array(~sure))
        others = pa.array([_read(one, self.struct) for one in rest.to_pylist()], self.struct)
        places = np.empty(len(values), np.int64)
        places[sure] = np.arange(len(parsed))
        places[~sure] = np.arange(len(others)) + len(parsed)
        return pa.concat_arrays([parsed, others]).take(pa.array(places))


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


def _read(value: bytes | None, struct: pa.DataType) -> Any:
    """A value that is read by itself; None for one that does not fit."""
    try:
        return None if value is None else fit(parse(value), struct)
    except (ValueError, ArithmeticError):
        return None


# ---- many at once


def surely_fit(values: pa.Array, struct: pa.DataType) -> npt.NDArray[np.bool_]:
    """Which values surely fit; null is none of them."""
    wide = values.cast(pa.large_binary())
    out = np.zeros(len(wide), np.uint8)
    _, ends, data = wide.buffers()
    if len(wide) and data is not None and data.size:
        nodes, names = _table(struct)
        offsets = np.frombuffer(ends, np.int64, len(wide) + 1, 8 * wide.offset)
        scratch = np.zeros(3 * jsonfit.DEPTH + len(nodes) // 6, np.int64)
        jsonfit.fit(np.frombuffer(data, np.uint8), offsets, nodes, names, out, scratch)
    found = out.astype(np.bool_)
    if wide.null_count:
        found &= wide.is_valid().to_numpy(zero_copy_only=False)
    return found


def _table(struct: pa.DataType) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """The nodes of a schema and their names, as the kernel takes them: parents before their children."""
    rows: list[list[int]] = []
    names = bytearray(b"\0")
    waiting: list[tuple[str, pa.DataType]] = [("", struct)]
    number = 0
    while number < len(waiting):
        name, kind = waiting[number]
        children = list(_children(kind))
        start = len(names)
        names += name.encode()
        rows.append([_kind(kind), len(waiting), len(children), _limit(kind), start, len(names)])
        waiting += children
        number += 1
    for row in rows:
        if not row[2]:
            row[1] = 0
    return np.array(rows, np.int64).ravel(), np.frombuffer(bytes(names), np.uint8)


def _children(kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if _types.is_struct(kind):
        yield from ((one.name, one.type) for one in kind)
    elif _types.is_list(kind):
        yield "", kind.value_type


def _kind(kind: pa.DataType) -> int:
    for test, number in (
        (_types.is_struct, jsonfit.STRUCT),
        (_types.is_list, jsonfit.LIST),
        (_types.is_boolean, jsonfit.BOOL),
        (_types.is_signed_integer, jsonfit.INT),
        (_types.is_floating, jsonfit.FLOAT),
        (_types.is_string, jsonfit.STRING),
        (_types.is_date32, jsonfit.DATE),
        (_types.is_timestamp, jsonfit.TIMESTAMP),
        (_types.is_decimal128, jsonfit.DECIMAL),
    ):
        if test(kind):
            return number
    return jsonfit.OTHER


def _limit(kind: pa.DataType) -> int:
    if _types.is_decimal128(kind):
        return int(kind.precision - kind.scale) << 8 | int(kind.scale)
    if _types.is_timestamp(kind):
        return int(kind.tz is not None)
    return int(kind.bit_width) if _types.is_integer(kind) or _types.is_floating(kind) else 0


def _parse(values: pa.Array, struct: pa.DataType) -> pa.Array | None:
    """Objects that surely fit, as one struct each; None where Arrow sees it otherwise."""
    if not len(values):
        return pa.nulls(0, struct)
    text = pc.binary_join_element_wise(values, b"", b"\n").buffers()[2]
    readable = _readable(struct)
    try:
        table = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema(list(readable)), unexpected_field_behavior="ignore"
            ),
        )
        if table.num_rows != len(values):
            return None
        arrays = [_single(table.column(number)) for number in range(len(readable))]
        parsed = pa.StructArray.from_arrays(arrays, fields=list(readable))
        return parsed if readable == struct else parsed.cast(struct)
    except pa.ArrowException:
        return None


def _readable(kind: pa.DataType) -> pa.DataType:
    """What Arrow's parser is asked for: dates as text, for a cast; maps, which are null here, as null."""
    if _types.is_struct(kind):
        return pa.struct([pa.field(one.name, _readable(one.type)) for one in kind])
    if _types.is_list(kind):
        return pa.list_(_readable(kind.value_type))
    if _types.is_date(kind):
        return pa.string()
    return pa.null() if _types.is_map(kind) or _types.is_binary(kind) else kind


def _single(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


# ---- schemas from values


def infer_struct(values: Iterable[bytes | None], *, evolving: bool = False) -> pa.DataType:
    """The type that fits all objects among `values`; what is never more than null becomes a string.

    A schema that is `evolving` leaves such fields out, and what fits no type with the rest: it is invalid.
    """
    kind: pa.DataType = pa.null()
    for value in values:
        try:
            found = None if value is None else parse(value)
        except Misfit:
            continue
        try:
            kind = widen(kind, found)
        except Misfit as error:
            if not evolving:
                raise InvalidInputError(
                    f"{error} has values of different types, so no schema fits; give one"
                ) from None
    struct = finished(kind, keep_unknown=not evolving)
    if not _types.is_struct(struct):
        raise InvalidInputError("no JSON object to infer a schema from; give one")
    return struct


def widen_struct(struct: pa.DataType, values: pa.Array) -> pa.DataType:
    """A schema widened for those of the values that it does not hold, as far as that is possible."""
    kind = struct
    for value in values.filter(pa.array(~surely_fit(values, struct))).drop_null().to_pylist():
        try:
            kind = widen(kind, parse(value))
        except (ValueError, ArithmeticError):
            continue
    return kind if kind == struct else finished(kind, keep_unknown=False)
