"""The file system of this machine.

Descriptors. A `LocalFile` holds its descriptor in an object of its own; each call takes a reference to that
object before it takes the number. `close` drops the file's reference, so the number goes back to the system
only after the last call that uses it has returned: a reader never meets another file under a recycled number.

Mappings. Python's `mmap` keeps a duplicate of the descriptor (before 3.13), which would cost one per mapped
index. So memory is reserved by an anonymous `mmap` object, which gives the buffer protocol and the unmapping,
and the file is then mapped over it (MAP_FIXED) with no descriptor left behind.

Truncation. Touching memory behind a file's end kills the process. So read-only mappings are remembered by
their file, and before a file is cut, each of them that somebody holds gets a copy of the pages that go, moved
over it in the same way: one step for whoever reads there in the meantime, who continues seeing what was
there.

Pages. What is read through a mapping counts as this process's memory until the kernel wants it back.
`release_pages` gives it back at once; the file's cache keeps the bytes, and a read brings them in again.
Pages that a truncation has copied are nowhere else: such a mapping is left as it is.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import stat
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tidelog.storage.files import DirEntry, FileStat, FileState

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrPath

__all__ = [
    "LINK_REFUSED",
    "LOCAL",
    "LocalFile",
    "LocalFileSystem",
    "LocalMapping",
    "open_regular",
    "release_pages",
    "size_at",
    "state_of",
]

_sync = getattr(os, "fdatasync", os.fsync)
_IOV_MAX = min(os.sysconf("SC_IOV_MAX"), 1024)
_MAP_FIXED = 0x10
_MAP_FAILED = ctypes.c_void_p(-1).value
_MREMAP_MAYMOVE_FIXED = 3

_libc = ctypes.CDLL(None, use_errno=True)
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_mremap = _libc.mremap
_mremap.restype = ctypes.c_void_p
_mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]

_pwrite = getattr(_libc, "pwrite64", None)
_pwrite_address = 0 if _pwrite is None else ctypes.cast(_pwrite, ctypes.c_void_p).value or 0

_SYNC_FILE_RANGE_WRITE = 2
_sync_file_range = getattr(_libc, "sync_file_range", None)
if _sync_file_range is not None:
    _sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]

_KEEP_SIZE = 1
_fallocate = getattr(_libc, "fallocate64", None)
if _fallocate is not None:
    _fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class _ReadMappings:
    """The read-only mappings of this process by file (device and inode), for as long as they live."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # again by its own thread, when a collection lets go of a mapping
        self._by_file: dict[tuple[int, int], tuple[weakref.ref[mmap.mmap], ...]] = {}
        self._as_files: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
        """Those whose bytes are all in their file still."""

    def add(self, file: tuple[int, int], memory: mmap.mmap) -> None:
        """Remember a mapping."""
        reference = weakref.ref(memory, lambda _: self._forget(file))
        with self.lock:
            self._by_file[file] = (*self._by_file.get(file, ()), reference)
            self._as_files.add(memory)

    def release(self, memory: object) -> None:
        """Take the pages of a mapping out of the process, if its file has all of them."""
        with self.lock:
            if isinstance(memory, mmap.mmap) and memory in self._as_files:
                memory.madvise(mmap.MADV_DONTNEED)

    def _forget(self, file: tuple[int, int]) -> None:
        with self.lock:
            alive = tuple(each for each in self._by_file.get(file, ()) if each() is not None)
            if alive:
                self._by_file[file] = alive
            else:
                self._by_file.pop(file, None)

    def keep(self, file: tuple[int, int], start: int, end: int) -> None:
        """Give the pages of bytes [start, end), which the file is about to lose, to their mappings."""
        start -= start % mmap.PAGESIZE
        for reference in self._by_file.get(file, ()):
            memory = reference()
            if memory is not None and start < len(memory):
                self._as_files.discard(memory)
                _replace(memory, start, min(end, len(memory)))

    def renew_lock(self) -> None:
        """In a forked child: the thread that may have held it is not there."""
        self.lock = threading.RLock()


_read_mappings = _ReadMappings()
os.register_at_fork(after_in_child=_read_mappings.renew_lock)


def release_pages(memory: object) -> None:
    """Give back the pages of a read-only mapping (a view's `obj`); views stay good. Leaves all else alone."""
    _read_mappings.release(memory)


def _address(memory: mmap.mmap) -> int:
    return np.frombuffer(memory, dtype=np.uint8).ctypes.data


def _replace(memory: mmap.mmap, start: int, end: int) -> None:
    """Put a copy of its pages from `start` to the one that holds byte `end` - 1 in their place."""
    size = -(-(end - start) // mmap.PAGESIZE) * mmap.PAGESIZE
    anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    copy = _mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, anonymous, -1, 0)
    if copy != _MAP_FAILED:
        address = _address(memory) + start
        ctypes.memmove(copy, address, size)
        if _mremap(copy, size, size, _MREMAP_MAYMOVE_FIXED, address) == address:
            return
    code = ctypes.get_errno()
    raise OSError(code, f"cannot keep what is mapped: {os.strerror(code)}")


class _Descriptor:
    """Owns a descriptor's number; closes it when nobody uses it any more."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # bound early: outlives `os` at exit
        close(self.number)


class LocalMapping:
    """A file's bytes as writable memory."""

    __slots__ = ("_map", "buffer")

    def __init__(self, memory: mmap.mmap | None) -> None:
        self._map = memory
        self.buffer = memoryview(memory if memory is not None else bytearray())
        """The bytes."""

    def flush(self) -> None:
        """Wait until the bytes are on the disk."""
        if self._map is not None:
            self._map.flush()

    def close(self) -> None:
        """Release the memory. Raises BufferError while somebody still looks at it."""
        self.buffer.release()
        if self._map is not None:
            self._map.close()
            self._map = None


class LocalFile:
    """An open file of this machine. What the disk refuses names the file, which the system's calls do not."""

    __slots__ = ("_handle", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self._handle: _Descriptor | None = _Descriptor(descriptor)
        self.path = path
        """The name it was opened under."""

    def _live(self) -> _Descriptor:
        handle = self._handle
        if handle is None:
            raise ValueError(f"{self.path} is closed")
        return handle

    def size(self) -> int:
        """Its length in bytes, now."""
        handle = self._handle or self._live()
        return os.fstat(handle.number).st_size

    def state(self) -> FileState:
        """Which file it is, how long, and when it was changed last."""
        return _state((self._handle or self._live()).number)

    def pread(self, n: int, position: int) -> bytes:
        """The `n` bytes from `position` on; fewer only where the file ends."""
        handle = self._handle or self._live()
        data = os.pread(handle.number, n, position)
        if len(data) < n and data:
            parts = [data]
            got = len(data)
            while got < n and (data := os.pread(handle.number, n - got, position + got)):
                parts.append(data)
                got += len(data)
            data = b"".join(parts)
        return data

    def pread_into(self, buffer: memoryview, position: int) -> int:
        """Fill `buffer` with the bytes from `position` on; how many: fewer only where the file ends."""
        handle = self._handle or self._live()
        got, wanted = 0, len(buffer)
        while got < wanted and (n := os.preadv(handle.number, [buffer[got:]], position + got)):
            got += n
        return got

    def pwrite(self, data: ReadableBuffer, position: int) -> int:
        """Write all of `data` at `position`."""
        handle = self._handle or self._live()
        size = len(data) if type(data) is bytearray else memoryview(data).nbytes
        try:
            written = os.pwrite(handle.number, data, position)
            if written < size:
                rest = memoryview(data).cast("B")
                while written < size:
                    written += os.pwrite(handle.number, rest[written:], position + written)
        except OSError as error:
            error.filename = self.path
            raise
        return size

    def lend(self) -> tuple[object | None, int, int]:
        """For a kernel that writes by itself: (owner, descriptor, address of C's `pwrite`); 0: it must not.

        The descriptor is open for as long as its owner is held.
        """
        if type(self) is not LocalFile:  # which may do more than write
            return None, -1, 0
        handle = self._handle or self._live()
        return handle, handle.number, _pwrite_address

    def pwritev(self, buffers: Sequence[ReadableBuffer], position: int) -> int:
        """Write all of the buffers one after the other from `position` on."""
        handle = self._handle or self._live()
        sizes = [memoryview(data).nbytes for data in buffers]
        total = 0
        for first in range(0, len(buffers), _IOV_MAX):
            part = slice(first, first + _IOV_MAX)
            try:
                written = os.pwritev(handle.number, buffers[part], position + total)
            except OSError as error:
                error.filename = self.path
                raise
            if written == (size := sum(sizes[part])):
                total += size
                continue
            for data, size in zip(buffers[part], sizes[part], strict=True):
                if written < size:
                    self.pwrite(memoryview(data).cast("B")[written:], position + total + written)
                written = max(written - size, 0)
                total += size
        return total

    def truncate(self, size: int) -> None:
        """Cut or extend to `size` bytes."""
        handle = self._handle or self._live()
        with _read_mappings.lock:
            found = os.fstat(handle.number)
            if size < found.st_size:
                _read_mappings.keep((found.st_dev, found.st_ino), size, found.st_size)
            os.ftruncate(handle.number, size)

    def allocate(self, position: int, n: int) -> None:
        """Make sure that the disk has room for these bytes."""
        handle = self._handle or self._live()
        if n > 0 and hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(handle.number, position, n)
            except OSError as error:
                error.filename = self.path
                raise

    def reserve(self, position: int, n: int) -> bool:
        """Set disk space aside for bytes that will be written soon; the length stays."""
        handle = self._handle or self._live()
        return _fallocate is not None and _fallocate(handle.number, _KEEP_SIZE, position, n) == 0

    def write_back(self, position: int, n: int) -> None:
        """Have the disk begin with these bytes; does not wait, and promises nothing."""
        handle = self._handle or self._live()
        if _sync_file_range is not None and n > 0:
            _sync_file_range(handle.number, position, n, _SYNC_FILE_RANGE_WRITE)

    def sync(self) -> None:
        """Wait until the bytes and the length are on the disk."""
        handle = self._handle or self._live()
        try:
            _sync(handle.number)
        except OSError as error:
            error.filename = self.path
            raise

    def map_readonly(self, size: int | None = None, *, ahead: bool = False) -> memoryview:
        """Its first `size` (all) bytes as memory; with `ahead`, also those it has yet to grow to."""
        with _read_mappings.lock:
            found, memory = self._map(size, mmap.PROT_READ, ahead)
            if memory is None:
                return memoryview(b"")
            _read_mappings.add((found.st_dev, found.st_ino), memory)
            return memoryview(memory)

    def map_writable(self, size: int | None = None) -> LocalMapping:
        """Its first `size` (all) bytes as writable memory.

        An index is mapped with room for entries to come: without the advice, the kernel would read that room,
        which is empty, ahead of each entry, and that takes longer than all else in a recovery.
        """
        memory = self._map(size, mmap.PROT_READ | mmap.PROT_WRITE)[1]
        if memory is not None:
            memory.madvise(mmap.MADV_RANDOM)
        return LocalMapping(memory)

    def _map(
        self, size: int | None, protection: int, ahead: bool = False
    ) -> tuple[os.stat_result, mmap.mmap | None]:
        handle = self._handle or self._live()
        found = os.fstat(handle.number)
        length = found.st_size
        if size is not None:
            if size > length and not ahead:
                raise ValueError(f"{self.path} has {length} bytes, not {size}")
            length = size
        if length == 0:
            return found, None
        memory = mmap.mmap(-1, length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, protection)
        address = _address(memory)
        if _mmap(address, length, protection, mmap.MAP_SHARED | _MAP_FIXED, handle.number, 0) != address:
            code = ctypes.get_errno()
            raise OSError(code, f"cannot map: {os.strerror(code)}", self.path)
        return found, memory

    def close(self) -> None:
        """Release the file; calling it again is harmless."""
        self._handle = None


def size_at(path: str) -> int:
    """The length of the file at a path."""
    return os.stat(path).st_size


def state_of(path: str) -> FileState:
    """Which file or directory it is, and when it was changed last, as far as the clock's tick tells.

    A directory changes with the names in it. It is opened for that: a network file system asks its server
    then.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        return _state(descriptor)
    finally:
        os.close(descriptor)


def _state(descriptor: int) -> FileState:
    found = os.fstat(descriptor)
    return FileState(found.st_dev, found.st_ino, found.st_size, max(found.st_mtime_ns, found.st_ctime_ns))


def open_regular(path: str, flags: int) -> int:
    """The descriptor of a regular file; OSError for anything else, without waiting for its other end."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP and os.path.islink(path):
            raise OSError(errno.ELOOP, LINK_REFUSED, path) from None
        if error.errno == errno.ENXIO:
            raise OSError(errno.EINVAL, _not_regular(os.stat(path).st_mode), path) from None
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, _not_regular(mode), path)


LINK_REFUSED = "it is a symbolic link, and nothing is written through one: put what it leads to in its place"


def _not_regular(mode: int) -> str:
    found = next((what for is_it, what in _ODD_KINDS if is_it(mode)), "something else")
    return f"it is {found}, not a file: move it away"


_ODD_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads in circles, or to where we may not look
        return False


class LocalFileSystem:
    """Names on this machine."""

    __slots__ = ()

    def list(self, path: StrPath) -> list[DirEntry]:
        """The entries of a directory, in no order."""
        with os.scandir(path) as entries:
            return [DirEntry(entry.name, _is_directory(entry), entry.is_symlink()) for entry in entries]

    def stat(self, path: StrPath) -> FileStat:
        """Size, modification time and kind."""
        found = os.stat(path)
        return FileStat(found.st_size, found.st_mtime_ns // 1_000_000, stat.S_ISDIR(found.st_mode))

    def exists(self, path: StrPath) -> bool:
        """Whether the name leads to something."""
        return os.path.exists(path)

    def is_link(self, path: StrPath) -> bool:
        """Whether the name is a symbolic link."""
        return os.path.islink(path)

    def set_mtime(self, path: StrPath, mtime_ms: int) -> None:
        """Set the time of last modification."""
        time_ns = mtime_ms * 1_000_000
        os.utime(path, ns=(time_ns, time_ns), follow_symlinks=False)

    def make_directory(self, path: StrPath) -> None:
        """Make a directory."""
        os.mkdir(path)

    def open(self, path: StrPath, *, writable: bool = False, create: bool = False) -> LocalFile:
        """Open a regular file to read, or one that is no link to read and write."""
        name = os.fspath(path)
        flags = os.O_RDWR | os.O_NOFOLLOW if writable or create else os.O_RDONLY
        if create:
            flags |= os.O_CREAT
        return LocalFile(name, open_regular(name, flags))

    def rename(self, source: StrPath, target: StrPath) -> None:
        """Atomically give a file or directory another name."""
        os.replace(source, target)

    def link(self, source: StrPath, target: StrPath) -> None:
        """Give a file a second name."""
        os.link(source, target)

    def unlink(self, path: StrPath) -> None:
        """Take a name from a file."""
        os.unlink(path)

    def remove_directory(self, path: StrPath) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def sync_directory(self, path: StrPath) -> None:
        """Wait until the directory's names are on the disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


LOCAL = LocalFileSystem()
"""The one that is meant where none is named."""
