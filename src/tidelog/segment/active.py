"""The segment that is being written.

An append is written completely or not at all:

1. the offsets are checked, and the index entries it makes are worked out (`kernels.entries`): which
   batches get one follows from the bytes written since the last, so that is known before anything is written;
2. the indexes make room for them, on the disk too;
3. the batches are written behind the published bytes. A write that fails is undone: the file is cut back;
4. the new size is published: from here on readers see the batches;
5. the entries go into the indexes, which cannot fail any more.

One thread writes; any number read in the meantime.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import numpy as np

from tidelog.config import LogConfig
from tidelog.errors import (
    BadLengthError,
    CorruptRecordError,
    IndexOffsetOverflowError,
    InvalidInputError,
    LogClosedError,
    LogOfflineError,
    OffsetsOutOfOrderError,
)
from tidelog.index import AbortedTxn, ActiveOffsetIndex, ActiveTimeIndex, TransactionIndex
from tidelog.index.base import MAX_RELATIVE_OFFSET
from tidelog.kernels.entries import index_entries
from tidelog.kernels.lookup import END
from tidelog.kernels.progress import Progress
from tidelog.records.batches import BatchTable, Column
from tidelog.segment.base import Segment
from tidelog.segment.file import MAX_SIZE, LogFile
from tidelog.segment.indexes import open_indexes
from tidelog.segment.recovery import Rebuilding, RecoveryState
from tidelog.segment.sealed import SealedSegment
from tidelog.storage import Directory, File
from tidelog.storage.names import SEGMENT_FILES, FileKind, Transient, format_segment_file
from tidelog.types import TimestampOffset

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tidelog.index.base import Int64Array

__all__ = ["ActiveSegment"]

_NEVER = (1 << 63) - 1  # no offset is larger: stands for the last one where nothing can be appended
_BOTH = 2  # entries that go with a batch: an offset's and a time's
_FEW_ENTRIES = 16  # added one by one: checking arrays costs as much as so many checks


class ActiveSegment(Segment):
    """The segment that takes appends. One thread writes."""

    __slots__ = (
        "_clock",
        "_end",
        "_failure",
        "_length",
        "_opened",
        "created_ms",
        "index_interval_bytes",
        "jitter_ms",
        "progress",
    )

    offset_index: ActiveOffsetIndex
    time_index: ActiveTimeIndex

    def __init__(
        self,
        file: LogFile,
        offset_index: ActiveOffsetIndex,
        time_index: ActiveTimeIndex,
        txn_index: TransactionIndex,
        config: LogConfig,
        clock: Callable[[], int],
        jitter_ms: int,
    ) -> None:
        super().__init__(file, offset_index, time_index, txn_index)
        self.index_interval_bytes = config.index_interval_bytes
        """How many bytes are written from one index entry to the next."""
        self._clock = clock
        self._length = 0  # what a new file was preallocated to
        self._end = self.base_offset + MAX_RELATIVE_OFFSET
        self.progress = Progress(config.index_interval_bytes)
        """Where the next append goes on from, and whether an index has no room for it (`index_full`)."""
        self._failure: BaseException | None = None
        self.created_ms = clock()
        """When the segment was made or opened, or last became empty."""
        self.jitter_ms = jitter_ms
        """How much earlier than `segment.ms` says it rolls."""
        self._take_stock()
        self._opened = self._mark()

    # Making and opening

    @classmethod
    def create(
        cls,
        directory: Directory,
        base_offset: int,
        config: LogConfig,
        *,
        clock: Callable[[], int],
        jitter_ms: int = 0,
        transient: Transient = Transient.NONE,
    ) -> Self:
        """A new, empty segment; FileExistsError if its `.log` file is there already."""
        names = [format_segment_file(base_offset, kind, transient) for kind in SEGMENT_FILES]
        with directory.lock:
            if directory.exists(names[0]):
                raise FileExistsError(f"segment {directory.file(names[0])} is there already")
            for name in names[1:]:
                directory.unlink(name)
            try:
                file = directory.open(names[0], create=True)
                file.truncate(config.initial_file_bytes)
                segment = cls._on(directory, base_offset, config, transient, file, 0, clock, jitter_ms)
            except BaseException:
                for name in names:
                    directory.unlink(name)
                raise
            segment._length = config.initial_file_bytes
            return segment

    @classmethod
    def open(
        cls,
        directory: Directory,
        base_offset: int,
        config: LogConfig,
        *,
        clock: Callable[[], int],
        jitter_ms: int = 0,
        transient: Transient = Transient.NONE,
    ) -> Self:
        """The segment on existing files, to be appended to or recovered. Indexes that are missing are made.

        The log is not read (but for its headers where the time index is missing), the indexes are taken as
        they are: `recover` what was not closed.
        """
        file = directory.open(format_segment_file(base_offset, FileKind.LOG, transient), writable=True)
        size = file.size()
        if size > MAX_SIZE:
            raise BadLengthError(
                f"a segment of {size} bytes; at most 2^31 - 1 are possible", source=file.path
            )
        return cls._on(directory, base_offset, config, transient, file, size, clock, jitter_ms)

    @classmethod
    def reopen(
        cls, sealed: SealedSegment, config: LogConfig, *, clock: Callable[[], int], jitter_ms: int = 0
    ) -> Self:
        """A sealed segment made the active one again, to be truncated and appended to.

        It keeps its age and rolls at the same time; `jitter_ms` is for a segment that was not written in this
        run. Readers of `sealed` keep what they see; new readers get LogClosedError.
        """
        directory = sealed.directory
        with directory.lock:
            for index in (sealed.offset_index, sealed.time_index):
                if not index.is_loaded:
                    index.close()
            file = directory.open(sealed._file.name, writable=True)
            is_synced = sealed.is_synced
            heir = sealed._file.succeed(file)
            indexes = open_indexes(directory, sealed.base_offset, config, Transient.NONE)
            segment = cls(heir, *indexes, config, clock, jitter_ms)
            if sealed.created_ms is not None:
                segment.created_ms = sealed.created_ms
            if sealed.jitter_ms is not None:
                segment.jitter_ms = sealed.jitter_ms
            if is_synced:  # the indexes have more room now, which says nothing
                segment.mark_synced()
            return segment

    @classmethod
    def _on(
        cls,
        directory: Directory,
        base_offset: int,
        config: LogConfig,
        transient: Transient,
        file: File,
        size: int,
        clock: Callable[[], int],
        jitter_ms: int,
    ) -> Self:
        indexes = open_indexes(directory, base_offset, config, transient)
        return cls(LogFile(directory, base_offset, transient, size, file), *indexes, config, clock, jitter_ms)

    def _take_stock(self) -> None:
        """Take from the indexes what the next append continues from."""
        last = self.offset_index.last_entry
        self.progress.last_offset = last.offset if self.offset_index.entries else self.base_offset - 1
        newest = self.time_index.last_entry
        self.progress.last_time = newest.timestamp
        if self.size and not self.time_index.entries:
            with suppress(CorruptRecordError):  # to be recovered, which will find it
                newest = self._read_largest()
        self.progress.max_timestamp, self.progress.max_offset = newest.timestamp, newest.offset
        self._count_slots()

    # Facts

    @property
    def file(self) -> LogFile:
        """The `.log` file."""
        return self._file

    @property
    def max_timestamp_so_far(self) -> TimestampOffset:
        """The largest timestamp and the last offset of the batch that has it; (-1, base offset) for none."""
        return TimestampOffset(self.progress.max_timestamp, self.progress.max_offset)

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp; the file's modification time where no record has one."""
        found = self.progress.max_timestamp
        return found if found >= 0 else self.mtime_ms

    def _progress(self) -> Progress:
        return self.progress

    def _times_are_sound(self) -> bool:
        return True

    def _mark(self) -> tuple[int, ...]:
        # Entries come into the indexes after the batches that they tell of are published.
        return self._file.state.changes, self.size, self.offset_index.entries, self.time_index.entries

    # Appending

    def append(self, data: Buffer, batches: BatchTable) -> None:
        """Write batches, completely or not at all. `batches` is their table; their offsets are final.

        Refused with nothing changed: offsets out of the segment's reach (IndexOffsetOverflowError) or not
        growing (OffsetsOutOfOrderError), entries that an index has no room for (IndexFullError: roll, then
        append). A failed write is undone and its OSError raised; if it cannot be undone, the segment takes no
        more (LogOfflineError).
        """
        rows = batches.rows
        if len(rows) == 1:
            row = rows[0].tolist()
            if memoryview(data).nbytes != row[Column.SIZE]:
                self._refuse_size(data, self.size, row[Column.SIZE])
            self.append_one(data, row[Column.SIZE], row[Column.LAST_OFFSET], row[Column.MAX_TIMESTAMP])
        elif len(rows):
            self._append_many(data, batches)

    def append_one(self, data: Buffer, size: int, last: int, timestamp: int) -> None:
        """`append` for one batch of `size` bytes, with this last offset and largest timestamp."""
        position = self._file.bytes.size
        progress = self.progress
        if last > self._end or last <= progress.last_offset:
            self._refuse(last)
        if position + size > MAX_SIZE:
            self._refuse_size(data, position, size)
        due = progress.due(timestamp)
        if due:
            self.offset_index.reserve()
            if due == _BOTH:
                self.time_index.reserve(2)  # the last slot is for the roll
        try:
            self._file.append(data, position, size)
        except BaseException as error:
            self.undo(error)
            raise
        progress.note(size, last, timestamp, due)
        if not position:
            self._begin(timestamp)
        if due:
            self.offset_index.append(last, position)
            if due == _BOTH:
                self.time_index.maybe_append(progress.max_timestamp, progress.max_offset)
            if progress.slots <= 0:
                self._count_slots()

    def _append_many(self, data: Buffer, batches: BatchTable) -> None:
        rows = batches.rows
        position = self._file.bytes.size
        stand = self.progress
        largest = stand.max_timestamp, stand.max_offset
        progress = np.array([position, stand.last_offset, stand.since, *largest, stand.last_time], np.int64)
        offsets, times = np.empty((2, len(rows)), np.int64), np.empty((2, len(rows)), np.int64)
        taken, fault, some, fewer = index_entries(
            rows, self.base_offset, self.index_interval_bytes, progress, offsets, times
        )
        if fault:
            self._refuse(int(batches.last_offset[taken]))
        end, last, since, timestamp, offset, last_time = progress.tolist()
        size = end - position
        if memoryview(data).nbytes != size or end > MAX_SIZE:
            self._refuse_size(data, position, size)
        self.offset_index.reserve(some)
        self.time_index.reserve(fewer + 1 if fewer else 0)
        try:
            self._file.append(data, position, size)
        except BaseException as error:
            self.undo(error)
            raise
        if not position:
            self._begin(int(batches.max_timestamp[0]))
        stand.last_offset, stand.since, stand.last_time = last, since, last_time
        stand.max_timestamp, stand.max_offset = timestamp, offset
        self._add_entries(offsets[:, :some], times[:, :fewer])
        self._count_slots()

    def note_aborted(self, txn: AbortedTxn) -> None:
        """Note an aborted transaction whose marker was appended."""
        try:
            self.txn_index.append(txn)
        finally:
            self._file.state.changes += 1

    def _add_entries(self, offsets: Int64Array, times: Int64Array) -> None:
        """Add entries that there is room for."""
        if offsets.shape[1] > _FEW_ENTRIES:
            self.offset_index.append_many(*offsets)
            self.time_index.append_many(*times)
            return
        for offset, position in offsets.T.tolist():
            self.offset_index.append(offset, position)
        for timestamp, offset in times.T.tolist():
            self.time_index.maybe_append(timestamp, offset)

    def _count_slots(self) -> None:
        """Count the indexed batches that both indexes still have room for, and see whether one is full."""
        offsets, times = self.offset_index, self.time_index
        slots = min(offsets.max_entries - offsets.entries, times.max_entries - 1 - times.entries)
        self.progress.slots, self.progress.index_full = slots, slots <= 0

    def _begin(self, timestamp: int | None) -> None:
        """Note the first batch's timestamp; None: to be read when it is asked for."""
        self._first_timestamp = timestamp
        self.progress.beginnings += 1

    def _refuse_size(self, data: Buffer, position: int, size: int) -> None:
        given = memoryview(data).nbytes
        if given != size:
            raise InvalidInputError(f"{given} bytes given, but batches of {size} in their table")
        raise InvalidInputError(f"{size} bytes do not fit segment {self.path}, which has {position}")

    def _refuse(self, offset: int) -> None:
        """Say why `offset` cannot be the last of an append."""
        self._check_writable()
        if not 0 <= offset - self.base_offset <= MAX_RELATIVE_OFFSET:
            raise IndexOffsetOverflowError(
                f"offset {offset} is not within 2^31 - 1 of the base offset of segment {self.path}"
            )
        raise OffsetsOutOfOrderError(f"offset {offset} is not above those before it in segment {self.path}")

    def undo(self, error: BaseException) -> None:
        """Remove what a failed write left behind."""
        try:
            self._file.undo(self._length)
        except OSError:
            raise self._failed(error) from error

    def _failed(self, error: BaseException) -> LogOfflineError:
        self._failure = error
        self.progress.last_offset = _NEVER
        return LogOfflineError(f"segment {self.path} takes no more appends, its disk failed: {error}")

    def _check_writable(self) -> None:
        if self._failure is not None:
            raise self._failed(self._failure)
        if self.progress.last_offset == _NEVER:
            raise LogClosedError(f"segment {self.path} was sealed or closed")

    def _add_last_time(self) -> None:
        """The time entry with which a segment ends."""
        self.time_index.maybe_append(self.progress.max_timestamp, self.progress.max_offset, True)

    # Ending

    def seal(self) -> SealedSegment:
        """End the segment: final time entry, indexes and file trimmed. This object can still be read."""
        self._check_writable()
        try:
            self._add_last_time()
            self.progress.last_offset = _NEVER
            self._file.trim()
            indexes = self.offset_index.seal(), self.time_index.seal()
            self.txn_index.seal()
        finally:
            self._file.state.changes += 1
        sealed = SealedSegment(self._file, *indexes, self.txn_index)
        self._file.release()
        sealed._first_timestamp = self._first_timestamp
        sealed.created_ms, sealed.jitter_ms = self.created_ms, self.jitter_ms
        return sealed

    def finish(self) -> None:
        """End the segment as `seal` does, but keep the files open to be flushed; `close` lets go of them.

        A segment that has not changed since it was opened is as synced as it was then: its indexes lose the
        room that they were given, and those of the last segment are looked at whenever a log is opened.

        A damaged base offset can be too large for an index: like Kafka, this then leaves out the time entry.
        """
        if self.progress.last_offset == _NEVER:
            return
        with suppress(IndexOffsetOverflowError):
            self._add_last_time()
        self.progress.last_offset = _NEVER
        self._file.trim()
        if self._mark() != self._opened:
            try:
                self.offset_index.trim_to_valid_size()
                self.time_index.trim_to_valid_size()
            finally:
                self._file.state.changes += 1

    def close(self) -> None:
        """End the segment as `seal` does, and release the files; flush first what must be on the disk."""
        self.finish()
        super().close()

    def abandon(self) -> None:
        """Release the files and leave them as they are, because their disk failed."""
        self.progress.last_offset = _NEVER
        self.offset_index.abandon()
        self.time_index.abandon()
        self.txn_index.close()
        self._file.close()

    # Mending

    def truncate_to(self, offset: int) -> int:
        """Remove the batches from the one that holds `offset` on; how many bytes that were.

        The indexes are cut first: what they lack is found all the same. Afterwards they have room again.
        """
        self._check_writable()
        found = self._ask(self._file.bytes.find_batch, self._position(offset), offset, offset)
        before = self.size
        try:
            for index in (self.offset_index, self.time_index):
                index.truncate_to(offset)
                index.resize(max(index.max_index_size, index.size_in_bytes))
            self.txn_index.truncate_to(offset)
            if found[0] != END:
                self._file.cut(found[2])
        except OSError as error:
            self._failed(error)
            raise
        finally:
            self._file.state.changes += 1
        if not self.size:
            self.created_ms = self._clock()
            self._begin(None)
        had_timestamps = self.progress.max_timestamp >= 0
        self._take_stock()
        self.progress.last_offset, self.progress.since = self.next_offset() - 1, 0
        if had_timestamps:
            left = self._read_largest()
            self.progress.max_timestamp, self.progress.max_offset = left.timestamp, left.offset
        return before - self.size

    def recover(self, state: RecoveryState, *, any_order: bool = False) -> int:
        """Check every batch, rebuild the indexes, cut the file after the last sound batch; the bytes cut.

        See `recovery`. An offset that the segment cannot hold raises IndexOffsetOverflowError, one that goes
        back CorruptRecordError; then nothing is cut, and the indexes reach up to that batch. In `any_order`
        it may go back, but not from one index entry to the next (OffsetsOutOfOrderError).
        """
        self._check_writable()
        before = self.size
        indexes = (self.offset_index, self.time_index, self.txn_index)
        every = self.index_interval_bytes
        try:
            rebuilding = Rebuilding(self.base_offset, every, indexes, state, self.path, any_order=any_order)
            sound = rebuilding.run(self.buffer())
            if sound < before:
                self._file.cut(sound)
            self.progress.max_timestamp, self.progress.max_offset = rebuilding.largest
            self._add_last_time()
        finally:
            self._file.state.changes += 1
        self._begin(None)
        self.progress.last_time = self.time_index.last_entry.timestamp
        self.progress.last_offset = rebuilding.last_offset
        self._count_slots()
        return before - sound
