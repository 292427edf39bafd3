"""The indexes of the segment that is being written: preallocated, mapped for writing, trimmed at the end.

    1. a new file is made `max_index_size` long, rounded down to whole entries, without taking disk space;
    2. an entry is stored in the mapping, then counted: readers see whole entries only;
    3. before a store reaches bytes that the disk has not promised yet, they are allocated: a full disk is an
       OSError here, where a store to the mapping would kill the process;
    4. `trim_to_valid_size` cuts what was not used; `seal` does so and gives the read-only index.

In an existing index all slots count as entries. That is right for a trimmed file; a file that a killed broker
left must be `reset` and rebuilt. To append to it again, `resize` it to `max_index_size`.

One thread writes; any number read. Before the file shrinks, readers are moved off the part that goes.
Truncated slots are zeroed, so that a `snapshot` by another process does not read them as entries.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from tidelog.errors import IndexFullError, InvalidInputError, LogClosedError, OffsetsOutOfOrderError
from tidelog.index.base import MAX_RELATIVE_OFFSET, IndexFile
from tidelog.index.offset import OffsetIndex
from tidelog.index.time import NO_TIMESTAMP, TimeIndex
from tidelog.kernels.search import Entries
from tidelog.storage import Directory, File, Mapping
from tidelog.storage.files import LARGEST_READ
from tidelog.storage.names import Transient

__all__ = ["ActiveIndex", "ActiveOffsetIndex", "ActiveTimeIndex"]

_ALLOCATE_BYTES = 16384
_MAX_POSITION = 2**31 - 1


class ActiveIndex(IndexFile):
    """What the active offset and time index share."""

    __slots__ = ("_file", "_mapping", "length", "max_index_size")

    def __init__(
        self,
        directory: Directory,
        base_offset: int,
        max_index_size: int,
        transient: Transient = Transient.NONE,
    ) -> None:
        super().__init__(directory, base_offset, transient)
        self.max_index_size = max_index_size
        """The size of a new file, and of one that `reset` empties."""
        self._file: File | None
        self._mapping: Mapping | None
        with directory.lock:
            created = not directory.exists(self.name)
            if created and max_index_size < self.ENTRY_SIZE:
                raise InvalidInputError(f"an index of {max_index_size} bytes has no room for an entry")
            file = directory.open(self.name, writable=True, create=created)
            try:
                if created:
                    file.truncate(self._rounded(max_index_size))
                elif file.size() > LARGEST_READ:  # no index is that long: it holds nothing of use
                    file.truncate(0)
                self.length = file.size()
                """The file's length in bytes."""
                self._mapping = file.map_writable()
            except BaseException:
                file.close()
                raise
            self._file = file
        count = 0 if created else self.length // self.ENTRY_SIZE
        self._entries = Entries(self._mapping.buffer, self.ENTRY_SIZE, count, True)

    @property
    def max_entries(self) -> int:
        """The number of slots in the file."""
        return (self._entries or self._loaded()).capacity

    @property
    def is_full(self) -> bool:
        """Whether the segment should be rolled because there is no slot left."""
        entries = self._entries or self._loaded()
        return entries.count >= entries.capacity

    def resize(self, new_size: int) -> bool:
        """Make the file `new_size` bytes long, rounded down to whole entries; False if it is already.

        All entries stay: InvalidInputError if they do not fit.
        """
        with self.directory.lock:
            file, mapping, entries = self._live()
            size = self._rounded(new_size)
            if size == self.length:
                return False
            count = entries.count
            if size < count * self.ENTRY_SIZE:
                raise InvalidInputError(f"{self.path} has {count} entries, which do not fit {new_size} bytes")
            if size > self.length:
                file.truncate(size)
            self._mapping = file.map_writable(size)
            entries.swap(self._mapping.buffer, count, True)
            mapping.close()
            if size < self.length:
                file.truncate(size)
            self.length = size
            return True

    def trim_to_valid_size(self) -> None:
        """Cut the slots that hold no entry off the file."""
        self.resize(self.size_in_bytes)

    def truncate(self) -> None:
        """Remove all entries."""
        with self.directory.lock:
            self._truncate_to_entries(0)

    def reset(self) -> None:
        """Remove all entries and make the file `max_index_size` long again."""
        with self.directory.lock:
            self._truncate_to_entries(0)
            self.resize(self.max_index_size)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at or after `offset`."""
        with self.directory.lock:
            _, _, entries = self._live()
            slot = self._slot_of_offset(entries, offset - self.base_offset)
            self._truncate_to_entries(slot)

    def reserve(self, entries: int = 1) -> None:
        """Make sure that the next so many appends find a slot and disk space; IndexFullError or OSError if
        not.
        """
        known = self._entries
        if known is None or known.room < entries:
            self._make_room(entries)

    def flush(self) -> None:
        """Wait until the entries are on the disk."""
        with self.directory.lock:
            if self._file is None or self._mapping is None:
                with suppress(FileNotFoundError):  # sealed meanwhile, perhaps deleted since
                    super().flush()
                return
            if self.length:
                with self.directory.syncing():
                    self._mapping.flush()
            else:  # there is no memory to be flushed, but the entries that were there may have been cut off
                self.directory.sync_file(self._file)

    def close(self) -> None:
        """Trim, and release the file; calling it again is harmless."""
        with self.directory.lock:
            if self._file is not None:
                self._detach()
            self._close()

    def abandon(self) -> None:
        """Release the file and leave it as it is, because its disk failed or it is to be deleted."""
        with self.directory.lock:
            self._close()

    def _close(self) -> None:
        super()._close()
        if self._file is not None:
            self._file.close()
        self._file, self._mapping = None, None

    def _detach(self) -> Entries:
        """Trim; the entries are read from a read-only mapping from now on."""
        file, mapping, entries = self._live()
        count = entries.count
        size = count * self.ENTRY_SIZE
        entries.swap(file.map_readonly(size), count, False)
        mapping.close()
        if size != self.length:
            file.truncate(size)
            self.length = size
        file.close()
        self._file, self._mapping = None, None
        return entries

    def _live(self) -> tuple[File, Mapping, Entries]:
        file, mapping, entries = self._file, self._mapping, self._entries
        if file is None or mapping is None or entries is None:
            raise LogClosedError(f"index {self.path} was sealed or closed")
        return file, mapping, entries

    def _rounded(self, size: int) -> int:
        return size - size % self.ENTRY_SIZE

    def _truncate_to_entries(self, count: int) -> None:
        file, _, entries = self._live()
        if count < entries.count:
            entries.truncate(count)
            file.truncate(count * self.ENTRY_SIZE)  # down and up again: zeros, and disk space given back
            file.truncate(self.length)

    def _make_room(self, wanted: int) -> None:
        """Allocate disk space for the next entries; IndexFullError if they have no slots."""
        file, _, entries = self._live()
        count = entries.count
        if wanted > entries.capacity - count:
            raise IndexFullError(f"index {self.path} is full: {count} of {entries.capacity} entries")
        used, need = count * self.ENTRY_SIZE, (count + wanted) * self.ENTRY_SIZE
        end = min(-(-need // _ALLOCATE_BYTES) * _ALLOCATE_BYTES, entries.capacity * self.ENTRY_SIZE)
        file.allocate(used, end - used)
        entries.room = end // self.ENTRY_SIZE - count

    @abstractmethod
    def _slot_of_offset(self, entries: Entries, relative: int) -> int:
        """The first slot whose offset is not below `relative`."""


class ActiveOffsetIndex(ActiveIndex, OffsetIndex):
    """The active segment's offset index."""

    __slots__ = ()

    def append(self, offset: int, position: int) -> None:
        """Add an entry. Offsets must grow; IndexFullError if there is no slot."""
        relative = offset - self.base_offset
        self.reserve()
        entries = self._entries or self._loaded()
        last = _last_offset(entries)
        if relative <= last or relative > MAX_RELATIVE_OFFSET or not 0 <= position <= _MAX_POSITION:
            self._refuse(offset, position)
        entries.append(relative, position)

    def append_many(self, offsets: npt.ArrayLike, positions: npt.ArrayLike) -> None:
        """Add entries, all or none."""
        relative = np.asarray(offsets, np.int64) - self.base_offset
        places = np.ascontiguousarray(positions, np.int64)
        if not len(relative):
            return
        _, _, entries = self._live()
        self.reserve(len(relative))
        grows = np.diff(relative, prepend=_last_offset(entries)) > 0
        sound = grows & (relative <= MAX_RELATIVE_OFFSET) & (places >= 0) & (places <= _MAX_POSITION)
        if not sound.all():
            wrong = int(sound.argmin())
            self._refuse(int(relative[wrong]) + self.base_offset, int(places[wrong]))
        entries.append_many(relative, places)

    def seal(self) -> OffsetIndex:
        """Trim the file; the read-only index on it. This object can still be read, but takes no entries."""
        with self.directory.lock:
            sealed = OffsetIndex(self.directory, self.base_offset)
            sealed.name = self.name
            sealed._entries = self._detach()
            return sealed

    def _refuse(self, offset: int, position: int) -> None:
        self.relative_offset(offset)
        if not 0 <= position <= _MAX_POSITION:
            raise InvalidInputError(f"position {position} does not fit an index entry (0 to 2^31 - 1)")
        raise OffsetsOutOfOrderError(
            f"offset {offset} is not larger than the last ({self.last_offset}) in {self.path}"
        )

    def _slot_of_offset(self, entries: Entries, relative: int) -> int:
        slot = entries.floor_slot(relative, False)
        found = entries.entry(slot)
        return slot if found is not None and found[0] == relative else slot + 1


class ActiveTimeIndex(ActiveIndex, TimeIndex):
    """The active segment's time index. It counts as full one entry early: the last slot is for the roll."""

    __slots__ = ()

    @property
    def is_full(self) -> bool:
        """Whether the segment should be rolled because only the slot for the roll is left."""
        entries = self._entries or self._loaded()
        return entries.count >= entries.capacity - 1

    def maybe_append(self, timestamp: int, offset: int, skip_full_check: bool = False) -> bool:
        """Add an entry if the timestamp is larger than the last; whether it was.

        Neither may be smaller than the last entry's. `skip_full_check` takes the last slot, for the roll.
        """
        entries = self._entries
        if entries is None or self._file is None:
            entries = self._live()[2]
        count = entries.count
        if not skip_full_check and count >= entries.capacity - 1:
            raise IndexFullError(f"index {self.path} is full: {count} of {entries.capacity} entries")
        relative = offset - self.base_offset
        last_timestamp, last_relative = _last_time(entries)
        if count and (relative < last_relative or timestamp < last_timestamp):
            raise OffsetsOutOfOrderError(
                f"timestamp {timestamp} at offset {offset} goes back from {self.last_entry} in {self.path}"
            )
        if timestamp <= last_timestamp:
            return False
        self.relative_offset(offset)
        self.reserve()
        entries.append(timestamp, relative)
        return True

    def append_many(self, timestamps: npt.ArrayLike, offsets: npt.ArrayLike) -> None:
        """Add entries, all or none; their timestamps must grow, and one slot stays for the roll."""
        times = np.ascontiguousarray(timestamps, np.int64)
        relative = np.asarray(offsets, np.int64) - self.base_offset
        if not len(times):
            return
        _, _, entries = self._live()
        self.reserve(len(times) + 1)
        last_timestamp, last_relative = _last_time(entries)
        before = np.concatenate(([last_timestamp], times[:-1]))
        sound = (times > before) & (relative <= MAX_RELATIVE_OFFSET)
        sound &= np.diff(relative, prepend=last_relative) >= 0
        if not sound.all():
            wrong = int(sound.argmin())
            self.relative_offset(int(relative[wrong]) + self.base_offset)
            raise OffsetsOutOfOrderError(
                f"timestamp {times[wrong]} at offset {relative[wrong] + self.base_offset} goes back in "
                f"{self.path}"
            )
        entries.append_many(times, relative)

    def seal(self) -> TimeIndex:
        """Trim the file; the read-only index on it. This object can still be read, but takes no entries."""
        with self.directory.lock:
            sealed = TimeIndex(self.directory, self.base_offset)
            sealed.name = self.name
            sealed._entries = self._detach()
            return sealed

    def _slot_of_offset(self, entries: Entries, relative: int) -> int:
        slot = entries.floor_slot(relative, True)
        found = entries.entry(slot)
        return slot if found is not None and found[1] == relative else slot + 1


def _last_offset(entries: Entries) -> int:
    """The relative offset of the last entry of an offset index, or -1."""
    last = entries.last()
    return -1 if last is None else last[0]


def _last_time(entries: Entries) -> tuple[int, int]:
    """Timestamp and relative offset of the last entry of a time index; (-1, 0) for none."""
    return entries.last() or (NO_TIMESTAMP, 0)
