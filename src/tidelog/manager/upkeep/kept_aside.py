"""A file system that copies aside what is cut off log files, or removed with them, before it is gone.

    <partition>/<file>.from-<position>              the bytes of that file from that position on
    <keep>/<partition>/<file>.from-<position>       likewise, where a place for them is given

In a partition's directory they are on the same disk, brokers and stores pass over them, and they go with the
partition. Zeros at the end, which preallocation leaves, are not kept.

It stands between recovery and the disk, so that nothing can be cut that is not kept, whatever the reason.
Files that are on their way out by name (`.deleted`) and indexes, which can be rebuilt, are not kept.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.storage.files import DirEntry, File, FileStat, FileState, FileSystem, Mapping
from tidelog.storage.names import FileKind

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrPath

__all__ = ["KeepingFileSystem"]

_CHUNK = 8 << 20
_MANY_ZEROS = 4096
"""More than a batch ends with."""


class KeepingFileSystem:
    """Another file system, with a place for what is cut."""

    def __init__(self, inner: FileSystem, keep: str | None = None) -> None:
        """`keep` is an existing directory; without it, each partition's own."""
        self._inner = inner
        self._keep = keep
        self._lock = threading.Lock()
        self.kept: list[tuple[str, int]] = []
        """The files that hold what was cut, and how many bytes each."""

    @property
    def inner(self) -> FileSystem:
        """The file system that it stands before."""
        return self._inner

    def keep(self, path: str, file: File, position: int) -> None:
        """Copy a log file's bytes from a position on aside, durably; nothing if there are none."""
        if not path.endswith(FileKind.LOG.value):
            return
        size = _last_byte(file, position)
        if position >= size:
            return
        directory, _, name = path.rpartition("/")
        target = directory if self._keep is None else f"{self._keep}/{directory.rpartition('/')[2]}"
        with self._lock:
            if self._keep is not None and not self._inner.exists(target):
                self._inner.make_directory(target)
                self._inner.sync_directory(self._keep)
            copy = self._free(f"{target}/{name}.from-{position}")
        aside = self._inner.open(copy, create=True)
        try:
            for start in range(position, size, _CHUNK):
                aside.pwrite(file.pread(min(_CHUNK, size - start), start), start - position)
            aside.sync()
        except BaseException:
            self._inner.unlink(copy)  # a full disk: the next attempt begins anew
            raise
        finally:
            aside.close()
        self._inner.sync_directory(target)
        self.kept.append((copy, size - position))

    def _free(self, path: str) -> str:
        """A name that nothing has yet: an earlier recovery may have kept something from the same place."""
        number, name = 1, path
        while self._inner.exists(name):
            number, name = number + 1, f"{path}.{number}"
        return name

    def list(self, path: StrPath) -> Sequence[DirEntry]:
        """The entries of a directory, in no order."""
        return self._inner.list(path)

    def stat(self, path: StrPath) -> FileStat:
        """Size, modification time and kind."""
        return self._inner.stat(path)

    def exists(self, path: StrPath) -> bool:
        """Whether the name leads to something."""
        return self._inner.exists(path)

    def is_link(self, path: StrPath) -> bool:
        """Whether the name is a symbolic link."""
        return self._inner.is_link(path)

    def set_mtime(self, path: StrPath, mtime_ms: int) -> None:
        """Set the time of last modification."""
        self._inner.set_mtime(path, mtime_ms)

    def make_directory(self, path: StrPath) -> None:
        """Make a directory."""
        self._inner.make_directory(path)

    def open(self, path: StrPath, *, writable: bool = False, create: bool = False) -> File:
        """Open a file to read, or to read and write."""
        file = self._inner.open(path, writable=writable, create=create)
        return _KeepingFile(self, file) if writable or create else file

    def rename(self, source: StrPath, target: StrPath) -> None:
        """Atomically give a file or directory another name."""
        self._inner.rename(source, target)

    def link(self, source: StrPath, target: StrPath) -> None:
        """Give a file a second name."""
        self._inner.link(source, target)

    def unlink(self, path: StrPath) -> None:
        """Take a name from a file; a log is kept."""
        name = str(path)
        if name.endswith(FileKind.LOG.value):
            file = self._inner.open(name)
            try:
                self.keep(name, file, 0)
            finally:
                file.close()
        self._inner.unlink(path)

    def remove_directory(self, path: StrPath) -> None:
        """Remove an empty directory."""
        self._inner.remove_directory(path)

    def sync_directory(self, path: StrPath) -> None:
        """Wait until the directory's names are on the disk."""
        self._inner.sync_directory(path)


def _last_byte(file: File, position: int) -> int:
    """Where the bytes from a position on end; many zeros up to the file's end do not count."""
    size = end = file.size()
    while end > position:
        start = max(end - _CHUNK, position)
        found = file.pread(end - start, start).rstrip(b"\0")
        if found:
            end = start + len(found)
            return size if size - end < _MANY_ZEROS else end
        end = start
    return position


class _KeepingFile:
    """An open file that keeps what is cut off it."""

    __slots__ = ("_fs", "_inner", "path")

    def __init__(self, fs: KeepingFileSystem, inner: File) -> None:
        self._fs = fs
        self._inner = inner
        self.path = inner.path

    def truncate(self, size: int) -> None:
        self._fs.keep(self.path, self._inner, size)
        self._inner.truncate(size)

    def size(self) -> int:
        return self._inner.size()

    def state(self) -> FileState:
        return self._inner.state()

    def pread(self, n: int, position: int) -> bytes:
        return self._inner.pread(n, position)

    def pread_into(self, buffer: memoryview, position: int) -> int:
        return self._inner.pread_into(buffer, position)

    def pwrite(self, data: ReadableBuffer, position: int) -> int:
        return self._inner.pwrite(data, position)

    def pwritev(self, buffers: Sequence[ReadableBuffer], position: int) -> int:
        return self._inner.pwritev(buffers, position)

    def allocate(self, position: int, n: int) -> None:
        self._inner.allocate(position, n)

    def reserve(self, position: int, n: int) -> bool:
        """Set disk space aside."""
        return self._inner.reserve(position, n)

    def write_back(self, position: int, n: int) -> None:
        """Have the disk begin with these bytes."""
        self._inner.write_back(position, n)

    def sync(self) -> None:
        self._inner.sync()

    def map_readonly(self, size: int | None = None, *, ahead: bool = False) -> memoryview:
        return self._inner.map_readonly(size, ahead=ahead)

    def map_writable(self, size: int | None = None) -> Mapping:
        return self._inner.map_writable(size)

    def close(self) -> None:
        self._inner.close()
