"""Directories to read from, local or remote, without opening them for anything else.

Files are read in windows, never mapped: another process may be writing the directory, and a mapped file that
it makes shorter would kill whoever touches the bytes that are gone. Local and remote files look the same from
above: `read(position, n)` answers the bytes there, fewer only where the file ends.
"""

from __future__ import annotations

import contextlib
import errno
import uuid
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import unquote

from tidelog.errors import TidelogError
from tidelog.storage import LOCAL, FileReader, read_file
from tidelog.storage.metadata import read_partition_metadata
from tidelog.storage.names import PARTITION_METADATA_FILE
from tidelog.storage.remote import RemoteDirectory, open_ro

__all__ = ["FileView", "LocalVolume", "RemoteVolume", "Volume", "local_path", "open_volume", "read_topic_id"]


class FileView(Protocol):
    """One file's bytes, to be read by one thread."""

    @property
    def size(self) -> int:
        """Its length when it was opened."""

    @property
    def changed_ns(self) -> int:
        """When it had been changed last when it was opened; 0 where that is not known."""

    @property
    def window_bytes(self) -> int:
        """How many bytes to ask for at a time when all of it is read."""

    def read(self, position: int, n: int) -> memoryview:
        """The `n` bytes from `position` on, fewer where the file ends. Good until the next read."""

    def has_changed(self) -> bool:
        """Whether it has been changed since it was opened, as far as that can be known."""


class Volume(Protocol):
    """A directory to read from; names are those in it."""

    url: str

    def names(self) -> list[tuple[str, bool]]:
        """What it holds: (name, is a directory), by name."""

    def size(self, name: str) -> int:
        """A file's length in bytes."""

    def view(self, name: str) -> FileView:
        """A file, to read parts of."""

    def content(self, name: str) -> bytes:
        """A small file, whole."""


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

    def view(self, name: str) -> FileView:
        """A file, to read parts of."""
        return FileReader.open(LOCAL, f"{self.url}/{name}")

    def content(self, name: str) -> bytes:
        """A small file, whole."""
        return read_file(LOCAL, f"{self.url}/{name}")


class _RemoteFile:
    def __init__(self, directory: RemoteDirectory, name: str, size: int) -> None:
        self._directory = directory
        self._name = name
        self.size = size
        self.changed_ns = 0
        self.window_bytes = 8 << 20

    def read(self, position: int, n: int) -> memoryview:
        return memoryview(self._directory.read_range(self._name, position, min(n, self.size - position)))

    def has_changed(self) -> bool:
        return False


class RemoteVolume:
    """A directory behind an fsspec URL."""

    def __init__(self, url: str, listed: Mapping[str, int] | None = None) -> None:
        """`listed` has the sizes of its files, where they were listed with those of others."""
        self.url = url
        self._directory = open_ro(url)
        self._listed = listed

    def names(self) -> list[tuple[str, bool]]:
        """What it holds."""
        if self._listed is not None:
            return sorted((name, False) for name in self._listed)
        return sorted((entry.name, entry.is_directory) for entry in self._directory.list())

    def tree(self) -> dict[str, dict[str, int]]:
        """The files below, by their directory: names and sizes."""
        return self._directory.tree()

    def size(self, name: str) -> int:
        """A file's length; when it was listed, if it was. What was not listed then is not asked for."""
        if self._listed is None:
            return self._directory.size(name)
        if name not in self._listed:
            raise FileNotFoundError(errno.ENOENT, "it was not listed", f"{self.url}/{name}")
        return self._listed[name]

    def view(self, name: str) -> FileView:
        """A file, to be read in ranges."""
        return _RemoteFile(self._directory, name, self.size(name))

    def content(self, name: str) -> bytes:
        """A small file, whole."""
        return self._directory.read_range(name, 0, self.size(name))


def open_volume(url: str, listed: Mapping[str, int] | None = None) -> Volume:
    """The directory at a path or an fsspec URL; `listed` as of `RemoteVolume`."""
    return RemoteVolume(url, listed) if "://" in url else LocalVolume(url)


def read_topic_id(volume: Volume) -> uuid.UUID | None:
    """The id of the topic that a local directory is a partition of; None if it is not known."""
    if "://" in volume.url:
        return None
    with contextlib.suppress(OSError, TidelogError):
        return read_partition_metadata(LOCAL, f"{volume.url}/{PARTITION_METADATA_FILE}").topic_id
    return None


def local_path(url: str) -> str:
    """A `file:` URL as the local path it means; anything else as it is."""
    if not url.startswith("file:"):
        return url
    rest = url.removeprefix("file:")
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        rest = slash + path if host in ("", "localhost") else rest
    return unquote(rest)
