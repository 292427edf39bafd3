"""Reading from one picture of a log. Nothing is locked: a view does not change.

How far a read may see is an offset with its place on disk (`offsets`): the log end, the high watermark or
the last stable offset. Where a place is not known yet, it is looked up here.

1. The last segment that begins at or before the start offset; where it holds nothing at or after it (a hole
   left by compaction, the end of the segment), the next ones.
2. In it, the batch that holds the start offset, and what follows, up to the limit or `max_length` bytes. The
   first batch may begin below the start offset, the last one may be cut: readers skip and leave out.
3. For committed reads, the aborted transactions that reach into what was read: from this segment's index on,
   until an entry says that no later one can.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidelog.errors import InvalidInputError, OffsetOutOfRangeError, TornBatchError
from tidelog.index import AbortedTxn
from tidelog.log.offsets import LogOffsetMetadata
from tidelog.log.read.committed import committed
from tidelog.log.state import LogView
from tidelog.records.batches import BatchTable, scan_batches
from tidelog.records.decode import decode_batches
from tidelog.records.record import StoredRecord
from tidelog.records.schema import Projection
from tidelog.segment import Segment, SegmentRead
from tidelog.types import FetchIsolation, TopicPartition

__all__ = ["FetchData", "aborted_transactions", "find_place", "read", "read_record", "to_arrow"]

_NOTHING = memoryview(b"")


class FetchData(NamedTuple):
    """What a read gives."""

    start: LogOffsetMetadata
    """The first batch and its place; where nothing was read, the offset that was asked for, or the limit."""
    data: memoryview
    """Whole batches, but for the last, which may be cut."""
    first_entry_incomplete: bool = False
    """The first batch is larger than what was asked for, and cut."""
    aborted_transactions: tuple[AbortedTxn, ...] | None = None
    """Of a committed read: what of it was aborted."""

    def batches(self) -> BatchTable:
        """The whole batches in `data`, checked; positions are those in `data`."""
        scan = scan_batches(self.data, max_batches=max(1 << 16, len(self.data) // 61 + 1))
        if scan.fault is not None and not isinstance(scan.fault, TornBatchError):
            raise scan.fault
        return scan.table


def read(
    view: LogView,
    start_offset: int,
    max_length: int,
    isolation: FetchIsolation = FetchIsolation.LOG_END,
    min_one_message: bool = True,
) -> FetchData:
    """Up to `max_length` bytes from `start_offset` on, as far as `isolation` may see."""
    if max_length < 0:
        raise InvalidInputError(f"cannot read {max_length} bytes")
    segments, offsets = view
    if start_offset < offsets.log_start or start_offset > offsets.log_end.message_offset:
        raise OffsetOutOfRangeError(
            f"offset {start_offset} is not in the log, which has [{offsets.log_start}, "
            f"{offsets.log_end.message_offset}]"
        )
    if start_offset < segments.base_offsets[0]:
        raise OffsetOutOfRangeError(
            f"offset {start_offset} is not on this disk: the first segment begins at "
            f"{segments.base_offsets[0]}"
        )
    with_aborted = isolation is FetchIsolation.TXN_COMMITTED
    limit = _limit(view, isolation)
    if start_offset >= limit.message_offset:
        at = limit if start_offset == limit.message_offset else find_place(view, start_offset)
        return FetchData(at, _NOTHING, False, () if with_aborted else None)
    for segment in segments.from_floor(start_offset):
        max_position: int | None = 0
        if segment.base_offset < limit.segment_base_offset:
            max_position = None
        elif segment.base_offset == limit.segment_base_offset:
            max_position = limit.relative_position_in_segment
        found = segment.read(start_offset, max_length, max_position, min_one_message)
        if found is not None:
            at = LogOffsetMetadata(found.start.offset, segment.base_offset, found.start.position)
            aborted = _aborted_in(view, segment, found, start_offset) if with_aborted else None
            return FetchData(at, found.data, found.first_entry_incomplete, aborted)
    return FetchData(offsets.log_end, _NOTHING)


def read_record(view: LogView, offset: int) -> StoredRecord | None:
    """The record at exactly this offset; None if there is none (a hole left by compaction)."""
    segments, (start, _, _, end) = view
    if not start <= offset < end.message_offset:
        raise OffsetOutOfRangeError(f"offset {offset} is not in [{start}, {end.message_offset})")
    segment = segments.floor(offset)
    return None if segment is None else segment.read_record(offset)


def _limit(view: LogView, isolation: FetchIsolation) -> LogOffsetMetadata:
    offsets = view.offsets
    match isolation:
        case FetchIsolation.LOG_END:
            return offsets.log_end
        case FetchIsolation.HIGH_WATERMARK:
            limit = offsets.high_watermark
        case FetchIsolation.TXN_COMMITTED:
            limit = offsets.last_stable
    return find_place(view, limit.message_offset) if limit.message_offset_only else limit


def find_place(view: LogView, offset: int) -> LogOffsetMetadata:
    """`offset` with the place of its batch, or of the next one; that of the log end after the last."""
    for segment in view.segments.from_floor(offset):
        found = segment.translate_offset(offset)
        if found is not None:
            return LogOffsetMetadata(offset, segment.base_offset, found.position)
    return LogOffsetMetadata(offset, *view.offsets.log_end[1:])


def _aborted_in(
    view: LogView, segment: Segment, found: SegmentRead, start_offset: int
) -> tuple[AbortedTxn, ...]:
    bound = segment.fetch_upper_bound_offset(found.start.position, len(found.data))
    if bound is None:
        following = view.segments.higher(segment.base_offset)
        bound = view.offsets.log_end.message_offset if following is None else following.base_offset
    return aborted_transactions(view, start_offset, bound)


def aborted_transactions(view: LogView, start_offset: int, end_offset: int) -> tuple[AbortedTxn, ...]:
    """The aborted transactions that reach into [start_offset, end_offset)."""
    aborted: list[AbortedTxn] = []
    for segment in view.segments.from_floor(start_offset):
        result = segment.collect_aborted_txns(start_offset, end_offset)
        aborted += result.aborted_txns
        if result.is_complete:
            break
    return tuple(aborted)


def to_arrow(
    fetched: FetchData, start_offset: int, topic_partition: TopicPartition, projection: Projection
) -> pa.RecordBatch:
    """The records of what was read, from `start_offset` on; of a committed read, those a consumer sees."""
    table = fetched.batches()
    if fetched.aborted_transactions is not None:
        keep = committed(table, fetched.aborted_transactions)
        if not keep.all():
            table = BatchTable(np.ascontiguousarray(table.rows[keep]))
    wanted = projection.columns
    columns = wanted if "offset" in wanted else (*wanted, "offset")
    records = decode_batches(
        fetched.data,
        table,
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        columns=columns,
    )
    offsets = records.column("offset").to_numpy()
    first = int(np.searchsorted(offsets, start_offset))
    records = records.slice(first) if first else records
    return records if columns is wanted else records.select(wanted)
