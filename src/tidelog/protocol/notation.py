"""Kafka's messages by a notation of one line each: what a format table says is decoded and encoded.

    OffsetCommitValue 1 4 4: offset int64, leaderEpoch int32 @3+, metadata string, topicId uuid #0 @4+

    name, api key, newest version, first flexible version (- for none), then its fields in their order on the
    wire: name and type; `@` the versions that have it (@3+, @1, else all); `#` its tag, where it is a tagged
    field; `?` after a type that may be null; `[]` before the type of an array's elements; `{...}` structures.

The wire: numbers big-endian. Flexible versions have compact strings, bytes and arrays (`primitives`) and
tagged fields after each structure; older ones have i16 (strings) or i32 lengths, -1 for null. A structure
that may be null has a byte before it, negative for null (in a tagged field 0 for null).

A decoded message is a dict as Kafka's own JSON converters make them: bytes in base64, ids as Kafka prints
them, tagged fields only where the message has them.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from tidelog.errors import CorruptRecordError, InvalidInputError, RecordOverrunError
from tidelog.protocol.primitives import Reader, tagged, unsigned_varint
from tidelog.storage.metadata import format_id

__all__ = ["Message", "parse_messages"]

_TOKEN = re.compile(r"\[\]|[{},?]|#\d+|@\d+(?:-\d+|\+)?|[A-Za-z][A-Za-z0-9]*")
_NEWEST = 1 << 15

_NUMBERS: dict[str, Callable[[Reader], Any]] = {
    "bool": lambda reader: reader.i8() != 0,
    "int8": Reader.i8,
    "int16": Reader.i16,
    "uint16": Reader.u16,
    "int32": Reader.i32,
    "int64": Reader.i64,
    "float64": lambda reader: struct.unpack(">d", reader.take(8))[0],
    "uuid": lambda reader: format_id(reader.uuid()),
}

_PACKED = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "int64": ">q",
    "float64": ">d",
}


@dataclass(frozen=True, slots=True)
class _Type:
    """A type: a name, or the fields of a structure; an array of it, or one."""

    name: str
    fields: tuple[_Field, ...] = ()
    is_array: bool = False
    is_nullable: bool = False


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    type: _Type
    tag: int | None = None
    first: int = 0
    last: int = _NEWEST


@dataclass(frozen=True, slots=True)
class Message:
    """The format of a message."""

    name: str
    api_key: int
    newest_version: int
    flexible_from: int
    fields: tuple[_Field, ...]

    def decode(self, body: Reader, version: int, *, native: bool = False) -> dict[str, Any]:
        """The message, whose version is known already. Raises CorruptRecordError for what is none.

        With `native` bytes are bytes and ids are UUIDs, as `encode` takes them.
        """
        return _structure(self.fields, body, _Form(version, version >= self.flexible_from, native))

    def encode(self, values: Mapping[str, Any], version: int) -> bytes:
        """The message with these values, as Kafka writes it. Tagged fields may be missing."""
        try:
            return _structure_bytes(self.fields, values, _Form(version, version >= self.flexible_from))
        except (struct.error, OverflowError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInputError(f"these values do not make a {self.name}: {error!r}") from error


@dataclass(frozen=True, slots=True)
class _Form:
    """How a message is written: its version, and whether that is a flexible one."""

    version: int
    flexible: bool
    native: bool = False

    def present(self, fields: tuple[_Field, ...]) -> list[_Field]:
        """The fields that this version has."""
        return [field for field in fields if field.first <= self.version <= field.last]


# ---- decoding


def _structure(fields: tuple[_Field, ...], body: Reader, form: _Form) -> dict[str, Any]:
    found: dict[str, Any] = {}
    present = form.present(fields)
    for field in present:
        if field.tag is None:
            found[field.name] = _value(field.type, body, form)
    if form.flexible and (tags := body.tags()):
        told = {
            field.name: _tagged(field.type, Reader(tags[field.tag], field.name), form)
            for field in present
            if field.tag in tags
        }
        found = {field.name: (found | told)[field.name] for field in present if field.name in found | told}
    return found


def _tagged(kind: _Type, body: Reader, form: _Form) -> Any:
    """A tagged field's value; the mark before a structure that may be null is 0 for null here."""
    if kind.name == "struct" and kind.is_nullable and not kind.is_array:
        return _element(kind, body, form) if body.unsigned_varint() > 0 else None
    return _value(kind, body, form)


def _value(kind: _Type, body: Reader, form: _Form) -> Any:
    if kind.is_array:
        count = _length(body, form.flexible, 4)
        if count is None:
            return _null(kind)
        return [_element(kind, body, form) for _ in range(count)]
    if kind.name == "struct" and kind.is_nullable and body.i8() < 0:
        return None
    return _element(kind, body, form)


def _element(kind: _Type, body: Reader, form: _Form) -> Any:
    if kind.name == "struct":
        return _structure(kind.fields, body, form)
    if form.native and kind.name == "uuid":
        return body.uuid()
    if kind.name in _NUMBERS:
        return _NUMBERS[kind.name](body)
    length = _length(body, form.flexible, 2 if kind.name == "string" else 4)
    if length is None:
        return _null(kind)
    data = body.take(length)
    if kind.name == "string":
        return data.decode("utf-8", "replace")
    return data if form.native else base64.b64encode(data).decode()


def _length(body: Reader, flexible: bool, width: int) -> int | None:
    if flexible:
        return body.nullable_length()
    length = body.i16() if width == 2 else body.i32()
    if length > body.remaining:
        raise RecordOverrunError(f"a length of {length}, but only {body.remaining} bytes are left")
    return length if length >= 0 else None


def _null(kind: _Type) -> None:
    if not kind.is_nullable:
        raise CorruptRecordError(f"a {kind.name} that must not be null is null")


# ---- encoding


def _structure_bytes(fields: tuple[_Field, ...], values: Mapping[str, Any], form: _Form) -> bytes:
    present = form.present(fields)
    parts = [_value_bytes(field.type, values[field.name], form) for field in present if field.tag is None]
    if form.flexible:
        tags = {
            field.tag: _tagged_bytes(field.type, values[field.name], form)
            for field in present
            if field.tag is not None and field.name in values
        }
        parts.append(tagged(tags))
    return b"".join(parts)


def _tagged_bytes(kind: _Type, value: Any, form: _Form) -> bytes:
    if kind.name == "struct" and kind.is_nullable and not kind.is_array:
        return b"\0" if value is None else b"\1" + _element_bytes(kind, value, form)
    return _value_bytes(kind, value, form)


def _value_bytes(kind: _Type, value: Any, form: _Form) -> bytes:
    if kind.is_array:
        if value is None:
            return _null_bytes(kind, form, 4)
        elements = [_element_bytes(kind, each, form) for each in value]
        return _length_bytes(len(elements), form, 4) + b"".join(elements)
    if kind.name == "struct" and kind.is_nullable:
        return b"\xff" if value is None else b"\1" + _element_bytes(kind, value, form)
    return _element_bytes(kind, value, form)


def _element_bytes(kind: _Type, value: Any, form: _Form) -> bytes:
    if kind.name == "struct":
        return _structure_bytes(kind.fields, value, form)
    if kind.name == "uuid":
        return cast("bytes", value.bytes)
    if kind.name in _PACKED:
        return struct.pack(_PACKED[kind.name], value)
    width = 2 if kind.name == "string" else 4
    if value is None:
        return _null_bytes(kind, form, width)
    data = value.encode() if kind.name == "string" else bytes(value)
    if width == 2 and len(data) > _NEWEST - 1:
        raise InvalidInputError(f"a string of {len(data)} bytes is too long; {_NEWEST - 1} is the most")
    return _length_bytes(len(data), form, width) + data


def _length_bytes(length: int, form: _Form, width: int) -> bytes:
    if form.flexible:
        return unsigned_varint(length + 1)
    return length.to_bytes(width, "big", signed=True)


def _null_bytes(kind: _Type, form: _Form, width: int) -> bytes:
    if not kind.is_nullable:
        raise InvalidInputError(f"a {kind.name} that must not be null is null")
    return b"\0" if form.flexible else b"\xff" * width


# ---- the notation


def parse_messages(table: str) -> dict[int, Message]:
    """The messages of a format table, by api key."""
    found = (_message(text) for text in re.split(r"\n(?=\S)", table.strip()))
    return {message.api_key: message for message in found}


def _message(text: str) -> Message:
    head, _, body = text.partition(":")
    name, key, newest, flexible = head.split()
    tokens = _TOKEN.findall(body)
    fields = tuple(_fields(iter([*tokens, "}"])))
    return Message(name, int(key), int(newest), _NEWEST if flexible == "-" else int(flexible), fields)


def _fields(tokens: Iterator[str]) -> Iterator[_Field]:
    """Fields up to the brace that ends them."""
    name = next(tokens)
    while name != "}":
        kind, token = _type(tokens)
        tag, first, last = None, 0, _NEWEST
        while token not in (",", "}"):
            if token[0] == "#":
                tag = int(token[1:])
            else:
                first, last = _versions(token[1:])
            token = next(tokens)
        yield _Field(name, kind, tag, first, last)
        name = token if token == "}" else next(tokens)


def _type(tokens: Iterator[str]) -> tuple[_Type, str]:
    """A type, and the token after it."""
    token = next(tokens)
    is_array = token == "[]"
    if is_array:
        token = next(tokens)
    name, fields = token, cast("tuple[_Field, ...]", ())
    if token == "{":
        name, fields = "struct", tuple(_fields(tokens))
    token = next(tokens)
    is_nullable = token == "?"
    return _Type(name, fields, is_array, is_nullable), next(tokens) if is_nullable else token


def _versions(text: str) -> tuple[int, int]:
    if text.endswith("+"):
        return int(text[:-1]), _NEWEST
    first, _, last = text.partition("-")
    return int(first), int(last or first)
