"""A file system on which work is rehearsed: it reads another one, and keeps every change in memory.

Whoever works on it finds what it has done; the other file system is never written to. So a dry run is the
real work, done here. Cutting a file costs nothing, however long it is; what is written to is held in memory.
Files are looked at only as far as the work looks at them. They are read, never mapped: others may cut
them meanwhile. One rehearsal is for one job, on any number of threads.
"""

from __future__ import annotations

import errno
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidelog.errors import InvalidIndexError
from tidelog.storage import File, FileSystem
from tidelog.storage.files import LARGEST_READ, DirEntry, FileStat, FileState, Mapping, os_error
from tidelog.storage.local import LINK_REFUSED

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrPath

__all__ = ["Rehearsal", "Rehearsed"]

_numbers = itertools.count(1)


class _Content:
    """The bytes of a file: another file's up to a length, until something is written to it."""

    def __init__(self, source: File | None = None) -> None:
        self._lock = threading.RLock()
        self._source = source
        self._length = 0 if source is None else source.size()
        self._bytes = _zeros(0)
        self.mappings = 0
        """How many writable views of it there are."""
        self.number = next(_numbers)
        self.changes = 0
        self.mtime_ms = time.time_ns() // 1_000_000

    @property
    def size(self) -> int:
        return self._length

    @property
    def origin(self) -> str | None:
        """The file whose first bytes it has; None if it has bytes of its own."""
        return None if self._source is None else self._source.path

    def own(self) -> memoryview:
        """Its bytes, here; what lies past its size are zeros, for those who have mapped more of it."""
        with self._lock:
            if self._source is not None:
                self._bytes = _zeros(self._length)
                self._source.pread_into(self._bytes, 0)
                self._source.close()
                self._source = None
            self.changes += 1
            return self._bytes

    def resize(self, size: int) -> None:
        with self._lock:
            self.changes += 1
            if self._source is not None and size <= self._length:
                self._length = size
                return
            data, kept = self.own(), min(size, self._length)
            if size < self._length and self.mappings:
                data[size : self._length] = bytes(self._length - size)
            elif size < self._length or size > len(data):  # whoever has mapped it sees what it was
                self._bytes = _zeros(size)
                self._bytes[:kept] = data[:kept]
            self._length = size

    def read(self, n: int, position: int) -> bytes:
        with self._lock:
            n = max(min(n, self._length - position), 0)
            if self._source is not None:
                return self._source.pread(n, position)
            return bytes(self._bytes[position : position + n])

    def write(self, data: ReadableBuffer, position: int) -> int:
        with self._lock:
            size = memoryview(data).nbytes
            if self._source is not None and self.read(size, position) == data:
                return size  # written again: nothing changes
            if position + size > self.size:
                self.resize(position + size)
            self.own()[position : position + size] = memoryview(data).cast("B")
            return size

    def view(self, size: int) -> memoryview:
        with self._lock:
            if self._source is not None:
                return _copied(self._source, min(size, self._length))
            return memoryview(bytes(self._bytes[: min(size, self._length)]))

    def close(self) -> None:
        with self._lock:
            if self._source is not None:
                self._source.close()


def _zeros(size: int) -> memoryview:
    """Bytes that take no memory until they are looked at."""
    return np.zeros(size, np.uint8).data


def _copied(source: File, size: int) -> memoryview:
    """A file's first bytes, copied: whoever holds no lock must not touch what another process may cut off."""
    if size > LARGEST_READ:
        raise InvalidIndexError(f"{source.path} has {size} bytes: such a file has at most {LARGEST_READ}")
    return memoryview(source.pread(size, 0))


class _Memory:
    """A writable view."""

    def __init__(self, content: _Content, size: int) -> None:
        self._content: _Content | None = content
        self._view = content.own()[:size]
        content.mappings += 1

    @property
    def buffer(self) -> memoryview:
        return self._view

    def flush(self) -> None:
        """There is no disk."""

    def close(self) -> None:
        self._view.release()
        if self._content is not None:
            self._content.mappings -= 1
            self._content = None


class _RehearsedFile:
    """An open file."""

    def __init__(self, path: str, content: _Content) -> None:
        self._content = content
        self.path = path

    def size(self) -> int:
        return self._content.size

    def state(self) -> FileState:
        return FileState(0, self._content.number, self._content.size, self._content.changes)

    def pread(self, n: int, position: int) -> bytes:
        return self._content.read(n, position)

    def pread_into(self, buffer: memoryview, position: int) -> int:
        data = self._content.read(buffer.nbytes, position)
        buffer.cast("B")[: len(data)] = data
        return len(data)

    def pwrite(self, data: ReadableBuffer, position: int) -> int:
        return self._content.write(data, position)

    def pwritev(self, buffers: Sequence[ReadableBuffer], position: int) -> int:
        return self._content.write(b"".join(memoryview(one).cast("B") for one in buffers), position)

    def truncate(self, size: int) -> None:
        self._content.resize(size)

    def allocate(self, position: int, n: int) -> None:
        if position + n > self._content.size:
            self._content.resize(position + n)

    def reserve(self, position: int, n: int) -> bool:
        """There is no disk space to set aside."""
        return False

    def write_back(self, position: int, n: int) -> None:
        """There is no disk."""

    def sync(self) -> None:
        """There is no disk."""

    def map_readonly(self, size: int | None = None, *, ahead: bool = False) -> memoryview:
        return self._content.view(self._content.size if size is None else min(size, self._content.size))

    def map_writable(self, size: int | None = None) -> Mapping:
        return _Memory(self._content, self._content.size if size is None else size)

    def close(self) -> None:
        """The content stays: another may open it."""


class _FoundFile(_RehearsedFile):
    """A file that is only read, as it is."""

    def close(self) -> None:
        self._content.close()


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What a file has become."""

    size: int
    origin: str | None
    """The file whose first `size` bytes it has; None if it was written to."""
    read: Callable[[int, int], bytes]
    """Its bytes: how many, from where on."""


class Rehearsal:
    """Reads another file system; what is changed is changed here.

    With `follows_links` a link counts as what it leads to, as for a stock broker.
    """

    def __init__(self, inner: FileSystem, *, follows_links: bool = False) -> None:
        self._inner = inner
        self._follows_links = follows_links
        self._lock = threading.RLock()
        self._files: dict[str, _Content | None] = {}
        """What was opened to be written, made or renamed; None for what was removed."""
        self._directories: dict[str, bool] = {}
        """Directories that were made; False for those that were removed."""

    def close(self) -> None:
        """Let go of what was opened."""
        for content in self._files.values():
            if content is not None:
                content.close()

    def changes(self) -> Iterator[tuple[str, Rehearsed | None]]:
        """The files that were written, made, renamed or removed (None), by path."""
        for path, content in sorted(self._files.items()):
            yield path, None if content is None else Rehearsed(content.size, content.origin, content.read)

    def list(self, path: StrPath) -> Sequence[DirEntry]:
        """The entries of a directory, in no order."""
        directory = str(path)
        with self._lock:
            made = self._directories.get(directory)
            if made is False:
                raise os_error(errno.ENOENT, directory)
            found = {} if made else {entry.name: entry for entry in self._inner.list(directory)}
            for name, there in self._changes(directory).items():
                found.pop(name, None)
                if there is not None:
                    found[name] = DirEntry(name, there)
            return list(found.values())

    def _changes(self, directory: str) -> dict[str, bool | None]:
        """The names in a directory that are not as they were: whether each is a directory; None for gone."""
        changes: dict[str, bool | None] = {}
        for path, content in self._files.items():
            above, _, name = path.rpartition("/")
            if above == directory:
                changes[name] = None if content is None else False
        for path, made in self._directories.items():
            above, _, name = path.rpartition("/")
            if above == directory:
                changes[name] = True if made else None
        return changes

    def stat(self, path: StrPath) -> FileStat:
        """Size, modification time and kind."""
        name = str(path)
        with self._lock:
            if name in self._files:
                content = self._existing(name)
                return FileStat(content.size, content.mtime_ms, False)
            if name in self._directories:
                if not self._directories[name]:
                    raise os_error(errno.ENOENT, name)
                return FileStat(0, 0, True)
            return self._inner.stat(name)

    def exists(self, path: StrPath) -> bool:
        """Whether the name leads to something."""
        name = str(path)
        with self._lock:
            if name in self._files:
                return self._files[name] is not None
            return self._directories[name] if name in self._directories else self._inner.exists(name)

    def is_link(self, path: StrPath) -> bool:
        """Whether the name is a symbolic link."""
        name = str(path)
        if self._follows_links or name in self._files or name in self._directories:
            return False
        return self._inner.is_link(name)

    def set_mtime(self, path: StrPath, mtime_ms: int) -> None:
        """Set the time of last modification."""
        with self._lock:
            self._taken(str(path)).mtime_ms = mtime_ms

    def make_directory(self, path: StrPath) -> None:
        """Make a directory."""
        with self._lock:
            if self.exists(path):
                raise os_error(errno.EEXIST, path)
            self._directories[str(path)] = True

    def open(self, path: StrPath, *, writable: bool = False, create: bool = False) -> File:
        """Open a file to read, or to read and write."""
        name = str(path)
        with self._lock:
            if (writable or create) and self.is_link(name):
                raise OSError(errno.ELOOP, LINK_REFUSED, name)
            if name in self._files and (self._files[name] is not None or not create):
                return _RehearsedFile(name, self._existing(name))
            if create and not self.exists(name):
                self._files[name] = content = _Content()
                return _RehearsedFile(name, content)
            if not writable and not create:
                return _FoundFile(name, _Content(self._inner.open(name)))
            return _RehearsedFile(name, self._taken(name))

    def _existing(self, name: str) -> _Content:
        content = self._files[name]
        if content is None:
            raise os_error(errno.ENOENT, name)
        return content

    def _taken(self, name: str) -> _Content:
        """A file's content, to be changed here."""
        if name not in self._files:
            stat = self._inner.stat(name)
            content = _Content(self._inner.open(name))
            content.mtime_ms = stat.mtime_ms
            self._files[name] = content
        return self._existing(name)

    def rename(self, source: StrPath, target: StrPath) -> None:
        """Give a file another name; directories are not renamed here."""
        with self._lock:
            content = self._taken(str(source))
            self._files[str(target)] = content
            self._files[str(source)] = None

    def link(self, source: StrPath, target: StrPath) -> None:
        """Give a file a second name."""
        with self._lock:
            if self.exists(target):
                raise os_error(errno.EEXIST, target)
            self._files[str(target)] = self._taken(str(source))

    def unlink(self, path: StrPath) -> None:
        """Take a name from a file."""
        name = str(path)
        with self._lock:
            if not self.exists(name) and not self.is_link(name):
                raise os_error(errno.ENOENT, name)
            self._files[name] = None

    def remove_directory(self, path: StrPath) -> None:
        """Remove an empty directory."""
        with self._lock:
            if self.list(path):
                raise os_error(errno.ENOTEMPTY, path)
            self._directories[str(path)] = False

    def sync_directory(self, path: StrPath) -> None:
        """There is no disk."""
