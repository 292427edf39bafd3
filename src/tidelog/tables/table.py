"""What an export needs of a table; the files that it adds; how far it has come.

A commit adds files and moves offsets, or does neither. It is refused if another commit has moved the offsets
of one of its partitions: then another export has added these records. Other commits, of whomever, do not
matter: they are kept.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from tidelog.errors import InvalidInputError, LogLockedError
from tidelog.types import TopicPartition
from tidelog.values.existing import Widenings

__all__ = [
    "BY_KEY_COLUMNS",
    "DEFAULT_BUCKETS",
    "MAX_BUCKETS",
    "PARTITION_COLUMNS",
    "DataFile",
    "Done",
    "LiveFile",
    "Table",
    "TableFormat",
    "changed_partitions",
    "check_partition_by",
    "commit_to",
    "overtaken",
    "rewritten",
]

PARTITION_COLUMNS = ("topic", "partition", "date")
"""What a table can be partitioned by: a file is always of one topic, partition and date."""

BY_KEY_COLUMNS = ("topic", "partition", "bucket")
"""What a table by key is partitioned by."""
DEFAULT_BUCKETS = 16
MAX_BUCKETS = 4096
_ATTEMPTS = 20


class TableFormat(enum.StrEnum):
    """What an export writes."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


@dataclass(frozen=True, slots=True)
class Done:
    """How far an export has come."""

    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where each partition continues."""
    ids: Mapping[TopicPartition, str] = field(default_factory=dict)
    """The ids of the topics that these offsets are of."""
    generations: Mapping[str, int] = field(default_factory=dict)
    """Topics that were found to be others under the same name: how many there were so far."""
    lost: str | None = None
    """What a user is to be told of rows that were exported and are not there any more."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A whole Parquet file of one topic, partition and date (UTC), and what is known about its records."""

    path: str
    """Relative to the table's location."""
    topic: str
    partition: int
    date: str | None
    records: int
    size: int
    first_offset: int
    last_offset: int
    min_timestamp_us: int | None
    max_timestamp_us: int | None
    """None if no record has a timestamp."""
    null_timestamps: int
    bucket: int | None = None
    """Of a table by key."""
    max_topic: str | None = None
    max_partition: int | None = None
    """If it was merged of files of several."""
    has_bounds: bool = True
    """Whether all rows have a topic, a partition and an offset."""

    def bounds(self) -> dict[str, tuple[Any, Any]]:
        """The least and the largest value of columns that no row lacks."""
        if not self.has_bounds:
            return {}
        last_partition = self.partition if self.max_partition is None else self.max_partition
        return {
            "topic": (self.topic, self.max_topic or self.topic),
            "partition": (self.partition, last_partition),
            "offset": (self.first_offset, self.last_offset),
        }


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file that is part of a table."""

    name: str
    """How the table calls it."""
    url: str
    size: int
    records: int
    values: Mapping[str, Any]
    """Of the columns that the table is partitioned by; a date is text."""
    first: tuple[int, int] = (0, 0)
    """The least partition and offset in it, as far as the table knows."""
    is_foreign: bool = False
    """Whether it is left alone: it is partitioned in another way, or its name has escapes."""


class Table(Protocol):
    """A table, or a place where one is to be made."""

    name: str
    """How messages call it."""
    keeps_partition_columns: bool
    """Whether files have the columns that the table is partitioned by."""
    widenings: Widenings
    """Which types `add_columns` makes which others, at any depth."""

    @property
    def exists(self) -> bool:
        """Whether there is such a table by now."""

    @property
    def location(self) -> str | None:
        """Where its files are, as a path or URL; None if that is not known before it is created."""

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Which of `PARTITION_COLUMNS` it is partitioned by."""

    @property
    def buckets(self) -> int | None:
        """Into how many buckets the keys of a partition are spread; None if it is not a table by key."""

    def files(self) -> list[LiveFile]:
        """Its files; InvalidInputError if some of their rows are deleted by other files."""

    def refresh(self) -> None:
        """Take note of what others have committed."""

    def check_writable(self) -> None:
        """InvalidInputError if the table has rules that files of an export would not keep."""

    def schema(self) -> pa.Schema | None:
        """Its columns; None if there is no table."""

    def create(self, schema: pa.Schema) -> None:
        """Make the table; LogLockedError if another was faster."""

    def add_columns(self, schema: pa.Schema) -> None:
        """Add the columns and nested fields that the table does not have; widen types if it can."""

    def file_schema(self, schema: pa.Schema) -> pa.Schema:
        """Columns of files, as the table wants them to be written."""

    def done(self, ids: Mapping[TopicPartition, str | None]) -> Done:
        """Where these partitions continue, whose topics have these ids now."""

    def append(
        self, run: str, files: Sequence[DataFile], before: Done, after: Done, removed: Sequence[str] = ()
    ) -> None:
        """Add files, remove others and move offsets, in one commit.

        LogLockedError if others have moved the offsets, or have removed or rewritten files that are to go.
        `run` is the directory that all files of this run are in, and no others.
        """

    def replace(self, run: str, files: Sequence[DataFile], removed: Sequence[str]) -> None:
        """Put files in the place of others that have the same rows, in one commit; offsets stay.

        LogLockedError if others have removed or rewritten one of them. `run` is as for `append`.
        """

    def refers_to(self, directory: str) -> bool:
        """Whether the table has files in a directory of its location."""


def changed_partitions(before: Done, after: Done) -> list[TopicPartition]:
    """The partitions that a commit moves."""
    return sorted(
        name
        for name, offset in after.offsets.items()
        if before.offsets.get(name) != offset or before.ids.get(name) != after.ids.get(name)
    )


def commit_to(table: Table, commit: Callable[[], None], refusal: type[Exception], run: str = "") -> None:
    """Commit, and again as long as it is refused. The table is loaded anew before `commit` looks at it again.

    A commit can arrive although its answer is lost. When it is sent again it is refused, for it is in its own
    way: so a refused run whose files are in the table has succeeded.
    """
    for _ in range(_ATTEMPTS):
        try:
            commit()
        except refusal as error:
            refused = error
            table.refresh()
            if run and table.refers_to(run):
                return
        else:
            table.refresh()
            return
    raise LogLockedError(f"{table.name} took no commit in {_ATTEMPTS} attempts; run it again") from refused


def overtaken(name: str) -> LogLockedError:
    """What to raise if another export has moved the same partitions."""
    return LogLockedError(f"another export to {name} came in between; nothing was added: run it again")


def rewritten(name: str) -> LogLockedError:
    """What to raise if files that are to be replaced are not in the table any more."""
    return LogLockedError(f"another writer has changed files of {name}; nothing was added: run it again")


def check_partition_by(columns: Sequence[str]) -> tuple[str, ...]:
    """Columns that a new table is to be partitioned by."""
    unknown = [each for each in columns if each not in PARTITION_COLUMNS]
    if unknown:
        known = ", ".join(PARTITION_COLUMNS)
        raise InvalidInputError(f"a table is partitioned by any of {known}, not by {unknown[0]!r}")
    return tuple(each for each in PARTITION_COLUMNS if each in columns)
