"""One batch's payload, decompressed by its codec's library: the way for whatever no kernel decompresses.

The payload of a v2 batch is all that follows its header; that of a magic 0 or 1 wrapper is its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from tidelog.errors import CompressionError, RecordOverrunError, UnknownCodecError
from tidelog.kernels.messages import count_messages
from tidelog.records.batches import HEADER_SIZE, Column
from tidelog.records.compression import decompress
from tidelog.records.faults import fault_error

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Payloads", "Where"]


class Where(TypedDict):
    """Where a batch is, for errors."""

    position: int
    offset: int
    source: str | None


class Payloads:
    """The payloads of batches in a buffer; a batch is given as its row of a `BatchTable`, in a list."""

    def __init__(self, view: memoryview, origin: int, source: str | None, limit: int) -> None:
        self._view = view
        self._origin = origin
        self._source = source
        self._limit = limit

    def where(self, row: list[int]) -> Where:
        """Where the batch is."""
        return {"position": row[Column.POSITION], "offset": row[Column.BASE_OFFSET], "source": self._source}

    def payload(self, row: list[int]) -> bytes | memoryview:
        """Its decompressed records or messages."""
        start = row[Column.POSITION] - self._origin
        magic = row[Column.MAGIC]
        data = (
            self._view[start + HEADER_SIZE : start + row[Column.SIZE]] if magic == 2 else self._wrapped(row)
        )
        try:
            return decompress(row[Column.ATTRIBUTES] & 7, data, magic=magic, limit=self._limit)
        except (CompressionError, UnknownCodecError) as error:
            raise type(error)(error.reason, **self.where(row)) from error

    def count(self, row: list[int], payload: Buffer) -> tuple[int, int]:
        """How many messages a wrapper's payload holds, and the offset of the last."""
        messages, last = count_messages(payload)
        if messages < 0:
            raise fault_error(
                -messages, position=row[Column.POSITION], offset=row[Column.BASE_OFFSET], source=self._source
            )
        return messages, last

    def _wrapped(self, row: list[int]) -> memoryview:
        """A wrapper's value."""
        start = row[Column.POSITION] - self._origin
        message = self._view[start : start + row[Column.SIZE]]
        key = _field(message, 26 if row[Column.MAGIC] == 1 else 18)
        value = _field(message, key[1]) if key else None
        if value is None or value[2]:
            raise RecordOverrunError("a compressed message has no sound key and value", **self.where(row))
        return message[value[0] : value[1]]


def _field(message: memoryview, at: int) -> tuple[int, int, bool] | None:
    """Start, end and nullness of the key or value at `at`; None if it reaches outside the message."""
    if at + 4 > len(message):
        return None
    length = int.from_bytes(message[at : at + 4], "big", signed=True)
    end = at + 4 + max(0, length)
    return (at + 4, end, length < 0) if end <= len(message) else None
