"""A partition's directory under whatever name it has now.

A log renames its directory while it is open (`-delete`, `-future`). Whatever opens files lazily keeps the
`Directory` and a file's bare name, and opens through it: opening and renaming exclude each other, so nobody
looks for a file under a name that the directory has just lost. Opens are rare (one per file);
reads take no lock.
"""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING

from tidelog.storage.files import File, FileSystem, parent
from tidelog.storage.local import LINK_REFUSED, LOCAL

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = ["Directory"]


class Directory:
    """A directory that may be renamed while its files are in use."""

    __slots__ = ("fs", "lock", "path")

    def __init__(self, path: StrPath, fs: FileSystem = LOCAL) -> None:
        self.fs = fs
        self.lock = threading.RLock()
        """Held while a name in here is looked up or changed."""
        self.path = os.fspath(path)
        """Its name now."""

    @classmethod
    def make(cls, path: StrPath, fs: FileSystem = LOCAL) -> Directory:
        """The directory at `path`, which is made where it is missing; OSError where that is a symbolic link.

        What would be written, cut or removed behind the link is not known to be ours.
        """
        if fs.is_link(path):
            raise OSError(errno.ELOOP, LINK_REFUSED, os.fspath(path))
        if not fs.exists(path):
            fs.make_directory(path)
        return cls(path, fs)

    def file(self, name: str) -> str:
        """The path of the file `name` in here; good only while `lock` is held, or for messages."""
        return f"{self.path}/{name}"

    def open(self, name: str, *, writable: bool = False, create: bool = False) -> File:
        """Open the file `name` in here."""
        with self.lock:
            return self.fs.open(self.file(name), writable=writable, create=create)

    def exists(self, name: str) -> bool:
        """Whether there is a `name` in here."""
        with self.lock:
            return self.fs.exists(self.file(name))

    def rename(self, source: str, target: str) -> None:
        """Give the file `source` in here the name `target`, replacing what had it."""
        with self.lock:
            self.fs.rename(self.file(source), self.file(target))

    def unlink(self, name: str) -> bool:
        """Remove the file `name` in here; False where there was none."""
        with self.lock:
            try:
                self.fs.unlink(self.file(name))
            except FileNotFoundError:
                return False
            return True

    def sync(self) -> None:
        """Return when the names in here are on the disk."""
        with self.lock:
            self.fs.sync_directory(self.path)

    def move(self, path: StrPath) -> None:
        """Rename the directory itself, durably."""
        target = os.fspath(path)
        with self.lock:
            source = self.path
            self.fs.rename(source, target)
            self.path = target
            self.fs.sync_directory(parent(target))
            if parent(source) != parent(target):
                self.fs.sync_directory(parent(source))
