"""Directories to read from, local or remote, without opening them for anything else.

A local log is mapped, so a read costs nothing until its bytes are touched; a remote one is read in large
ranges. Both look the same from above: `read(position, n)` answers the bytes there, fewer only where the
file ends.

Another process may be writing the directory. A mapped file that it makes shorter would kill whoever touches
the bytes that are gone, so what may become shorter is read, not mapped: all that is no log (the indexes of an
active segment are trimmed when it rolls), and the end of a log that was written to in the last minute.
"""

from __future__ import annotations

import time
from typing import Protocol
from urllib.parse import unquote

from tidelog.storage import LOCAL, map_file, read_file
from tidelog.storage.remote import RemoteDirectory, open_ro

__all__ = ["FileView", "LocalVolume", "RemoteVolume", "Volume", "local_path", "open_volume"]


class FileView(Protocol):
    """One file's bytes."""

    size: int
    window: int
    """How many bytes to ask for at a time."""

    def read(self, position: int, n: int) -> memoryview:
        """The `n` bytes from `position` on."""


class Volume(Protocol):
    """A directory to read from; names are those in it."""

    url: str

    def names(self) -> list[tuple[str, bool]]:
        """What it holds: (name, is a directory), by name."""

    def size(self, name: str) -> int:
        """A file's length in bytes."""

    def view(self, name: str, *, may_shrink: bool = False) -> FileView:
        """A file, to read parts of; another process that is writing it `may_shrink` it."""

    def content(self, name: str) -> bytes:
        """A small file, whole."""


_SETTLED_S = 60


class _ReadFile:
    def __init__(self, path: str) -> None:
        self._file = LOCAL.open(path)
        self.size = self._file.size()
        self.window = 8 << 20

    def read(self, position: int, n: int) -> memoryview:
        return memoryview(self._file.pread(min(n, self.size - position), position))


class _MappedFile:
    def __init__(self, path: str) -> None:
        self._data = map_file(LOCAL, path)
        self.size = len(self._data)
        self.window = 1 << 30

    def read(self, position: int, n: int) -> memoryview:
        return self._data[position : position + n]


def _is_new(path: str) -> bool:
    return time.time() - LOCAL.stat(path).mtime_ms / 1000 < _SETTLED_S


class LocalVolume:
    """A directory of this machine."""

    def __init__(self, path: str) -> None:
        self.url = path

    def names(self) -> list[tuple[str, bool]]:
        """What it holds."""
        return sorted((entry.name, entry.is_directory) for entry in LOCAL.list(self.url))

    def size(self, name: str) -> int:
        """A file's length."""
        return LOCAL.stat(f"{self.url}/{name}").size

    def view(self, name: str, *, may_shrink: bool = False) -> FileView:
        """A file, mapped if it will stay as long as it is."""
        path = f"{self.url}/{name}"
        if name.endswith(".log") and not (may_shrink and _is_new(path)):
            return _MappedFile(path)
        return _ReadFile(path)

    def content(self, name: str) -> bytes:
        """A small file, whole."""
        return read_file(LOCAL, f"{self.url}/{name}")


class _RemoteFile:
    def __init__(self, directory: RemoteDirectory, name: str) -> None:
        self._directory = directory
        self._name = name
        self.size = directory.size(name)
        self.window = 8 << 20

    def read(self, position: int, n: int) -> memoryview:
        return memoryview(self._directory.read_range(self._name, position, min(n, self.size - position)))


class RemoteVolume:
    """A directory behind an fsspec URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._directory = open_ro(url)

    def names(self) -> list[tuple[str, bool]]:
        """What it holds."""
        return sorted((entry.name, entry.is_directory) for entry in self._directory.list())

    def size(self, name: str) -> int:
        """A file's length."""
        return self._directory.size(name)

    def view(self, name: str, *, may_shrink: bool = False) -> FileView:
        """A file, to be read in ranges."""
        return _RemoteFile(self._directory, name)

    def content(self, name: str) -> bytes:
        """A small file, whole."""
        return self._directory.read_range(name, 0, self._directory.size(name))


def open_volume(url: str) -> Volume:
    """The directory at a path or an fsspec URL."""
    return RemoteVolume(url) if "://" in url else LocalVolume(url)


def local_path(url: str) -> str:
    """A `file:` URL as the local path it means; anything else as it is."""
    if not url.startswith("file:"):
        return url
    rest = url.removeprefix("file:")
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        rest = slash + path if host in ("", "localhost") else rest
    return unquote(rest)
