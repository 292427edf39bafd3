"""Compaction's first pass: the last offset of each key of the dirty part, into an offset map.

Segment after segment, batch after batch, until the part ends or the map is full. Aborted data and markers are
skipped. The work is done by a kernel on runs of batches; nothing here is done per record, and nothing per
batch unless it is compressed in a way that no kernel knows.

How far the map tells (`OffsetMap.latest_offset`) is where the second pass may judge records; a segment that
was gone through counts up to where the next one begins, holes included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.cleanup.aborted import CleanedTransactions
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.cleanup.segment_bounds import Bounded
from tidelog.cleanup.unpacking import Unpacker, runs
from tidelog.kernels.mapping import Mapper
from tidelog.records.batches import BatchTable, Column
from tidelog.records.faults import Fault

__all__ = ["MappedKeys", "map_keys", "map_segments", "walk"]


@dataclass(frozen=True, slots=True)
class MappedKeys:
    """What the first pass did."""

    full: bool
    """Whether it ended because the map is full."""
    records: int
    """Records read."""


def map_segments(
    segments: Iterable[Bounded],
    offset_map: OffsetMap,
    *,
    start_offset: int,
    transactions: CleanedTransactions,
    step: Callable[[int], None] | None = None,
) -> MappedKeys:
    """Map the keys at or after `start_offset` in segments, oldest first, until they end or the map is full.

    `transactions` tells aborted data, and moves on.
    """
    records = 0
    for one in segments:
        mapped = map_keys(
            one.segment.buffer(),
            offset_map,
            start_offset=start_offset,
            next_offset=one.end,
            base_offset=one.segment.base_offset,
            position=_begin(one, start_offset),
            transactions=transactions,
            source=one.segment.path,
            step=step,
        )
        records += mapped.records
        if mapped.full:
            return MappedKeys(True, records)
    return MappedKeys(False, records)


def walk(one: Bounded, transactions: CleanedTransactions, end_offset: int) -> None:
    """Let `transactions` see a segment's batches up to the one that holds `end_offset`: headers only."""
    view = one.segment.buffer()[: _begin(one, end_offset)]
    for table in runs(view, 0, one.segment.path, one.offsets):
        transactions.read(view, table, source=one.segment.path)


def _begin(one: Bounded, offset: int) -> int:
    """Where the batch of an offset begins; the segment's end after the last."""
    if offset >= one.end:
        return one.segment.size
    found = one.segment.translate_offset(offset)
    return one.segment.size if found is None else found.position


def map_keys(
    view: memoryview,
    offset_map: OffsetMap,
    *,
    start_offset: int,
    next_offset: int,
    base_offset: int = 0,
    position: int = 0,
    transactions: CleanedTransactions | None = None,
    source: str | None = None,
    step: Callable[[int], None] | None = None,
) -> MappedKeys:
    """Map the keys at or after `start_offset` in a segment's bytes, from the batch at `position` on.

    `base_offset` is the segment's, `next_offset` where the next one begins. `transactions` tells aborted
    data, and moves on. `step` is told the bytes of each run, and may raise to stop.

    Raises CorruptRecordError.
    """
    transactions = transactions or CleanedTransactions()
    mapper = Mapper(offset_map.kernel, start_offset, offset_map.max_entries, offset_map.latest_offset)
    unpacker = Unpacker(view, source)
    for table in runs(view, position, source, range(base_offset, next_offset)):
        if step is not None:
            step(table.end - position)
        skip = transactions.read(view, table, source=source) | table.is_control
        mapper.begin()
        _map_run(mapper, offset_map, unpacker, table, skip.view(np.uint8))
        offset_map.latest_offset = mapper.latest
        position = table.end
        if mapper.full:
            break
    if not mapper.full:
        offset_map.latest_offset = next_offset - 1
    return MappedKeys(mapper.full, mapper.read)


def _map_run(
    mapper: Mapper,
    offset_map: OffsetMap,
    unpacker: Unpacker,
    table: BatchTable,
    skip: npt.NDArray[np.uint8],
) -> None:
    while mapper.batches < len(table) and not mapper.full:
        fault = mapper.run(unpacker.view, table.rows, skip, 0, unpacker.scratch)
        if fault == Fault.SCRATCH_FULL and unpacker.more_scratch():
            continue
        if fault in (Fault.UNUSUAL, Fault.SCRATCH_FULL):
            payload, row = unpacker.unpack(table.rows[mapper.batches])
            offset_map.make_room(int(row[Column.COUNT]))
            fault = mapper.take(payload, row)
        if fault == Fault.NO_ROOM:
            offset_map.make_room(int(table.count[mapper.batches]))
        elif fault:
            raise unpacker.error(table.rows[mapper.batches].tolist(), fault)
