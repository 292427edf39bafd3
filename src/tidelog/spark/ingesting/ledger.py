"""What an ingest has taken: batches of files, each written down before anything of it is.

    <directory>/ledger.json           {"version": 1, "id": "8c5f..."}: whose batches these are, in journals
    <directory>/batch-00000000.json   {"version": 1, "files": [[path, size, mtime_ms], ...]}
    <directory>/position.json         {"version": 1, "batches": 3, "at": {...}}: of tables, see below
    <directory>/.lock                 held by the run under way (`hold`)

A file is taken once: it is in one batch. Whether a batch is in a root is said by that root's journal, under
the ledger's id and the batch's number. So one that is not there was never published, and is taken as it is
written down; a root that was rebuilt gets all of them again; and who deletes the ledger takes everything
again. Of two runs at a time one is refused: by the lock, and where a mount knows no locks, when it adds a
batch, for batches are made under names that are never replaced.

A batch of a table also has `at`, where the table is to be read on after it; its files may have values of
columns that they lack: [path, size, mtime_ms, [[column, text], ...]]. `position.json` moves on past versions
without rows; it counts as long as no batch has come after it.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.errors import InvalidIndexError, LogLockedError
from tidelog.storage import LOCAL, FileSystem, atomic_create, atomic_write, make_directories, read_file
from tidelog.storage.lock import RootLock
from tidelog.storage.write_journal import LEDGER_PREFIX

__all__ = ["Ledger", "SourceFile", "hold", "is_ledger"]

_IDENTITY = "ledger.json"
_POSITION = "position.json"
_BATCH = re.compile(r"batch-(\d{8})\.json")


class SourceFile(NamedTuple):
    """A file as it was when it was listed."""

    path: str
    """As Spark tells it: a URL."""
    size: int
    mtime_ms: int
    constants: tuple[tuple[str, str | None], ...] = ()
    """Of a table: columns that the file lacks, each with its one value."""


@contextmanager
def hold(directory: Path) -> Iterator[None]:
    """Keep other runs away for as long as the `with` lasts; LogLockedError if one is at work."""
    make_directories(LOCAL, directory)
    try:
        lock = RootLock(directory)
    except LogLockedError as error:
        raise LogLockedError(f"another ingest under this name is at work: {error}") from None
    with lock:
        yield


def is_ledger(directory: Path, fs: FileSystem = LOCAL) -> bool:
    """Whether there is a ledger in a directory."""
    return fs.exists(directory / _IDENTITY)


class Ledger:
    """The batches of one ingest."""

    def __init__(self, directory: Path, fs: FileSystem = LOCAL) -> None:
        """Read the ledger in a directory; nothing is made before the first `add`."""
        self.directory = directory
        self._fs = fs
        self._batches: list[tuple[SourceFile, ...]] = []
        self._position: dict[str, Any] | None = None
        self._id = ""
        names = {entry.name for entry in fs.list(directory)} if fs.exists(directory) else set()
        if _IDENTITY in names:
            self._id = str(self._read(_IDENTITY, "id"))
        numbers = sorted(int(found[1]) for name in names if (found := _BATCH.fullmatch(name)))
        if numbers != list(range(len(numbers))) or (numbers and not self._id):
            raise InvalidIndexError(f"{directory} lacks some of its files: what was ingested cannot be told")
        for number in numbers:
            self._batches.append(self._files(number))
        self._position = self._read_position(_POSITION in names)

    @property
    def query(self) -> str:
        """Under which its batches are known in journals; empty as long as there is none."""
        return f"{LEDGER_PREFIX}{self._id}" if self._id else ""

    @property
    def batches(self) -> Sequence[tuple[SourceFile, ...]]:
        """The files of each batch, by number."""
        return self._batches

    def fresh(self, files: Sequence[SourceFile]) -> list[SourceFile]:
        """Those that are in no batch, the oldest first."""
        taken = {one.path for batch in self._batches for one in batch}
        return sorted(
            (one for one in files if one.path not in taken), key=lambda one: (one.mtime_ms, one.path)
        )

    @property
    def position(self) -> dict[str, Any] | None:
        """Where a table is to be read on; None if nothing of one was taken."""
        return self._position

    def add(self, files: Sequence[SourceFile], position: dict[str, Any] | None = None) -> int:
        """Write down the next batch, durably; its number. LogLockedError if another run was faster."""
        if not self._id:
            self._begin()
        number = len(self._batches)
        content: dict[str, Any] = {"files": [list(one[:3] if position is None else one) for one in files]}
        if position is not None:
            content["at"] = position
        self._create(self.file(number).name, content)
        self._batches.append(tuple(files))
        self._position = position
        return number

    def move(self, position: dict[str, Any]) -> None:
        """Note that a table is to be read on at another place, with nothing taken in between."""
        if not self._id:
            self._begin()
        content = {"version": 1, "batches": len(self._batches), "at": position}
        atomic_write(self._fs, self.directory / _POSITION, json.dumps(content).encode())
        self._position = position

    def file(self, number: int) -> Path:
        """The file of a batch."""
        return self.directory / f"batch-{number:08}.json"

    def _begin(self) -> None:
        make_directories(self._fs, self.directory)
        made = uuid.uuid4().hex
        self._create(_IDENTITY, {"id": made})
        self._id = made

    def _create(self, name: str, content: Mapping[str, Any]) -> None:
        path = self.directory / name
        try:
            atomic_create(self._fs, path, json.dumps({"version": 1, **content}).encode())
        except FileExistsError:
            raise LogLockedError(
                f"another ingest under this name is at work: it has just made {path}; run again"
            ) from None

    def _read(self, name: str, field: str, *default: Any) -> Any:
        path = self.directory / name
        try:
            content = json.loads(read_file(self._fs, path))
            return content.get(field, *default) if default else content[field]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidIndexError(f"{path} does not say what was ingested: {error}") from error

    def _files(self, number: int) -> tuple[SourceFile, ...]:
        path = self.file(number)
        listed = self._read(path.name, "files")
        try:
            return tuple(
                SourceFile(
                    str(where),
                    int(size),
                    int(mtime),
                    tuple((name, text) for pairs in more for name, text in pairs),
                )
                for where, size, mtime, *more in listed
            )
        except (ValueError, TypeError) as error:
            raise InvalidIndexError(f"{path} does not say what was ingested: {error}") from error

    def _read_position(self, is_noted: bool) -> dict[str, Any] | None:
        count = len(self._batches)
        if is_noted and self._read(_POSITION, "batches") == count:
            found = self._read(_POSITION, "at")
        else:
            found = self._read(self.file(count - 1).name, "at", None) if count else None
        if found is not None and not isinstance(found, dict):
            raise InvalidIndexError(f"{self.directory} does not say where to read on, but {found!r}")
        return found
