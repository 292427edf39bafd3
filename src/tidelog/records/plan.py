"""How a table of batches is decoded: in which order, by which kernel, in which chunks. Pure; no bytes are
read.

A run is a stretch of batches that one kernel decodes:

    PLAIN       v2, uncompressed                   MESSAGES  magic 0 and 1, uncompressed
    COMPRESSED  v2, snappy, lz4, zstd              WRAPPERS  magic 0 and 1, compressed
    PAYLOADS    v2, every other codec, which goes through its library batch by batch

A chunk is as many whole batches as fit its bounds by what their headers say. How many bytes compressed ones
expand to, and how many messages a wrapper holds, is known only when they are decoded: they end a chunk
early.
"""

from __future__ import annotations

import enum
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tidelog.records.batches import BatchTable
from tidelog.types import Codec

__all__ = ["MIN_RECORD_SIZE", "Plan", "Run"]

MIN_RECORD_SIZE = 7
"""Bytes of the smallest record: length, attributes, two deltas, key length, value length, header count."""

MIN_MESSAGE_SIZE = 26
"""Bytes of the smallest message in a wrapper."""

Int64s = npt.NDArray[np.int64]


class Run(enum.IntEnum):
    """Batches that are decoded alike."""

    PLAIN = 0
    COMPRESSED = 1
    PAYLOADS = 2
    MESSAGES = 3
    WRAPPERS = 4


_V2_RUNS = np.array([Run.PAYLOADS] * 8)
_V2_RUNS[Codec.NONE] = Run.PLAIN
_V2_RUNS[[Codec.SNAPPY, Codec.LZ4]] = Run.COMPRESSED
_OLD_RUNS = np.array([Run.MESSAGES] + [Run.WRAPPERS] * 7)


class Plan:
    """The runs of a table, and running totals of its rows and bytes."""

    def __init__(self, table: BatchTable) -> None:
        codec = table.codec
        old = table.magic < 2
        kinds = _V2_RUNS[codec]
        if old.any():
            kinds = np.where(old, _OLD_RUNS[codec], kinds)
        cuts = [0, *(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist(), len(table)]
        self.runs = [(last, Run(int(kinds[first]))) for first, last in pairwise(cuts) if last > first]
        """(end, kind) of each run; one begins where the one before it ends."""

        # A count that cannot be is refused when its batch is decoded; no room is made for it here.
        count = table.count
        possible = np.where(codec == 0, table.size // MIN_RECORD_SIZE, count)
        self._rows = np.cumsum(np.maximum(np.minimum(count, possible), 0))
        self._bytes = np.cumsum(table.size)
        self._compressed = np.cumsum(np.where(codec == 0, 0, table.size))
        self._wrappers = np.cumsum(kinds == Run.WRAPPERS)

    def cut(self, start: int, max_rows: int, max_bytes: int) -> int:
        """Where a chunk that begins at batch `start` ends: within bounds, but after one batch at least."""
        row_limit = self._before(self._rows, start) + max_rows
        byte_limit = self._before(self._bytes, start) + max_bytes
        stop = min(
            self._rows.searchsorted(row_limit, side="right"),
            self._bytes.searchsorted(byte_limit, side="right"),
        )
        return max(int(stop), start + 1)

    def room(self, start: int, stop: int, max_rows: int, max_bytes: int, expansion: int) -> tuple[int, int]:
        """How many rows and bytes to make room for; more than the bounds if the one batch is over them.

        Compressed batches are taken to expand `expansion` times, but not past `max_bytes`.
        """
        rows = self._between(self._rows, start, stop)
        size = self._between(self._bytes, start, stop)
        compressed = self._between(self._compressed, start, stop)
        if compressed:
            size = min(max_bytes, size + expansion * compressed)
        if self._between(self._wrappers, start, stop):
            rows = min(max_rows, size // MIN_MESSAGE_SIZE + 1)
        return rows, size

    @staticmethod
    def _before(totals: Int64s, batch: int) -> int:
        return int(totals[batch - 1]) if batch else 0

    def _between(self, totals: Int64s, start: int, stop: int) -> int:
        return int(totals[stop - 1]) - self._before(totals, start)
