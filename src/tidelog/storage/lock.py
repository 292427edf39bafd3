"""The lock on a root directory: one process at a time, Kafka's brokers included.

`<root>/.lock` is an empty file under a POSIX record lock on the whole of it, the kind that Java's FileLock
takes. Three properties of that kind shape this module:

1. It is lost as soon as *any* descriptor of the file in this process is closed. So there is one holder per
   process and root, known by the directory's device and inode; a second one is refused before it opens the
   file. Nothing else may open `.lock`.
2. It hangs on the inode, and a broker unlinks the file when it stops. After locking, the name must still lead
   to the locked file, else it is opened and locked again; `ensure` repeats that question later, because the
   unlinking comes after the broker's unlocking.
3. It does not pass to a child on fork: a child that opens the root finds it held by its parent, and what it
   inherited of the lock is of no use to it (`forks`).

The file stays when the lock is released: a waiting process must not end up with a deleted file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import threading
from typing import TYPE_CHECKING

from tidelog.errors import LogClosedError, LogLockedError
from tidelog.storage.forks import is_orphan, watch
from tidelog.storage.local import open_regular

if TYPE_CHECKING:
    from types import TracebackType

    from _typeshed import StrPath

__all__ = ["LOCK_FILE", "RootLock", "check_lock_file", "holder_of", "refusal"]

LOCK_FILE = ".lock"

_Inode = tuple[int, int]

_held: dict[_Inode, RootLock] = {}
_registry = threading.Lock()

# struct flock: type, whence, start, length, pid. Other systems order it differently; then no holder is told.
_FLOCK = struct.Struct("hhqqi4x") if sys.platform == "linux" else None


class RootLock:
    """The exclusive hold on a root directory, from its making to `release`."""

    __slots__ = ("__weakref__", "_descriptor", "_key", "_pid", "path")

    def __init__(self, root: StrPath) -> None:
        """Take the lock at once or raise LogLockedError, which names the holder where the system does."""
        self.path = os.path.join(os.fspath(root), LOCK_FILE)
        """The lock file."""
        self._key = _inode(os.stat(root))
        self._pid = os.getpid()
        with _registry:
            holder = _held.get(self._key)
            if holder is not None and holder._pid == self._pid:
                raise LogLockedError(
                    f"{os.fspath(root)} is already open in this process (process {self._pid}); "
                    "use that one, or close it first"
                )
            self._descriptor = _take(self.path)
            _held[self._key] = self
        watch(self)

    def ensure(self) -> None:
        """Make sure that the name still leads to the locked file, and lock the new file where it does not.

        LogLockedError says that another process has come in between: it owns the root now.
        """
        with _registry:
            if self._descriptor < 0:
                raise LogClosedError(f"the lock {self.path} has been released")
            if not _leads_to(self.path, self._descriptor):
                fresh = _take(self.path)
                os.close(self._descriptor)
                self._descriptor = fresh

    def release(self) -> None:
        """Release the root; calling it again is harmless, and so is a forked child's attempt."""
        if is_orphan(self):
            return
        with _registry:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
                if _held.get(self._key) is self:
                    del _held[self._key]

    def __enter__(self) -> RootLock:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go."""
        self.release()


def _forget_parents() -> None:
    """In a forked child: the locks are the parent's, and so is whoever was about to take one."""
    global _registry
    for lock in _held.values():
        os.close(object.__getattribute__(lock, "_descriptor"))
    _held.clear()
    _registry = threading.Lock()


os.register_at_fork(after_in_child=_forget_parents)


def holder_of(root: StrPath) -> int | None:
    """The process that holds the root's lock; None if nobody does, or it cannot be told (0: elsewhere)."""
    with _registry:
        try:
            holder = _held.get(_inode(os.stat(root)))
            if holder is not None:
                return holder._pid
            descriptor = open_regular(os.path.join(os.fspath(root), LOCK_FILE), os.O_RDONLY)
        except OSError:
            return None
        try:
            return _holder(descriptor)
        finally:
            os.close(descriptor)


def check_lock_file(root: StrPath) -> None:
    """Refuse what is in the place of the lock file and cannot be opened; a root held here is past that.

    Nobody here can take the lock meanwhile: closing the file would take it away again.
    """
    with _registry:
        try:
            if _inode(os.stat(root)) not in _held:
                os.close(open_regular(os.path.join(os.fspath(root), LOCK_FILE), os.O_RDONLY))
        except FileNotFoundError:
            return


def _take(path: str) -> int:
    """A descriptor of the locked file that `path` leads to."""
    while True:
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _leads_to(path, descriptor):
                return descriptor
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                os.close(descriptor)
                raise
            refused = refusal(os.path.dirname(path), _holder(descriptor))
            os.close(descriptor)
            raise refused from None
        os.close(descriptor)


def _leads_to(path: str, descriptor: int) -> bool:
    try:
        return _inode(os.stat(path)) == _inode(os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _inode(found: os.stat_result) -> _Inode:
    return found.st_dev, found.st_ino


def _holder(descriptor: int) -> int | None:
    """Who keeps us from locking this file; 0 is a process that this one cannot see."""
    if _FLOCK is None:
        return None
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else max(pid, 0)


def refusal(root: StrPath, pid: int | None) -> LogLockedError:
    """The error that says who holds a root, as far as `holder_of` knows."""
    who = f"process {pid}{_command(pid)}" if pid else "another process"
    path = os.path.join(os.fspath(root), LOCK_FILE)
    return LogLockedError(f"{os.fspath(root)} is in use by {who} (lock file {path}); stop it first")


def _command(pid: int) -> str:
    """How that process is called, where the system tells."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:
            return f" ({comm.read().strip()})"
    except OSError:
        return ""
