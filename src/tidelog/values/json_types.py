"""Types of JSON values: which there are, how one is inferred, and how one is widened.

    JSON                        type
    true, 1, 1.5, "x"           boolean, bigint, double, string
    {...}, [...]                struct, array
    {} only, [] only            map<string,string>, array<string>
    null only                   string; nothing at all in a schema that may be widened

By a schema that is given, a text may also be a date, a timestamp, a decimal or binary (Base64), a number a
decimal or a narrower one, and an object a map.

A type is widened for a value that it does not hold: fields are added, whole numbers become wider or double,
float becomes double, decimals get more digits. Nothing holds both a text and a number, or an object and
anything else; `Misfit` says where. Of names that differ only in case the first one becomes a field: Spark
cannot read a table that has both.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.values.json_reading import Members, Misfit, fit_scalar

__all__ = ["check_struct", "columns_type", "finished", "join", "widen"]

_types = pa.types
_MOST_DIGITS = 38


def widen(kind: pa.DataType, value: Any, where: str = "value") -> pa.DataType:
    """A type that holds what `kind` holds, and a value; Misfit if there is none."""
    if value is None:
        return kind
    if isinstance(value, Members):
        return _widen_object(kind, value, where)
    if isinstance(value, list):
        if not (_types.is_null(kind) or _types.is_list(kind)):
            raise Misfit(where)
        inner = pa.null() if _types.is_null(kind) else kind.value_type
        for one in value:
            inner = widen(inner, one, f"{where}[]")
        return kind if _types.is_list(kind) and inner == kind.value_type else pa.list_(inner)
    if _types.is_nested(kind):
        raise Misfit(where)
    if not _types.is_null(kind):
        try:
            fit_scalar(value, kind)
        except (Misfit, ValueError, ArithmeticError):
            return _join_scalars(kind, _natural(value, kind, where), where)
        return kind
    return _natural(value, kind, where)


def _widen_object(kind: pa.DataType, members: Members, where: str) -> pa.DataType:
    if _types.is_map(kind):
        inner = kind.item_type
        for _, one in members:
            inner = widen(inner, one, f"{where}{{}}")
        return kind if inner == kind.item_type else pa.map_(kind.key_type, inner)
    if not (_types.is_null(kind) or _types.is_struct(kind)):
        raise Misfit(where)
    fields = {} if _types.is_null(kind) else {one.name: one.type for one in kind}
    lowered: set[str] = set()
    for name, one in members:
        if name not in fields:
            lowered = lowered or {known.lower() for known in fields}
            if name.lower() in lowered:
                continue
            lowered.add(name.lower())
        fields[name] = widen(fields.get(name, pa.null()), one, f"{where}.{name}")
    return pa.struct(list(fields.items()))


def _natural(value: Any, kind: pa.DataType, where: str) -> pa.DataType:
    """The type of a scalar by itself, or among decimals."""
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, str):
        return pa.string()
    if _types.is_decimal(kind):
        _, digits, exponent = Decimal(value).as_tuple()
        scale = max(-int(exponent), 0)
        whole = max(len(digits) + int(exponent), 0)
        if whole + scale > _MOST_DIGITS:
            raise Misfit(where)
        return pa.decimal128(max(whole + scale, 1), scale)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return pa.int64()
    fit_scalar(value, pa.float64())
    return pa.float64()


def join(a: pa.DataType, b: pa.DataType, where: str = "value") -> pa.DataType:
    """A type that holds what both hold; Misfit if there is none."""
    if a == b or _types.is_null(b):
        return a
    if _types.is_null(a):
        return b
    if _types.is_struct(a) and _types.is_struct(b):
        fields = {one.name: one.type for one in a}
        for one in b:
            fields[one.name] = join(fields.get(one.name, pa.null()), one.type, f"{where}.{one.name}")
        return pa.struct(list(fields.items()))
    if _types.is_list(a) and _types.is_list(b):
        return pa.list_(join(a.value_type, b.value_type, f"{where}[]"))
    if _types.is_map(a) and _types.is_map(b):
        keys = join(a.key_type, b.key_type, f"{where}{{}}")
        return pa.map_(keys, join(a.item_type, b.item_type, f"{where}{{}}"))
    return _join_scalars(a, b, where)


def _join_scalars(a: pa.DataType, b: pa.DataType, where: str) -> pa.DataType:
    if a == b:
        return a
    if _types.is_decimal(a) and _types.is_decimal(b):
        scale = max(a.scale, b.scale)
        whole = max(a.precision - a.scale, b.precision - b.scale)
        if whole + scale <= _MOST_DIGITS:
            return pa.decimal128(whole + scale, scale)
    elif _types.is_integer(a) and _types.is_integer(b):
        return a if a.bit_width >= b.bit_width else b
    elif _is_number(a) and _is_number(b):
        return pa.float64()
    raise Misfit(where)


def _is_number(kind: pa.DataType) -> bool:
    return bool(_types.is_integer(kind) or _types.is_floating(kind))


def finished(kind: pa.DataType, *, keep_unknown: bool) -> pa.DataType:
    """A type that was widened, as files can hold it.

    A field that was never more than null becomes a string, or is left out: it can get its type later.
    """
    if _types.is_struct(kind):
        if not kind.num_fields:
            return pa.map_(pa.string(), pa.string())
        fields = [
            pa.field(one.name, finished(one.type, keep_unknown=keep_unknown))
            for one in kind
            if keep_unknown or not _types.is_null(one.type)
        ]
        return pa.struct(fields) if fields else pa.map_(pa.string(), pa.string())
    if _types.is_list(kind):
        return pa.list_(finished(kind.value_type, keep_unknown=keep_unknown))
    if _types.is_map(kind):
        return pa.map_(kind.key_type, finished(kind.item_type, keep_unknown=keep_unknown))
    return pa.string() if _types.is_null(kind) else kind


def columns_type(kind: pa.DataType) -> pa.DataType:
    """A type of typed values as files can hold it."""
    return finished(kind, keep_unknown=True)


def check_struct(kind: pa.DataType, where: str = "") -> pa.DataType:
    """A schema that was given, all of it nullable; InvalidInputError names a field that JSON cannot be."""
    if _types.is_struct(kind):
        names = [one.name for one in kind]
        if not names or len(set(names)) != len(names):
            what = "has no fields: take map<string,string>" if not names else "names a field twice"
            raise InvalidInputError(f"the schema{where} {what}")
        return pa.struct([pa.field(one.name, check_struct(one.type, f"{where}.{one.name}")) for one in kind])
    if _types.is_list(kind) or _types.is_large_list(kind):
        return pa.list_(check_struct(kind.value_type, f"{where}[]"))
    if _types.is_map(kind):
        if kind.key_type != pa.string():
            raise InvalidInputError(
                f"the schema{where} is a map of {kind.key_type}: names in JSON are strings"
            )
        return pa.map_(pa.string(), check_struct(kind.item_type, f"{where}{{}}"))
    if _types.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    known = (pa.bool_(), pa.string(), pa.binary(), pa.date32(), pa.float32(), pa.float64())
    if kind in known or _types.is_signed_integer(kind) or _types.is_decimal128(kind):
        return kind
    raise InvalidInputError(f"the schema{where} is of type {kind}, which JSON values cannot be read as")
