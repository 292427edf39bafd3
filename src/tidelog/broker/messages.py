"""kio's messages, whatever their version.

kio has a class for each version of each message. Handlers read a request's field with a default for the
versions that lack it (`field`), and say a response once, in plain values (`respond`): the class is that of
the request's version, what this version does not know is dropped, and what is not said gets its default.

    plain value       in the message
    dict              the nested message of that field
    list, tuple       a tuple of what the field holds
    int               ErrorCode, or a timedelta or datetime of so many milliseconds, where the field is one
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from typing import Any, cast
from uuid import UUID

from kio.index import load_response_schema
from kio.schema.errors import ErrorCode

__all__ = ["field", "milliseconds", "respond", "response_class"]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NO_ID = UUID(int=0)

_Convert = Callable[[Any], Any]


def field(message: Any, name: str, default: Any = None) -> Any:
    """A field of a message, or the default where its version has no such field."""
    return getattr(message, name, default)


def milliseconds(duration: datetime.timedelta) -> int:
    """A duration as Kafka counts it."""
    return duration // datetime.timedelta(milliseconds=1)


def response_class(request: Any) -> type[Any]:
    """The response's class for a request, of the same version."""
    return _response_class(request.__api_key__, request.__version__)


@functools.cache
def _response_class(api_key: int, version: int) -> type[Any]:
    found: type[Any] = load_response_schema(api_key, version)
    return found


def respond(request: Any, **fields: Any) -> Any:
    """The response to a request, from plain values."""
    return _build(response_class(request), fields)


def _build(cls: type[Any], values: Mapping[str, Any]) -> Any:
    said = {}
    for name, convert, default in _plan(cast("Hashable", cls)):
        if name in values:
            said[name] = convert(values[name])
        elif default is not _SAID:
            said[name] = default
    return cls(**said)


_SAID = object()
"""The class has a default of its own."""


@functools.cache
def _plan(cls: Any) -> tuple[tuple[str, _Convert, Any], ...]:
    """Each field's name, how a plain value becomes its value, and its default."""
    hints = typing.get_type_hints(cls)
    return tuple(
        (each.name, _converter(hints[each.name], kind), _default(each, hints[each.name], kind))
        for each in dataclasses.fields(cls)
        for kind in [str(each.metadata.get("kafka_type", ""))]
    )


def _converter(hint: Any, kind: str) -> _Convert:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (part for part in typing.get_args(hint) if part is not types.NoneType)
        convert = _converter(inner, kind)
        return lambda value: None if value is None else convert(value)
    if origin is tuple:
        element = _converter(typing.get_args(hint)[0], kind)
        return lambda values: tuple(map(element, values))
    if dataclasses.is_dataclass(hint):
        nested = cast("type[Any]", hint)
        return lambda value: _build(nested, value) if isinstance(value, Mapping) else value
    return _SCALARS.get(kind.split("_")[0] if not kind.startswith("error") else kind, _same)


def _same(value: Any) -> Any:
    return value


def _timedelta(value: Any) -> Any:
    return datetime.timedelta(milliseconds=value) if isinstance(value, int) else value


def _datetime(value: Any) -> Any:
    return _EPOCH + datetime.timedelta(milliseconds=value) if isinstance(value, int) else value


_SCALARS: dict[str, _Convert] = {
    "timedelta": _timedelta,
    "datetime": _datetime,
    "error_code": ErrorCode,
}

_ZEROS: dict[str, Any] = {
    "string": "",
    "bytes": b"",
    "bool": False,
    "uuid": _NO_ID,
    "error_code": ErrorCode.none,
    "timedelta_i32": datetime.timedelta(0),
    "timedelta_i64": datetime.timedelta(0),
    "datetime_i64": _EPOCH,
}


def _default(each: dataclasses.Field[Any], hint: Any, kind: str) -> Any:
    has_own = each.default is not dataclasses.MISSING or each.default_factory is not dataclasses.MISSING
    if has_own:
        return _SAID
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return None
    if typing.get_origin(hint) is tuple:
        return ()
    if dataclasses.is_dataclass(hint):
        return _build(cast("type[Any]", hint), {})
    return _ZEROS.get(kind, 0)
