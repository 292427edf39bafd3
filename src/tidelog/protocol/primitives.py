"""The parts that Kafka's flexible message formats are made of, from bytes and to bytes.

    i8 i16 u16 i32 i64   big-endian numbers
    uuid                 16 bytes
    unsigned varint      7 bits a byte, lowest first, the top bit set on all but the last; 32 bits in all
    compact string       unsigned varint of its length + 1 (0: null), then UTF-8
    compact array        unsigned varint of its count + 1 (0: null), then the elements
    tags                 unsigned varint count of: tag, size (unsigned varints), bytes

Reading never goes past the end: whatever is short or impossible raises a CorruptRecordError.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tidelog.errors import BadVarintError, CorruptRecordError, InvalidInputError, RecordOverrunError

__all__ = ["NO_TAGS", "Reader", "compact_array", "compact_string", "tagged", "unsigned_varint"]

NO_TAGS = b"\0"

_MAX_STRING = 0x7FFF
_T = TypeVar("_T")


class Reader:
    """Takes values from bytes, one after the other; `what` names them in errors."""

    __slots__ = ("_at", "_data", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._at = 0
        self._what = what

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        start = self._at
        if not 0 <= size <= len(self._data) - start:
            raise RecordOverrunError(f"{self._what} ends early: {size} bytes wanted at {start}")
        self._at = start + size
        return self._data[start : self._at]

    def i8(self) -> int:
        """A signed byte."""
        return int.from_bytes(self.take(1), "big", signed=True)

    def i16(self) -> int:
        """A signed number of two bytes."""
        return int.from_bytes(self.take(2), "big", signed=True)

    def u16(self) -> int:
        """An unsigned number of two bytes."""
        return int.from_bytes(self.take(2), "big")

    def i32(self) -> int:
        """A signed number of four bytes."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def i64(self) -> int:
        """A signed number of eight bytes."""
        return int.from_bytes(self.take(8), "big", signed=True)

    def uuid(self) -> uuid.UUID:
        """An id."""
        return uuid.UUID(bytes=self.take(16))

    def version(self) -> int:
        """A version: i16, never negative."""
        version = self.i16()
        if version < 0:
            raise CorruptRecordError(f"{self._what} has the impossible version {version}")
        return version

    def unsigned_varint(self) -> int:
        """A number of variable length; Java's int has a sign, so large ones come out negative."""
        number = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return ((number & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
        raise BadVarintError(f"{self._what} holds a variable-length number that does not end")

    def length(self) -> int:
        """A compact length that is not null; what it counts must fit what is left."""
        length = self.nullable_length()
        return self._impossible(-1) if length is None else length

    def nullable_length(self) -> int | None:
        """A compact length, or None for null."""
        length = self.unsigned_varint() - 1
        if length == -1:
            return None
        return length if 0 <= length <= self.remaining else self._impossible(length)

    def _impossible(self, length: int) -> int:
        raise RecordOverrunError(f"{self._what} has the impossible length {length} at {self._at}")

    def string(self) -> str:
        """A compact string that is not null."""
        return self.take(self.length()).decode("utf-8", "replace")

    def nullable_string(self) -> str | None:
        """A compact string, or None for null."""
        length = self.nullable_length()
        return None if length is None else self.take(length).decode("utf-8", "replace")

    def array(self, element: Callable[[], _T]) -> tuple[_T, ...]:
        """A compact array that is not null."""
        return tuple(element() for _ in range(self.length()))

    def tags(self) -> dict[int, bytes]:
        """Tagged fields by their tag."""
        found = {}
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            found[tag] = self.take(self.unsigned_varint())
        return found

    def skip_tags(self) -> None:
        """Pass over tagged fields."""
        self.tags()


def unsigned_varint(number: int) -> bytes:
    """A number (0 or more) of variable length."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def compact_array(elements: Sequence[bytes]) -> bytes:
    """Encoded elements as an array."""
    return unsigned_varint(len(elements) + 1) + b"".join(elements)


def compact_string(text: str | None) -> bytes:
    """A string; None is null."""
    if text is None:
        return b"\0"
    data = text.encode()
    if len(data) > _MAX_STRING:
        raise InvalidInputError(f"a string of {len(data)} bytes is too long; {_MAX_STRING} is the most")
    return unsigned_varint(len(data) + 1) + data


def tagged(fields: Mapping[int, bytes]) -> bytes:
    """Encoded fields by their tags, lowest first."""
    parts = [unsigned_varint(len(fields))]
    for tag, data in sorted(fields.items()):
        parts += (unsigned_varint(tag), unsigned_varint(len(data)), data)
    return b"".join(parts)
