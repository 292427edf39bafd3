"""What can be asked of any segment, and how the answer is found.

    by offset  offset index (largest entry at or below) -> walk the batches from its position
    by time    time index (largest entry at or below) -> offset index -> walk to the first batch late enough

Index files are only hints. Every position they give is checked against the bytes there (`kernels.lookup`). If
it does not match, or if there is no index, the search starts at the segment's start: the result is the same,
only slower. `index_fault` reports it beforehand.

A batch that is not whole or fails its checksum raises a CorruptRecordError with its position; published bytes
are whole batches, so that is damage, never a write in progress.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, NamedTuple

from tidelog.errors import CompressionError, InvalidIndexError, LogClosedError, UnknownCodecError
from tidelog.index import OffsetIndex, TimeIndex, TransactionIndex, TxnIndexSearchResult
from tidelog.index.base import MAX_RELATIVE_OFFSET
from tidelog.kernels.lookup import BAD_START, END, PACKED, UNMAPPED, TimePath
from tidelog.kernels.progress import Progress
from tidelog.kernels.record_lookup import find_in_payload, make
from tidelog.kernels.shared import SegmentFields
from tidelog.records.batches import HEADER_SIZE, BatchTable, scan_batches
from tidelog.records.compression import decompress
from tidelog.records.decode import decode_batches
from tidelog.records.faults import fault_error
from tidelog.records.record import Header, StoredRecord, from_arrow
from tidelog.segment.file import LogFile
from tidelog.storage import Directory
from tidelog.storage.names import Transient
from tidelog.types import OffsetPosition, TimestampOffset, TimestampType

__all__ = ["BatchPosition", "Segment", "SegmentRead"]

_TAIL_BYTES = 4 << 20  # of a log behind its last index entry: usually one batch or two
_NO_BOUND = (1 << 63) - 1
_MAGIC_V2 = 2
_TIMESTAMP_TYPES = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
_FIELDS = tuple(field.name for field in fields(StoredRecord))
_LEGACY_COLUMNS = ("offset", "timestamp_ms", "timestampType", "key", "value")

_MANY_ENTRIES = 1 << 22
"""As many are looked at whatever the log holds: a new index has room for entries to come."""


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


class Segment(SegmentFields, ABC):
    """A segment, to be read. Any number of threads may ask at once."""

    __slots__ = (
        "_file",
        "_first_timestamp",
        "base_offset",
        "directory",
        "offset_index",
        "time_index",
        "txn_index",
    )

    offset_index: OffsetIndex
    time_index: TimeIndex

    def __init__(
        self, file: LogFile, offset_index: OffsetIndex, time_index: TimeIndex, txn_index: TransactionIndex
    ) -> None:
        super().__init__()
        self._file = file
        self.directory: Directory = file.directory
        self.base_offset: int = file.base_offset
        self.offset_index = offset_index
        self.time_index = time_index
        self.txn_index = txn_index
        self._first_timestamp: int | None = None

    def __repr__(self) -> str:
        """With its place and size."""
        return f"{type(self).__name__}({self._file.path!r}, {self.size} bytes)"

    # Facts

    @property
    def size(self) -> int:
        """The published bytes of the `.log` file: whole batches."""
        return self._file.bytes.size

    @property
    def path(self) -> str:
        """Where the `.log` file is now."""
        return self._file.path

    @property
    @abstractmethod
    def max_timestamp_so_far(self) -> TimestampOffset:
        """The largest timestamp and the last offset of the batch that has it; (-1, base offset) for none."""

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp; the file's modification time where no record has one."""
        found = self.max_timestamp_so_far.timestamp
        return found if found >= 0 else self.mtime_ms

    @property
    def first_batch_timestamp(self) -> int:
        """The max timestamp of the first batch; -1 if there is none or it has none."""
        found = self._first_timestamp
        if found is None:
            if not self.size:
                return -1
            first = scan_batches(self.buffer(), max_batches=1, check_crc=False, source=self.path).require()
            found = self._first_timestamp = int(first.max_timestamp[0])
        return found

    @property
    def mtime_ms(self) -> int:
        """When the `.log` file was modified last."""
        with self.directory.lock:
            return self.directory.fs.stat(self.path).mtime_ms

    @property
    def has_overflow(self) -> bool:
        """Whether the last offset is too far from the base offset to be told in an index."""
        return self.next_offset() - 1 - self.base_offset > MAX_RELATIVE_OFFSET

    def next_offset(self) -> int:
        """The offset after the last record, read from the last batches; the base offset if there are none."""
        try:
            last = self.offset_index.last_entry
        except FileNotFoundError:
            last = OffsetPosition(self.base_offset, 0)
        found = self._end_of_tail(last)
        return found or int(self._ask(self._file.bytes.walk, last.position, last.offset)[1]) + 1

    def _end_of_tail(self, last: OffsetPosition) -> int | None:
        """What `next_offset` asks, of a file that is not mapped: by reading what lies behind the last index
        entry. None if that is much, or not as it should be.
        """
        size = self.size - last.position
        if not 0 < size <= _TAIL_BYTES or self._file.bytes.view() is not None:
            return None
        data = self._file.read(last.position, size)
        scan = scan_batches(data, check_crc=False)
        ends = scan.table.last_offset
        if scan.fault is not None or len(data) != size or (ends[1:] <= ends[:-1]).any():
            return None
        is_there = last.position == 0 or ends[0] == last.offset
        return int(ends[-1]) + 1 if is_there else None

    def index_fault(self) -> str | None:
        """Why the offset or the time index does not fit the log, so that recovery should rebuild it, or None.

        Looked at are the order of all entries and the place of the last one.
        """
        try:
            offsets, times = self.offset_index.entries, self.time_index.entries
        except FileNotFoundError as missing:
            return f"{missing.filename} is missing"
        except InvalidIndexError as error:
            return str(error)
        if max(offsets, times) > _MANY_ENTRIES + self.size:
            return f"the indexes of {self.path} have more entries than it has bytes (they were never trimmed)"
        if self.offset_index.growing_entries() < offsets:
            return f"{self.offset_index.path} is out of order (zeros: it was never trimmed)"
        if self.time_index.growing_entries() < times:
            return f"{self.time_index.path} is out of order (zeros: it was never trimmed)"
        last = self.offset_index.last_entry
        if offsets and not self._probe(last.position, last.offset):
            return f"{self.offset_index.path} ends with {last}, where the log has no such batch"
        if times and self.time_index.last_entry.offset >= self.next_offset():
            return f"{self.time_index.path} ends with {self.time_index.last_entry}, behind the log's end"
        return None

    # Reading

    def buffer(self) -> memoryview:
        """The published bytes, mapped. The view stays as it is through growth, truncation and deletion."""
        return self._file.view()

    def translate_offset(self, offset: int, starting_position: int = 0) -> BatchPosition | None:
        """The batch that holds `offset`, or the next one if none does; None after the last.

        `starting_position` is a position of a batch known to lie no later, where the caller has one.
        """
        start, bound = self._position(offset), offset
        if starting_position > start:
            start, bound = starting_position, _NO_BOUND
        found = self._find_batch(start, bound, offset)
        return None if found is None else found[0]

    def read(
        self, start_offset: int, max_size: int, max_position: int | None = None, min_one_message: bool = False
    ) -> SegmentRead | None:
        """Up to `max_size` bytes from the batch that holds `start_offset` on; None after the last batch.

        Nothing at or behind `max_position` (None: the segment's end) is given. With `min_one_message` the
        first batch comes whole though it is larger than `max_size`.
        """
        if max_size < 0:
            raise ValueError(f"cannot read {max_size} bytes")
        found = self._find_batch(self._position(start_offset), start_offset, start_offset)
        if found is None:
            return None
        start, view = found
        wanted = max(max_size, start.size) if min_one_message else max_size
        end = start.position + wanted
        if max_position is not None:
            end = max(min(end, max_position), start.position)
        return SegmentRead(start, view[start.position : end], 0 < wanted < start.size)

    def read_record(self, offset: int) -> StoredRecord | None:
        """The record at exactly this offset; None if there is none (a hole, or after the last)."""
        found = self._file.bytes.find_record(self._position(offset), offset, offset)
        if found[0]:
            found = self._ask(self._file.bytes.find_record, self._position(offset), offset, offset)
            if found[0] == END:
                return None
            if found[0] == PACKED:
                return self._unpack_record(found[1], found[2], offset)
        return _record(found)

    def find_offset_by_timestamp(self, timestamp: int, starting_offset: int) -> TimestampOffset | None:
        """The first record at or after `starting_offset` whose timestamp is not below `timestamp`."""
        log = self._file.bytes
        times = self.time_index.opened() if self._times_are_sound() else None
        offsets = self.offset_index.opened()
        if self._time_path is None and times is not None and offsets is not None:
            self._time_path = TimePath(log, times, offsets, self._progress())
        start, bound = log.time_start(times, offsets, timestamp, starting_offset)
        while True:
            found = self._ask(log.find_time, start, bound, timestamp, starting_offset)
            if found[0] == END:
                return None
            if found[0] == 0:
                return TimestampOffset(found[1], found[2])
            batch = self._batch(found[1], found[2])
            unpacked = self._unpack_time(found[1], batch, timestamp, starting_offset)
            if unpacked is not None:
                return unpacked
            start, bound = batch.end, _NO_BOUND
            if start == len(found[1]):
                return None

    def fetch_upper_bound_offset(self, start_position: int, fetch_size: int) -> int | None:
        """An offset outside of a fetch of that many bytes from `start_position`; None if no entry tells."""
        try:
            entry = self.offset_index.fetch_upper_bound_offset(OffsetPosition(0, start_position), fetch_size)
        except FileNotFoundError:
            return None
        if entry is None or entry.position < start_position + fetch_size:
            return None
        return entry.offset if self._probe(entry.position, entry.offset) else None

    def collect_aborted_txns(self, fetch_offset: int, upper_bound_offset: int) -> TxnIndexSearchResult:
        """The aborted transactions noted here that overlap [fetch_offset, upper_bound_offset)."""
        return self.txn_index.collect_aborted_txns(fetch_offset, upper_bound_offset)

    # Files

    @property
    def is_synced(self) -> bool:
        """Whether the log and its indexes are on the disk as they are."""
        return self._file.state.synced == self._mark()

    def mark_synced(self) -> None:
        """Mark the files as synced: an earlier run of the log synced them."""
        self._file.state.synced = self._mark()

    def flush(self) -> None:
        """Wait until the log and its indexes are on the disk; at once where they are."""
        state = self._file.state
        try:
            mark = self._mark()
            if state.synced == mark:
                return
            self._file.sync()
            self.offset_index.flush()
            self.time_index.flush()
            self.txn_index.flush()
        except (FileNotFoundError, LogClosedError):
            if not self._file.is_closed:  # it was not deleted meanwhile
                raise
            return
        state.synced = mark

    def _mark(self) -> tuple[int, ...]:
        """The state of the files, to be compared with the one that was synced."""
        return self._file.state.changes, self.size

    def rename_to(self, transient: Transient, *, log_first: bool = False) -> None:
        """Give all files the names with another transient suffix; whoever reads continues reading.

        With `log_first` the log has its new name on the disk before an index gets one.
        """
        with self.directory.lock:
            self._file.rename_to(transient)
            if log_first:
                self.directory.sync()
            self.offset_index.rename_to(transient)
            self.time_index.rename_to(transient)
            self.txn_index.rename_to(transient)

    def delete(self) -> None:
        """Remove all files. Views that somebody holds stay; later calls raise LogClosedError."""
        with self.directory.lock:
            self._file.close()
            self.directory.unlink(self._file.name)
            self.offset_index.delete_if_exists()
            self.time_index.delete_if_exists()
            self.txn_index.delete_if_exists()

    def close(self) -> None:
        """Release the files; later calls raise LogClosedError."""
        self._file.close()
        self.offset_index.close()
        self.time_index.close()
        self.txn_index.close()

    def abandon(self) -> None:
        """Release the files and leave them as they are, because their disk failed."""
        self.close()

    # Within

    def _position(self, offset: int) -> int:
        """Where to begin to look for an offset."""
        try:
            return self.offset_index.lookup_position(offset)
        except FileNotFoundError:
            return 0

    def _read_largest(self) -> TimestampOffset:
        """The largest timestamp: the last time entry, or a later one in the batches after its offset."""
        last, start = TimestampOffset(-1, self.base_offset), 0
        if self._times_are_sound():
            last = self.time_index.last_entry
            start = self._position(last.offset)
        _, _, timestamp, offset = self._ask(self._file.bytes.walk, start, last.offset)
        return TimestampOffset(timestamp, offset) if timestamp > last.timestamp else last

    def _progress(self) -> Progress | None:
        """Where its writer stands, if it takes appends."""
        return None

    @abstractmethod
    def _times_are_sound(self) -> bool:
        """Whether the entries of the time index can be searched."""

    def _ask(
        self, question: Callable[..., tuple[Any, ...]], start: int, bound: int, *rest: int
    ) -> tuple[Any, ...]:
        """Retry until there is a result: map the file if needed, start at 0 if an index is wrong."""
        while True:
            found = question(start, bound, *rest)
            code = found[0]
            if code == UNMAPPED:
                self._file.map()
            elif code == BAD_START:
                start = 0
            elif code > 0:
                raise fault_error(code, position=found[1], offset=found[2], source=self.path)
            else:
                return found

    def _find_batch(self, start: int, bound: int, offset: int) -> tuple[BatchPosition, memoryview] | None:
        """The batch that holds `offset`, or the next, and the bytes it lies in."""
        found = self._ask(self._file.bytes.find_batch, start, bound, offset)
        if found[0] == END:
            return None
        _, view, position, size, base, _, magic = found
        if magic < _MAGIC_V2:
            base = self._first_inner_offset(view, position)
        return BatchPosition(base, position, size), view

    def _probe(self, position: int, offset: int) -> bool:
        """Whether the batch at `position` is one that an index entry for `offset` can mean."""
        while True:
            code = self._file.bytes.find_batch(position, offset, -_NO_BOUND)[0]
            if code != UNMAPPED:
                return bool(code == 0)
            self._file.map()

    def _batch(self, view: memoryview, position: int) -> BatchTable:
        """The header of the batch at `position`, checksum taken."""
        return scan_batches(view, start=position, max_batches=1, source=self.path).require()

    def _first_inner_offset(self, view: memoryview, position: int) -> int:
        """The offset of the first message in the wrapper (or of the lone message) at `position`."""
        batch = self._batch(view, position)
        if not batch.codec[0]:
            return int(batch.base_offset[0])
        return int(decode_batches(view, batch, columns=("offset",), source=self.path).column(0)[0].as_py())

    def _unpack_record(self, view: memoryview, position: int, offset: int) -> StoredRecord | None:
        batch = self._batch(view, position)
        if batch.magic[0] < _MAGIC_V2:
            return next((record for record in self._legacy(view, batch) if record.offset == offset), None)
        found = self._find_in(view, batch, False, offset, 0)
        return None if found is None else _record(found)

    def _unpack_time(
        self, view: memoryview, batch: BatchTable, timestamp: int, starting_offset: int
    ) -> TimestampOffset | None:
        if batch.magic[0] < _MAGIC_V2:
            for record in self._legacy(view, batch):
                if record.timestamp >= timestamp and record.offset >= starting_offset:
                    return TimestampOffset(record.timestamp, record.offset)
            return None
        found = self._find_in(view, batch, True, starting_offset, timestamp)
        return None if found is None else TimestampOffset(found[1], found[2])

    def _legacy(self, view: memoryview, batch: BatchTable) -> Iterator[StoredRecord]:
        return from_arrow(decode_batches(view, batch, columns=_LEGACY_COLUMNS, source=self.path))

    def _find_in(
        self, view: memoryview, batch: BatchTable, by_time: bool, offset: int, timestamp: int
    ) -> tuple[Any, ...] | None:
        """Find a record in a compressed v2 batch."""
        row = batch.rows[0]
        position, size, base = row[:3].tolist()
        try:
            payload = decompress(int(batch.codec[0]), view[position + HEADER_SIZE : position + size])
        except (CompressionError, UnknownCodecError) as error:
            raise type(error)(error.reason, position=position, offset=base, source=self.path) from error
        found = find_in_payload(payload, row, by_time, offset, timestamp)
        if found[0] > 0:
            raise fault_error(found[0], position=position, offset=base, source=self.path)
        return None if found[0] == END else found


def _record(found: tuple[Any, ...]) -> StoredRecord:
    """The record that a kernel found."""
    record = make(StoredRecord, _FIELDS, _TIMESTAMP_TYPES, found)
    pairs = found[6]
    if pairs is None:
        return record
    headers = tuple(Header(key.decode(errors="replace"), value) for key, value in pairs)
    return replace(record, headers=headers)
