"""Segments at rest, as retention and compaction ask about them: nothing is mapped or opened for writing."""

from __future__ import annotations

from functools import cached_property

from tidelog.records.windows import LOOKUP_BYTES
from tidelog.scanning.log_end import log_tail, read_segment
from tidelog.scanning.partitions import Partition, SegmentFacts
from tidelog.scanning.timestamps import largest_timestamp
from tidelog.storage import LOCAL
from tidelog.types import TimestampOffset

__all__ = ["SegmentView", "segment_views"]


class SegmentView:
    """A segment as its files have it now; what takes reading is looked at when it is asked for."""

    def __init__(self, partition: Partition, facts: SegmentFacts, size: int) -> None:
        self._partition = partition
        self._facts = facts
        self.base_offset = facts.base_offset
        self.size = size
        """Bytes of its whole batches."""

    @cached_property
    def max_timestamp_so_far(self) -> TimestampOffset:
        """The largest timestamp, -1 for none; with the base offset."""
        return TimestampOffset(largest_timestamp(self._partition, self._facts), self.base_offset)

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp; the file's modification time where no record has one."""
        found = self.max_timestamp_so_far.timestamp
        return found if found >= 0 else LOCAL.stat(f"{self._partition.url}/{self._facts.log_name}").mtime_ms

    @cached_property
    def first_batch_timestamp(self) -> int:
        """The largest timestamp of the first batch; -1 if there is none or it has none."""
        for _, _, table in read_segment(self._partition, self._facts, 0, window_bytes=LOOKUP_BYTES):
            return int(table.max_timestamp[0])
        return -1


def segment_views(partition: Partition) -> tuple[SegmentView, ...]:
    """The segments of a partition; the last one up to its last whole batch."""
    facts = partition.segments
    if not facts:
        return ()
    tail = log_tail(partition, damage_ends_it=True)
    sizes = [*(one.size for one in facts[:-1]), tail.position]
    return tuple(SegmentView(partition, one, size) for one, size in zip(facts, sizes, strict=True))
