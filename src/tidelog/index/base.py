"""What the offset and the time index share: an index file that is mapped at its first use.

A sealed index is read-only. Creating the object touches no file; the first call maps it, `close` or the last
reference unmaps it, and rename and unlink leave it as it is. All slots of the file count as entries, as in
Kafka: a file that a killed broker left preallocated is full of zeros, and recovery has to rebuild it.

Readers need no lock: each question is one step of `kernels.search.Entries`. `lookup_many` works on a copy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from tidelog.errors import IndexOffsetOverflowError, InvalidIndexError, InvalidInputError, LogClosedError
from tidelog.kernels.search import Entries, floor_many
from tidelog.storage import Directory, map_file, read_file
from tidelog.storage.files import LARGEST_READ
from tidelog.storage.names import FileKind, Transient, format_segment_file

__all__ = ["MAX_RELATIVE_OFFSET", "IndexFile", "Int64Array"]

MAX_RELATIVE_OFFSET = 2**31 - 1

_DECODE_WORTH = 64
"""A bulk look-up decodes all entries first where it has at least a target for each 64 of them."""

Int64Array = npt.NDArray[np.int64]


class IndexFile(ABC):
    """An index file of the segment at `base_offset`, read-only."""

    __slots__ = ("_closed", "_entries", "base_offset", "directory", "name")

    KIND: ClassVar[FileKind]
    ENTRY_SIZE: ClassVar[int]

    def __init__(self, directory: Directory, base_offset: int, transient: Transient = Transient.NONE) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.name = format_segment_file(base_offset, self.KIND, transient)
        """The file's name in its directory."""
        self._entries: Entries | None = None
        self._closed = False

    @classmethod
    def from_bytes(
        cls, directory: Directory, base_offset: int, data: bytes, transient: Transient = Transient.NONE
    ) -> Self:
        """An index over a copy of a file's bytes; the directory is for messages."""
        index = cls(directory, base_offset, transient)
        index._entries = Entries(data, cls.ENTRY_SIZE, len(data) // cls.ENTRY_SIZE, False)
        return index

    @classmethod
    def snapshot(cls, directory: Directory, base_offset: int) -> Self:
        """The index as it is now, for a reader in another process than its writer's.

        The file is copied, because the writer will truncate it, and a mapping of a truncated part kills its
        reader. From a preallocated file, entries are taken up to the first one that does not grow. The last
        of these is left out, because it may be half written; an index that lacks an entry is still correct.
        """
        index = cls(directory, base_offset)
        with directory.lock:
            data = read_file(directory.fs, index.path)
        slots = len(data) // cls.ENTRY_SIZE
        index._entries = Entries(data, cls.ENTRY_SIZE, slots, False)
        growing = index.growing_entries()
        if index._entries.entry(0) == (0, 0):  # never written
            index._entries.truncate(0)
        elif growing < slots:
            index._entries.truncate(max(growing - 1, 0))
        return index

    @property
    def path(self) -> str:
        """Where the file is now."""
        return self.directory.file(self.name)

    def _loaded(self) -> Entries:
        with self.directory.lock:
            if self._entries is None:
                if self._closed:
                    raise LogClosedError(f"index {self.path} was closed")
                data = map_file(self.directory.fs, self.path, limit=LARGEST_READ)
                self._entries = Entries(data, self.ENTRY_SIZE, len(data) // self.ENTRY_SIZE, False)
            return self._entries

    def opened(self) -> Entries | None:
        """The entries for a kernel; None if there is no file."""
        try:
            return self._entries or self._loaded()
        except FileNotFoundError:
            return None

    @property
    def is_loaded(self) -> bool:
        """Whether the file has been mapped."""
        return self._entries is not None

    @property
    def entries(self) -> int:
        """The number of entries."""
        return (self._entries or self._loaded()).count

    @property
    def size_in_bytes(self) -> int:
        """The bytes that the entries take."""
        return self.entries * self.ENTRY_SIZE

    def can_append_offset(self, offset: int) -> bool:
        """Whether an offset fits into an entry, relative to the base offset."""
        return 0 <= offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def relative_offset(self, offset: int) -> int:
        """An offset relative to the base offset; IndexOffsetOverflowError if that is no 31-bit number."""
        relative = offset - self.base_offset
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            raise IndexOffsetOverflowError(
                f"offset {offset} is not within 2^31 - 1 of the base offset {self.base_offset} of {self.path}"
            )
        return relative

    def raw_entries(self) -> tuple[Int64Array, Int64Array]:
        """All keys and values as they are in the file (offsets relative), copied."""
        entries = self._entries or self._loaded()
        count = entries.count
        keys, values = np.empty(count, np.int64), np.empty(count, np.int64)
        count = entries.decode(keys, values)
        return keys[:count], values[:count]

    def growing_entries(self) -> int:
        """The number of leading entries that grow as entries must; all of them in a sound index."""
        keys, values = self.raw_entries()
        if not len(keys):
            return 0
        sound = np.empty(len(keys), np.bool_)
        sound[0] = self._first_is_sound(int(keys[0]), int(values[0]))
        sound[1:] = self._grows(keys, values)
        return len(keys) if sound.all() else int(sound.argmin())

    def sanity_check(self) -> None:
        """Raise InvalidIndexError unless the file holds whole entries that grow as they must."""
        with self.directory.lock:
            length = self._file_length()
        if length % self.ENTRY_SIZE:
            raise InvalidIndexError(
                f"index {self.path} has {length} bytes, no multiple of {self.ENTRY_SIZE}; rebuild it"
            )
        count, growing = self.entries, self.growing_entries()
        if growing < count:
            found = (self._entries or self._loaded()).entry(growing)
            raise InvalidIndexError(
                f"index {self.path}: entry {growing} of {count}, {found}, breaks the order "
                "(zeros: it was never trimmed); rebuild it"
            )

    def flush(self) -> None:
        """Wait until the file's bytes and length are on the disk."""
        with self.directory.lock:  # the name is looked up where nobody changes it
            file = self.directory.open(self.name)
        try:
            self.directory.sync_file(file)
        finally:
            file.close()

    def rename_to(self, transient: Transient) -> None:
        """Give the file the name with another transient suffix; no file is no error."""
        name = format_segment_file(self.base_offset, self.KIND, transient)
        with self.directory.lock:
            try:
                self.directory.rename(self.name, name)
            except FileNotFoundError:
                pass
            self.name = name

    def delete_if_exists(self) -> bool:
        """Close, and remove the file; False if there was none."""
        with self.directory.lock:
            self._close()
            return self.directory.unlink(self.name)

    def close(self) -> None:
        """Release the file; calls in progress finish, later ones raise LogClosedError."""
        with self.directory.lock:
            self._close()

    def _close(self) -> None:
        self._entries = None
        self._closed = True

    def _file_length(self) -> int:
        return self.directory.fs.stat(self.path).size

    def _floor_many(
        self, targets: npt.ArrayLike, key_base: int, value_base: int, key_below: int
    ) -> tuple[Int64Array, Int64Array]:
        """Lower bounds by key, bases added to what is stored; `key_below` and `value_base` for none."""
        wanted = np.ascontiguousarray(targets, np.int64)
        if wanted.ndim != 1:
            raise InvalidInputError(f"targets are one-dimensional, not {wanted.ndim}-dimensional")
        found_keys, found_values = np.empty_like(wanted), np.empty_like(wanted)
        entries = self._entries or self._loaded()
        if len(wanted) * _DECODE_WORTH >= entries.count:
            keys, values = self.raw_entries()
            if (keys[1:] > keys[:-1]).all():
                keys += key_base
                values += value_base
                floor_many(keys, values, wanted, found_keys, found_values, key_below, value_base)
                return found_keys, found_values
        if key_base:  # what is below the base must not wrap around
            wanted = np.maximum(wanted, key_base - 1) - key_base
        entries.floor_each(wanted, found_keys, found_values, key_below - key_base, 0)
        found_keys += key_base
        found_values += value_base
        return found_keys, found_values

    @staticmethod
    @abstractmethod
    def _first_is_sound(key: int, value: int) -> bool:
        """Whether this is a valid first entry."""

    @staticmethod
    @abstractmethod
    def _grows(keys: Int64Array, values: Int64Array) -> npt.NDArray[np.bool_]:
        """For each entry but the first, whether it follows from the one before."""
