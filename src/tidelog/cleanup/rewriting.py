"""Compaction's second pass: the batches of segments, without what is superseded, to wherever they are to go.

1. the headers of a run of batches are read, and each is marked (`aborted`, `filtering`);
2. a kernel goes through the run and writes what stays (`kernels.cleaning`), as far as there is room;
3. what it left uncompressed is compressed and sealed;
4. the bytes and their table go to the sink: a `.cleaned` segment, or whatever the caller has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import numpy.typing as npt

from tidelog.cleanup.aborted import CleanedTransactions
from tidelog.cleanup.filtering import BatchRules, batch_flags
from tidelog.cleanup.offset_map import KeyOffsets
from tidelog.cleanup.unpacking import ALL_OFFSETS, MAX_RUN, Unpacker, runs
from tidelog.errors import InvalidTimestampError, RecordTooLargeError
from tidelog.kernels.cleaning import Filter
from tidelog.records.batches import BatchTable, Column
from tidelog.records.compressed_batches import compress_batches
from tidelog.records.compression import MAX_DECOMPRESSED
from tidelog.records.faults import Fault

__all__ = ["RewriteStats", "Rewriter"]

Sink = Callable[[memoryview, BatchTable, bool], None]
"""Takes batches that stay, their table, and whether any batch was changed or dropped so far."""

_OUT_BYTES = 2 << 20
_KEEP_RECORDS = 1 << 16
_MAX_OUT = MAX_DECOMPRESSED * 2
_MAX_BATCH = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class RewriteStats:
    """What the second pass did."""

    size_read: int = 0
    size_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    keyless: int = 0
    """Records without a key, which went."""
    tombstones_dropped: int = 0
    markers_dropped: int = 0
    batches_copied: int = 0
    batches_rewritten: int = 0
    batches_emptied: int = 0
    batches_dropped: int = 0

    @property
    def changed_nothing(self) -> bool:
        """Whether all batches were copied."""
        return not (self.batches_rewritten or self.batches_emptied or self.batches_dropped)

    def __add__(self, other: Self) -> RewriteStats:
        """Both."""
        names = [field.name for field in fields(RewriteStats)]
        return RewriteStats(*(getattr(self, name) + getattr(other, name) for name in names))


class Rewriter:
    """Writes what stays of segments' batches to `sink`, by one round's map and rules."""

    def __init__(
        self,
        offset_map: KeyOffsets,
        rules: BatchRules,
        sink: Sink,
        step: Callable[[int], None] | None = None,
    ) -> None:
        self._rules = rules
        self._sink = sink
        self._step = step
        horizon = rules.now_ms + rules.delete_retention_ms
        self._filter = Filter(offset_map.kernel, offset_map.latest_offset, rules.now_ms, horizon)
        self._out = np.empty(_OUT_BYTES, dtype=np.uint8)
        self._keep = np.empty((_KEEP_RECORDS, 4), dtype=np.int64)
        self._rows = np.empty((MAX_RUN, Column.WIDTH), dtype=np.int64)
        self._filter.give(self._out, self._keep, self._rows)
        self._size_read = 0
        self._size_written = 0

    @property
    def stats(self) -> RewriteStats:
        """What was done so far."""
        done = self._filter
        return RewriteStats(
            self._size_read,
            self._size_written,
            done.read,
            done.kept,
            done.keyless,
            done.tombstones,
            done.markers,
            done.copied,
            done.rewritten,
            done.emptied,
            done.dropped,
        )

    def rewrite(
        self,
        view: memoryview,
        transactions: CleanedTransactions,
        *,
        keep_legacy_deletes: bool,
        offsets: range = ALL_OFFSETS,
        source: str | None = None,
    ) -> None:
        """Write what stays of one segment, all of whose bytes are `view`. `transactions` moves on.

        `offsets` are from its base offset to where the next one begins.

        Raises CorruptRecordError; what the sink raises; and what the step raises to stop.
        """
        unpacker = Unpacker(view, source)
        for table in runs(view, 0, source, offsets):
            size = table.end - int(table.position[0])
            self._tell(size)
            gone = transactions.read(view, table, source=source)
            flags = batch_flags(table, gone, self._rules, keep_legacy_deletes=keep_legacy_deletes)
            self._filter.begin()
            self._rewrite_run(unpacker, table, flags)
            self._size_read += size
        self._flush()

    def _tell(self, size: int) -> None:
        if self._step is not None:
            self._step(size)

    def _rewrite_run(self, unpacker: Unpacker, table: BatchTable, flags: npt.NDArray[np.uint8]) -> None:
        taking = self._filter
        while taking.batches < len(table):
            fault = taking.run(unpacker.view, table.rows, flags, 0, unpacker.scratch)
            if fault == Fault.SCRATCH_FULL and unpacker.more_scratch():
                continue
            if fault in (Fault.UNUSUAL, Fault.SCRATCH_FULL):
                fault = self._take_one(unpacker, table.rows[taking.batches], int(flags[taking.batches]))
            if fault == Fault.NO_ROOM:
                self._make_room(int(table.base_offset[taking.batches]))
            elif fault:
                raise self._error(unpacker, table.rows[taking.batches].tolist(), fault)

    def _take_one(self, unpacker: Unpacker, row: npt.NDArray[np.int64], flags: int) -> int:
        """A batch that the kernel does not unpack by itself."""
        payload, unpacked = unpacker.unpack(row)
        batch = unpacker.bytes_of(row)
        while True:
            fault = self._filter.take(batch, payload, unpacked, flags)
            if fault != Fault.NO_ROOM:
                return fault
            self._make_room(int(row[Column.BASE_OFFSET]))

    def _error(self, unpacker: Unpacker, row: list[int], fault: int) -> Exception:
        if fault == Fault.BAD_TIMESTAMP:
            return InvalidTimestampError(
                f"a negative timestamp other than -1 ({unpacker.source or 'a segment'}, "
                f"position {row[Column.POSITION]}, offset {row[Column.BASE_OFFSET]})"
            )
        if fault == Fault.BAD_OFFSET:
            return unpacker.error(row, fault, "a batch's records have offsets that do not grow")
        return unpacker.error(row, fault)

    def _make_room(self, offset: int) -> None:
        """Let the next batch be written: hand over what there is, or take more memory."""
        wanted = self._filter.wanted
        if wanted > len(self._keep):
            self._flush()
            self._keep = np.empty((wanted, 4), dtype=np.int64)
        elif self._filter.made:
            self._flush()
        elif len(self._out) >= _MAX_OUT:
            raise RecordTooLargeError(f"the batch at offset {offset} would take over {_MAX_BATCH} bytes")
        else:
            self._out = np.empty(min(4 * len(self._out), _MAX_OUT), dtype=np.uint8)
        self._filter.give(self._out, self._keep, self._rows)

    def _flush(self) -> None:
        """Hand over what was written."""
        made, used = self._filter.made, self._filter.used
        if made:
            rows = self._rows[:made]
            data = self._out.data[:used] if not self._filter.unsealed else _compressed(self._out.data, rows)
            self._sink(data, BatchTable(rows), not self.stats.changed_nothing)
            self._size_written += len(data)
            self._tell(len(data))
        self._filter.clear()


def _compressed(data: memoryview, rows: npt.NDArray[np.int64]) -> memoryview:
    """The batches of `rows` with those compressed that are marked; their rows tell where they lie then."""
    marked = rows[:, Column.MARK] != 0
    rows[:, Column.MARK] = 0
    return compress_batches(data, BatchTable(rows), marked)
