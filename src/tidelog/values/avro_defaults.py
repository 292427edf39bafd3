"""The defaults of fields, which schemas have as JSON, as Arrow takes them.

Avro checks defaults when a schema is made, but not everybody does, and registries take what they are given.
A default that is not of its field's type is a Misfit: it concerns values whose writer did not have the field,
and no others.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from tidelog.values.avro_schema import AvroField, AvroType
from tidelog.values.avro_types import arrow_type, member_names
from tidelog.values.json_reading import Misfit

__all__ = ["default_scalar"]

_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "bytes": (str,),
    "fixed": (str,),
    "string": (str,),
    "enum": (str,),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
}


def default_scalar(field: AvroField, *, portable: bool) -> pa.Scalar:
    """The default of a field as a value of its column."""
    kind = field.type
    try:
        return pa.scalar(_value(field.default, kind, portable), arrow_type(kind, portable=portable))
    except (ArithmeticError, TypeError, ValueError):  # also numbers that are too large, and other characters
        shown = repr(field.default)[:60]
        raise Misfit(f"the default of {field.name} is not of its type: {shown}") from None


def _value(default: Any, kind: AvroType, portable: bool) -> Any:
    if kind.kind == "union":
        return _branch_value(default, kind, portable)
    if not _is_of(default, kind):
        raise ValueError(kind.kind)
    if default is None or kind.is_recursive:
        return None
    if kind.kind in ("bytes", "fixed"):
        return _bytes_value(default.encode("latin-1"), kind, portable)
    if kind.kind == "record":
        return {
            one.name: _value(default.get(one.name, one.default), one.type, portable)
            for one in kind.fields
            if one.name in default or one.has_default
        }
    if kind.kind == "array" and kind.items is not None:
        return [_value(one, kind.items, portable) for one in default]
    if kind.kind == "map" and kind.items is not None:
        return [(name, _value(one, kind.items, portable)) for name, one in default.items()]
    if kind.logical.endswith("-millis") and kind.kind == "long":
        return default * 1000
    return default


def _branch_value(default: Any, union: AvroType, portable: bool) -> Any:
    """The first branch that it fits: a union of several schemas has them in another order than each."""
    branch = next((one for one in union.branches if _is_of(default, one)), None)
    if branch is None:
        raise ValueError(union.kind)
    found = _value(default, branch, portable)
    if len(union.members) < 2 or found is None:
        return found
    return {
        name: found if one is branch else None
        for name, one in zip(member_names(union), union.members, strict=True)
    }


def _is_of(default: Any, kind: AvroType) -> bool:
    if isinstance(default, bool):
        return kind.kind == "boolean"
    if isinstance(default, float) and kind.kind in ("int", "long"):
        return default.is_integer()
    return isinstance(default, _JSON_TYPES[kind.kind])


def _bytes_value(raw: bytes, kind: AvroType, portable: bool) -> Any:
    if kind.kind == "fixed" and len(raw) != kind.size:
        raise ValueError(kind.name)
    if pa.types.is_binary(arrow_type(kind, portable=portable)):
        return raw
    if kind.logical == "decimal":
        return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-kind.scale)
    if kind.logical == "uuid":
        return str(UUID(bytes=raw))
    months, days, ms = (int.from_bytes(raw[n : n + 4], "little") for n in (0, 4, 8))
    return {"months": months, "days": days, "milliseconds": ms}
