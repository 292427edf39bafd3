"""One segment of a log: its `.log` file and the indexes on it.

Segment          what can be asked of any segment
ActiveSegment    the one being written: append, truncate, recover, seal
SealedSegment    read-only; `ActiveSegment.reopen` makes it the active one again (after the log is truncated)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_names

if TYPE_CHECKING:
    from tidelog.segment.active import ActiveSegment
    from tidelog.segment.base import BatchPosition, Segment, SegmentRead
    from tidelog.segment.recovery import RecoveryState
    from tidelog.segment.sealed import SealedSegment

__all__ = ["ActiveSegment", "BatchPosition", "RecoveryState", "SealedSegment", "Segment", "SegmentRead"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ActiveSegment": "tidelog.segment.active",
        "BatchPosition": "tidelog.segment.base",
        "RecoveryState": "tidelog.segment.recovery",
        "SealedSegment": "tidelog.segment.sealed",
        "Segment": "tidelog.segment.base",
        "SegmentRead": "tidelog.segment.base",
    },
)
