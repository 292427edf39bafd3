"""Decodes one JSON value with a schema: the exact rules, in Python.

A value is one JSON object in UTF-8 (RFC 8259), white space around it aside, and nothing else: no byte order
mark, no comment, no NaN, no second value. It fits a struct if each of its members has a field of that name
(upper and lower case differ) whose type holds it, at most once; null fits everywhere, under unknown names
too. What types hold:

    whole numbers       within the type's range, written without a point or exponent
    float, double       any number in the range, rounded
    decimal             a number, or a text that is one, with no digit more than the type has
    date                "2026-11-15"
    timestamp           "2026-11-15T10:00:00", fractions of up to six digits, `Z` or `+02:00`; else it is UTC
    timestamp_ntz       likewise, without a zone
    binary              Base64
"""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

__all__ = ["Members", "Misfit", "fit", "fit_scalar", "parse"]

_types = pa.types
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?(Z|[+-]\d{2}:\d{2})?)?", re.ASCII
)
_DECIMAL = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_MAX_FLOAT = {32: 3.4028234663852886e38, 64: 1.7976931348623157e308}
_MOST_EXPONENT = 10_000


class Misfit(ValueError):
    """A value that no schema, or not this one, holds; says where."""


class Members(list[tuple[str, Any]]):
    """The members of an object, in order; names may come twice."""


def parse(value: bytes) -> Members:
    """The object that a value is; Misfit where it is none. Numbers with a point or exponent are Decimals."""
    try:
        found = json.loads(
            value.decode("utf-8"), object_pairs_hook=Members, parse_constant=_refuse, parse_float=Decimal
        )
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise Misfit(f"not JSON: {error}") from None
    if not isinstance(found, Members):
        raise Misfit("not an object")
    return found


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def fit(value: Any, kind: pa.DataType) -> Any:
    """A parsed value as Arrow takes it for a type; Misfit where the type does not hold it."""
    if value is None:
        return None
    if _types.is_struct(kind):
        if not isinstance(value, Members):
            raise Misfit("an object is expected")
        return _fit_struct(value, kind)
    if _types.is_map(kind):
        if not isinstance(value, Members) or len({name for name, _ in value}) != len(value):
            raise Misfit("an object with unique names is expected")
        return [(_text(name), fit(one, kind.item_type)) for name, one in value]
    if _types.is_list(kind):
        if isinstance(value, Members) or not isinstance(value, list):
            raise Misfit("an array is expected")
        return [fit(one, kind.value_type) for one in value]
    return fit_scalar(value, kind)


def _fit_struct(members: Members, kind: pa.StructType) -> dict[str, Any]:
    found: dict[str, Any] = {}
    fields = {field.name: field.type for field in kind}
    for name, value in members:
        if name not in fields:
            if value is None:
                _text(name)
                continue
            raise Misfit(f"there is no field {name!r}")
        if name in found:
            raise Misfit(f"field {name!r} comes twice")
        found[name] = fit(value, fields[name])
    return found


def fit_scalar(value: Any, kind: pa.DataType) -> Any:
    """A text, number or truth value as Arrow takes it."""
    if isinstance(value, list):
        raise Misfit("a scalar is expected")
    if _types.is_boolean(kind) or isinstance(value, bool):
        return _of(value, bool, _types.is_boolean(kind))
    if _types.is_integer(kind):
        bound = 1 << (kind.bit_width - 1)
        if not isinstance(value, int) or not -bound <= value < bound:
            raise Misfit(f"{kind} is expected")
        return value
    if _types.is_floating(kind):
        return _float(value, kind)
    if _types.is_decimal(kind):
        return _decimal(value, kind)
    text = _text(_of(value, str, True))
    if _types.is_string(kind):
        return text
    if _types.is_date(kind):
        if _DATE.fullmatch(text) is None:
            raise Misfit("a date is expected")
        return date.fromisoformat(text)
    if _types.is_timestamp(kind):
        return _timestamp(text, kind.tz is not None)
    if _types.is_binary(kind):
        return base64.b64decode(text.encode("ascii"), validate=True)
    raise Misfit(f"{kind} is not of JSON")


def _of(value: Any, wanted: type, is_type: bool) -> Any:
    if not is_type or not isinstance(value, wanted):
        raise Misfit(f"{wanted.__name__} is expected")
    return value


def _text(text: str) -> str:
    text.encode()  # raises for half of a surrogate pair
    return text


def _float(value: Any, kind: pa.DataType) -> float:
    if not isinstance(value, (int, Decimal)):
        raise Misfit("a number is expected")
    try:
        found = float(value)
    except OverflowError:
        raise Misfit("the number is too large") from None
    if abs(found) > _MAX_FLOAT[kind.bit_width]:
        raise Misfit("the number is too large")
    return found


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    if isinstance(value, str):
        if _DECIMAL.fullmatch(value) is None:
            raise Misfit("a decimal is expected")
        value = Decimal(value)
    if not isinstance(value, (int, Decimal)):
        raise Misfit("a decimal is expected")
    if isinstance(value, Decimal) and abs(value.adjusted()) > _MOST_EXPONENT:
        raise Misfit("the number is too large, or too small")
    sign, digits, exponent = Decimal(value).as_tuple()
    number = int("".join(map(str, digits)) or "0")
    shift = int(exponent) + kind.scale
    if number and shift >= 0:
        number *= 10 ** min(shift, 100)
    elif number and shift < 0:
        number, rest = divmod(number, 10**-shift)
        if rest:
            raise Misfit("the number has more digits than the decimal")
    if number >= 10**kind.precision:
        raise Misfit("the number has more digits than the decimal")
    return Decimal((sign, tuple(map(int, str(number))), -kind.scale))


def _timestamp(text: str, zoned: bool) -> datetime:
    found = _TIMESTAMP.fullmatch(text)
    if found is None or (found[4] is not None and not zoned):
        raise Misfit("a timestamp is expected")
    fraction = (found[3] or "0").ljust(6, "0")
    zone = (found[4] or "").replace("Z", "+00:00")
    moment = datetime.fromisoformat(f"{found[1]}T{found[2] or '00:00:00'}.{fraction}{zone}")
    if not zoned:
        return moment
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
