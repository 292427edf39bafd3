"""Which leader epoch wrote which offsets: the start offset of each epoch that has written to the log.

Invariant: epochs and start offsets both grow from entry to entry. A new entry that breaks it replaces what it
contradicts: every entry from the end that has its epoch or a later one, or starts at its offset or after it.

The entries are one immutable tuple, replaced as a whole, so readers need no lock. A method that changes them
says so with True; `EpochFile` then writes `leader-epoch-checkpoint`. An entry is on the disk before the data
it tells of counts as written; entries cut off are written, too, but may linger after a crash: the next load
cuts them again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from tidelog.errors import InvalidInputError
from tidelog.kernels.shared import EpochFields
from tidelog.records.batches import BatchTable
from tidelog.storage import Directory, EpochEntry, read_file
from tidelog.storage.checkpoints import format_epochs, parse_epochs
from tidelog.storage.names import LEADER_EPOCH_FILE

__all__ = ["UNDEFINED_EPOCH", "UNDEFINED_EPOCH_OFFSET", "EpochEndOffset", "EpochFile", "LeaderEpochCache"]

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1

_MAGIC_V2 = 2

_epoch = attrgetter("epoch")
_start_offset = attrgetter("start_offset")


class EpochEndOffset(NamedTuple):
    """An epoch and the offset after its last record; both -1 where nothing is known."""

    epoch: int
    end_offset: int


class LeaderEpochCache(EpochFields):
    """The leader epochs of one log."""

    __slots__ = ()

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        super().__init__()
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    @classmethod
    def from_bytes(cls, data: bytes, source: str) -> LeaderEpochCache:
        """Read a `leader-epoch-checkpoint` file; `source` names it in errors."""
        return cls(parse_epochs(data, source))

    def to_bytes(self) -> bytes:
        """The `leader-epoch-checkpoint` file of the present entries."""
        return format_epochs(self._entries)

    @property
    def entries(self) -> Sequence[EpochEntry]:
        """All entries, oldest first."""
        return self._entries

    def __bool__(self) -> bool:
        """True once any epoch has written."""
        return bool(self._entries)

    @property
    def earliest(self) -> EpochEntry | None:
        """The oldest entry."""
        return self._entries[0] if self._entries else None

    @property
    def latest(self) -> EpochEntry | None:
        """The newest entry."""
        return self._entries[-1] if self._entries else None

    @property
    def latest_epoch(self) -> int | None:
        """The newest epoch that has written."""
        return self._entries[-1].epoch if self._entries else None

    def entry(self, epoch: int) -> EpochEntry | None:
        """The entry of exactly this epoch."""
        at = bisect_left(self._entries, epoch, key=_epoch)
        found = self._entries[at : at + 1]
        return found[0] if found and found[0].epoch == epoch else None

    def previous_entry(self, epoch: int) -> EpochEntry | None:
        """The newest entry of an epoch below this one."""
        at = bisect_left(self._entries, epoch, key=_epoch)
        return self._entries[at - 1] if at else None

    def next_entry(self, epoch: int) -> EpochEntry | None:
        """The oldest entry of an epoch above this one."""
        at = bisect_right(self._entries, epoch, key=_epoch)
        return self._entries[at] if at < len(self._entries) else None

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch that wrote (or would write) this offset; None below the first entry."""
        at = bisect_right(self._entries, offset, key=_start_offset)
        return self._entries[at - 1].epoch if at else None

    def end_offset_for(self, requested_epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Where the requested epoch ends in this log: what a follower needs to find where the two diverge.

        requested epoch            answered epoch      end offset
        -1, or none is known       -1                  -1
        the latest                 the same            the log end
        above the latest           -1                  -1
        below the first            the same            start of the first
        any other                  largest <= it       start of the next larger one
        """
        entries = self._entries
        if requested_epoch == UNDEFINED_EPOCH or not entries or requested_epoch > entries[-1].epoch:
            return EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if requested_epoch == entries[-1].epoch:
            return EpochEndOffset(requested_epoch, log_end_offset)
        at = bisect_right(entries, requested_epoch, key=_epoch)
        return EpochEndOffset(entries[at - 1].epoch if at else requested_epoch, entries[at].start_offset)

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`; nothing if the latest entry says so already."""
        entries = self._entries
        if entries and epoch == entries[-1].epoch and start_offset >= entries[-1].start_offset:
            return False
        if epoch < 0 or start_offset < 0:
            raise InvalidInputError(f"leader epoch {epoch} cannot start at offset {start_offset}")
        keep = len(entries)
        while keep and (entries[keep - 1].epoch >= epoch or entries[keep - 1].start_offset >= start_offset):
            keep -= 1
        self._entries = (*entries[:keep], EpochEntry(epoch, start_offset))
        return True

    def assign_batches(self, batches: BatchTable) -> bool:
        """Note the epochs stamped on a run of batches; magic 0 and 1 know none and make us forget all."""
        rows = batches.rows
        if len(rows) > 1:
            changed = (np.diff(batches.leader_epoch) != 0) | (np.diff(batches.base_offset) < 0)
            changed |= np.diff(batches.magic) != 0
            rows = rows[np.concatenate(([0], np.flatnonzero(changed) + 1))]
        before = self._entries
        for _, _, base_offset, _, leader_epoch, magic, *_ in rows.tolist():
            if magic >= _MAGIC_V2:
                self.assign(leader_epoch, base_offset)
            else:
                self._entries = ()
        return self._entries is not before

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget epochs that start at or after `end_offset`; a negative one changes nothing."""
        if end_offset < 0 or not self._entries or self._entries[-1].start_offset < end_offset:
            return False
        self._entries = self._entries[: bisect_left(self._entries, end_offset, key=_start_offset)]
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget epochs that ended at or before `start_offset`; the one it lies in now starts there."""
        at = bisect_right(self._entries, start_offset, key=_start_offset)
        if not at:
            return False
        first = EpochEntry(self._entries[at - 1].epoch, start_offset)
        if at == 1 and self._entries[0] == first:
            return False
        self._entries = (first, *self._entries[at:])
        return True

    def entries_in_range(self, start_offset: int, end_offset: int) -> Sequence[EpochEntry]:
        """The entries as a log that held only [start_offset, end_offset) would have them."""
        cut = LeaderEpochCache()
        cut._entries = self._entries
        if start_offset >= 0:
            cut.truncate_from_start(start_offset)
        cut.truncate_from_end(end_offset)
        return cut._entries

    def restore(self, entries: Iterable[EpochEntry]) -> None:
        """Have these entries from now on."""
        self._entries = LeaderEpochCache(entries)._entries

    def clear(self) -> bool:
        """Forget everything."""
        had_any = bool(self._entries)
        self._entries = ()
        return had_any


class EpochFile:
    """The epochs of a log, and their file. One thread writes; `cache` may be read by any."""

    __slots__ = ("_directory", "cache")

    def __init__(self, directory: Directory, cache: LeaderEpochCache) -> None:
        self._directory = directory
        self.cache = cache
        """The epochs, always the same object; change them through this one only."""

    @classmethod
    def load(cls, directory: Directory) -> EpochFile:
        """What the file says; no epochs if there is none."""
        with directory.lock:
            path = directory.file(LEADER_EPOCH_FILE)
            try:
                data = read_file(directory.fs, path)
            except FileNotFoundError:
                data = b""
        return cls(directory, LeaderEpochCache.from_bytes(data, path))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that an epoch begins."""
        if self.cache.assign(epoch, start_offset):
            self.write()

    def assign_batches(self, batches: BatchTable) -> bool:
        """Note the epochs stamped on batches that are about to be written; whether any was new."""
        changed = self.cache.assign_batches(batches)
        if changed:
            self.write()
        return changed

    def restore(self, entries: Sequence[EpochEntry]) -> None:
        """Go back to earlier entries: what they were changed for was not written."""
        self.cache.restore(entries)
        self.write()

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that start at or after `end_offset`."""
        if self.cache.truncate_from_end(end_offset):
            self.write()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that ended at or before `start_offset`."""
        if self.cache.truncate_from_start(start_offset):
            self.write()

    def clear(self) -> None:
        """Forget all."""
        if self.cache.clear():
            self.write()

    def write(self) -> None:
        """Replace the file."""
        self._directory.replace(LEADER_EPOCH_FILE, self.cache.to_bytes())
