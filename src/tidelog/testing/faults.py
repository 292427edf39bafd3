"""A file system over another one that refuses, or does half of, what it is asked.

    fs = FaultyFileSystem(LOCAL, fail_at(17, errno.EIO))                # the 17th change, then all is well
    fs = FaultyFileSystem(LOCAL, fail_at(17, errno.EIO, times=None))    # the 17th and all after it
    fs = FaultyFileSystem(LOCAL, disk_full(1 << 20))                    # no room after one mebibyte
    fs = FaultyFileSystem(LOCAL, read_only())

A rule is a function of the `Call` that is about to be made; it answers the `Fault` to make of it, or None.
Calls are counted from 1. Stores to a mapping are no calls, and never fail here. A `sync` or `flush` that is
refused drops what it was to write where the file system below can do that (`crash`).
"""

from __future__ import annotations

import errno
import fnmatch
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.storage.files import DirEntry, File, FileStat, FileState, FileSystem, Mapping, os_error

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrPath

__all__ = ["Call", "Fault", "FaultyFileSystem", "Rule", "disk_full", "fail_at", "fail_on", "read_only"]

_NAMES = ("make_directory", "create", "rename", "link", "unlink", "remove_directory", "sync_directory")
_BYTES = ("pwrite", "truncate", "allocate", "reserve", "sync", "flush", "set_mtime")
CHANGES = frozenset(_NAMES + _BYTES)
"""The calls that change what is on the disk or bring it there."""


class Call(NamedTuple):
    """A call that is about to be made; `create` is an `open` that makes the file, `length` the file's own."""

    number: int
    operation: str
    path: str
    position: int = 0
    size: int = 0
    length: int = 0


class Fault(NamedTuple):
    """The error to raise; of a write, `written` bytes get through first."""

    code: int
    written: int = 0


Rule = Callable[[Call], Fault | None]


def fail_at(number: int, code: int, *, times: int | None = 1, written: int = 0) -> Rule:
    """Fail `times` (None: all) calls from the `number`th on that change anything; others pass uncounted."""
    count = itertools.count(1)

    def rule(call: Call) -> Fault | None:
        if call.operation not in CHANGES:
            return None
        here = next(count)
        late = times is not None and here >= number + times
        return None if here < number or late else Fault(code, written)

    return rule


def fail_on(operation: str, name: str, code: int, *, times: int | None = None, written: int = 0) -> Rule:
    """Fail `times` (None: all) calls of an operation (or "*") on files whose bare name fits a pattern."""
    count = itertools.count()

    def rule(call: Call) -> Fault | None:
        if operation not in ("*", call.operation) or not fnmatch.fnmatch(call.path.rpartition("/")[2], name):
            return None
        return Fault(code, written) if times is None or next(count) < times else None

    return rule


def disk_full(room: int) -> Rule:
    """No more than `room` bytes of files may grow; a write over the limit is cut short, as a disk does it."""
    left = room

    def rule(call: Call) -> Fault | None:
        nonlocal left
        if call.operation not in ("pwrite", "allocate"):
            return None
        growth = max(call.position + call.size - call.length, 0)
        if growth > left:
            fits = max(call.size - (growth - left), 0)
            left = 0
            return Fault(errno.ENOSPC, fits)
        left -= growth
        return None

    return rule


def read_only() -> Rule:
    """Nothing may be changed."""

    def rule(call: Call) -> Fault | None:
        return Fault(errno.EROFS) if call.operation in CHANGES | {"open_writable"} else None

    return rule


class FaultyFileSystem:
    """Another file system, asked first what a rule says."""

    def __init__(self, inner: FileSystem, rule: Rule) -> None:
        self.inner = inner
        """The file system that does the work."""
        self.rule = rule
        """What fails; may be replaced at any time."""
        self.calls = 0
        """How many calls there have been."""
        self.faults = 0
        """How many of them failed."""
        self.interrupt: Callable[[str], None] | None = None
        """Called with each operation's name before it; whatever it does happens in between."""
        self._lock = threading.RLock()  # a rule may use the file system itself

    def before(
        self, operation: str, path: StrPath, position: int = 0, size: int = 0, length: int = 0
    ) -> Fault | None:
        """Count a call and ask the rule about it."""
        if self.interrupt is not None:
            self.interrupt(operation)
        with self._lock:
            self.calls += 1
            fault = self.rule(Call(self.calls, operation, str(path), position, size, length))
            self.faults += fault is not None
            return fault

    def check(
        self,
        operation: str,
        path: StrPath,
        position: int = 0,
        size: int = 0,
        length: int = 0,
        dropping: Callable[[], None] | None = None,
    ) -> None:
        """Count a call, and raise what the rule makes of it; a sync that fails is `dropping` its pages."""
        fault = self.before(operation, path, position, size, length)
        if fault is not None:
            if dropping is not None:
                dropping()
            raise os_error(fault.code, path)

    def list(self, path: StrPath) -> Sequence[DirEntry]:
        """The entries of a directory, in no order."""
        self.check("list", path)
        return self.inner.list(path)

    def stat(self, path: StrPath) -> FileStat:
        """Size, modification time and kind."""
        self.check("stat", path)
        return self.inner.stat(path)

    def exists(self, path: StrPath) -> bool:
        """Whether the name leads to something; never fails."""
        return self.inner.exists(path)

    def is_link(self, path: StrPath) -> bool:
        """Whether the name is a symbolic link; never fails."""
        return self.inner.is_link(path)

    def set_mtime(self, path: StrPath, mtime_ms: int) -> None:
        """Set the time of last modification."""
        self.check("set_mtime", path)
        self.inner.set_mtime(path, mtime_ms)

    def make_directory(self, path: StrPath) -> None:
        """Make a directory."""
        self.check("make_directory", path)
        self.inner.make_directory(path)

    def open(self, path: StrPath, *, writable: bool = False, create: bool = False) -> FaultyFile:
        """Open a file to read, or to read and write."""
        if create and not self.inner.exists(path):
            operation = "create"
        else:
            operation = "open_writable" if writable or create else "open"
        self.check(operation, path)
        return FaultyFile(self, self.inner.open(path, writable=writable, create=create))

    def rename(self, source: StrPath, target: StrPath) -> None:
        """Atomically give a file or directory another name."""
        self.check("rename", source)
        self.inner.rename(source, target)

    def link(self, source: StrPath, target: StrPath) -> None:
        """Give a file a second name."""
        self.check("link", source)
        self.inner.link(source, target)

    def unlink(self, path: StrPath) -> None:
        """Take a name from a file."""
        self.check("unlink", path)
        self.inner.unlink(path)

    def remove_directory(self, path: StrPath) -> None:
        """Remove an empty directory."""
        self.check("remove_directory", path)
        self.inner.remove_directory(path)

    def sync_directory(self, path: StrPath) -> None:
        """Wait until the directory's names are on the disk."""
        self.check("sync_directory", path)
        self.inner.sync_directory(path)


class FaultyFile:
    """An open file of a faulty file system."""

    __slots__ = ("_fs", "_inner", "path")

    def __init__(self, fs: FaultyFileSystem, inner: File) -> None:
        self._fs = fs
        self._inner = inner
        self.path = inner.path
        """The name it was opened under."""

    def size(self) -> int:
        """Its length in bytes, now."""
        return self._inner.size()

    def state(self) -> FileState:
        """Which file it is, how long, and when it was changed last."""
        return self._inner.state()

    def pread(self, n: int, position: int) -> bytes:
        """The `n` bytes from `position` on; fewer only where the file ends."""
        self._fs.check("pread", self.path, position, n)
        return self._inner.pread(n, position)

    def pread_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` with the bytes from `position` on; fewer only where the file ends."""
        self._fs.check("pread", self.path, position, len(buffer))
        return self._inner.pread_into(buffer, position)

    def pwrite(self, data: ReadableBuffer, position: int) -> int:
        """Write all of `data` at `position`, or as much as the fault lets through."""
        return self.pwritev([data], position)

    def pwritev(self, buffers: Sequence[ReadableBuffer], position: int) -> int:
        """Write all of the buffers from `position` on, or as much as the fault lets through."""
        size = sum(memoryview(buffer).nbytes for buffer in buffers)
        fault = self._fs.before("pwrite", self.path, position, size, self._inner.size())
        if fault is None:
            return self._inner.pwritev(buffers, position)
        if fault.written > 0:
            self._inner.pwrite(b"".join(bytes(buffer) for buffer in buffers)[: fault.written], position)
        raise os_error(fault.code, self.path)

    def truncate(self, size: int) -> None:
        """Cut or extend to `size` bytes."""
        self._fs.check("truncate", self.path, size)
        self._inner.truncate(size)

    def allocate(self, position: int, n: int) -> None:
        """Make sure that the disk has room for these bytes."""
        self._fs.check("allocate", self.path, position, n, self._inner.size())
        self._inner.allocate(position, n)

    def reserve(self, position: int, n: int) -> bool:
        """Set disk space aside; False if there is none: it is the writes that report a full disk."""
        if self._fs.before("reserve", self.path, position, n, self._inner.size()) is not None:
            return False
        return self._inner.reserve(position, n)

    def write_back(self, position: int, n: int) -> None:
        """Have the disk begin with these bytes; that cannot fail."""
        self._inner.write_back(position, n)

    def sync(self) -> None:
        """Wait until the bytes and the length are on the disk."""
        self._fs.check("sync", self.path, dropping=getattr(self._inner, "fail_sync", None))
        self._inner.sync()

    def map_readonly(self, size: int | None = None, *, ahead: bool = False) -> memoryview:
        """Its first `size` (all) bytes as memory."""
        self._fs.check("map", self.path)
        return self._inner.map_readonly(size, ahead=ahead)

    def map_writable(self, size: int | None = None) -> FaultyMapping:
        """Its first `size` (all) bytes as writable memory."""
        self._fs.check("map", self.path)
        return FaultyMapping(self._fs, self.path, self._inner.map_writable(size))

    def close(self) -> None:
        """Release the file; calling it again is harmless."""
        self._inner.close()


class FaultyMapping:
    """A writable view of a file of a faulty file system; only its flush can fail."""

    __slots__ = ("_fs", "_inner", "_path")

    def __init__(self, fs: FaultyFileSystem, path: str, inner: Mapping) -> None:
        self._fs = fs
        self._path = path
        self._inner = inner

    @property
    def buffer(self) -> memoryview:
        """The bytes."""
        return self._inner.buffer

    def flush(self) -> None:
        """Wait until the bytes are on the disk."""
        self._fs.check("flush", self._path, dropping=getattr(self._inner, "fail_flush", None))
        self._inner.flush()

    def close(self) -> None:
        """Release the memory."""
        self._inner.close()
