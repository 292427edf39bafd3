"""Columns of decoded values as JSON has them, for lines that people read."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tidelog.decoding.jsonable import jsonable

__all__ = ["jsonable_values"]

_types = pa.types


def jsonable_values(array: pa.Array) -> list[Any]:
    """Each value: structs and maps as objects, decimals and moments as text, bytes as text or in base64."""
    if _has_nanoseconds(array.type):
        array = array.cast(_in_microseconds(array.type), safe=False)
    return [_jsonable(one, array.type) for one in array.to_pylist()]


def _jsonable(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if _types.is_struct(kind):
        return {one.name: _jsonable(value[one.name], one.type) for one in kind}
    if _types.is_list(kind):
        return [_jsonable(one, kind.value_type) for one in value]
    if _types.is_map(kind):
        return {str(name): _jsonable(one, kind.item_type) for name, one in value}
    if isinstance(value, bytes):
        return jsonable(value)
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value


def _has_nanoseconds(kind: pa.DataType) -> bool:
    if _types.is_timestamp(kind):
        return bool(kind.unit == "ns")
    return any(_has_nanoseconds(kind.field(number).type) for number in range(kind.num_fields))


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    """A type as Python's own classes hold it."""
    if _types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if _types.is_struct(kind):
        return pa.struct([pa.field(one.name, _in_microseconds(one.type)) for one in kind])
    if _types.is_list(kind):
        return pa.list_(_in_microseconds(kind.value_type))
    if _types.is_map(kind):
        return pa.map_(kind.key_type, _in_microseconds(kind.item_type))
    return kind
