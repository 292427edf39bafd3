"""A partition as its files have it now: its segments and offsets, with nothing opened for writing."""

from __future__ import annotations

from tidelog.log.offsets import LogOffsetMetadata, LogOffsets
from tidelog.log.segments.segments import LogSegments
from tidelog.log.state import LogView
from tidelog.scanning.partitions import Partition
from tidelog.scanning.stability import stable_offset
from tidelog.segment import SealedSegment
from tidelog.storage import Directory

__all__ = ["view_at_rest"]


def view_at_rest(partition: Partition) -> LogView:
    """The segments and offsets of a partition as its files have them now."""
    directory = Directory(partition.url)
    segments = LogSegments(
        SealedSegment.snapshot(directory, segment.base_offset) for segment in partition.segments
    )
    start = partition.log_start_offset
    last = segments.last
    end = LogOffsetMetadata(max(last.next_offset(), start), last.base_offset, last.size)
    stable = stable_offset(partition, end.message_offset)
    unstable = LogOffsetMetadata(stable) if stable < end.message_offset else None
    return LogView(segments, LogOffsets(start, unstable, end, end))
