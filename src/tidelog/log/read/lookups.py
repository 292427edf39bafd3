"""Offsets by time, on one picture of a log.

A timestamp finds the first record, control records included, at or after the log start whose timestamp is
not below it, in the first segment that holds such a timestamp. As in Kafka, that segment alone is looked at:
where its records that are late enough lie below the log start, the answer is that there is none, though a
later segment may have some. `first_offset_at` looks on.

Some negative numbers are no timestamps but questions of their own, as in Kafka's protocol:

    -1 LATEST                  the log end
    -2 EARLIEST                the log start
    -3 MAX_TIMESTAMP           the first record that has the largest timestamp
    -4 EARLIEST_LOCAL          the first offset on this machine's disks: the log start
    -5 LATEST_TIERED           the last one in remote storage: there is none, -1
    -6 EARLIEST_PENDING_UPLOAD the first one not in remote storage yet: there is none, -1
"""

from __future__ import annotations

import enum

import numpy as np

from tidelog.log.state import LogView
from tidelog.records.batches import BatchTable, walk_batches
from tidelog.records.decode import decode_batches
from tidelog.segment import Segment
from tidelog.types import TimestampOffset

__all__ = ["OffsetTarget", "first_offset_at", "offset_for_timestamp"]

_NO_TIMESTAMP = -1


class OffsetTarget(enum.IntEnum):
    """Numbers that are no timestamps."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


def offset_for_timestamp(view: LogView, target: int) -> TimestampOffset | None:
    """What a timestamp (ms) or an `OffsetTarget` finds; None where nothing is as late."""
    segments, offsets = view
    if target < 0:  # seldom: the comparisons below would cost as much as half a look-up
        match target:
            case OffsetTarget.LATEST:
                return TimestampOffset(_NO_TIMESTAMP, offsets.log_end.message_offset)
            case OffsetTarget.EARLIEST | OffsetTarget.EARLIEST_LOCAL:
                return TimestampOffset(_NO_TIMESTAMP, offsets.log_start)
            case OffsetTarget.LATEST_TIERED | OffsetTarget.EARLIEST_PENDING_UPLOAD:
                return TimestampOffset(_NO_TIMESTAMP, -1)
            case OffsetTarget.MAX_TIMESTAMP:
                return _latest_record(view)
    segment = segments.first_reaching(target)
    return None if segment is None else segment.find_offset_by_timestamp(target, offsets.log_start)


def first_offset_at(view: LogView, timestamp: int) -> TimestampOffset | None:
    """The first record at or after the log start that is not older than a timestamp (ms), in any segment."""
    segments, offsets = view
    for segment in segments.from_floor(offsets.log_start):
        if segment.largest_timestamp >= timestamp:
            found = segment.find_offset_by_timestamp(timestamp, offsets.log_start)
            if found is not None:
                return found
    return None


def _latest_record(view: LogView) -> TimestampOffset | None:
    """The first record of those with the largest timestamp."""
    latest: Segment | None = None
    largest = TimestampOffset(_NO_TIMESTAMP, -1)
    for segment in view.segments:
        so_far = segment.max_timestamp_so_far
        if latest is None or so_far.timestamp > largest.timestamp:
            latest, largest = segment, so_far
    if latest is None or not latest.size:
        return None
    data = latest.buffer()
    position = latest.offset_index.lookup_position(largest.offset)
    for table in walk_batches(data, start=position, check_crc=False, source=latest.directory.path):
        hits = np.flatnonzero(table.max_timestamp == largest.timestamp)
        if len(hits):
            return _first_at(data, table[int(hits[0]) : int(hits[0]) + 1], largest.timestamp)
    return None


def _first_at(data: memoryview, batch: BatchTable, timestamp: int) -> TimestampOffset | None:
    if batch.magic[0] == 0:  # has no timestamps
        return None
    records = decode_batches(data, batch, columns=("offset", "timestamp_ms"))
    hits = np.flatnonzero(records.column("timestamp_ms").to_numpy() == timestamp)
    if not len(hits):
        return None
    return TimestampOffset(timestamp, int(records.column("offset")[int(hits[0])].as_py()))
