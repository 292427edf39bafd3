"""What can be asked of a log: by any number of threads, none of which takes a lock.

Each question works on the view of one moment (`state`). A segment that is deleted or replaced in the meantime
still answers whoever holds its bytes; a question that comes too late, or meets a truncation, is asked again
on the present view.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pyarrow as pa

from tidelog.config import LogConfig
from tidelog.errors import LogClosedError, TidelogError
from tidelog.index import AbortedTxn
from tidelog.kernels.time_lookup import find_by_time
from tidelog.log.epochs import EpochEndOffset
from tidelog.log.offsets import LogOffsetMetadata, LogOffsets
from tidelog.log.read.fetching import (
    FetchData,
    aborted_transactions,
    find_place,
    read,
    read_record,
    to_arrow,
)
from tidelog.log.read.lookups import first_offset_at, offset_for_timestamp
from tidelog.log.segments.segments import LogSegments
from tidelog.log.state import LogState, LogView
from tidelog.records.record import StoredRecord
from tidelog.records.schema import Projection
from tidelog.storage import Directory, EpochEntry
from tidelog.storage.metadata import read_partition_metadata
from tidelog.storage.names import PARTITION_METADATA_FILE
from tidelog.types import FetchIsolation, TimestampOffset, TopicPartition

__all__ = ["LogReader"]

DEFAULT_READ_BYTES = 1 << 20
_TIMESTAMP_OFFSET = ("timestamp", "offset")

_T = TypeVar("_T")
_A = TypeVar("_A")


class LogReader:
    """The reading side of a log."""

    def __init__(self, state: LogState) -> None:
        self._state = state

    def __repr__(self) -> str:
        """With its place and offsets."""
        return (
            f"{type(self).__name__}({self.path!r}, log start {self.log_start_offset}, "
            f"last stable {self.last_stable_offset}, high watermark {self.high_watermark}, "
            f"log end {self.log_end_offset})"
        )

    # What it is

    @property
    def path(self) -> str:
        """Its directory now."""
        return self._state.directory.path

    @property
    def directory(self) -> Directory:
        """Its directory, to make segments in."""
        return self._state.directory

    @property
    def topic_partition(self) -> TopicPartition:
        """Which partition it is."""
        return self._state.topic_partition

    @property
    def config(self) -> LogConfig:
        """Its configuration now."""
        return self._state.config

    @property
    def topic_id(self) -> uuid.UUID | None:
        """The topic's id, if `partition.metadata` tells it."""
        directory = self._state.directory
        with directory.lock:
            path = directory.file(PARTITION_METADATA_FILE)
            return read_partition_metadata(directory.fs, path).topic_id if directory.fs.exists(path) else None

    @property
    def view(self) -> LogView:
        """The segments and offsets of this moment."""
        return self._state.view

    @property
    def segments(self) -> LogSegments:
        """Its segments now."""
        return self._state.view.segments

    @property
    def size(self) -> int:
        """The bytes of its segments' logs."""
        return self._state.view.segments.size_in_bytes

    @property
    def is_offline(self) -> bool:
        """Whether a disk failed under it."""
        return self._state.is_offline

    # Offsets

    @property
    def offsets(self) -> LogOffsets:
        """All its offsets at one moment."""
        return self._state.view.offsets

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self._state.view.offsets.log_start

    @property
    def last_stable_offset(self) -> int:
        """How far a committed read sees."""
        return self._state.view.offsets.last_stable_offset

    @property
    def high_watermark(self) -> int:
        """The end of what is replicated."""
        return self._state.view.offsets.high_watermark.message_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._state.view.offsets.log_end.message_offset

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is on the disk."""
        return self._state.recovery_point

    @property
    def last_flush_ms(self) -> int:
        """When the log was flushed last, or opened."""
        return self._state.last_flush_ms

    # Reading

    def read(
        self,
        start_offset: int,
        max_length: int = DEFAULT_READ_BYTES,
        isolation: FetchIsolation = FetchIsolation.LOG_END,
        min_one_message: bool = True,
    ) -> FetchData:
        """Batches from the one that holds `start_offset` on, as they are on disk.

        With `min_one_message` the first batch comes whole even if larger than `max_length`. Raises
        OffsetOutOfRangeError outside of [log start, log end].
        """
        what = (start_offset, max_length, isolation, min_one_message)
        return self._on_view(lambda view, what: read(view, *what), what)

    def read_arrow(
        self,
        start_offset: int,
        max_length: int = DEFAULT_READ_BYTES,
        isolation: FetchIsolation = FetchIsolation.LOG_END,
        columns: Iterable[str] | None = None,
        min_one_message: bool = True,
    ) -> pa.RecordBatch:
        """The records of such a read as Arrow, from `start_offset` on (columns: `records.schema`).

        With TXN_COMMITTED, without aborted data and markers, as a consumer sees them; otherwise control
        records are included.
        """
        projection = Projection.of(columns)
        fetched = self.read(start_offset, max_length, isolation, min_one_message)
        return to_arrow(fetched, start_offset, self.topic_partition, projection)

    def read_record(self, offset: int) -> StoredRecord | None:
        """The record at exactly this offset; None if there is none (a hole left by compaction)."""
        return self._on_view(read_record, offset)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> tuple[AbortedTxn, ...]:
        """The aborted transactions that reach into [start_offset, end_offset)."""
        return self._on_view(lambda view, end: aborted_transactions(view, start_offset, end), end_offset)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """What a Kafka broker answers to a consumer that asks for a timestamp (ms) or an `OffsetTarget`.

        That is the first record at or after it, in the first segment that has one, even below the log start
        (`lookups`).
        """
        found = find_by_time(self._state, timestamp, TimestampOffset, _TIMESTAMP_OFFSET)
        return self._on_view(offset_for_timestamp, timestamp) if found is None else found

    def first_offset_at(self, timestamp: int) -> TimestampOffset | None:
        """The first record at or after the log start that is not older than `timestamp` (ms)."""
        return self._on_view(first_offset_at, timestamp)

    def place_of(self, offset: int) -> LogOffsetMetadata:
        """An offset of [log start, log end] with its place on disk."""
        return self._on_view(find_place, offset)

    def _on_view(self, ask: Callable[[LogView, _A], _T], about: _A) -> _T:
        """Ask the view of this moment; once more if the log was truncated or a segment has gone in the
        meantime. (One argument: to pass on any number takes as long as finding a record.)

        A truncation is counted before a byte goes. So an answer is whole if none was counted since the view
        was taken: with one, other records may have come to the same places, undecided ones perhaps.
        """
        state = self._state
        while True:
            truncations = state.truncations
            view = state.view
            try:
                found = ask(view, about)
            except LogClosedError:
                state.check_readable()
                if state.view is view:
                    with state.lock:  # the view that takes its place may be about to be published
                        if state.view is view:
                            raise
            except (TidelogError, OSError):
                if state.truncations == truncations:
                    raise
            else:
                if state.truncations == truncations:
                    return found

    # Leader epochs

    @property
    def latest_epoch(self) -> int | None:
        """The newest leader epoch that has written."""
        return self._state.epochs.cache.latest_epoch

    @property
    def epoch_entries(self) -> Sequence[EpochEntry]:
        """The leader epochs and where each begins."""
        return self._state.epochs.cache.entries

    def end_offset_for(self, leader_epoch: int) -> EpochEndOffset:
        """The end offset of a leader epoch, by which a follower finds where it has diverged."""
        return self._state.epochs.cache.end_offset_for(leader_epoch, self.log_end_offset)
