"""Facts of batches spread over their records: the columns that need no look at the records."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.records.batches import BatchTable
from tidelog.records.columns import from_numbers
from tidelog.records.schema import column_type
from tidelog.types import Codec

__all__ = ["BatchFacts"]

Int64s = npt.NDArray[np.int64]

_MAX_SEQUENCE = (1 << 31) - 1
_OTHER_NAMES = {
    "timestampType": "timestamp_type",
    "transactional": "is_transactional",
    "control": "is_control",
}
"""Columns that the table of batches calls otherwise."""


@cache
def _codec_names() -> pa.Array:
    return pa.array([codec.label for codec in Codec])


class BatchFacts:
    """Columns of a chunk by the batch each record lies in.

    `counts` is how many records batches were found to hold, where their header does not say; `offsets` are
    those of all records, where a column was asked for that needs them.
    """

    def __init__(self, table: BatchTable, counts: Mapping[int, int], offsets: Int64s | None) -> None:
        self._table = table
        self._counts = table.count
        if counts:
            self._counts = self._counts.copy()
            for batch, count in counts.items():
                if batch < len(table):
                    self._counts[batch] = count
        self._offsets = offsets

    def array(self, name: str) -> pa.Array:
        """Column `name` (see `records.schema`)."""
        if name == "codec":
            return _codec_names().take(self._spread(self._table.codec, np.int32))
        if name == "sequence":
            return from_numbers(self._sequences())
        if name == "base_offset":
            per_batch = self._base_offsets()
        else:
            per_batch = getattr(self._table, _OTHER_NAMES.get(name, name))
        return self._spread(per_batch, column_type(name).to_pandas_dtype())

    def _spread(self, per_batch: npt.NDArray[np.generic], kind: npt.DTypeLike) -> pa.Array:
        return from_numbers(np.repeat(per_batch.astype(kind), self._counts))

    def _base_offsets(self) -> Int64s:
        """Base offsets; a magic 0/1 wrapper's is the offset of the first message in it."""
        bases = self._table.base_offset.copy()
        wrappers = (self._table.magic < 2) & (self._table.codec != 0)
        if wrappers.any() and self._offsets is not None:
            starts = np.cumsum(self._counts) - self._counts
            bases[wrappers] = self._offsets[starts[wrappers]]
        return bases

    def _sequences(self) -> npt.NDArray[np.int32]:
        """Base sequence plus offset delta, continuing at 0 after 2^31-1; -1 where a batch has none."""
        if self._offsets is None:
            raise ValueError("sequences need the offsets")
        base = np.repeat(self._table.base_sequence, self._counts)
        delta = self._offsets[: len(base)] - np.repeat(self._table.base_offset, self._counts)
        sequence = base + delta
        sequence[sequence > _MAX_SEQUENCE] -= _MAX_SEQUENCE + 1
        return np.where(base < 0, -1, sequence).astype(np.int32)
