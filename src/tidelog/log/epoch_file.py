"""A log's leader epochs and the file they are kept in, `leader-epoch-checkpoint`.

A new epoch is on the disk before the data written in it counts (`assign`); entries cut off are written, too,
but may linger after a crash: the next load cuts them again.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.log.epochs import LeaderEpochCache
from tidelog.records.batches import BatchTable
from tidelog.storage import Directory, EpochEntry, read_file
from tidelog.storage.names import LEADER_EPOCH_FILE

__all__ = ["EpochFile"]


class EpochFile:
    """The epochs of a log, and their file. One thread writes; `cache` may be read by any."""

    __slots__ = ("_directory", "cache")

    def __init__(self, directory: Directory, cache: LeaderEpochCache) -> None:
        self._directory = directory
        self.cache = cache
        """The epochs; change them through this object only."""

    @classmethod
    def load(cls, directory: Directory) -> EpochFile:
        """What the file says; no epochs where there is none."""
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
        self.cache = LeaderEpochCache(entries)
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
