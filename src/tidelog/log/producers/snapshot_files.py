"""The producer snapshots of a log on disk (`snapshots` has their format, `producers` what is in them).

A snapshot is written under its final name, as Kafka does: one that a crash cut short fails its checksum and
is skipped. It is synced at once, or with the next flush where the writer must not wait.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.log.producers.producers import ProducerStateManager
from tidelog.storage import Directory, read_file
from tidelog.storage.names import FileKind, Transient, format_segment_file

__all__ = ["SnapshotFiles"]


class SnapshotFiles:
    """Reads, writes and removes `<offset>.snapshot` files in a partition's directory."""

    __slots__ = ("_directory", "_unsynced")

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._unsynced: set[str] = set()

    def read(self, offset: int) -> bytes:
        """A snapshot's bytes."""
        with self._directory.lock:
            return read_file(self._directory.fs, self._directory.file(_name(offset)))

    def take(self, producers: ProducerStateManager, *, sync: bool = True) -> int | None:
        """Write the snapshot of the present state, unless the last one still holds; its offset."""
        snapshot = producers.take_snapshot()
        if snapshot is None:
            return None
        name = _name(snapshot.offset)
        file = self._directory.open(name, create=True)
        try:
            file.truncate(0)
            file.pwrite(snapshot.data, 0)
            if sync:
                self._directory.sync_file(file)
            else:
                self._unsynced.add(name)
        finally:
            file.close()
        producers.snapshot_written(snapshot.offset)
        return snapshot.offset

    def sync(self) -> None:
        """Wait until the bytes of every snapshot are on the disk; their names are the directory's."""
        while self._unsynced:
            name = self._unsynced.pop()  # first: it may be written again meanwhile
            try:
                file = self._directory.open(name)
            except FileNotFoundError:
                continue
            try:
                self._directory.sync_file(file)
            finally:
                file.close()

    def delete(self, offsets: Iterable[int]) -> None:
        """Remove snapshots, as far as they are there."""
        for offset in offsets:
            self._directory.unlink(_name(offset))

    def mark_deleted(self, offsets: Iterable[int]) -> list[str]:
        """Give snapshots the suffix of files that go; the new names, for `unlink`."""
        marked = []
        for offset in offsets:
            name = format_segment_file(offset, FileKind.SNAPSHOT, Transient.DELETED)
            try:
                self._directory.rename(_name(offset), name)
            except FileNotFoundError:
                continue
            marked.append(name)
        return marked


def _name(offset: int) -> str:
    return format_segment_file(offset, FileKind.SNAPSHOT)
