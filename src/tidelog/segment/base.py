"""What can be asked of any segment."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.index import OffsetIndex, TimeIndex, TransactionIndex, TxnIndexSearchResult
from tidelog.records.record import StoredRecord
from tidelog.storage import Directory
from tidelog.storage.names import Transient
from tidelog.types import TimestampOffset

__all__ = ["BatchPosition", "Segment", "SegmentRead"]


class BatchPosition(NamedTuple):
    """A batch in the file: its base offset, where it begins and its whole size in bytes."""

    offset: int
    position: int
    size: int


class SegmentRead(NamedTuple):
    """Bytes of a segment from the batch `start` on; the last batch in them may be cut."""

    start: BatchPosition
    data: memoryview
    first_entry_incomplete: bool
    """The first batch is larger than what was asked for."""


class Segment:
    """A segment, to be read. Any number of threads may ask at once."""

    base_offset: int
    directory: Directory
    offset_index: OffsetIndex
    time_index: TimeIndex
    txn_index: TransactionIndex

    @property
    def size(self) -> int:
        """The published bytes of the `.log` file: whole batches."""
        raise NotImplementedError

    @property
    def max_timestamp_so_far(self) -> TimestampOffset:
        """The largest timestamp and the last offset of the batch that holds it; (-1, base offset) for none."""
        raise NotImplementedError

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp; the file's modification time where no record has one."""
        raise NotImplementedError

    @property
    def first_batch_timestamp(self) -> int:
        """The max timestamp of the first batch; -1 where there is none or it has none."""
        raise NotImplementedError

    @property
    def mtime_ms(self) -> int:
        """When the `.log` file was modified last."""
        raise NotImplementedError

    @property
    def has_overflow(self) -> bool:
        """Whether the last offset cannot be told relative to the base offset."""
        raise NotImplementedError

    def next_offset(self) -> int:
        """The offset after the last record, read from the last batches; the base offset of an empty segment."""
        raise NotImplementedError

    def buffer(self) -> memoryview:
        """The published bytes, mapped. The view outlives rename, deletion, truncation and growth unchanged."""
        raise NotImplementedError

    def translate_offset(self, offset: int, starting_position: int = 0) -> BatchPosition | None:
        """The batch that holds `offset`, or the next one if none does; None behind the last."""
        raise NotImplementedError

    def read(
        self, start_offset: int, max_size: int, max_position: int | None = None, min_one_message: bool = False
    ) -> SegmentRead | None:
        """Up to `max_size` bytes from the batch that holds `start_offset` on; None behind the last batch.

        Nothing at or behind `max_position` (None: the segment's end) is given. With `min_one_message` the
        first batch comes whole though it is larger than `max_size`.
        """
        raise NotImplementedError

    def read_record(self, offset: int) -> StoredRecord | None:
        """The record at exactly this offset; None where there is none (a hole, or behind the last)."""
        raise NotImplementedError

    def find_offset_by_timestamp(self, timestamp: int, starting_offset: int) -> TimestampOffset | None:
        """The first record at or after `starting_offset` whose timestamp is not below `timestamp`."""
        raise NotImplementedError

    def fetch_upper_bound_offset(self, start_position: int, fetch_size: int) -> int | None:
        """An offset outside of a fetch of so many bytes from `start_position`; None where no entry tells."""
        raise NotImplementedError

    def collect_aborted_txns(self, fetch_offset: int, upper_bound_offset: int) -> TxnIndexSearchResult:
        """The aborted transactions noted here that overlap [fetch_offset, upper_bound_offset)."""
        raise NotImplementedError

    def index_fault(self) -> str | None:
        """Why the offset or time index does not fit the log, and must be rebuilt by recovery; None if it may."""
        raise NotImplementedError

    def flush(self) -> None:
        """Return when the log and its indexes are on the disk."""
        raise NotImplementedError

    def rename_to(self, transient: Transient) -> None:
        """Give all files the names with another transient suffix; whoever reads goes on reading."""
        raise NotImplementedError

    def delete(self) -> None:
        """Remove all files. Views and mappings that somebody holds stay; later questions raise LogClosedError."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the files; later questions raise LogClosedError."""
        raise NotImplementedError
