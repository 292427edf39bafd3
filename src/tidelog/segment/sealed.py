"""A segment that takes no more appends: read-only, and nothing is mapped before it is used."""

from __future__ import annotations

from typing import Self, TypeVar

from tidelog.errors import LogError
from tidelog.index import OffsetIndex, TimeIndex, TransactionIndex
from tidelog.index.time import NO_TIMESTAMP
from tidelog.records.batches import scan_batches
from tidelog.segment.base import Segment
from tidelog.segment.file import LogFile
from tidelog.storage import Directory
from tidelog.storage.files import LARGEST_READ
from tidelog.storage.names import FileKind, Transient, format_segment_file
from tidelog.types import TimestampOffset

__all__ = ["SealedSegment"]

_Index = TypeVar("_Index", OffsetIndex, TimeIndex)


class SealedSegment(Segment):
    """A read-only segment."""

    __slots__ = ("_max", "_times_sound", "created_ms", "jitter_ms")

    def __init__(
        self, file: LogFile, offset_index: OffsetIndex, time_index: TimeIndex, txn_index: TransactionIndex
    ) -> None:
        super().__init__(file, offset_index, time_index, txn_index)
        self._max: TimestampOffset | None = None
        self._times_sound: bool | None = None
        self.created_ms: int | None = None
        """When the segment was made or first opened in this run of the log, where that is known."""
        self.jitter_ms: int | None = None
        """How much earlier than `segment.ms` says it would have rolled, where that is known."""

    @classmethod
    def open(
        cls,
        directory: Directory,
        base_offset: int,
        *,
        transient: Transient = Transient.NONE,
        created_ms: int | None = None,
    ) -> Self:
        """The segment on existing files; only the size of the `.log` file is looked at."""
        name = format_segment_file(base_offset, FileKind.LOG, transient)
        with directory.lock:
            size = directory.fs.stat(directory.file(name)).size
        if size > LARGEST_READ:
            raise LogError(
                f"{directory.file(name)} has {size} bytes, and no segment has more than {LARGEST_READ}: "
                "move it away, or cut it where it is sound (tidelog verify tells)"
            )
        segment = cls(
            LogFile(directory, base_offset, transient, size),
            OffsetIndex(directory, base_offset, transient),
            TimeIndex(directory, base_offset, transient),
            TransactionIndex(directory, base_offset, transient),
        )
        segment.created_ms = created_ms
        return segment

    @classmethod
    def snapshot(cls, directory: Directory, base_offset: int) -> Self:
        """The segment as it is now, for a reader in another process than its writer's: whole batches only.

        Indexes are copied, before the log's size is taken: they tell of nothing after it. The log is mapped:
        if its writer truncates it, this process must not read on.
        """
        indexes = (_copied(OffsetIndex, directory, base_offset), _copied(TimeIndex, directory, base_offset))
        name = format_segment_file(base_offset, FileKind.LOG)
        with directory.lock:
            size = directory.fs.stat(directory.file(name)).size
        file = LogFile(directory, base_offset, Transient.NONE, size)
        segment = cls(file, *indexes, TransactionIndex(directory, base_offset))
        last = segment.offset_index.last_entry
        start = last.position if segment._probe(last.position, last.offset) else 0
        view = segment.buffer()
        while (scan := scan_batches(view, start=start, check_crc=False)).fault is None and scan.end < size:
            start = scan.end
        segment._file.bytes.publish(scan.end)
        segment._max = segment._read_largest()
        return segment

    @property
    def max_timestamp_so_far(self) -> TimestampOffset:
        """The largest timestamp and the last offset of the batch that has it; (-1, base offset) for none.

        That is the last entry of the time index, which sealing has written.
        """
        found = self._max
        if found is None:
            if self._times_are_sound() and self.time_index.entries:
                found = self.time_index.last_entry
            else:
                found = self._read_largest()
            self._max = found
        return found

    def trust_time_index(self) -> None:
        """Take the last slot of the time index for the largest timestamp, whatever it says, as Kafka does."""
        try:
            self._max = self.time_index.last_entry
        except FileNotFoundError:  # Kafka makes an empty one
            self._max = TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def _times_are_sound(self) -> bool:
        sound = self._times_sound
        if sound is None:
            try:
                sound = self.time_index.growing_entries() == self.time_index.entries
            except FileNotFoundError:
                sound = False
            self._times_sound = sound
        return sound


def _copied(kind: type[_Index], directory: Directory, base_offset: int) -> _Index:
    try:
        return kind.snapshot(directory, base_offset)
    except FileNotFoundError:
        return kind.from_bytes(directory, base_offset, b"")
