"""Offsets by time, on files at rest.

1. The first segment whose largest timestamp reaches the target. A closed segment's last time index entry
   tells it; the last segment of a log that is open, or was not closed, is read from its last entry on.
2. The time index's floor entry gives an offset, the offset index its position.
3. From there on, the first batch whose largest timestamp reaches the target, and in it the first record
   that does.

Records below the log start are not answered; control records are.
"""

from __future__ import annotations

import numpy as np

from tidelog.log.read.lookups import OffsetTarget
from tidelog.records.columns import numbers
from tidelog.records.decode import decode_batches
from tidelog.records.windows import LOOKUP_BYTES
from tidelog.scanning.log_end import find_log_end, read_segment, sound_segment
from tidelog.scanning.partitions import Partition, SegmentFacts
from tidelog.scanning.tasks import NO_END, ScanTask, read_batches, settled
from tidelog.types import TimestampOffset

__all__ = ["largest_timestamp", "latest_record", "look_up_time", "offset_for_timestamp"]


def look_up_time(partition: Partition, target: int) -> TimestampOffset | None:
    """What a timestamp (ms) or an `OffsetTarget` finds; None where nothing is as late."""
    match target:
        case OffsetTarget.LATEST:
            return TimestampOffset(-1, find_log_end(partition)[0])
        case OffsetTarget.EARLIEST | OffsetTarget.EARLIEST_LOCAL:
            return TimestampOffset(-1, partition.log_start_offset)
        case OffsetTarget.LATEST_TIERED | OffsetTarget.EARLIEST_PENDING_UPLOAD:
            return TimestampOffset(-1, -1)
        case OffsetTarget.MAX_TIMESTAMP:
            return latest_record(partition)
    return offset_for_timestamp(partition, target)


def offset_for_timestamp(
    partition: Partition, timestamp: int, *, skip_damage: bool = False
) -> TimestampOffset | None:
    """The first record at or after the log start with at least this timestamp (ms); None if there is none.

    Damage raises CorruptRecordError unless it is to be skipped.
    """
    segments = partition.segments
    for at, segment in enumerate(segments):
        is_last = at == len(segments) - 1
        index = partition.time_index(segment)
        if not is_last and index.entries and index.last_entry.timestamp < timestamp:
            continue
        found = _find_in_segment(partition, segment, timestamp, is_last, skip_damage)
        if found is not None:
            return found
    return None


def _find_in_segment(
    partition: Partition, segment: SegmentFacts, timestamp: int, is_last: bool, skip_damage: bool
) -> TimestampOffset | None:
    floor = partition.time_index(segment).lookup(timestamp)
    start_offset = partition.log_start_offset
    position = partition.offset_index(segment).lookup(max(floor.offset, start_offset)).position
    task = ScanTask(
        partition.url, segment.log_name, "", 0, position, segment.size, start_offset, NO_END, is_last
    )
    view = partition.log_view(segment)
    windows = settled(task, view, read_batches(task, view, LOOKUP_BYTES))
    if skip_damage:
        windows = sound_segment(partition, segment)
    for data, origin, table in windows:
        for batch in np.flatnonzero((table.max_timestamp >= timestamp) & (table.count > 0)).tolist():
            columns = ("offset", "timestamp_ms")
            one = table[batch : batch + 1]
            records = decode_batches(data, one, columns=columns, origin=origin, source=task.source)
            times = numbers(records.column("timestamp_ms"))
            offsets = numbers(records.column("offset"))
            hits = np.flatnonzero((times >= timestamp) & (offsets >= start_offset))
            if len(hits):
                return TimestampOffset(int(times[hits[0]]), int(offsets[hits[0]]))
    return None


def largest_timestamp(partition: Partition, segment: SegmentFacts) -> int:
    """The largest timestamp of a segment's records; -1 where none has one.

    The last time index entry tells it; batches that came after that entry are read.
    """
    index = partition.time_index(segment)
    last = index.last_entry
    largest = last.timestamp if index.entries else -1
    if index.entries and segment is not partition.segments[-1]:
        return largest  # an entry is made for it when a segment is sealed
    position = partition.offset_index(segment).lookup(last.offset).position if index.entries else 0
    for _, _, table in read_segment(partition, segment, position):
        largest = max(largest, int(table.max_timestamp.max()))
    return largest


def latest_record(partition: Partition) -> TimestampOffset | None:
    """The first record of those with the largest timestamp."""
    largest = max((largest_timestamp(partition, one) for one in partition.segments), default=-1)
    return None if largest < 0 else offset_for_timestamp(partition, largest)
