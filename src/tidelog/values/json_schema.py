"""JSON values under a JSON Schema: the types of a column from the schema, values by `decoding`.

    JSON Schema                                     Arrow
    object with properties                          struct
    object with additionalProperties only           map of strings
    array                                           list
    string; format date, date-time                  string; date32, timestamp in UTC
    integer, number, boolean                        int64, double, bool
    null or one type (type, oneOf, anyOf)           that type
    enum, const                                     the type of its values

Values describe themselves, so all are read as the column's type, which holds all versions of the schema. A
member that no version has is not in the column: the value is invalid. Other rules of a schema (required,
minimum, pattern) are not checked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.values.decoding import ValueDecoder, ValueFormat
from tidelog.values.existing import ExistingColumn, join_all
from tidelog.values.json_reading import Misfit
from tidelog.values.json_types import columns_type, join
from tidelog.values.schemas import JSON, Schema, SchemaSource, usable
from tidelog.values.versions import Int32s, Reasons, Version
from tidelog.values.wire import PLAIN, Spans

__all__ = ["JsonVersions", "json_type"]

_SCALARS = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_FORMATS = {"date": pa.date32(), "date-time": pa.timestamp("us", "UTC")}
_MOST_LEVELS = 64


class JsonVersions:
    """The schemas of a column. Picklable."""

    def __init__(
        self, source: SchemaSource, target: Sequence[Schema], existing: ExistingColumn | None = None
    ) -> None:
        """`target` are the schemas that the column holds, oldest first."""
        self._source = source
        kinds = usable(target, json_type, may_be_none=existing is not None)
        _, self.type = join_all(kinds, join, columns_type, existing)
        if not pa.types.is_struct(self.type):
            raise InvalidInputError("a JSON Schema of values must be an object with properties")
        self._version = _JsonVersion(ValueDecoder(ValueFormat.JSON, self.type))

    def version(self, number: int, topic: str) -> Version | str:
        """What decodes the values of a schema."""
        if number != PLAIN:
            schema = self._source.by_id(number)
            if schema is None:
                return f"schema {number} is unknown"
            if schema.kind != JSON:
                return f"schema {number} cannot be used: it is {schema.kind}, not JSON"
        return self._version


class _JsonVersion:
    def __init__(self, decoder: ValueDecoder) -> None:
        self._decoder = decoder

    def decode(self, spans: Spans, faults: Int32s, reasons: Reasons) -> pa.Array:
        """The values as the column's type."""
        rows = np.flatnonzero(faults == 0)
        given = spans.payloads(rows)
        found = self._decoder.decode(given).columns[0]
        if found.null_count:
            bad = found.is_null().to_numpy(zero_copy_only=False)
            faults[rows[bad]] = reasons.number("the value is no JSON object that fits the schema")
        if len(rows) == len(faults):
            return found
        places = np.full(len(faults), -1, np.int64)
        places[rows] = np.arange(len(rows))
        return found.take(pa.array(places, mask=places < 0))


def json_type(schema: Schema) -> pa.DataType:
    """The Arrow type of a schema."""
    if schema.kind != JSON:
        raise InvalidInputError(f"schema {schema.id} is {schema.kind}, not JSON")
    try:
        root = json.loads(schema.text)
        texts = {name: json.loads(text) for name, text in schema.references}
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"not a JSON Schema: {error}") from None
    return _Reader(root, texts).type(root, 0)


class _Reader:
    def __init__(self, root: Any, references: dict[str, Any]) -> None:
        self._root = root
        self._references = references

    def type(self, schema: Any, level: int) -> pa.DataType:
        if level > _MOST_LEVELS:
            raise InvalidInputError("a JSON Schema that contains itself cannot be a column")
        if not isinstance(schema, dict):
            raise InvalidInputError(f"a JSON Schema without a type cannot be a column: {schema!r:.80}")
        if "$ref" in schema:
            return self.type(self._found(str(schema["$ref"])), level + 1)
        for word in ("oneOf", "anyOf", "allOf"):
            if word in schema:
                return self._joined([self.type(one, level + 1) for one in schema[word]])
        names = schema.get("type")
        if names is None:
            return self._untyped(schema, level)
        kinds = [names] if isinstance(names, str) else list(names)
        return self._joined([self._single(str(one), schema, level) for one in kinds])

    def _untyped(self, schema: dict[str, Any], level: int) -> pa.DataType:
        if "properties" in schema:
            return self._single("object", schema, level)
        values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else []
        names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
        if not values or any(type(one) not in names for one in values):
            raise InvalidInputError(f"a JSON Schema without a type cannot be a column: {schema!r:.80}")
        return self._joined([self._single(names[type(one)], {}, level) for one in values])

    def _single(self, name: str, schema: dict[str, Any], level: int) -> pa.DataType:
        if name == "null":
            return pa.null()
        if name == "array":
            return pa.list_(self.type(schema.get("items", {"type": "string"}), level + 1))
        if name == "object":
            fields = schema.get("properties") or {}
            if not fields and isinstance(schema.get("additionalProperties"), dict):
                return pa.map_(pa.string(), self.type(schema["additionalProperties"], level + 1))
            return pa.struct([pa.field(str(one), self.type(kind, level + 1)) for one, kind in fields.items()])
        if name not in _SCALARS:
            raise InvalidInputError(f"a JSON Schema has no type {name!r}")
        return _FORMATS.get(schema.get("format", ""), _SCALARS[name]) if name == "string" else _SCALARS[name]

    def _joined(self, kinds: list[pa.DataType]) -> pa.DataType:
        found = pa.null()
        for one in kinds:
            if pa.types.is_null(found) or pa.types.is_null(one):
                found = one if pa.types.is_null(found) else found
                continue
            try:
                found = join(found, one)
            except Misfit as error:
                raise InvalidInputError(
                    f"a JSON Schema with values of different types cannot be a column: {error}"
                ) from None
        return found

    def _found(self, reference: str) -> Any:
        name, _, path = reference.partition("#")
        found = self._references.get(name) if name else self._root
        for part in [one for one in path.split("/") if one]:
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        if found is None:
            raise InvalidInputError(f"a JSON Schema refers to {reference!r}, which is not there")
        return found
