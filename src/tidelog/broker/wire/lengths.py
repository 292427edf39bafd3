"""Checking a request's lengths before it is decoded.

kio makes room for as many items as an array says it has before it reads the first one: a length that lies
would take all memory, and the process with it. So a request is walked first, by the same schema: every
length must fit into what is left of the frame, and null must be allowed where it stands. Nothing is decoded
or allocated on the way. What is wrong is a ValueError, or an IndexError or struct.error where the frame ends.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Callable, Mapping
from typing import Any

from tidelog.broker.wire.encoding import FIXED_FORMATS, Kind

__all__ = ["Skip", "skip_of", "skip_varint"]

Skip = Callable[[bytes, int], int]
"""Takes a frame and where a value begins; returns where it ends."""

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_SIZES = {name: struct.calcsize(f">{code}") for name, code in FIXED_FORMATS.items()} | {"uuid": 16}
_NULL_ENTITY = 0xFF


@functools.cache
def skip_of(schema: Any) -> Skip:
    """What walks over a message of a schema."""
    walk = _entity(schema, bool(schema.__flexible__))

    def skip(frame: bytes, at: int) -> int:
        end = walk(frame, at)
        if end > len(frame):
            raise ValueError(f"the request ends {end - len(frame)} bytes early")
        return end

    return skip


def skip_varint(frame: bytes, at: int) -> tuple[int, int]:
    """An unsigned number in groups of seven bits, and where it ends."""
    number = 0
    for shift in range(0, 35, 7):
        byte = frame[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ValueError("a number that does not end")


def _entity(schema: type, flexible: bool) -> Skip:
    steps: list[Skip] = []
    tagged: dict[int, Skip] = {}
    fixed = 0
    for field in dataclasses.fields(schema):
        kind = Kind.of(field)
        tag = field.metadata.get("tag")
        if tag is not None:
            tagged[tag] = _field(kind, flexible)
        elif size := _size(kind):
            fixed += size
        else:
            if fixed:
                steps.append(_fixed(fixed))
                fixed = 0
            steps.append(_field(kind, flexible))
    if fixed:
        steps.append(_fixed(fixed))
    if flexible:
        steps.append(_tags(tagged))
    together = tuple(steps)

    def skip(frame: bytes, at: int) -> int:
        for step in together:
            at = step(frame, at)
        return at

    return skip


def _size(kind: Kind) -> int:
    """The bytes of a field of fixed size; 0 for others."""
    return 0 if kind.is_array or kind.name is None else _SIZES.get(kind.name, 0)


def _fixed(size: int) -> Skip:
    return lambda frame, at: at + size


def _field(kind: Kind, flexible: bool) -> Skip:
    if kind.is_array:
        size = 0 if kind.name is None else _SIZES.get(kind.name, 0)
        item = _fixed(size) if size else _item(kind, flexible)
        return _array(item, size, flexible, kind.nullable)
    return _item(kind, flexible)


def _item(kind: Kind, flexible: bool) -> Skip:
    if kind.entity is not None:
        walk = _entity(kind.entity, flexible)
        return _nullable(walk) if kind.nullable and not kind.is_array else walk
    size = _SIZES.get(kind.name or "")
    if size is not None:
        return _fixed(size)
    return _bytes(_length(flexible, short=kind.name == "string"))


def _nullable(walk: Skip) -> Skip:
    return lambda frame, at: at + 1 if frame[at] == _NULL_ENTITY else walk(frame, at + 1)


def _length(flexible: bool, *, short: bool) -> Callable[[bytes, int], tuple[int, int]]:
    """What reads a length, -1 for null, and says where it ends."""
    if flexible:

        def compact(frame: bytes, at: int) -> tuple[int, int]:
            byte = frame[at]
            if byte < 0x80:
                return byte - 1, at + 1
            number, at = skip_varint(frame, at)
            return number - 1, at

        return compact
    form = _INT16 if short else _INT32
    return lambda frame, at: (form.unpack_from(frame, at)[0], at + form.size)


def _bytes(length: Callable[[bytes, int], tuple[int, int]]) -> Skip:
    def skip(frame: bytes, at: int) -> int:
        n, at = length(frame, at)
        if not -1 <= n <= len(frame) - at:
            raise ValueError(f"a length of {n} with {len(frame) - at} bytes left")
        return at + n if n > 0 else at

    return skip


def _array(item: Skip, size: int, flexible: bool, nullable: bool) -> Skip:
    length = _length(flexible, short=False)

    def skip(frame: bytes, at: int) -> int:
        n, at = length(frame, at)
        if n == -1 and not nullable:
            raise ValueError("an array is null")
        if not -1 <= n * max(size, 1) <= len(frame) - at:  # an item has a byte at least
            raise ValueError(f"an array of {n} items with {len(frame) - at} bytes left")
        if size:
            return at + max(n, 0) * size
        for _ in range(n):
            at = item(frame, at)
        return at

    return skip


def _tags(tagged: Mapping[int, Skip]) -> Skip:
    def skip(frame: bytes, at: int) -> int:
        count = frame[at]
        if not count:
            return at + 1
        count, at = skip_varint(frame, at)
        for _ in range(count):
            tag, at = skip_varint(frame, at)
            size, at = skip_varint(frame, at)
            end = at + size
            known: Any = tagged.get(tag)
            if end > len(frame) or (known is not None and known(frame, at) > end):
                raise ValueError("a tagged field reaches beyond its request")
            at = end
        return at

    return skip
