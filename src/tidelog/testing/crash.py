"""A file system in memory that remembers every step, and can be cut from power at any of them.

    fs = CrashFileSystem()
    fs.make_directory("/data")
    ...                                             # run what is to be tested on it
    for step in range(fs.steps + 1):
        after = fs.crash(step, seed=7)              # a file system of its own, as the cut left it
        ...                                         # open it, recover, compare

A step is one call that changes bytes or names, or brings them to the disk. Stores to a writable mapping have
no call: before each step every such mapping is compared with what is known of it, and what changed becomes a
step of its own, so keep mapped files small (`segment.index.bytes`). `journal` says what a cut may leave.
One seed and step give one state, always; a state is a full file system and can crash again.

`CrashFile.fail_sync` is a sync that fails and drops what it was to write; `faults.FaultyFileSystem` over this
file system calls it for each sync that it refuses. `blind_stores` names files into whose holes something was
stored through a mapping: on a full disk such a store kills the process, for it cannot report an error.
"""

from __future__ import annotations

import errno
import posixpath
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tidelog.storage.files import DirEntry, FileStat, FileState, FileSystem, os_error
from tidelog.testing.copies import copy_tree
from tidelog.testing.inode import Inode
from tidelog.testing.journal import (
    ROOT,
    Disk,
    FailedSync,
    Node,
    Operation,
    Rename,
    SetName,
    Sync,
    SyncNames,
    Touch,
    Truncate,
    UnsetName,
    Write,
    survivors,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrPath

__all__ = ["CrashFile", "CrashFileSystem", "CrashMapping", "copy_tree"]


class CrashMapping:
    """A file's bytes as writable memory; stores are noticed at the next step."""

    __slots__ = ("_fs", "_inode", "buffer")

    def __init__(self, fs: CrashFileSystem, inode: Inode, size: int) -> None:
        self._fs = fs
        self._inode = inode
        self.buffer = memoryview(inode.memory(size))[:size]
        """The bytes."""

    def flush(self) -> None:
        """Return when the bytes are on the disk."""
        self._fs._record(Sync(self._inode.number))

    def fail_flush(self) -> None:
        """A flush that fails: what it was to write is dropped (`journal`)."""
        self._fs._record(FailedSync(self._inode.number))

    def close(self) -> None:
        """Let go of the memory. Raises BufferError while somebody still looks at it."""
        self.buffer.release()
        self._fs._unmap(self._inode)


class CrashFile:
    """An open file."""

    __slots__ = ("_fs", "_inode", "_open", "_writable", "path")

    def __init__(self, fs: CrashFileSystem, inode: Inode, path: str, writable: bool) -> None:
        self._fs = fs
        self._inode = inode
        self._writable = writable
        self._open = True
        self.path = path
        """The name it was opened under."""

    def _live(self, *, writing: bool = False) -> Inode:
        if not self._open:
            raise ValueError(f"{self.path} is closed")
        if writing and not self._writable:
            raise _error(errno.EBADF, self.path)
        return self._inode

    def size(self) -> int:
        """Its length in bytes, now."""
        return self._live().size

    def state(self) -> FileState:
        """Which file it is, how long, and when it was changed last."""
        inode = self._live()
        return FileState(0, inode.number, inode.size, inode.mtime_ms * 1_000_000)

    def pread(self, n: int, position: int) -> bytes:
        """The `n` bytes from `position` on; fewer only where the file ends."""
        with self._fs._lock:
            return self._live().content(position, position + n)

    def pread_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` with the bytes from `position` on; fewer only where the file ends."""
        data = self.pread(len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def pwrite(self, data: ReadableBuffer, position: int) -> int:
        """Write all of `data` at `position`."""
        return self.pwritev([data], position)

    def pwritev(self, buffers: Sequence[ReadableBuffer], position: int) -> int:
        """Write all of the buffers one after the other from `position` on."""
        inode = self._live(writing=True)
        data = b"".join(bytes(buffer) for buffer in buffers)
        if data:
            self._fs._write(inode, position, data)
        return len(data)

    def truncate(self, size: int) -> None:
        """Cut or extend to `size` bytes."""
        self._fs._truncate(self._live(writing=True), size)

    def allocate(self, position: int, n: int) -> None:
        """Make sure that the disk has room for these bytes; the file grows to hold them."""
        inode = self._live(writing=True)
        if position + n > inode.size:
            self._fs._truncate(inode, position + n)
        inode.promise(position, position + n)

    def reserve(self, position: int, n: int) -> bool:
        """Set disk space aside, of which there is no end here."""
        return True

    def write_back(self, position: int, n: int) -> None:
        """Nothing: any bytes that are not synced may or may not survive, here as elsewhere."""
        self._live(writing=True)

    def sync(self) -> None:
        """Return when the bytes and the length are on the disk."""
        self._fs._record(Sync(self._live().number))

    def fail_sync(self) -> None:
        """A sync that fails: what it was to write is dropped (`journal`)."""
        self._fs._record(FailedSync(self._live().number))

    def map_readonly(self, size: int | None = None, *, ahead: bool = False) -> memoryview:
        """Its first `size` (all) bytes as memory; `ahead` of the file's end as far as memory is reserved."""
        with self._fs._lock:
            inode, length = self._mapped(size if not ahead else None)
            return inode.view(length)[: size if ahead else length]

    def map_writable(self, size: int | None = None) -> CrashMapping:
        """Its first `size` (all) bytes as writable memory."""
        self._live(writing=True)
        with self._fs._lock:
            inode, length = self._mapped(size)
            mapping = CrashMapping(self._fs, inode, length)
            self._fs._map(inode)
            return mapping

    def _mapped(self, size: int | None) -> tuple[Inode, int]:
        inode = self._live()
        if size is not None and size > inode.size:
            raise ValueError(f"{self.path} has {inode.size} bytes, not {size}")
        return inode, inode.size if size is None else size

    def close(self) -> None:
        """Let go of the file; again is harmless."""
        self._open = False


class CrashFileSystem:
    """Names and files in memory; paths are absolute."""

    def __init__(self, *, clock: Callable[[], int] | None = None, disk: Disk | None = None) -> None:
        """An empty one, or one that holds `disk`; `clock` (ms) stamps files, without it each step is one."""
        self._before = disk or {ROOT: Node(True)}
        self._clock = clock
        self._history: list[Operation] = []
        self._lock = threading.RLock()
        self._mapped: dict[int, Inode] = {}
        self.blind_stores: set[int] = set()
        """Files (inodes) into whose holes something was stored through a mapping."""
        live = {number: Inode(number, node) for number, node in self._before.items()}
        for number, node in self._before.items():
            live[number].names = {name: live[child] for name, child in node.names.items()}
        self._root = live[ROOT]
        self._next = max(live) + 1

    # ---- power cuts

    @property
    def steps(self) -> int:
        """How many steps there have been; `crash` takes 0 (nothing happened) to this."""
        with self._lock:
            self._notice_stores()
            return len(self._history)

    def operation(self, step: int) -> Operation:
        """What was done as step `step`, counted from 1."""
        return self._history[step - 1]

    def crash(
        self, step: int | None = None, *, seed: int = 0, kept: str = "some", stale: bool = True
    ) -> CrashFileSystem:
        """What is found after a power cut behind step `step` (default: the last); see `journal.survivors`."""
        steps = self.steps if step is None else step
        with self._lock:
            history = self._history[:steps]
        disk = survivors(self._before, history, f"{seed}/{steps}", kept=kept, stale=stale)
        return CrashFileSystem(clock=self._clock, disk=disk)

    def _record(self, operation: Operation) -> None:
        with self._lock:
            self._notice_stores()
            self._history.append(operation)

    def _notice_stores(self) -> None:
        for inode in self._mapped.values():
            now, known = inode.content(), inode.known
            if now != known:
                changed = np.flatnonzero(np.frombuffer(now, np.uint8) != np.frombuffer(known, np.uint8))
                first, last = int(changed[0]), int(changed[-1])
                self._history.append(Write(inode.number, first, now[first : last + 1]))
                if last >= inode.hole:
                    self.blind_stores.add(inode.number)
                inode.known = now
                inode.mtime_ms = self._now()

    def _now(self) -> int:
        return self._clock() if self._clock is not None else len(self._history)

    # ---- bytes

    def _write(self, inode: Inode, position: int, data: bytes) -> None:
        with self._lock:
            self._record(Write(inode.number, position, data))
            inode.put(position, data)
            inode.promise(position, position + len(data))
            self._changed(inode, max(inode.size, position + len(data)))

    def _truncate(self, inode: Inode, size: int) -> None:
        with self._lock:
            self._record(Truncate(inode.number, size))
            if size < inode.size:
                inode.cut(size)
            else:
                inode.memory(size)
            self._changed(inode, size)

    def _changed(self, inode: Inode, size: int) -> None:
        inode.size = size
        inode.mtime_ms = self._now()
        if inode.mappings:
            inode.known = inode.content()

    def _map(self, inode: Inode) -> None:
        with self._lock:
            self._notice_stores()
            inode.mappings += 1
            inode.known = inode.content()
            self._mapped[inode.number] = inode

    def _unmap(self, inode: Inode) -> None:
        with self._lock:
            self._notice_stores()
            inode.mappings -= 1
            if not inode.mappings:
                del self._mapped[inode.number]

    # ---- names

    def _find(self, path: StrPath) -> Inode:
        """What a path leads to."""
        inode = self._root
        for name in _parts(path):
            if not inode.is_directory:
                raise _error(errno.ENOTDIR, path)
            if name not in inode.names:
                raise _error(errno.ENOENT, path)
            inode = inode.names[name]
        return inode

    def _place(self, path: StrPath) -> tuple[Inode, str]:
        """The directory that holds the last name of a path, and that name."""
        *above, name = _parts(path)
        directory = self._find("/" + "/".join(above))
        if not directory.is_directory:
            raise _error(errno.ENOTDIR, path)
        return directory, name

    def list(self, path: StrPath) -> list[DirEntry]:
        """The entries of a directory, in no order."""
        with self._lock:
            directory = self._find(path)
            if not directory.is_directory:
                raise _error(errno.ENOTDIR, path)
            return [DirEntry(name, child.is_directory) for name, child in directory.names.items()]

    def stat(self, path: StrPath) -> FileStat:
        """Size, modification time and kind."""
        with self._lock:
            found = self._find(path)
            return FileStat(found.size, found.mtime_ms, found.is_directory)

    def exists(self, path: StrPath) -> bool:
        """Whether the name leads to something."""
        try:
            self.stat(path)
        except OSError:
            return False
        return True

    def is_link(self, path: StrPath) -> bool:
        """Never: there are no symbolic links here."""
        return False

    def set_mtime(self, path: StrPath, mtime_ms: int) -> None:
        """Set the time of last modification."""
        with self._lock:
            inode = self._find(path)
            self._record(Touch(inode.number, mtime_ms))
            inode.mtime_ms = mtime_ms

    def _make(self, path: StrPath, *, is_directory: bool) -> Inode:
        directory, name = self._place(path)
        if name in directory.names:
            raise _error(errno.EEXIST, path)
        inode = Inode(self._next, Node(is_directory, mtime_ms=self._now()))
        self._next += 1
        self._record(SetName(directory.number, name, inode.number, is_directory))
        directory.names[name] = inode
        return inode

    def make_directory(self, path: StrPath) -> None:
        """Make a directory."""
        with self._lock:
            self._make(path, is_directory=True)

    def open(self, path: StrPath, *, writable: bool = False, create: bool = False) -> CrashFile:
        """Open a file to read, or to read and write."""
        with self._lock:
            try:
                inode = self._find(path)
            except FileNotFoundError:
                if not create:
                    raise
                inode = self._make(path, is_directory=False)
            if inode.is_directory:
                raise _error(errno.EISDIR, path)
            return CrashFile(self, inode, str(path), writable or create)

    def rename(self, source: StrPath, target: StrPath) -> None:
        """Atomically give a file or directory another name."""
        with self._lock:
            directory, name = self._place(source)
            to_directory, to_name = self._place(target)
            inode = self._find(source)
            replaced = to_directory.names.get(to_name)
            here, there = _parts(source), _parts(target)
            if replaced is inode:
                return
            if there[: len(here)] == here:
                raise _error(errno.EINVAL, target)
            if here[: len(there)] == there:
                raise _error(errno.ENOTEMPTY, target)
            if replaced is not None and inode.is_directory != replaced.is_directory:
                raise _error(errno.ENOTDIR if inode.is_directory else errno.EISDIR, target)
            if replaced is not None and replaced.names:
                raise _error(errno.ENOTEMPTY, target)
            self._record(Rename(directory.number, name, to_directory.number, to_name, inode.number))
            del directory.names[name]
            to_directory.names[to_name] = inode

    def link(self, source: StrPath, target: StrPath) -> None:
        """Give a file a second name."""
        with self._lock:
            inode = self._find(source)
            directory, name = self._place(target)
            if name in directory.names:
                raise _error(errno.EEXIST, target)
            if inode.is_directory:
                raise _error(errno.EPERM, source)
            self._record(SetName(directory.number, name, inode.number))
            directory.names[name] = inode

    def unlink(self, path: StrPath) -> None:
        """Take a name from a file."""
        self._unset(path, is_directory=False)

    def remove_directory(self, path: StrPath) -> None:
        """Remove an empty directory."""
        self._unset(path, is_directory=True)

    def _unset(self, path: StrPath, *, is_directory: bool) -> None:
        with self._lock:
            inode = self._find(path)
            directory, name = self._place(path)
            if inode.is_directory != is_directory:
                raise _error(errno.ENOTDIR if is_directory else errno.EISDIR, path)
            if inode.names:
                raise _error(errno.ENOTEMPTY, path)
            self._record(UnsetName(directory.number, name, inode.number, is_directory))
            del directory.names[name]

    def sync_directory(self, path: StrPath) -> None:
        """Return when the directory's names are on the disk."""
        with self._lock:
            directory = self._find(path)
            if not directory.is_directory:
                raise _error(errno.ENOTDIR, path)
            self._record(SyncNames(directory.number))

    # ---- to and from other file systems

    def copy_to(self, fs: FileSystem, source: StrPath, target: StrPath) -> None:
        """Copy a directory and all in it into a new directory of `fs`, for other programs to look at."""
        copy_tree(self, source, fs, target)


def _parts(path: StrPath) -> tuple[str, ...]:
    return _split(str(path))


@lru_cache(4096)
def _split(path: str) -> tuple[str, ...]:
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is not an absolute path")
    return tuple(part for part in posixpath.normpath(path).split("/") if part)


def _error(code: int, path: StrPath) -> OSError:
    return os_error(code, path)
