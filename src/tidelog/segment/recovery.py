"""Recovery of a segment: sound batches stay, indexes are rebuilt, the rest is cut.

1. The indexes are emptied.
2. The batches are walked run by run, framing and checksums checked; the first one that is not sound ends it.
   An offset that the segment cannot hold, or one that goes back, is an error: cutting there could lose what
   is sound.
3. The entries that an append of these batches makes (`kernels.entries`) go into the indexes; the caller's
   state takes the run in and says which transactions it aborts.
4. The file is cut after the last sound batch; the time index gets its final entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tidelog.errors import CorruptRecordError, IndexOffsetOverflowError, OffsetsOutOfOrderError
from tidelog.index import AbortedTxn
from tidelog.kernels.entries import OFFSET_RANGE, index_entries
from tidelog.records.batches import BatchTable, scan_batches

__all__ = ["EntryIndex", "Rebuilding", "RecoveryState", "TxnEntries"]

_RUN = 4096
_MAGIC_V2 = 2


class RecoveryState(Protocol):
    """What a recovery rebuilds besides the segment's own files: producer state and leader epochs."""

    def take(self, buffer: memoryview, batches: BatchTable) -> Iterable[AbortedTxn]:
        """Take in a run of sound v2 batches, all or none; answers the transactions they abort, in order.

        The batches lie in `buffer` at their positions. A CorruptRecordError with the position of a batch
        (whose records make no sense though its checksum is right) ends the recovery behind that batch.
        """


class EntryIndex(Protocol):
    """An offset or time index that takes entries: the active segment's, or one in memory."""

    ENTRY_SIZE: ClassVar[int]

    @property
    def entries(self) -> int:
        """The number of entries."""

    @property
    def length(self) -> int:
        """The bytes that there is room for."""

    def reset(self) -> None:
        """Remove all entries."""

    def resize(self, new_size: int) -> bool:
        """Make room for so many bytes."""

    def append_many(self, keys: npt.ArrayLike, values: npt.ArrayLike, /) -> None:
        """Add entries."""


class TxnEntries(Protocol):
    """A transaction index that takes entries."""

    def reset(self) -> None:
        """Remove all entries."""

    def append(self, txn: AbortedTxn) -> None:
        """Add an entry."""


class Rebuilding:
    """Steps 1 to 3."""

    def __init__(
        self,
        base_offset: int,
        interval: int,
        indexes: tuple[EntryIndex, EntryIndex, TxnEntries],
        state: RecoveryState,
        source: str,
        *,
        any_order: bool = False,
    ) -> None:
        """`any_order`: as in Kafka, an offset that goes back is an error only where it is indexed."""
        self._any_order = any_order
        self._base_offset = base_offset
        self._interval = interval
        self._offset_index, self._time_index, self._txn_index = indexes
        self._state = state
        self._source = source
        self._progress: npt.NDArray[np.int64] = np.array(
            [0, base_offset - 1, 0, -1, base_offset, -1], np.int64
        )
        for index in indexes:
            index.reset()

    @property
    def largest(self) -> tuple[int, int]:
        """The largest timestamp found and the last offset of its batch; (-1, base offset) for none."""
        return int(self._progress[3]), int(self._progress[4])

    @property
    def last_offset(self) -> int:
        """The last offset found; one below the base offset if there is none."""
        return int(self._progress[1])

    def run(self, view: memoryview, known: BatchTable | None = None) -> int:
        """Walk all of `view`; how many of its bytes are sound.

        `known` are its batches where somebody has walked them and found all of them sound.
        """
        if known is not None:
            runs = (known[start : start + _RUN] for start in range(0, len(known), _RUN))
            all(self._take(view, table) for table in runs)
            return int(self._progress[0])
        position, sound = 0, True
        while sound and position < len(view):
            scan = scan_batches(view, start=position, max_batches=_RUN, source=self._source)
            whole = self._take(view, scan.table)
            position = int(self._progress[0])
            sound = whole and (scan.fault is None or position < scan.end)
        return position

    def _take(self, view: memoryview, table: BatchTable) -> bool:
        """Take in a run; False if the recovery ends with it."""
        taken, fault, entries = self._entries(table)
        kept = table[:taken]
        whole, aborted = self._inform(view, kept)
        if whole < taken:
            fault = 0
            _, _, entries = self._entries(table[:whole])
        self._progress = entries.progress
        _grow(self._offset_index, entries.offsets.shape[1])
        _grow(self._time_index, entries.times.shape[1] + 1)
        self._offset_index.append_many(entries.offsets[0], entries.offsets[1])
        self._time_index.append_many(entries.times[0], entries.times[1])
        try:
            for txn in aborted:
                self._txn_index.append(txn)
        except OffsetsOutOfOrderError as error:
            if self._any_order:  # Kafka does not load the log
                raise CorruptRecordError(str(error)) from None
            raise
        if not fault:
            return whole == len(table)
        bad = table[taken : taken + 1]
        if fault == OFFSET_RANGE or not self._any_order:
            self._refuse(bad, fault)
        self._progress[1] = int(bad.last_offset[0]) - 1  # go on with it
        return True

    def _entries(self, table: BatchTable) -> tuple[int, int, _Entries]:
        """How many rows can be indexed, what is wrong with the next one, and the entries they make."""
        offsets = np.empty((2, len(table)), np.int64)
        times = np.empty((2, len(table)), np.int64)
        progress = self._progress.copy()
        taken, fault, some, fewer = index_entries(
            table.rows, self._base_offset, self._interval, progress, offsets, times
        )
        return taken, fault, _Entries(progress, offsets[:, :some], times[:, :fewer])

    def _inform(self, view: memoryview, table: BatchTable) -> tuple[int, list[AbortedTxn]]:
        """Let the state take in the rows; how many of them stay, and the transactions they abort."""
        ours = table.magic == _MAGIC_V2
        news = table if ours.all() else BatchTable(np.ascontiguousarray(table.rows[ours]))
        if not len(news):
            return len(table), []
        try:
            return len(table), list(self._state.take(view, news))
        except CorruptRecordError as error:
            bad = int(np.searchsorted(table.position, error.position))
            if not 0 <= bad < len(table) or table.position[bad] != error.position:
                raise
        return bad + 1, self._inform(view, table[:bad])[1]

    def _refuse(self, batch: BatchTable, fault: int) -> None:
        position, offset = int(batch.position[0]), int(batch.last_offset[0])
        if fault == OFFSET_RANGE:
            raise IndexOffsetOverflowError(
                f"offset {offset} at position {position} of {self._source} is not within 2^31 - 1 of the "
                f"segment's base offset {self._base_offset}; split the segment"
            )
        raise CorruptRecordError(
            f"offset {offset} is not larger than the one before it ({self._progress[1]})",
            position=position,
            offset=int(batch.base_offset[0]),
            source=self._source,
        )


class _Entries(NamedTuple):
    """What a run of batches adds to the indexes."""

    progress: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]


def _grow(index: EntryIndex, entries: int) -> None:
    """Give an index that was configured too small for this segment the room that it needs."""
    needed = (index.entries + entries) * index.ENTRY_SIZE
    if needed > index.length:
        index.resize(needed)
