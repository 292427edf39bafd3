"""A partition that is written to meanwhile, as it was at one moment.

A log only grows at its end, and its indexes follow it. So the small files and the indexes of its last
segment are copied first, and then the log's length is noted: no entry lies past that. What comes later is not
seen. Of other segments nothing is kept: they do not change, but for a cleaning or a deletion. A moment inside
of a write shows a batch that is cut; another moment does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tidelog.manager.upkeep.rehearsal import Rehearsal
from tidelog.storage import FileSystem
from tidelog.storage.files import DirEntry, FileStat
from tidelog.storage.lock import holder_of
from tidelog.storage.names import FileKind, parse_segment_file

if TYPE_CHECKING:
    from _typeshed import StrPath

__all__ = ["Moment", "at_one_moment"]


class Moment(Rehearsal):
    """Reads a file system, in which one partition's directory stays as it was."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        super().__init__(fs)
        self._path, self._disk = path, fs
        self._state = self._look()
        self._entries: list[DirEntry] = []
        with suppress(OSError):  # whoever looks at it will be told
            self._entries = [*fs.list(path)]
        files = [parse_segment_file(entry.name) for entry in self._entries]
        last, logs = max((file.offset for file in files if file is not None), default=0), []
        for entry, file in zip(self._entries, files, strict=True):
            if entry.is_directory or (file is not None and file.offset < last):
                continue
            if file is not None and file.kind is FileKind.LOG:
                logs.append(entry.name)
            else:
                self._keep(entry.name, copied=True)
        for name in logs:
            self._keep(name, copied=False)

    def list(self, path: StrPath) -> Sequence[DirEntry]:
        """The entries of a directory; of the partition's, those of that moment."""
        return self._entries if self._entries and str(path) == self._path else super().list(path)

    def has_passed(self) -> bool:
        """Whether the partition has changed since."""
        return self._look() != self._state

    def _look(self) -> dict[str, FileStat]:
        found = {}
        with suppress(OSError):
            for entry in self._disk.list(self._path):
                with suppress(OSError):
                    found[entry.name] = self._disk.stat(f"{self._path}/{entry.name}")
        return found

    def _keep(self, name: str, *, copied: bool) -> None:
        with suppress(OSError):
            file = self.open(f"{self._path}/{name}", writable=True)
            if copied:
                file.map_writable().close()


@contextmanager
def at_one_moment(fs: FileSystem, root: str, path: str) -> Iterator[FileSystem]:
    """A partition of a root to be read: as it is now, if a process has the root open."""
    if holder_of(root) is None:
        yield fs
        return
    moment = Moment(fs, path)
    try:
        yield moment
    finally:
        moment.close()
