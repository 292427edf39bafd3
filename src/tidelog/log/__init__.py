"""One partition as Kafka keeps it: append, read, roll, truncate, recover.

    log          the coordinator: `Log`                     state         what it is made of, what readers see
    reader       its reading side                           segments      its segments, an immutable value

    incoming, contents, validation, appends, appending      from records to written batches
    sequences, runs, transactions, markers, producers       idempotent producers and transactions
    snapshots, snapshot_files, producer_loading             their state on disk
    offsets, epochs, epoch_file                             key offsets, leader epochs
    reading, committed, lookups                             reads, by offset and by time
    rolls, rolling, flushing, truncation, deletion          what happens to segments
    leftovers, loader                                       opening, after an orderly stop and after a crash

Values and decisions are modules of their own, without files; those that act on files are short.
"""

from tidelog.log.append.info import AppendOrigin, LogAppendInfo
from tidelog.log.log import Log
from tidelog.log.offsets import LogOffsetMetadata, LogOffsets
from tidelog.log.read.lookups import OffsetTarget
from tidelog.log.read.reading import FetchData
from tidelog.log.scheduling import Scheduler

__all__ = [
    "AppendOrigin",
    "FetchData",
    "Log",
    "LogAppendInfo",
    "LogOffsetMetadata",
    "LogOffsets",
    "OffsetTarget",
    "Scheduler",
]
