"""The directory that an export writes to: Parquet files for everybody, and for ourselves what has been done.

    <target>/topic=orders/partition=0/date=2026-11-15/<first offset>-<last offset>.parquet
    <target>/_tidelog/export.json          how this export is made: a later run must not make it another way
    <target>/_tidelog/commits/<n>.jsonl    one for each run: first where it ended, then a line for each file
    <target>/_tidelog/published            the last commit whose files are all in place
    <target>/_tidelog/staging/<run>/       files under way
    <target>/_tidelog/.lock                held by the run under way

Names that begin with `_` are passed over by Spark, Hive and Arrow alike. A run:

1. takes the lock, puts in place what the last commit lacks, clears the staging;
2. reads from the last commit where each partition goes on;
3. its tasks write whole files into the staging, each attempt under names of its own, and sync them;
4. writes its commit under the next number: from here on the run has happened;
5. renames the files into place, then notes the commit as published.

A run that dies before 4 has added nothing; one that dies later is finished by the next. No file is ever
visible before it is whole.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidelog.errors import DataLossError, InvalidInputError, LogLockedError
from tidelog.storage import LOCAL, atomic_write, read_file, rename_noreplace
from tidelog.storage.lock import RootLock
from tidelog.types import TopicPartition

__all__ = ["ExportTarget", "StagedFile"]

METADATA = "_tidelog"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A whole file in the staging and where it belongs, both relative to the target."""

    staged: str
    path: str


class ExportTarget:
    """A target that is held by this run, from its making to `release`."""

    def __init__(self, target: Path) -> None:
        """Take hold of the target, made if need be, and finish what a dead run left."""
        self.target = target
        self._metadata = target / METADATA
        self._commits = self._metadata / "commits"
        _make_directories(self._commits)
        self._lock = RootLock(self._metadata)
        try:
            self.run = uuid.uuid4().hex
            self._number = max((int(path.stem) for path in self._commits.glob("*.jsonl")), default=0)
            self._publish()
            _remove(self._metadata / "staging")
        except BaseException:
            self._lock.release()
            raise

    def release(self) -> None:
        """Clear the staging and let go."""
        try:
            _remove(self._metadata / "staging")
        finally:
            self._lock.release()

    @property
    def staging(self) -> Path:
        """Where the tasks of this run write."""
        directory = self._metadata / "staging" / self.run
        _make_directories(directory)
        return directory

    def agree(self, way: dict[str, Any]) -> dict[str, Any]:
        """Keep the way this export is made; where one is kept already, it must be the same."""
        path = self._metadata / "export.json"
        if not path.exists():
            atomic_write(LOCAL, path, json.dumps(way, indent=1).encode())
            return way
        kept: dict[str, Any] = json.loads(read_file(LOCAL, path))
        for name, value in way.items():
            if kept.get(name) != value:
                raise InvalidInputError(
                    f"{self.target} was exported with {name} {kept.get(name)!r}, not {value!r}: "
                    "export to another directory"
                )
        return kept

    def remember(self, name: str, value: Any) -> None:
        """Add to what is kept of the way this export is made."""
        path = self._metadata / "export.json"
        kept = json.loads(read_file(LOCAL, path))
        atomic_write(LOCAL, path, json.dumps(kept | {name: value}, indent=1).encode())

    def next_offsets(self) -> dict[TopicPartition, int]:
        """Where each partition goes on."""
        if not self._number:
            return {}
        head, _ = self._read_commit()
        return {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in head["next"].items()
            for partition, offset in partitions.items()
        }

    def commit(self, next_offsets: dict[TopicPartition, int], files: Iterable[StagedFile]) -> None:
        """Make the run's files part of the export, and put them in place."""
        ends: dict[str, dict[str, int]] = {}
        for name in sorted(next_offsets):
            ends.setdefault(name.topic, {})[str(name.partition)] = next_offsets[name]
        lines = [{"run": self.run, "next": ends}, *({"staged": f.staged, "path": f.path} for f in files)]
        data = "".join(f"{json.dumps(line)}\n" for line in lines)
        prepared = self.staging / "commit.jsonl"
        atomic_write(LOCAL, prepared, data.encode())
        try:
            rename_noreplace(LOCAL, prepared, self._commit_path(self._number + 1))
        except FileExistsError:
            raise LogLockedError(
                f"another export to {self.target} came in between; nothing was added: run it again"
            ) from None
        LOCAL.sync_directory(self._commits)
        self._number += 1
        self._publish()

    def _commit_path(self, number: int) -> Path:
        return self._commits / f"{number:020}.jsonl"

    def _read_commit(self) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
        lines = read_file(LOCAL, self._commit_path(self._number)).splitlines()
        return json.loads(lines[0]), (json.loads(line) for line in lines[1:])

    def _publish(self) -> None:
        """Put the files of the last commit in place, as far as they are not."""
        mark = self._metadata / "published"
        if not self._number or (mark.exists() and int(read_file(LOCAL, mark)) >= self._number):
            return
        _, files = self._read_commit()
        directories = set()
        for file in files:
            staged, final = self.target / file["staged"], self.target / file["path"]
            _make_directories(final.parent)
            try:
                LOCAL.rename(staged, final)
            except FileNotFoundError:
                if not LOCAL.exists(final):
                    raise DataLossError(
                        f"{final} was exported, and is neither there nor in the staging; "
                        "export to another directory"
                    ) from None
            directories.add(final.parent)
        for directory in sorted(directories):
            LOCAL.sync_directory(directory)
        atomic_write(LOCAL, mark, str(self._number).encode())


def _make_directories(path: Path) -> None:
    """Make a directory and those above it, durably, as far as they are not there."""
    missing = []
    while not LOCAL.exists(path):
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        with contextlib.suppress(FileExistsError):
            LOCAL.make_directory(directory)
        LOCAL.sync_directory(directory.parent)


def _remove(directory: Path) -> None:
    """Remove a directory and all that is in it. A task of a dead run may still be writing: what is left then
    is cleared by a later run.
    """
    if not LOCAL.exists(directory):
        return
    with contextlib.suppress(OSError):
        for entry in LOCAL.list(directory):
            if entry.is_directory:
                _remove(directory / entry.name)
            else:
                LOCAL.unlink(directory / entry.name)
        LOCAL.remove_directory(directory)
