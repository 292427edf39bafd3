"""The directory that an export writes to: Parquet files, and a record of what has been exported.

    <target>/topic=orders/partition=0/date=2026-11-15/<first offset>-<last offset>.parquet
    <target>/_tidelog/export.json          how this export is made: a later run must not make it another way
    <target>/_tidelog/commits/<n>.jsonl    one for each run: first where it ended and the topics' ids, then
                                           a line for each file
    <target>/_tidelog/published            the last commit whose files are all in place
    <target>/_tidelog/staging/<n>-<run>/   files under way, of a run that follows commit n
    <target>/_tidelog/.lock                held by the run under way

The target is a directory or a prefix in an object store (`storage`). Names that begin with `_` are skipped by
Spark, Hive and Arrow alike. A run:

1. takes the lock, if there is one, puts in place what the last commit lacks, and clears the staging; without
   a lock, only what belongs to runs that another commit has overtaken;
2. reads from the last commit where each partition continues;
3. its tasks write whole files into the staging, each attempt under names of its own, and sync them;
4. writes its commit under the next number: from here on the run has happened;
5. moves the files into place, then notes the commit as published.

A run that dies before step 4 has added nothing; the next run finishes one that dies later. No file is visible
before it is complete.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidelog.errors import DataLossError, InvalidInputError, LogLockedError
from tidelog.scanning.partitions import Partition
from tidelog.spark.exporting.storage import Place, open_place
from tidelog.spark.source.topic_ids import decode_ids, encode_ids
from tidelog.tables.table import Done
from tidelog.types import TopicPartition
from tidelog.values.existing import Widenings

__all__ = ["EXPORT_FILE", "METADATA", "ExportTarget", "StagedFile", "kept_way", "target_place"]

METADATA = "_tidelog"
_COMMITS = f"{METADATA}/commits"
_STAGING = f"{METADATA}/staging"
EXPORT_FILE = f"{METADATA}/export.json"
_PUBLISHED = f"{METADATA}/published"
_DELTA_LOG = "_delta_log"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A whole file in the staging and where it belongs, both relative to the target."""

    staged: str
    path: str


def target_place(target: str | Path) -> Place:
    """The place that a target is."""
    return open_place(target, METADATA)


def kept_way(target: str | Path) -> dict[str, Any]:
    """How an export that has committed something was made; empty if there is none. Nothing is changed."""
    place = target_place(target)
    if not place.exists(EXPORT_FILE) or not place.names(_COMMITS):
        return {}
    kept: dict[str, Any] = json.loads(place.read(EXPORT_FILE))
    return kept


class ExportTarget:
    """A target that is held by this run, from its making to `release`."""

    widenings: Widenings = None  # older files are written again
    folds_case = False

    def __init__(self, target: str | Path) -> None:
        """Take hold of the target, made if need be, and finish what a dead run left."""
        self.place = target_place(target)
        self.place.hold()
        try:
            self.run = uuid.uuid4().hex
            if self.place.names(_DELTA_LOG):
                raise InvalidInputError(f"{self.place.url} is a Delta table: say --format delta")
            self._number = max(map(_number, self.place.names(_COMMITS)), default=0)
            self._begun = self._number
            self._agreed = False
            self._publish()
            self._clear()
        except BaseException:
            self.place.release()
            raise

    def release(self) -> None:
        """Clear the staging and let go."""
        try:
            self.place.remove(self.staging)
            self._clear()
        finally:
            self.place.release()

    @property
    def staging(self) -> str:
        """Where the tasks of this run write."""
        return f"{_STAGING}/{self._begun:020}-{self.run}"

    def agree(self, way: dict[str, Any]) -> dict[str, Any]:
        """Keep the way this export is made; where one is kept already, it must be the same.

        What a run that failed has kept, and no other has followed, binds nobody: unless it may be in
        progress.
        """
        is_left_over = self.place.exclusive and not self._number and not self._agreed
        self._agreed = True
        if is_left_over or not self.place.exists(EXPORT_FILE):
            self.place.write(EXPORT_FILE, json.dumps(way, indent=1).encode())
            return way
        kept: dict[str, Any] = json.loads(self.place.read(EXPORT_FILE))
        for name, value in way.items():
            if kept.get(name) != value:
                raise InvalidInputError(
                    f"{self.place.url} was exported with {name} {kept.get(name)!r}, not {value!r}: "
                    "export to another directory"
                )
        return kept

    def remember(self, **more: Any) -> None:
        """Add to what is kept of the way this export is made."""
        kept = json.loads(self.place.read(EXPORT_FILE))
        self.place.write(EXPORT_FILE, json.dumps(kept | more, indent=1).encode())

    def exported_files(self) -> list[str]:
        """All files that were exported so far, each once."""
        files: dict[str, None] = {}
        for name in self.place.names(_COMMITS):
            lines = self.place.read(f"{_COMMITS}/{name}").splitlines() if _number(name) else []
            files |= dict.fromkeys(json.loads(line)["path"] for line in lines[1:])
        return list(files)

    @property
    def url(self) -> str:
        """How messages call the target."""
        return self.place.url

    def schemas(self, names: Iterable[str]) -> dict[str, str]:
        """The schemas of values and keys that are kept, by topic."""
        kept: dict[str, str] = self.agree({}).get("schemas", {})
        return kept

    def keep_schemas(self, schemas: dict[str, str], changed: Iterable[str]) -> None:
        """Keep schemas; the older files of topics whose types have `changed` are to be written again."""
        way = self.agree({})
        again = sorted({*way.get("rewrite", ()), *changed})
        self.remember(schemas=way.get("schemas", {}) | schemas, rewrite=again)

    def done(self, partitions: Sequence[Partition] = ()) -> Done:
        """What was exported so far, of these partitions and others."""
        if not self._number:
            return Done()
        head, _ = self._read_commit()
        offsets = {
            TopicPartition(topic, int(partition)): offset
            for topic, partitions in head["next"].items()
            for partition, offset in partitions.items()
        }
        generations = {str(topic): int(number) for topic, number in head.get("generations", {}).items()}
        return Done(offsets, decode_ids(head.get("ids", {}), offsets), generations)

    def commit(self, done: Done, files: Iterable[StagedFile]) -> None:
        """Make the run's files part of the export, and put them in place."""
        ends: dict[str, dict[str, int]] = {}
        for name in sorted(done.offsets):
            ends.setdefault(name.topic, {})[str(name.partition)] = done.offsets[name]
        head = {
            "run": self.run,
            "next": ends,
            "ids": encode_ids(done.ids),
            "generations": dict(sorted(done.generations.items())),
        }
        lines = [head, *({"staged": f.staged, "path": f.path} for f in files)]
        data = "".join(f"{json.dumps(line)}\n" for line in lines)
        try:
            self.place.create(_commit_name(self._number + 1), data.encode())
        except FileExistsError:
            raise LogLockedError(
                f"another export to {self.place.url} came in between; nothing was added: run it again"
            ) from None
        self._number += 1
        self._publish()

    def _read_commit(self) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
        lines = self.place.read(_commit_name(self._number)).splitlines()
        return json.loads(lines[0]), (json.loads(line) for line in lines[1:])

    def _publish(self) -> None:
        """Put the files of the last commit in place, as far as they are not."""
        place = self.place
        if not self._number or (place.exists(_PUBLISHED) and int(place.read(_PUBLISHED)) >= self._number):
            return
        _, files = self._read_commit()
        directories = set()
        for file in files:
            staged, final = file["staged"], file["path"]
            try:
                place.move(staged, final)
            except FileNotFoundError:
                if not place.exists(final):
                    raise DataLossError(
                        f"{place.url}/{final} was exported, and is neither there nor in the staging; "
                        "export to another directory"
                    ) from None
            directories.add(final.rpartition("/")[0])
        place.settle(directories)
        place.write(_PUBLISHED, str(self._number).encode())

    def _clear(self) -> None:
        """Remove what dead runs have staged: a run can only commit under the number that follows its own."""
        if self.place.exclusive:
            self.place.remove(_STAGING)
            return
        for name in self.place.names(_STAGING):
            if _number(name) < self._number:
                self.place.remove(f"{_STAGING}/{name}")


def _commit_name(number: int) -> str:
    return f"{_COMMITS}/{number:020}.jsonl"


def _number(name: str) -> int:
    """The number that a name in the metadata begins with; 0 for one that is not ours."""
    digits = name[:20]
    return int(digits) if len(digits) == 20 and digits.isdigit() else 0
