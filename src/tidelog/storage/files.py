"""The file-system interface: everything that tidelog asks of an operating system.

    FileSystem   names: list, stat, exists, is_link, set_mtime, make_directory, open, rename, link, unlink,
                 remove_directory, sync_directory
    File         bytes of one open file: size, state, pread, pread_into, pwrite, pwritev, truncate, allocate,
                 reserve, sync, map_readonly, map_writable, close
    Mapping      a writable view of a file: buffer, flush, close

Each method is one primitive with one effect, so that another implementation can record, delay, reorder, tear
or refuse it. Operations composed of them (read a whole file, replace one atomically) are in `atomic` and
below.

Durability: nothing is on the disk before `File.sync` / `Mapping.flush` (bytes) or `sync_directory` (names).
Threads: a `File` may be read by many threads while one writes; closing it lets reads in progress finish.
Errors: the operating system's own `OSError`s, with the path in them where the system knows it. Links: a
symbolic link is followed for reading, never for writing or removing: it may point to somebody else's files.
FIFOs, sockets and devices are never opened.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tidelog.errors import InvalidIndexError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrPath
    from typing_extensions import TypeIs

__all__ = [
    "CANNOT_LINK",
    "DirEntry",
    "File",
    "FileStat",
    "FileState",
    "FileSystem",
    "Mapping",
    "is_path",
    "make_directories",
    "map_file",
    "os_error",
    "read_file",
    "rename_noreplace",
    "write_again",
]

LARGEST_READ = (1 << 31) - 1
"""As much as Kafka's own files can hold: positions in them are int32."""
_CHUNK_BYTES = 4 << 20
CANNOT_LINK = (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EMLINK)
"""Errors of `link` that say that it cannot be there: copy instead."""


class DirEntry(NamedTuple):
    """A name in a directory."""

    name: str
    is_directory: bool
    """Also of a symbolic link to one."""
    is_link: bool = False
    """Whether it is a symbolic link."""


class FileStat(NamedTuple):
    """What a directory entry points at."""

    size: int
    mtime_ms: int
    is_directory: bool


class FileState(NamedTuple):
    """Identifies an open file and its last change: equal states mean an unchanged file."""

    device: int
    number: int
    size: int
    changed_ns: int
    """When its bytes or its name were changed last."""


class Mapping(Protocol):
    """A file's bytes as writable memory, shared with every other view of the file."""

    @property
    def buffer(self) -> memoryview:
        """The bytes; as long as the file was when it was mapped."""

    def flush(self) -> None:
        """Wait until the bytes are on the disk."""

    def close(self) -> None:
        """Release the memory. Raises BufferError while somebody still looks at it."""


class File(Protocol):
    """An open file, addressed by position; there is no cursor."""

    @property
    def path(self) -> str:
        """The name it was opened under; for messages (it may have been renamed since)."""

    def size(self) -> int:
        """Its length in bytes, now."""

    def state(self) -> FileState:
        """Which file it is, how long, and when it was changed last: equal answers, an unchanged file."""

    def pread(self, n: int, position: int) -> bytes:
        """The `n` bytes from `position` on; fewer only where the file ends."""

    def pread_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` with the bytes from `position` on; how many: fewer only where the file ends."""

    def pwrite(self, data: ReadableBuffer, position: int) -> int:
        """Write all of `data` at `position`; answers its length. After an OSError any part may be written."""

    def pwritev(self, buffers: Sequence[ReadableBuffer], position: int) -> int:
        """Write all of the buffers one after the other from `position` on; answers their length."""

    def truncate(self, size: int) -> None:
        """Cut or extend (with zeros, without taking disk space) to `size` bytes."""

    def allocate(self, position: int, n: int) -> None:
        """Make sure that the disk has room for these bytes: a store to a mapping cannot report a full one."""

    def reserve(self, position: int, n: int) -> bool:
        """Set disk space aside for bytes to be written soon; the length stays. False if it cannot be.

        Writes into it are cheaper. What was not used goes back with the next `truncate`.
        """

    def write_back(self, position: int, n: int) -> None:
        """Have the disk begin with these bytes, so that a later `sync` waits less. Promises nothing."""

    def sync(self) -> None:
        """Wait until the bytes and the length are on the disk."""

    def map_readonly(self, size: int | None = None, *, ahead: bool = False) -> memoryview:
        """Its first `size` (all) bytes as memory, valid for as long as somebody holds the view.

        It outlives the file's close, rename and unlink, and truncations by this process: what they cut off is
        still seen. With `ahead` the size may be one that the file has yet to grow to; the view may then be
        shorter than asked, but not than the file. Touching what lies after the file's end, or what another
        process cut off, kills the process.
        """

    def map_writable(self, size: int | None = None) -> Mapping:
        """Its first `size` (all) bytes as writable memory."""

    def close(self) -> None:
        """Release the file; calling it again is harmless. Reads in other threads finish."""


class FileSystem(Protocol):
    """Names and what they lead to."""

    def list(self, path: StrPath) -> Sequence[DirEntry]:
        """The entries of a directory, in no order."""

    def stat(self, path: StrPath) -> FileStat:
        """Size, modification time and kind; FileNotFoundError if there is nothing."""

    def exists(self, path: StrPath) -> bool:
        """Whether the name leads to something."""

    def is_link(self, path: StrPath) -> bool:
        """Whether the name is a symbolic link, wherever that leads."""

    def set_mtime(self, path: StrPath, mtime_ms: int) -> None:
        """Set the time of last modification."""

    def make_directory(self, path: StrPath) -> None:
        """Make a directory; FileExistsError if the name is taken."""

    def open(self, path: StrPath, *, writable: bool = False, create: bool = False) -> File:
        """Open a file to read, or to read and write; `create` makes it (writable) if it is missing.

        What is no regular file is refused, and so is a symbolic link where the file is to be written.
        """

    def rename(self, source: StrPath, target: StrPath) -> None:
        """Atomically give a file or directory another name, replacing what had it."""

    def link(self, source: StrPath, target: StrPath) -> None:
        """Give a file a second name; FileExistsError if the name is taken."""

    def unlink(self, path: StrPath) -> None:
        """Take a name from a file; FileNotFoundError if there is none."""

    def remove_directory(self, path: StrPath) -> None:
        """Remove an empty directory."""

    def sync_directory(self, path: StrPath) -> None:
        """Wait until the directory's names are on the disk."""


def read_file(fs: FileSystem, path: StrPath, *, limit: int = LARGEST_READ) -> bytes:
    """All bytes of a file; InvalidIndexError if it has more than `limit`, which no such file has."""
    file = fs.open(path)
    try:
        size = file.size()
        if size > limit:
            raise InvalidIndexError(f"{os.fspath(path)} has {size} bytes: such a file has at most {limit}")
        return file.pread(size, 0)
    finally:
        file.close()


def map_file(fs: FileSystem, path: StrPath, *, limit: int | None = None) -> memoryview:
    """All bytes of a file as memory, see `File.map_readonly`; InvalidIndexError if it has over `limit`."""
    file = fs.open(path)
    try:
        if limit is not None and (size := file.size()) > limit:
            raise InvalidIndexError(f"{os.fspath(path)} has {size} bytes: such a file has at most {limit}")
        return file.map_readonly()
    finally:
        file.close()


def write_again(file: File) -> None:
    """Write a file's bytes again, so that the next `sync` brings them to the disk.

    After a sync that failed the system takes them for written, and a later one passes over them.
    """
    for position in range(0, file.size(), _CHUNK_BYTES):
        file.pwrite(file.pread(_CHUNK_BYTES, position), position)


def rename_noreplace(fs: FileSystem, source: StrPath, target: StrPath) -> None:
    """Give a file another name unless that name is taken (FileExistsError); a crash may leave both names."""
    fs.link(source, target)
    fs.unlink(source)


def make_directories(fs: FileSystem, path: StrPath) -> None:
    """Make a directory and those above it, durably, as far as they are not there; others may do it too."""
    directory = os.fspath(path)
    if fs.exists(directory):
        return
    above = parent(directory)
    if above != directory:
        make_directories(fs, above)
    with suppress(FileExistsError):
        fs.make_directory(directory)
    fs.sync_directory(above)


def is_path(value: object) -> TypeIs[str | os.PathLike[str]]:
    """Whether this is one path, rather than several of them."""
    return isinstance(value, (str, os.PathLike))


def os_error(code: int, path: StrPath) -> OSError:
    """The error that the system raises for a path, of the class that goes with its code."""
    return OSError(code, os.strerror(code), os.fspath(path))


def parent(path: StrPath) -> str:
    """The directory that holds `path`."""
    return os.path.dirname(os.fspath(path)) or "."
