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

from tidelog.records.columns import numbers
from tidelog.records.decode import decode_batches
from tidelog.records.windows import LOOKUP_BYTES
from tidelog.scanning.partitions import Partition, SegmentFacts
from tidelog.scanning.tasks import NO_END, ScanTask, read_batches
from tidelog.types import TimestampOffset

__all__ = ["offset_for_timestamp"]


def offset_for_timestamp(partition: Partition, timestamp: int) -> TimestampOffset | None:
    """The first record at or after the log start with at least this timestamp (ms); None if there is none."""
    segments = partition.segments
    for at, segment in enumerate(segments):
        is_last = at == len(segments) - 1
        index = partition.time_index(segment)
        if not is_last and index.entries and index.last_entry.timestamp < timestamp:
            continue
        found = _find_in_segment(partition, segment, timestamp, is_last)
        if found is not None:
            return found
    return None


def _find_in_segment(
    partition: Partition, segment: SegmentFacts, timestamp: int, is_last: bool
) -> TimestampOffset | None:
    floor = partition.time_index(segment).lookup(timestamp)
    start_offset = partition.log_start_offset
    position = partition.offset_index(segment).lookup(max(floor.offset, start_offset)).position
    task = ScanTask(
        partition.url, segment.log_name, "", 0, position, segment.size, start_offset, NO_END, is_last
    )
    view = partition.volume.view(segment.log_name)
    for data, origin, table in read_batches(task, view, LOOKUP_BYTES):
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
