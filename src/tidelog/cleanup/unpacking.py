"""The batches of a segment in runs, and the records of those that no kernel unpacks by itself.

Those are gzip, odd frames, and messages of magic 0 and 1.

No checksum covers a batch's base offset, and all that compaction does goes by offsets: a batch whose offset
was damaged would be taken for an older one, or hide others. So offsets are held against those of the batch
before, and against where the segment begins and the next one does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tidelog.errors import CorruptRecordError, TidelogError
from tidelog.kernels.scan import first_misplaced
from tidelog.kernels.upconvert import upconvert
from tidelog.records.batches import HEADER_SIZE, BatchTable, Column, scan_batches
from tidelog.records.compression import MAX_DECOMPRESSED
from tidelog.records.faults import Fault, fault_error
from tidelog.records.libraries import new_scratch
from tidelog.records.payloads import Payloads

__all__ = ["ALL_OFFSETS", "MAX_RUN", "Unpacker", "runs"]

Int64s = npt.NDArray[np.int64]

MAX_RUN = 4096
"""The most batches of a run."""

_MAX_OFFSET = (1 << 63) - 1
_RUN_BYTES = 4 << 20
_SCRATCH_BYTES = 1 << 20
_MORE_A_MESSAGE = 16  # bytes that a record can take more than its message did


ALL_OFFSETS = range(_MAX_OFFSET + 1)
"""What the offsets of batches lie in whose segment is not known."""


def runs(view: memoryview, position: int, source: str | None, offsets: range) -> Iterator[BatchTable]:
    """The batches from `position` on, run by run.

    Raises CorruptRecordError where offsets go back or leave `offsets`.
    """
    least = offsets.start
    while position < len(view):
        table = _next_run(view, position, source)
        _check_offsets(table, least, offsets, source)
        least, position = int(table.last_offset[-1]) + 1, table.end
        yield table


def _check_offsets(table: BatchTable, least: int, offsets: range, source: str | None) -> None:
    index = first_misplaced(table.rows, least - 1, offsets.stop - 1)
    if index >= 0:
        before = table.last_offset[index - 1] if index else least - 1
        raise CorruptRecordError(
            f"a batch of offsets {table.base_offset[index]} to {table.last_offset[index]} does not belong "
            f"behind offset {before} in a segment of [{offsets.start}, {offsets.stop})",
            position=int(table.position[index]),
            offset=int(table.base_offset[index]),
            source=source,
        )


def _next_run(view: memoryview, position: int, source: str | None) -> BatchTable:
    """The headers of the next few megabytes of batches, at least of one; raises what is wrong with that."""
    end = min(position + _RUN_BYTES, len(view))
    scan = scan_batches(view, start=position, end=end, max_batches=MAX_RUN, check_crc=False, source=source)
    if not len(scan.table):  # the run's end may have cut a large batch
        scan = scan_batches(view, start=position, max_batches=1, check_crc=False, source=source)
        scan.require()
    return scan.table


class Unpacker:
    """Unpacks batches of one buffer, which holds a whole file, or a part of it that begins at `origin`."""

    def __init__(self, view: memoryview, source: str | None, origin: int = 0) -> None:
        self.view = view
        self.source = source
        """Its name for errors."""
        self._origin = origin
        self._payloads = Payloads(view, origin, source, MAX_DECOMPRESSED)
        self.scratch = new_scratch(_SCRATCH_BYTES)
        """Where kernels decompress to."""

    def more_scratch(self) -> bool:
        """Make the scratch larger; False if it is as large as any batch may become."""
        room = self.scratch.room
        if room >= MAX_DECOMPRESSED:
            return False
        self.scratch = new_scratch(min(4 * room, MAX_DECOMPRESSED))
        return True

    def bytes_of(self, row: Int64s) -> memoryview:
        """A batch as it is on disk."""
        start = int(row[Column.POSITION]) - self._origin
        return self.view[start : start + int(row[Column.SIZE])]

    def unpack(self, row: Int64s) -> tuple[memoryview, Int64s]:
        """The records of a batch as those of v2, and the row of the table that goes with them."""
        fields: list[int] = row.tolist()
        if fields[5] < 2:
            return self._uplifted(fields)
        if fields[6] & 7:
            return memoryview(self._payloads.payload(fields)), row
        return self.bytes_of(row)[HEADER_SIZE:], row

    def _uplifted(self, row: list[int]) -> tuple[memoryview, Int64s]:
        """Messages as records, from their first offset on; their times count from 0.

        A row may stand for several messages that follow one another, none compressed.
        """
        start = row[Column.POSITION] - self._origin
        payload: bytes | memoryview = self.view[start : start + row[Column.SIZE]]
        messages, base = row[Column.COUNT], 0
        if row[Column.ATTRIBUTES] & 7:
            payload = self._payloads.payload(row)
            messages, last = self._payloads.count(row, payload)
            if (
                row[Column.MAGIC] == 1 and row[Column.BASE_OFFSET] != 0
            ):  # offsets count from the set's start; 0: old producers' mistake
                base = row[Column.BASE_OFFSET] - last
                if not 0 <= base <= _MAX_OFFSET:
                    raise self.error(row, Fault.BAD_OFFSET)
        out = np.empty(len(payload) + _MORE_A_MESSAGE * messages, dtype=np.uint8)
        used, first, last, fault = upconvert(payload, messages, base, out.data)
        if fault:
            raise self.error(row, fault)
        lifted = np.array(row, dtype=np.int64)
        lifted[2:4] = first, last
        lifted[Column.ATTRIBUTES] &= 0x0F if row[Column.MAGIC] == 1 else 0x07
        lifted[Column.BASE_TIMESTAMP] = 0
        lifted[Column.COUNT] = messages
        return out.data[:used], lifted

    def error(self, row: list[int], fault: int, reason: str | None = None) -> TidelogError:
        """What is wrong with a batch; `reason` in other words than the fault's own."""
        return fault_error(
            fault,
            position=row[Column.POSITION],
            offset=row[Column.BASE_OFFSET],
            source=self.source,
            reason=reason,
        )
