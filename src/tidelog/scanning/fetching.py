"""Reads and look-ups by offset in a partition at rest, or in use by another process: nothing is mapped.

Indexes are hints, as everywhere: where the batch at an entry's position is not the one that it says, the
segment is read from its start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tidelog.errors import CorruptRecordError, OffsetOutOfRangeError
from tidelog.index import AbortedTxn
from tidelog.log.offsets import LogOffsetMetadata
from tidelog.log.read.fetching import FetchData
from tidelog.records.batches import BatchTable, scan_batches
from tidelog.records.columns import numbers
from tidelog.records.decode import decode_batches
from tidelog.records.windows import LOOKUP_BYTES, Window
from tidelog.scanning.log_end import aborted_transactions, find_log_end, stable_offset
from tidelog.scanning.partitions import Partition, SegmentFacts
from tidelog.scanning.plan import segments_in_range
from tidelog.scanning.tasks import NO_END, ScanTask, read_batches, settled
from tidelog.types import FetchIsolation, OffsetPosition

__all__ = [
    "FoundBatch",
    "LogEnds",
    "aborted_from",
    "check_offset",
    "fetch",
    "find_batch",
    "find_in_segment",
    "log_ends",
]


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The offsets of a partition, and the damage that ends its log, if any."""

    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int
    fault: CorruptRecordError | None = None

    def limit(self, isolation: FetchIsolation) -> int:
        """How far a read may see."""
        match isolation:
            case FetchIsolation.LOG_END:
                return self.log_end
            case FetchIsolation.HIGH_WATERMARK:
                return self.high_watermark
            case FetchIsolation.TXN_COMMITTED:
                return self.last_stable


def log_ends(partition: Partition) -> LogEnds:
    """Look where a partition's log begins and ends.

    The high watermark is the checkpoint's; the log end if there is no checkpoint.
    """
    start = partition.log_start_offset
    end, fault = find_log_end(partition)
    stable = stable_offset(partition, end, damage_ends_it=True)
    mark = partition.high_watermark
    return LogEnds(start, stable, end if mark is None else max(min(mark, end), start), end, fault)


@dataclass(frozen=True, slots=True)
class FoundBatch:
    """The batch that holds an offset, or the next one."""

    segment: SegmentFacts
    offset: int
    position: int
    size: int


def find_batch(partition: Partition, offset: int) -> FoundBatch | None:
    """The batch that holds `offset`, or the next one; None after the last."""
    for segment in segments_in_range(partition.segments, offset, NO_END):
        found = find_in_segment(partition, segment, offset)
        if found is not None:
            return found
    return None


def find_in_segment(partition: Partition, segment: SegmentFacts, offset: int) -> FoundBatch | None:
    """The batch of a segment that holds `offset`, or the next one; None after its last."""
    entry = partition.offset_index(segment).lookup(offset)
    for data, origin, table in _batches_from(partition, segment, entry, offset):
        # Those whose last offset is lower are not among them.
        first = _first_offset(data, origin, table[:1], partition.url)
        return FoundBatch(segment, first, int(table.position[0]), int(table.size[0]))
    return None


def _batches_from(
    partition: Partition, segment: SegmentFacts, entry: OffsetPosition, offset: int
) -> Iterator[Window]:
    """A segment's batches from the one that holds `offset` on."""
    position = entry.position if entry.position < segment.size else 0
    task = ScanTask(
        partition.url,
        segment.log_name,
        "",
        0,
        position,
        segment.size,
        offset,
        NO_END,
        is_tail=segment is partition.segments[-1],
        first_last_offset=entry.offset if position else -1,
    )
    view = partition.log_view(segment)
    try:
        yield from settled(task, view, read_batches(task, view, LOOKUP_BYTES))
    except CorruptRecordError as error:
        if not position or error.position != position:
            raise
        whole = replace(task, start_position=0, first_last_offset=-1)
        yield from settled(task, view, read_batches(whole, view, LOOKUP_BYTES))


def _first_offset(data: memoryview, origin: int, batch: BatchTable, source: str) -> int:
    if batch.magic[0] == 2 or not batch.codec[0]:
        return int(batch.base_offset[0])
    one = decode_batches(data, batch, columns=("offset",), origin=origin, source=source)
    return int(numbers(one.column(0))[0])


def check_offset(ends: LogEnds, offset: int) -> None:
    """OffsetOutOfRangeError for an offset that is not in the log, nor its end."""
    if not ends.log_start <= offset <= ends.log_end:
        raise OffsetOutOfRangeError(
            f"offset {offset} is not in the log, which has [{ends.log_start}, {ends.log_end}]"
        )


def aborted_from(partition: Partition, ends: LogEnds, offset: int) -> tuple[AbortedTxn, ...]:
    """The aborted transactions that a committed read of all of a segment from `offset` on is told, as Kafka
    tells them: up to the index entry behind what is read, the next segment or the log end.
    """
    check_offset(ends, offset)
    found = find_batch(partition, offset) if offset < ends.last_stable else None
    if found is None:
        return ()
    segment, bound = found.segment, ends.log_end
    following = [one.base_offset for one in partition.segments if one.base_offset > segment.base_offset]
    if following:
        bound = following[0]
    limit = find_batch(partition, ends.last_stable) if ends.last_stable < ends.log_end else None
    if limit is not None and limit.segment == segment:
        offsets, positions = partition.offset_index(segment).entries_array()
        later = offsets[positions >= limit.position]
        bound = int(later[0]) if len(later) else bound
    return aborted_transactions(partition, offset, bound)


def fetch(
    partition: Partition, start_offset: int, max_length: int, isolation: FetchIsolation, min_one_message: bool
) -> FetchData:
    """Batches from the one that holds `start_offset` on, as `Log.read` gives them. The bytes are a copy."""
    ends = log_ends(partition)
    check_offset(ends, start_offset)
    limit = ends.limit(isolation)
    nothing = FetchData(
        LogOffsetMetadata(start_offset),
        memoryview(b""),
        False,
        () if isolation is FetchIsolation.TXN_COMMITTED else None,
    )
    found = find_batch(partition, start_offset) if start_offset < limit else None
    if found is None or found.offset >= limit:
        if ends.fault is not None and start_offset >= ends.log_end:
            raise ends.fault
        return nothing
    wanted = max(max_length, found.size) if min_one_message else max_length
    view = partition.log_view(found.segment)
    data = view.read(found.position, wanted)
    table = scan_batches(data, check_crc=False).table
    past = table.base_offset >= limit
    if past.any():
        data = data[: int(table.position[past.argmax()])]
    aborted: tuple[AbortedTxn, ...] | None = None
    if isolation is FetchIsolation.TXN_COMMITTED:
        last = int(table.last_offset[-1]) + 1 if len(table) else limit
        aborted = aborted_transactions(partition, start_offset, max(last, start_offset + 1))
    at = LogOffsetMetadata(found.offset, found.segment.base_offset, found.position)
    return FetchData(at, data, 0 < wanted < found.size, aborted)
