"""Checking a request's lengths before it is decoded.

kio makes room for as many items as an array says it has before it reads the first one: a length that lies
would take all memory, and the process with it. So a request is walked first, by the same schema: every
length must fit into what is left of the frame, and null must be allowed where it stands. Nothing is decoded
or allocated on the way. What is wrong is a ValueError, or an IndexError or struct.error where the frame ends.

Items of arrays are counted: a few megabytes may name millions of things, and whoever answers that has no time
for others.

Newer clients may send tagged fields that the schema does not know. Kafka ignores them, kio refuses them: they
are cut out on the way.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Callable, Mapping
from typing import Any

from tidelog.broker.wire.encoding import FIXED_FORMATS, Kind
from tidelog.protocol.primitives import unsigned_varint

__all__ = ["MOST_ITEMS", "Check", "check_of", "skip_varint"]

MOST_ITEMS = 50_000
"""How many items the arrays of a request may have, all together; a setting may say otherwise."""

Check = Callable[[bytes, int, int], bytes]
"""Takes a frame, where a message begins, and how many items its arrays may have in all; returns the frame
without tagged fields that are not known."""

_Cut = tuple[int, int, bytes]
"""A piece of a frame, from where to where, and what stands there instead."""


@dataclasses.dataclass(slots=True)
class _Walk:
    """What is noted on the way."""

    items_left: int
    cuts: list[_Cut] = dataclasses.field(default_factory=list)


_Skip = Callable[[bytes, int, _Walk], int]
"""Takes a frame and where a value begins; returns where it ends. Adds what is to be cut out of it."""

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_SIZES = {name: struct.calcsize(f">{code}") for name, code in FIXED_FORMATS.items()} | {"uuid": 16}
_NULL_ENTITY = 0xFF


@functools.cache
def check_of(schema: Any) -> Check:
    """What checks a message of a schema."""
    skip = _entity(schema, bool(schema.__flexible__))

    def check(frame: bytes, at: int, most_items: int) -> bytes:
        walk = _Walk(most_items)
        end = skip(frame, at, walk)
        if end > len(frame):
            raise ValueError(f"the request ends {end - len(frame)} bytes early")
        return _edited(frame, 0, len(frame), walk.cuts) if walk.cuts else frame

    return check


def _edited(frame: bytes, start: int, end: int, cuts: list[_Cut]) -> bytes:
    """A piece of a frame with what is cut out replaced."""
    pieces = []
    for first, last, instead in cuts:
        pieces += [frame[start:first], instead]
        start = last
    return b"".join([*pieces, frame[start:end]])


def skip_varint(frame: bytes, at: int) -> tuple[int, int]:
    """An unsigned number in groups of seven bits, and where it ends."""
    number = 0
    for shift in range(0, 35, 7):
        byte = frame[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ValueError("a variable-length number does not end")


def _entity(schema: type, flexible: bool) -> _Skip:
    steps: list[_Skip] = []
    tagged: dict[int, _Skip] = {}
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

    def skip(frame: bytes, at: int, walk: _Walk) -> int:
        for step in together:
            at = step(frame, at, walk)
        return at

    return skip


def _size(kind: Kind) -> int:
    """The bytes of a field of fixed size; 0 for others."""
    return 0 if kind.is_array or kind.name is None else _SIZES.get(kind.name, 0)


def _fixed(size: int) -> _Skip:
    return lambda frame, at, walk: at + size


def _field(kind: Kind, flexible: bool) -> _Skip:
    if kind.is_array:
        size = 0 if kind.name is None else _SIZES.get(kind.name, 0)
        item = _fixed(size) if size else _item(kind, flexible)
        return _array(item, size, flexible, kind.nullable)
    return _item(kind, flexible)


def _item(kind: Kind, flexible: bool) -> _Skip:
    if kind.entity is not None:
        entity = _entity(kind.entity, flexible)
        return _nullable(entity) if kind.nullable and not kind.is_array else entity
    size = _SIZES.get(kind.name or "")
    if size is not None:
        return _fixed(size)
    return _bytes(_length(flexible, short=kind.name == "string"))


def _nullable(entity: _Skip) -> _Skip:
    return lambda frame, at, walk: at + 1 if frame[at] == _NULL_ENTITY else entity(frame, at + 1, walk)


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


def _bytes(length: Callable[[bytes, int], tuple[int, int]]) -> _Skip:
    def skip(frame: bytes, at: int, walk: _Walk) -> int:
        n, at = length(frame, at)
        if not -1 <= n <= len(frame) - at:
            raise ValueError(f"a length of {n} with {len(frame) - at} bytes left")
        return at + n if n > 0 else at

    return skip


def _array(item: _Skip, size: int, flexible: bool, nullable: bool) -> _Skip:
    length = _length(flexible, short=False)

    def skip(frame: bytes, at: int, walk: _Walk) -> int:
        n, at = length(frame, at)
        if n == -1:
            if not nullable:
                raise ValueError("an array is null")
            return at
        if not 0 <= n * max(size, 1) <= len(frame) - at:  # an item has a byte at least
            raise ValueError(f"an array of {n} items with {len(frame) - at} bytes left")
        walk.items_left -= n
        if walk.items_left < 0:
            raise ValueError("its arrays have too many items")
        if size:
            return at + n * size
        for _ in range(n):
            at = item(frame, at, walk)
        return at

    return skip


def _tags(tagged: Mapping[int, _Skip]) -> _Skip:
    def skip(frame: bytes, at: int, walk: _Walk) -> int:
        count = frame[at]
        if not count:
            return at + 1
        start = at
        count, at = skip_varint(frame, at)
        known: list[bytes] = []
        same = True
        for _ in range(count):
            head = at
            tag, at = skip_varint(frame, at)
            before_size = at
            size, at = skip_varint(frame, at)
            end = at + size
            field = tagged.get(tag)
            outer, walk.cuts = walk.cuts, []
            if end > len(frame) or (field is not None and field(frame, at, walk) > end):
                raise ValueError("a tagged field reaches beyond its request")
            inner, walk.cuts = walk.cuts, outer
            if inner:
                value = _edited(frame, at, end, inner)
                known.append(frame[head:before_size] + unsigned_varint(len(value)) + value)
            elif field is not None:
                known.append(frame[head:end])
            same = same and field is not None and not inner
            at = end
        if not same:
            walk.cuts.append((start, at, unsigned_varint(len(known)) + b"".join(known)))
        return at

    return skip
