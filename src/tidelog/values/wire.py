"""What stands before a value: Confluent's wire format, or nothing.

    0               magic byte, 0
    1 to 4          the schema's id, big-endian
    5 ...           Protobuf: which message of the schema (`protobuf`); then the value

All values of an array are looked at at once.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import InvalidInputError

__all__ = ["HEADER_BYTES", "NOT_FRAMED", "NULL", "PLAIN", "Framing", "Spans", "spans_of"]

HEADER_BYTES = 5
NOT_FRAMED, NULL, PLAIN = -1, -2, 1 << 32
"""Instead of a schema's id: too short or no magic byte; null; the id of what has none before it."""
Int64s = npt.NDArray[np.int64]


class Framing(enum.StrEnum):
    """What stands before values."""

    CONFLUENT = "confluent"
    PLAIN = "plain"

    @classmethod
    def parse(cls, name: str) -> Framing:
        """The one of that name."""
        try:
            return cls(name.lower())
        except ValueError:
            raise InvalidInputError(f"framing is confluent or plain, not {name!r}") from None


@dataclass(frozen=True, slots=True)
class Spans:
    """Where values lie in `data`, and the ids before them."""

    data: npt.NDArray[np.uint8]
    starts: Int64s
    ends: Int64s
    ids: Int64s

    def payloads(self, rows: Int64s) -> pa.Array:
        """The values of some rows, without what stands before them."""
        starts, sizes = self.starts[rows], self.ends[rows] - self.starts[rows]
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        places = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(self.data[places])]
        return pa.Array.from_buffers(pa.binary(), len(rows), buffers)


def spans_of(values: pa.Array, framing: Framing) -> Spans:
    """The spans of binary values."""
    rows = len(values)
    wide = pa.types.is_large_binary(values.type)
    _, ends, buffer = values.buffers()
    data = np.zeros(1, np.uint8) if buffer is None or not buffer.size else np.frombuffer(buffer, np.uint8)
    if ends is None or not rows:
        nothing = np.zeros(rows, np.int64)
        return Spans(data, nothing, nothing.copy(), np.full(rows, NULL, np.int64))
    kind = np.int64 if wide else np.int32
    offsets = np.frombuffer(ends, kind, rows + 1, values.offset * (8 if wide else 4)).astype(np.int64)
    starts, stops = offsets[:-1].copy(), offsets[1:].copy()
    ids = np.full(rows, PLAIN, np.int64)
    if framing is Framing.CONFLUENT:
        safe = np.minimum(starts, len(data) - 1)
        is_framed = (stops - starts >= HEADER_BYTES) & (data[safe] == 0)
        if is_framed.all():
            at = starts
        else:
            at = starts[is_framed]
            ids[~is_framed] = NOT_FRAMED
        found = np.zeros(len(at), np.int64)
        for number in range(1, HEADER_BYTES):
            found = found << 8 | data[at + number]
        ids[is_framed] = found
        starts[is_framed] += HEADER_BYTES
    if values.null_count:
        ids[values.is_null().to_numpy(zero_copy_only=False)] = NULL
    return Spans(data, starts, stops, ids)
