"""What an export needs of a table; the files that it adds; how far it has come.

A commit adds files and moves offsets, or does neither. It is refused if another commit has moved the offsets
of one of its partitions: then another export has added these records. Other commits, of whomever, do not
matter: they are kept.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from tidelog.errors import InvalidInputError, LogLockedError
from tidelog.types import TopicPartition

__all__ = [
    "PARTITION_COLUMNS",
    "DataFile",
    "Done",
    "Table",
    "TableFormat",
    "changed_partitions",
    "check_partition_by",
    "overtaken",
]

PARTITION_COLUMNS = ("topic", "partition", "date")
"""What a table can be partitioned by: a file is always of one topic, partition and date."""


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


class Table(Protocol):
    """A table, or a place where one is to be made."""

    name: str
    """How messages call it."""
    keeps_partition_columns: bool
    """Whether files have the columns that the table is partitioned by."""

    @property
    def exists(self) -> bool:
        """Whether there is such a table by now."""

    @property
    def location(self) -> str | None:
        """Where its files are, as a path or URL; None if that is not known before it is created."""

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Which of `PARTITION_COLUMNS` it is partitioned by."""

    def refresh(self) -> None:
        """Take note of what others have committed."""

    def schema(self) -> pa.Schema | None:
        """Its columns; None if there is no table."""

    def create(self, schema: pa.Schema) -> None:
        """Make the table; LogLockedError if another was faster."""

    def add_columns(self, schema: pa.Schema) -> None:
        """Add the columns and nested fields that the table does not have."""

    def file_schema(self, schema: pa.Schema) -> pa.Schema:
        """Columns of files, as the table wants them to be written."""

    def done(self, ids: Mapping[TopicPartition, str | None]) -> Done:
        """Where these partitions continue, whose topics have these ids now."""

    def append(self, run: str, files: Sequence[DataFile], before: Done, after: Done) -> None:
        """Add files and move offsets, in one commit; LogLockedError if others have moved them.

        `run` is the directory that all files of this run are in, and no others.
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


def overtaken(name: str) -> LogLockedError:
    """What to raise if another export has moved the same partitions."""
    return LogLockedError(f"another export to {name} came in between; nothing was added: run it again")


def check_partition_by(columns: Sequence[str]) -> tuple[str, ...]:
    """Columns that a new table is to be partitioned by."""
    unknown = [each for each in columns if each not in PARTITION_COLUMNS]
    if unknown:
        known = ", ".join(PARTITION_COLUMNS)
        raise InvalidInputError(f"a table is partitioned by any of {known}, not by {unknown[0]!r}")
    return tuple(each for each in PARTITION_COLUMNS if each in columns)
