"""Avro schemas: parsed, with names resolved.

A schema is a graph of `AvroType`. A named type that contains itself is recursive; it has no Arrow type, so
its values are read as JSON text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tidelog.errors import InvalidInputError

__all__ = ["PRIMITIVES", "AvroField", "AvroType", "dump_plain", "parse_avro"]

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_TYPES = 10_000
_LOGICAL = {
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "duration": ("fixed",),
}
_SIZES = {"uuid": 16, "duration": 12}


@dataclass(slots=True)
class AvroField:
    """A field of a record; `default` is JSON, as the schema has it."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    default: Any = None
    has_default: bool = False


@dataclass(slots=True, eq=False)
class AvroType:
    """A type; which members it has is told by `kind`."""

    kind: str
    name: str = ""
    """The full name of a record, enum or fixed."""
    aliases: tuple[str, ...] = ()
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    items: AvroType | None = None
    """Of an array; the values of a map."""
    branches: list[AvroType] = field(default_factory=list)
    size: int = 0
    logical: str = ""
    precision: int = 0
    scale: int = 0
    is_recursive: bool = False

    @property
    def members(self) -> list[AvroType]:
        """The branches that are not null; the type itself where it is no union."""
        if self.kind == "union":
            return [one for one in self.branches if one.kind != "null"]
        return [] if self.kind == "null" else [self]

    @property
    def short_name(self) -> str:
        """What a branch of a union is called."""
        return self.name.rpartition(".")[2] or self.kind

    def children(self) -> Iterator[AvroType]:
        """The types that it is made of."""
        yield from (one.type for one in self.fields)
        if self.items is not None:
            yield self.items
        yield from self.branches


def parse_avro(text: str | bytes, find: Callable[[str], str | None] | None = None) -> AvroType:
    """The schema that a text is; `find` answers the text of a named type that it does not define itself."""
    parser = _Parser(find)
    root = parser.parse(_load(text), "")
    for one in parser.names.values():
        one.is_recursive = one.kind == "record" and _reaches(one)
    return root


def _load(text: str | bytes) -> Any:
    stripped = text.decode() if isinstance(text, bytes) else text
    try:
        return json.loads(stripped)
    except (ValueError, RecursionError) as error:
        if _NAME.fullmatch(stripped.strip()):
            return stripped.strip()  # a registry gives a primitive type with or without quotes
        raise InvalidInputError(f"not an Avro schema: {error}") from None


def _reaches(target: AvroType) -> bool:
    """Whether a type contains itself."""
    seen: set[int] = set()
    waiting = list(target.children())
    while waiting:
        one = waiting.pop()
        if one is target:
            return True
        if id(one) not in seen:
            seen.add(id(one))
            waiting += one.children()
    return False


class _Parser:
    def __init__(self, find: Callable[[str], str | None] | None) -> None:
        self.names: dict[str, AvroType] = {}
        self._find = find
        self._count = 0

    def parse(self, schema: Any, space: str) -> AvroType:
        self._count += 1
        if self._count > _MOST_TYPES:
            raise InvalidInputError(f"an Avro schema of more than {_MOST_TYPES} types")
        if isinstance(schema, str):
            return self._named(schema, space)
        if isinstance(schema, list):
            return self._union(schema, space)
        if not isinstance(schema, dict) or "type" not in schema:
            raise InvalidInputError(f"not an Avro type: {str(schema)[:100]}")
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.parse(kind, space)
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(schema, "record" if kind == "error" else kind, space)
        if kind in ("array", "map"):
            inside = "items" if kind == "array" else "values"
            if inside not in schema:
                raise InvalidInputError(f"an Avro {kind} without {inside}")
            return AvroType(kind, items=self.parse(schema[inside], space))
        if kind in PRIMITIVES:
            return _with_logical(AvroType(kind), schema)
        return self._named(kind, space)

    def _named(self, name: str, space: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        for full in (name,) if "." in name or not space else (f"{space}.{name}", name):
            if full in self.names:
                return self.names[full]
        for full in (name,) if "." in name or not space else (f"{space}.{name}", name):
            text = None if self._find is None else self._find(full)
            if text is not None:
                found = self.parse(_load(text), "")
                return self.names.get(full, found)
        raise InvalidInputError(f"an Avro schema uses the type {name!r} and does not define it")

    def _union(self, schema: list[Any], space: str) -> AvroType:
        branches = [self.parse(one, space) for one in schema]
        if any(one.kind == "union" for one in branches):
            raise InvalidInputError("an Avro union directly in a union")
        kinds = [one.name or one.kind for one in branches]
        if not branches or len(set(kinds)) != len(kinds):
            raise InvalidInputError(f"an Avro union needs branches of different types, not {kinds}")
        return AvroType("union", branches=branches)

    def _definition(self, schema: dict[str, Any], kind: str, space: str) -> AvroType:
        name = schema.get("name")
        if not isinstance(name, str) or not all(map(_NAME.fullmatch, name.split("."))):
            raise InvalidInputError(f"an Avro {kind} with the name {name!r}")
        space = name.rpartition(".")[0] if "." in name else schema.get("namespace", space) or ""
        full = name if "." in name or not space else f"{space}.{name}"
        if full in self.names:
            raise InvalidInputError(f"an Avro schema defines {full} twice")
        aliases = tuple(f"{space}.{one}" if space and "." not in one else one for one in _names(schema))
        made = AvroType(kind, full, aliases)
        self.names[full] = made
        if kind == "enum":
            made.symbols = tuple(schema.get("symbols", ()))
            if not made.symbols or not all(isinstance(one, str) for one in made.symbols):
                raise InvalidInputError(f"the Avro enum {full} needs symbols")
        elif kind == "fixed":
            made.size = schema.get("size", -1)
            if not isinstance(made.size, int) or not 0 <= made.size < 1 << 20:
                raise InvalidInputError(f"the Avro fixed {full} has the size {made.size}")
            _with_logical(made, schema)
        else:
            made.fields = [self._field(one, full, space) for one in schema.get("fields", ())]
            if len({one.name for one in made.fields}) != len(made.fields):
                raise InvalidInputError(f"the Avro record {full} has two fields of one name")
        return made

    def _field(self, schema: Any, record: str, space: str) -> AvroField:
        if not isinstance(schema, dict) or not isinstance(schema.get("name"), str) or "type" not in schema:
            raise InvalidInputError(f"a field of the Avro record {record} lacks its name or type")
        kind = schema["type"]
        # Logical types are often written beside the type of the field.
        inner = schema if isinstance(kind, str) and kind in PRIMITIVES else kind
        return AvroField(
            schema["name"],
            self.parse(inner, space),
            tuple(_names(schema)),
            schema.get("default"),
            "default" in schema,
        )


def _names(schema: dict[str, Any]) -> list[str]:
    found = schema.get("aliases") or ()
    return [one for one in found if isinstance(one, str)]


def _with_logical(made: AvroType, schema: dict[str, Any]) -> AvroType:
    """With its logical type, unless that is unknown or does not fit: then it is ignored, as Avro says."""
    logical = schema.get("logicalType")
    if not isinstance(logical, str) or made.kind not in _LOGICAL.get(logical, ()):
        return made
    if made.kind == "fixed" and made.size != _SIZES.get(logical, made.size):
        return made
    if logical == "decimal":
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision <= 76:
            return made
        if precision < 1:
            return made
        made.precision, made.scale = precision, scale
    made.logical = logical
    return made


def dump_plain(avro: AvroType, seen: set[str] | None = None) -> Any:
    """A type as JSON, all names defined in it, without logical types and defaults."""
    seen = set() if seen is None else seen
    if avro.name in seen:
        return avro.name
    if avro.name:
        seen.add(avro.name)
    if avro.kind == "union":
        return [dump_plain(one, seen) for one in avro.branches]
    if avro.kind in ("array", "map"):
        assert avro.items is not None
        return {
            "type": avro.kind,
            "items" if avro.kind == "array" else "values": dump_plain(avro.items, seen),
        }
    made: dict[str, Any] = {"type": avro.kind}
    if avro.name:
        made["name"] = avro.name
    if avro.kind == "record":
        made["fields"] = [{"name": one.name, "type": dump_plain(one.type, seen)} for one in avro.fields]
    elif avro.kind == "enum":
        made["symbols"] = list(avro.symbols)
    elif avro.kind == "fixed":
        made["size"] = avro.size
    return made
