"""The `.log` file of a segment: its bytes in memory, and how many of them are visible to readers.

    published size   whole batches; the file may be longer (preallocated, or a write that failed half way)
    mapping          made at the first question, for the active segment ahead of what is published

Readers take size and mapping in one step (`kernels.lookup.LogBytes`) and hold the mapping for as long as they
look at it. So nothing is taken from under them:

- growth: a mapping that the published size has outgrown is replaced, and lives until its last reader is done;
- deletion and renaming leave mappings as they are;
- a truncation makes readers start again, and leaves mappings what they show (`storage.local`).

Disk space is set aside ahead of the writes to a file of more than 1 MiB, an eighth of its size or 4 MiB.

One thread writes. Mapping, cutting and renaming exclude each other by the directory's lock; reading takes
none.

What of a segment is on the disk is told by its `SyncState`, which all objects on the same files share: a
segment that is sealed or made active again is as dirty as it was. Appends show in the size; every other
change of the files is counted when it is done. A sync notes what it began with, so a change made in the
meantime leaves the segment dirty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import LogClosedError
from tidelog.kernels.lookup import LogBytes
from tidelog.storage import Directory, File
from tidelog.storage.names import FileKind, Transient, format_segment_file

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["MAX_SIZE", "LogFile", "SyncState"]

_MIN_AHEAD = 1 << 20
_RESERVE_FROM, _MAX_RESERVE = 1 << 20, 4 << 20

MAX_SIZE = (1 << 31) - 1
"""Bytes that a log file can have: positions in an index are 31-bit numbers."""


class SyncState:
    """Which state of a segment's files is on the disk."""

    __slots__ = ("changes", "synced")

    def __init__(self) -> None:
        self.changes = 0
        """How often the files were changed other than by an append."""
        self.synced: tuple[int, ...] | None = None
        """The state that was synced last: it begins with `changes` and the size. None: not known."""


class LogFile:
    """The log file of the segment at `base_offset`."""

    __slots__ = ("_closed", "_reserved", "_writer", "base_offset", "bytes", "directory", "name", "state")

    def __init__(
        self,
        directory: Directory,
        base_offset: int,
        transient: Transient,
        size: int,
        writer: File | None = None,
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.name = format_segment_file(base_offset, FileKind.LOG, transient)
        """The file's name in its directory."""
        self.bytes = LogBytes(base_offset, size)
        """What is published, to be asked."""
        self._writer = writer
        self._reserved = _RESERVE_FROM  # up to where nothing need be done before a write
        self._closed = False
        self.state = SyncState()
        """What of the segment is on the disk."""

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, deleted or made active again."""
        return self._closed

    @property
    def path(self) -> str:
        """Where the file is now."""
        return self.directory.file(self.name)

    @property
    def size(self) -> int:
        """The published bytes."""
        return self.bytes.size

    def view(self) -> memoryview:
        """The published bytes as memory."""
        while (view := self.bytes.view()) is None:
            self.map()
        return view

    def read(self, position: int, size: int) -> bytes:
        """Some of the bytes, whether or not the file is mapped."""
        with self.directory.lock:
            if self._closed:
                raise LogClosedError(f"segment {self.path} was closed or replaced; ask the log again")
            if self._writer is not None:
                return self._writer.pread(size, position)
            file = self.directory.open(self.name)
            try:
                return file.pread(size, position)
            finally:
                file.close()

    def map(self) -> None:
        """Make sure that what is published is mapped."""
        with self.directory.lock:
            size = self.bytes.size
            if self._closed:
                raise LogClosedError(f"segment {self.path} was closed or replaced; ask the log again")
            if self.bytes.view() is not None:
                return
            writer = self._writer
            if writer is not None:
                view = writer.map_readonly(min(max(2 * size, _MIN_AHEAD), MAX_SIZE), ahead=True)
            else:
                file = self.directory.open(self.name)
                try:
                    view = file.map_readonly(size)
                finally:
                    file.close()
            self.bytes.remap(view)

    # The writer's part

    def append(self, data: ReadableBuffer, position: int, size: int) -> None:
        """Write `size` bytes at `position`, the end of the published ones, then publish them."""
        if position + size > self._reserved:
            self._reserve(position, size)
        (self._writer or self._live()).pwrite(data, position)
        self.bytes.publish(position + size)

    def write_back(self, position: int) -> None:
        """Have the disk begin with what was published from `position` on."""
        self._live().write_back(position, self.bytes.size - position)

    def _reserve(self, position: int, size: int) -> None:
        """Have the disk set space aside ahead of the writes to a file that is no longer small."""
        ahead = size + min(position // 8, _MAX_RESERVE)
        self._live().reserve(position, ahead)
        self._reserved = position + ahead

    def undo(self, length: int) -> None:
        """Remove what was written but not published; the file keeps the `length` it was preallocated to."""
        size = self.bytes.size
        self.cut(size)
        if length > size:
            self._live().truncate(length)
            self.state.changes += 1

    def trim(self) -> None:
        """Cut what is not published."""
        size = self.bytes.size
        if self._live().size() > size:
            self.cut(size)
        elif self._reserved > _RESERVE_FROM:
            self._live().truncate(size)

    def cut(self, size: int) -> None:
        """Cut the file, and what is published, to `size` bytes; views in use stay as they are.

        The mapping is given up first, because it does not follow the file any more from there on.
        """
        with self.directory.lock:
            file = self._live()
            self.bytes.reset(size)
            try:
                file.truncate(size)
            finally:
                self.state.changes += 1

    def succeed(self, writer: File) -> LogFile:
        """The same file, to be written through `writer`; this object is for those who read it already.

        They keep what they see. New readers are sent back to the log.
        """
        with self.directory.lock:
            heir = LogFile(self.directory, self.base_offset, Transient.NONE, self.bytes.size, writer)
            heir.name, heir.state = self.name, self.state
            self._closed = True
            return heir

    def sync(self) -> None:
        """Wait until the file's bytes are on the disk."""
        file = self._writer
        if file is not None:
            self.directory.sync_file(file)
            return
        with self.directory.lock:  # the name is looked up where nobody changes it
            file = self.directory.open(self.name)
        try:
            self.directory.sync_file(file)
        finally:
            file.close()

    def release(self) -> None:
        """Release the writer's file; readers continue.

        It is closed with its last reference, because a `sync` in another thread may hold one.
        """
        self._writer = None

    def close(self) -> None:
        """Release everything; calls in progress finish."""
        with self.directory.lock:
            self._closed = True
            self.bytes.reset(self.bytes.size)
        self.release()

    def rename_to(self, transient: Transient) -> None:
        """Give the file the name with another transient suffix."""
        name = format_segment_file(self.base_offset, FileKind.LOG, transient)
        with self.directory.lock:
            self.directory.rename(self.name, name)
            self.name = name

    def _live(self) -> File:
        if self._writer is None:
            raise LogClosedError(f"segment {self.path} was sealed or closed")
        return self._writer
