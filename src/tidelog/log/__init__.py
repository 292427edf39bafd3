"""One partition as Kafka keeps it: append, read, roll, truncate, recover.

    log          the coordinator: `Log`
    state        what it is made of, and the picture of it that readers see
    append/      from records to written batches
    producers/   idempotent producers and transactions, and their state on disk
    read/        reads, by offset and by time
    segments/    the segments, an immutable value; rolls, splits and deletions
    opening/     from files to a log, after an orderly stop and after a crash
    flushing, truncation, offsets, epochs, scheduling

Values and decisions are modules of their own, without files; those that act on files are short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_names

if TYPE_CHECKING:
    from tidelog.log.append.info import AppendOrigin, AppendResult
    from tidelog.log.log import Log
    from tidelog.log.offsets import LogOffsetMetadata, LogOffsets
    from tidelog.log.read.fetching import FetchData
    from tidelog.log.read.lookups import OffsetTarget
    from tidelog.log.scheduling import Scheduler

__all__ = [
    "AppendOrigin",
    "AppendResult",
    "FetchData",
    "Log",
    "LogOffsetMetadata",
    "LogOffsets",
    "OffsetTarget",
    "Scheduler",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AppendOrigin": "tidelog.log.append.info",
        "AppendResult": "tidelog.log.append.info",
        "FetchData": "tidelog.log.read.fetching",
        "Log": "tidelog.log.log",
        "LogOffsetMetadata": "tidelog.log.offsets",
        "LogOffsets": "tidelog.log.offsets",
        "OffsetTarget": "tidelog.log.read.lookups",
        "Scheduler": "tidelog.log.scheduling",
    },
)
