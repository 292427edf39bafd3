"""Finding a batch in the middle of a log, without an index to say where one begins.

1. A window of bytes is searched for what could be the header of a v2 batch: its magic byte, a length that
   ends in the log, offsets that the segment can hold, known attributes.
2. The candidates are tried in order: the first whose checksum is right is it.

Records may hold bytes that look like a batch, checksum and all. So an answer is a good guess: whoever walks
the batches before it must arrive at that very position. Messages of magic 0 and 1 are not found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.records.batches import HEADER_SIZE, scan_batches

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["find_batch"]

_WINDOW = 1 << 18
_MAGIC_AT = 16
_MAGIC_V2 = 2
_KNOWN_ATTRIBUTES = 0x7F
_OVERHEAD = 12  # offset and length fields, which the length does not count


def find_batch(buffer: Buffer, start: int, end: int, offsets: range) -> int | None:
    """The position of the first v2 batch in buffer[start:end] whose offsets lie within `offsets`.

    It begins there, but may reach up to the buffer's end. None if there is none.
    """
    view = memoryview(buffer).cast("B")
    last = min(end, len(view) - HEADER_SIZE + 1)
    for begin in range(start, last, _WINDOW):
        for candidate in _candidates(view, begin, min(begin + _WINDOW, last), offsets):
            if scan_batches(view, start=candidate, max_batches=1).fault is None:
                return candidate
    return None


def _candidates(view: memoryview, start: int, end: int, offsets: range) -> list[int]:
    """Where headers might begin in [start, end)."""
    data = np.frombuffer(view[start : end + HEADER_SIZE - 1], np.uint8)
    at = np.flatnonzero(data[_MAGIC_AT : _MAGIC_AT + end - start] == _MAGIC_V2)
    first, length = _field(data, at, 0, ">i8"), _field(data, at, 8, ">i4")
    attributes, delta = _field(data, at, 21, ">i2"), _field(data, at, 23, ">i4")
    fits = (length >= HEADER_SIZE - _OVERHEAD) & (start + at + _OVERHEAD + length <= len(view))
    fits &= (attributes >= 0) & (attributes <= _KNOWN_ATTRIBUTES) & (delta >= 0)
    fits &= (first >= offsets.start) & (first < offsets.stop - delta)
    found: list[int] = (start + at[fits]).tolist()
    return found


def _field(
    data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], field: int, kind: str
) -> npt.NDArray[np.int64]:
    """A number of each header."""
    dtype = np.dtype(kind)
    places = at[:, None] + np.arange(field, field + dtype.itemsize)
    numbers: npt.NDArray[np.int64] = data[places].view(dtype)[:, 0].astype(np.int64)
    return numbers
