"""Where an export's files are: a directory of this machine (or a mount), or a prefix in an object store.

Names are relative to the place, with `/`. What a place promises:

    write     the file is whole or not there; durable when it returns
    create    likewise, and FileExistsError where the name is taken
    sink      a stream; the file is whole and durable after `finish`, and may be half there before
    move      under its new name whole, then gone under the old; FileNotFoundError where there is none

A directory renames, and one process at a time holds it by a lock. An object store has neither: there `move`
is a copy made by the store, and who comes first is decided by `create` alone. A store that knows no
conditional writes (its fsspec class says so: `pipe_file` takes no `mode`) is looked at before it is written.
"""

from __future__ import annotations

import contextlib
import inspect
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.scanning.volumes import local_path
from tidelog.storage import LOCAL, atomic_create, atomic_write, make_directories, read_file
from tidelog.storage.lock import RootLock
from tidelog.storage.remote import file_system
from tidelog.storage.removal import remove_tree

__all__ = ["DirectoryPlace", "ObjectPlace", "Place", "open_place"]

_SINK_BYTES = 8 << 20
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci"})
"""They have no directories; asked for some, they would make buckets."""


class Place(Protocol):
    """What an export needs of the place it writes to."""

    url: str
    exclusive: bool
    """Whether `hold` keeps other runs away."""

    def hold(self) -> None:
        """Take the place for this run; LogLockedError if another has it."""

    def release(self) -> None:
        """Let go; calling it again is harmless."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""

    def names(self, directory: str) -> list[str]:
        """The names in a directory, in order; none where it is not there."""

    def read(self, name: str) -> bytes:
        """A small file, whole."""

    def write(self, name: str, data: bytes) -> None:
        """Make or replace a small file."""

    def create(self, name: str, data: bytes) -> None:
        """Make a small file; FileExistsError where there is one."""

    def sink(self, name: str) -> Any:
        """A stream to write a file to."""

    def hasten(self, name: str) -> None:
        """Make durable what is written of a file so far, so that `finish` has less to wait for."""

    def finish(self, name: str) -> int:
        """Make a file durable whose stream was closed; its size."""

    def move(self, source: str, target: str) -> None:
        """Give a file another name."""

    def settle(self, directories: set[str]) -> None:
        """Wait until the names in these directories are durable."""

    def remove(self, directory: str) -> None:
        """Remove a directory and all that is in it, as far as that is possible."""


class DirectoryPlace:
    """A directory; `lock` is where the lock is kept."""

    exclusive = True

    def __init__(self, path: Path, lock: str) -> None:
        self.url = str(path)
        self.path = path
        self._lock_path = path / lock
        self._lock: RootLock | None = None

    def hold(self) -> None:
        """Take the lock."""
        make_directories(LOCAL, self._lock_path)
        self._lock = RootLock(self._lock_path)

    def release(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return LOCAL.exists(self.path / name)

    def names(self, directory: str) -> list[str]:
        """The names in a directory."""
        path = self.path / directory
        return sorted(entry.name for entry in LOCAL.list(path)) if LOCAL.exists(path) else []

    def read(self, name: str) -> bytes:
        """A small file, whole."""
        return read_file(LOCAL, self.path / name)

    def write(self, name: str, data: bytes) -> None:
        """Make or replace a small file."""
        make_directories(LOCAL, (self.path / name).parent)
        atomic_write(LOCAL, self.path / name, data)

    def create(self, name: str, data: bytes) -> None:
        """Make a small file."""
        make_directories(LOCAL, (self.path / name).parent)
        atomic_create(LOCAL, self.path / name, data)

    def sink(self, name: str) -> Any:
        """A stream to write a file to."""
        make_directories(LOCAL, (self.path / name).parent)
        return pa.OSFile(str(self.path / name), "wb")

    def hasten(self, name: str) -> None:
        """Bring what is written of a file to the disk."""
        self.finish(name)

    def finish(self, name: str) -> int:
        """Bring a file to the disk; its size."""
        handle = LOCAL.open(self.path / name)
        try:
            handle.sync()
            return handle.size()
        finally:
            handle.close()

    def move(self, source: str, target: str) -> None:
        """Rename."""
        make_directories(LOCAL, (self.path / target).parent)
        LOCAL.rename(self.path / source, self.path / target)

    def settle(self, directories: set[str]) -> None:
        """Bring directories to the disk."""
        for directory in sorted(directories):
            LOCAL.sync_directory(self.path / directory)

    def remove(self, directory: str) -> None:
        """Remove a directory. A task of a dead run may still be writing: what is left then goes later."""
        with contextlib.suppress(OSError):
            remove_tree(LOCAL, str(self.path / directory))


class ObjectPlace:
    """A prefix behind an fsspec URL."""

    exclusive = False

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._fs, root = file_system(self.url, {})
        self._root = root.rstrip("/")
        kind = type(self._fs)
        write = kind._pipe_file if self._fs.async_impl else kind.pipe_file
        self._can_create = "mode" in inspect.signature(write).parameters
        protocols = kind.protocol if isinstance(kind.protocol, tuple) else (kind.protocol,)
        self._has_directories = _OBJECT_STORES.isdisjoint(protocols)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def hold(self) -> None:
        """Nothing to hold on to: `create` decides."""

    def release(self) -> None:
        """Nothing was held."""

    def exists(self, name: str) -> bool:
        """Whether there is such an object."""
        self._fs.invalidate_cache()
        return bool(self._fs.exists(self._path(name)))

    def names(self, directory: str) -> list[str]:
        """The names below a prefix."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(self._path(directory), detail=False)
        except FileNotFoundError:
            return []
        own = self._path(directory).strip("/")
        return sorted(name.rstrip("/").rpartition("/")[2] for name in found if name.strip("/") != own)

    def read(self, name: str) -> bytes:
        """A small object, whole."""
        data: bytes = self._fs.cat_file(self._path(name))
        return data

    def write(self, name: str, data: bytes) -> None:
        """Put an object."""
        self._make_parent(name)
        self._fs.pipe_file(self._path(name), data)

    def create(self, name: str, data: bytes) -> None:
        """Put an object on the condition that there is none, where the store knows such."""
        self._make_parent(name)
        if self.exists(name):
            raise FileExistsError(f"{self.url}/{name}")
        if self._can_create:
            self._fs.pipe_file(self._path(name), data, mode="create")
        else:
            self._fs.pipe_file(self._path(name), data)

    def sink(self, name: str) -> Any:
        """An upload; the object is there when it is closed."""
        self._make_parent(name)
        return self._fs.open(self._path(name), "wb", block_size=_SINK_BYTES)

    def hasten(self, name: str) -> None:
        """Parts are uploaded as they are written."""

    def finish(self, name: str) -> int:
        """The size of an uploaded object."""
        self._fs.invalidate_cache()
        return int(self._fs.size(self._path(name)))

    def move(self, source: str, target: str) -> None:
        """Have the store copy, then delete."""
        self._make_parent(target)
        self._fs.cp_file(self._path(source), self._path(target))
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(source))

    def settle(self, directories: set[str]) -> None:
        """Objects are durable at once."""

    def remove(self, directory: str) -> None:
        """Delete what lies below a prefix."""
        self._fs.invalidate_cache()
        with contextlib.suppress(OSError):
            self._fs.rm(self._path(directory), recursive=True)

    def _make_parent(self, name: str) -> None:
        """Directories, where the file system has such; a bucket must be there already."""
        if self._has_directories:
            self._fs.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)


def open_place(target: str | Path, lock: str) -> Place:
    """The place at a path or an fsspec URL."""
    text = local_path(str(target))
    if "://" in text:
        return ObjectPlace(text)
    path = Path(text).absolute()
    if path.exists() and not path.is_dir():
        raise InvalidInputError(f"{path} is not a directory")
    return DirectoryPlace(path, lock)
