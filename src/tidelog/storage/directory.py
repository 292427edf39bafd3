"""A partition's directory under whatever name it has now.

A log renames its directory while it is open (`-delete`, `-future`). Whatever opens files lazily keeps the
`Directory` and a file's bare name, and opens through it: opening and renaming exclude each other, so nobody
looks for a file under a name that the directory has just lost. Opens are rare (one per file);
reads take no lock.

Durability. The directory knows whether its names have changed since they were last on the disk (`is_synced`),
and whether a sync has ever failed in it (`failure`). A kernel drops the pages that it could not write and
reports that once; the next sync of the same file succeeds without them. So every sync of a file in here goes
through the directory, and after one has failed, all later ones fail too. A file `tidelog-sync-failed` tells
whoever opens the directory next, on the same system: what it reads there may be in the system's memory alone,
which takes it for written. A full disk may have no room for that file. Then the last segment's offset index
is removed, which needs no room: a last segment without one says the same (`tells_failed_sync`), and recovery
rebuilds it anyway. After a power cut neither the memory nor the mark need be there.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tidelog.errors import InvalidInputError
from tidelog.storage.atomic import atomic_write
from tidelog.storage.files import File, FileSystem, parent
from tidelog.storage.local import LINK_REFUSED, LOCAL
from tidelog.storage.names import (
    META_PROPERTIES_FILE,
    SYNC_FAILED_FILE,
    FileKind,
    SegmentFileName,
    format_segment_file,
    parse_partition_directory,
    parse_segment_file,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from _typeshed import ReadableBuffer, StrPath

__all__ = ["Directory", "is_partition", "tells_failed_sync"]


class Directory:
    """A directory that may be renamed while its files are in use."""

    __slots__ = ("_changes", "_is_new", "_synced", "failure", "fs", "lock", "path")

    def __init__(self, path: StrPath, fs: FileSystem = LOCAL) -> None:
        self.fs = fs
        self.lock = threading.RLock()
        """Held while a name in here is looked up or changed."""
        self.path = os.fspath(path)
        """Its name now."""
        self.failure: OSError | None = None
        """The first sync in here that failed."""
        self._changes = self._synced = 0
        self._is_new = False

    @classmethod
    def make(cls, path: StrPath, fs: FileSystem = LOCAL, *, synced: bool = True) -> Directory:
        """The directory at `path`, which is made if it is missing; OSError if that is a symbolic link.

        The first `sync` brings the name of a new one to the disk, too. Without `synced` an old one is taken
        for as new: whoever made its names may have been killed before they were synced.
        What would be written, cut or removed behind the link is not known to be ours.
        """
        if fs.is_link(path):
            raise OSError(errno.ELOOP, LINK_REFUSED, os.fspath(path))
        directory = cls(path, fs)
        if not fs.exists(path):
            fs.make_directory(path)
            synced = False
        if not synced:
            directory._is_new = True
            directory._changes = 1
        return directory

    def file(self, name: str) -> str:
        """The path of the file `name` in here; good only while `lock` is held, or for messages."""
        return f"{self.path}/{name}"

    def open(self, name: str, *, writable: bool = False, create: bool = False) -> File:
        """Open the file `name` in here."""
        with self.lock:
            if create:
                self._changes += 1
            return self.fs.open(self.file(name), writable=writable, create=create)

    def exists(self, name: str) -> bool:
        """Whether there is a `name` in here."""
        with self.lock:
            return self.fs.exists(self.file(name))

    def rename(self, source: str, target: str) -> None:
        """Give the file `source` in here the name `target`, replacing what had it."""
        with self.lock:
            self._changes += 1
            self.fs.rename(self.file(source), self.file(target))

    def unlink(self, name: str) -> bool:
        """Remove the file `name` in here; False if there was none."""
        with self.lock:
            try:
                self.fs.unlink(self.file(name))
            except FileNotFoundError:
                return False
            self._changes += 1
            return True

    @property
    def is_synced(self) -> bool:
        """Whether the names are on the disk, as far as they were made, changed or removed by this object.

        Those that were there before are, unless it was made without `synced`.
        """
        return self._changes == self._synced

    @contextmanager
    def syncing(self) -> Iterator[None]:
        """Around a sync of something in here: one that fails makes all later ones fail."""
        before = self.failure
        if before is not None:
            raise OSError(
                before.errno or errno.EIO,
                f"an earlier sync failed ({before.strerror or before}): what is on the disk is not known",
                self.path,
            ) from before
        try:
            yield
        except OSError as error:
            self.failure = self.failure or error
            self._mark_failed_sync()
            raise

    def _mark_failed_sync(self) -> None:
        with self.lock, suppress(OSError):
            try:
                self.fs.open(self.file(SYNC_FAILED_FILE), create=True).close()
            except OSError:
                last = _last_log(entry.name for entry in self.fs.list(self.path))
                if last >= 0:
                    self.fs.unlink(self.file(format_segment_file(last, FileKind.OFFSET_INDEX)))

    def sync(self) -> None:
        """Wait until the names in here are on the disk."""
        with self.lock, self.syncing():
            changes = self._changes
            self.fs.sync_directory(self.path)
            if self._is_new:
                self.fs.sync_directory(parent(self.path))
                self._is_new = False
            self._synced = changes

    def sync_file(self, file: File) -> None:
        """Wait until the bytes of an open file in here are on the disk."""
        with self.syncing():
            file.sync()

    def replace(self, name: str, data: ReadableBuffer) -> None:
        """Make the file `name` in here hold `data`, durably: completely or not at all (`atomic`)."""
        with self.lock:
            atomic_write(self.fs, self.file(name), data, syncing=self.syncing)

    def move(self, path: StrPath) -> None:
        """Rename the directory itself, durably."""
        target = os.fspath(path)
        with self.lock:
            source = self.path
            self.fs.rename(source, target)
            self.path = target
            with self.syncing():
                self.fs.sync_directory(parent(target))
                if parent(source) != parent(target):
                    self.fs.sync_directory(parent(source))


def tells_failed_sync(names: Collection[str]) -> bool:
    """Whether the names in a partition's directory say that a sync has failed in it."""
    last = _last_log(names)
    return SYNC_FAILED_FILE in names or (
        last >= 0 and format_segment_file(last, FileKind.OFFSET_INDEX) not in names
    )


def _last_log(names: Iterable[str]) -> int:
    """The base offset of the last segment; -1 if there is none."""
    parsed = filter(None, map(parse_segment_file, names))
    logs = (file for file in parsed if file == SegmentFileName(file.offset, FileKind.LOG))
    return max((file.offset for file in logs), default=-1)


def is_partition(fs: FileSystem, path: str) -> bool:
    """Whether a directory is a partition's rather than a root: by its name, and by what is in it."""
    try:
        parse_partition_directory(path.rstrip("/").rpartition("/")[2])
    except InvalidInputError:
        return False
    return not fs.exists(f"{path}/{META_PROPERTIES_FILE}")
