"""Encoding responses: plain values, shaped by the schema of the version that the client speaks.

A handler answers with nested mappings for all versions of an API: `{"topics": [{"name": ...}]}`. The schema
(a dataclass of kio's, made from Kafka's own definitions) says which of these fields a version has, in which
order and how they are written. What a version does not have is left out; what a handler does not give is the
schema's default, or zero, empty or null. Times are milliseconds, errors are numbers.

An encoded message is a list of pieces, so that records go from the log's memory to the socket as they are.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import struct
import typing
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidelog.protocol.primitives import unsigned_varint

__all__ = ["FIXED_FORMATS", "Kind", "Pieces", "encoder_of"]

Pieces = list[Any]
"""Bytes and memoryviews, to be sent one after the other."""

Values = Mapping[str, Any]
_Write = Callable[[Pieces, Any], None]

FIXED_FORMATS = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "bool": "?",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}
"""How `struct` packs Kafka's types of fixed size."""

_NO_ID = bytes(16)
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


@functools.cache
def encoder_of(schema: type) -> Callable[[Values], Pieces]:
    """What encodes values by a schema."""
    write = _entity(schema, _flexible(schema))

    def encode(values: Values) -> Pieces:
        pieces: Pieces = []
        write(pieces, values)
        return pieces

    return encode


def _flexible(schema: Any) -> bool:
    return bool(schema.__flexible__)


_VARINTS = [unsigned_varint(number) for number in range(1024)]


def _write_varint(out: Pieces, number: int) -> None:
    out.append(_VARINTS[number] if number < 1024 else unsigned_varint(number))


# ---- entities


def _entity(schema: type, flexible: bool) -> _Write:
    steps: list[_Write] = []
    tagged: list[tuple[int, str, Any, _Write]] = []
    run: list[tuple[str, Any]] = []
    formats = ""
    for field in dataclasses.fields(schema):
        kind = Kind.of(field)
        tag = field.metadata.get("tag")
        if tag is not None:
            tagged.append((tag, field.name, _default(field, kind), kind.writer(flexible, tagged=True)))
            continue
        if kind.fixed:
            run.append((field.name, _default(field, kind)))
            formats += kind.fixed
            continue
        if run:
            steps.append(_fixed_run(tuple(run), formats))
            run, formats = [], ""
        steps.append(_named(field.name, _default(field, kind), kind.writer(flexible)))
    if run:
        steps.append(_fixed_run(tuple(run), formats))
    if flexible:
        steps.append(_tags(sorted(tagged, key=lambda one: one[0])))
    together = tuple(steps)

    def write(out: Pieces, values: Values) -> None:
        for step in together:
            step(out, values)

    return write


def _fixed_run(fields: tuple[tuple[str, Any], ...], formats: str) -> _Write:
    """Neighbouring fields of fixed size, packed in one call."""
    pack = struct.Struct(f">{formats}").pack
    if len(fields) == 1:
        ((name, default),) = fields
        return lambda out, values: out.append(pack(values.get(name, default)))
    return lambda out, values: out.append(pack(*[values.get(name, default) for name, default in fields]))


def _named(name: str, default: Any, write: _Write) -> _Write:
    return lambda out, values: write(out, values.get(name, default))


def _tags(tagged: list[tuple[int, str, Any, _Write]]) -> _Write:
    def write(out: Pieces, values: Values) -> None:
        given = [one for one in tagged if one[1] in values and values[one[1]] != one[2]]
        _write_varint(out, len(given))
        for tag, name, _, write_value in given:
            inner: Pieces = []
            write_value(inner, values[name])
            data = b"".join(inner)
            _write_varint(out, tag)
            _write_varint(out, len(data))
            out.append(data)

    if tagged:
        return write
    return lambda out, values: out.append(b"\0")


# ---- fields


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a field of a schema holds."""

    name: str | None
    """Kafka's type; None for an entity."""
    entity: type | None
    is_array: bool
    nullable: bool

    @classmethod
    def of(cls, field: dataclasses.Field[Any]) -> Kind:
        """The kind of a dataclass's field."""
        kind = field.type
        nullable = False
        if isinstance(kind, str):  # no schema of kio's has these
            raise TypeError(f"{field.name} has no type")
        parts = typing.get_args(kind)
        if type(None) in parts:
            nullable = True
            (kind,) = (one for one in parts if one is not type(None))
        is_array = typing.get_origin(kind) is tuple
        if is_array:
            kind = typing.get_args(kind)[0]
        name = field.metadata.get("kafka_type")
        return cls(name, None if name else typing.cast(type, kind), is_array, nullable)

    @property
    def fixed(self) -> str:
        """How `struct` packs it; empty where it has no fixed size."""
        return "" if self.is_array or self.name is None else FIXED_FORMATS.get(self.name, "")

    def writer(self, flexible: bool, tagged: bool = False) -> _Write:
        """What writes such a field."""
        if self.entity is not None:
            write = _entity(self.entity, flexible)
            if self.nullable and not self.is_array:
                write = _nullable_entity(write)
        else:
            write = _primitive(self.name or "", flexible)
        return _array(write, flexible) if self.is_array else write


def _default(field: dataclasses.Field[Any], kind: Kind) -> Any:
    """What stands for a field that is not given."""
    default = field.default
    if default is dataclasses.MISSING:
        if kind.is_array:
            return None if kind.nullable else ()
        if kind.entity is not None:
            return None if kind.nullable else {}
        if kind.name == "datetime_i64":
            return -1
        if kind.nullable:
            return None
        return {"string": "", "bytes": b"", "records": None, "uuid": None}.get(kind.name or "", 0)
    if isinstance(default, datetime.timedelta):
        return round(default.total_seconds() * 1000)
    if default is None and kind.name == "datetime_i64":
        return -1
    if isinstance(default, enum.Enum):
        return int(default.value)
    if dataclasses.is_dataclass(default):
        return {}
    return default


def _nullable_entity(write: _Write) -> _Write:
    def write_nullable(out: Pieces, value: Any) -> None:
        if value is None:
            out.append(b"\xff")
        else:
            out.append(b"\x01")
            write(out, value)

    return write_nullable


def _array(write: _Write, flexible: bool) -> _Write:
    def write_array(out: Pieces, items: Sequence[Any] | None) -> None:
        if flexible:
            _write_varint(out, 0 if items is None else len(items) + 1)
        else:
            out.append(_INT32.pack(-1 if items is None else len(items)))
        for item in items or ():
            write(out, item)

    return write_array


def _primitive(name: str, flexible: bool) -> _Write:
    if name in FIXED_FORMATS:
        pack = struct.Struct(f">{FIXED_FORMATS[name]}").pack
        return lambda out, value: out.append(pack(value))
    match name:
        case "string":
            return _compact_bytes if flexible else _legacy_string
        case "bytes" | "records":
            return _compact_bytes if flexible else _legacy_bytes
        case "uuid":
            return _uuid
    raise TypeError(f"no writer for fields of type {name!r}")


def _uuid(out: Pieces, value: uuid.UUID | None) -> None:
    out.append(_NO_ID if value is None else value.bytes)


def _compact_bytes(out: Pieces, value: Any) -> None:
    if value is None:
        out.append(b"\0")
        return
    data = value.encode() if isinstance(value, str) else value
    _write_varint(out, len(data) + 1)
    out.append(data)


def _legacy_string(out: Pieces, value: str | None) -> None:
    if value is None:
        out.append(b"\xff\xff")
        return
    data = value.encode()
    out.append(_INT16.pack(len(data)))
    out.append(data)


def _legacy_bytes(out: Pieces, value: Any) -> None:
    if value is None:
        out.append(b"\xff\xff\xff\xff")
        return
    out.append(_INT32.pack(len(value)))
    out.append(value)
