"""Replace a small file atomically.

1. write `<path>.tmp` (what a crash left there is overwritten);  2. fsync it;  3. rename it over `<path>`;
4. fsync the directory. A crash before 3 leaves the old file, after 3 the old or the new one, never a mixture.
`atomic_create` links in step 3, which fails where the name is taken.

Threads that replace the same file take turns: each replacement is complete, and the last one stays. A caller
who needs a certain order holds a lock of its own around computing and writing.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from tidelog.storage.files import FileSystem, parent, rename_noreplace

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrPath

__all__ = ["atomic_create", "atomic_write"]


class _Turns:
    """A lock for each file that is being replaced, for as long as somebody wants it."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Start again: after a fork, a thread that held a lock is not there to let go of it."""
        self._guard = threading.Lock()
        self._users: dict[str, int] = {}
        self._locks: dict[str, threading.Lock] = {}

    @contextmanager
    def of(self, path: str) -> Iterator[None]:
        name = os.path.abspath(path)
        with self._guard:
            lock = self._locks.setdefault(name, threading.Lock())
            self._users[name] = self._users.get(name, 0) + 1
        try:
            with lock:
                yield
        finally:
            with self._guard:
                self._users[name] -= 1
                if not self._users[name]:
                    del self._users[name], self._locks[name]


_turns = _Turns()
os.register_at_fork(after_in_child=_turns.renew)


def atomic_write(
    fs: FileSystem,
    path: StrPath,
    data: ReadableBuffer,
    *,
    sync_directory: bool = True,
    temporary: str | None = None,
    syncing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Make `path` a file that holds `data`, durably.

    With `sync_directory=False` step 4 is left to the caller, who replaces several files of a directory.
    `temporary` is another name for step 1, for callers who may be several. Steps 2 and 4 are done within
    `syncing`, for callers who must know that a sync has failed.
    """
    target = os.fspath(path)
    temporary = temporary or f"{target}.tmp"
    with _turns.of(target):
        _write(fs, temporary, data, syncing)
        fs.rename(temporary, target)
        if sync_directory:
            with syncing():
                fs.sync_directory(parent(target))


def atomic_create(fs: FileSystem, path: StrPath, data: ReadableBuffer) -> None:
    """Make `path` a file that holds `data`, durably; FileExistsError where there is one.

    Of several who try at the same time one succeeds. A crash may leave `.<name>.<32 hex>`.
    """
    target = os.fspath(path)
    prepared = os.path.join(parent(target), f".{os.path.basename(target)}.{uuid.uuid4().hex}")
    _write(fs, prepared, data)
    try:
        rename_noreplace(fs, prepared, target)
    except FileExistsError:
        fs.unlink(prepared)
        raise
    fs.sync_directory(parent(target))


def _write(
    fs: FileSystem,
    path: str,
    data: ReadableBuffer,
    syncing: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """A file that holds `data`, on the disk; its name need not be."""
    file = fs.open(path, create=True)
    try:
        file.truncate(0)
        file.pwrite(data, 0)
        with syncing():
            file.sync()
    finally:
        file.close()
