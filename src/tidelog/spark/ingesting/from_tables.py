"""Delta and Iceberg tables into topics, by the versions of the table and a ledger of batches.

A first run takes the table as it is; later runs take what each version since has added (`tables.changes`). A
batch has files, and where the table is to be read on after them (`ledger`): a version, and how many of its
files were taken if not all. The driver lists files; tasks read them with Arrow. If records are made by SQL
expressions, Spark gets the rows from these tasks.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.errors import InvalidIndexError, InvalidInputError
from tidelog.spark.ingesting.batches import BatchWriter
from tidelog.spark.ingesting.ledger import SourceFile
from tidelog.spark.ingesting.parquet import plain_columns
from tidelog.spark.ingesting.records import RECORD_COLUMNS, Columns, FileSource
from tidelog.spark.runtime.jobs import Bin, pack, share_bytes
from tidelog.spark.runtime.shipping import ship
from tidelog.spark.sink.writing import Writing
from tidelog.tables.changes import AddedFile, Change, History
from tidelog.tables.opening import open_history
from tidelog.tables.rows import read_rows
from tidelog.tables.table import TableFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["OnChange", "TableIngest", "is_table_source", "on_change", "table_frame"]

_FORMATS = (TableFormat.DELTA, TableFormat.ICEBERG)


class OnChange(enum.StrEnum):
    """What to do about a version that has removed or rewritten rows."""

    FAIL = "fail"
    SKIP = "skip"
    TAKE = "take"


def on_change(name: str) -> OnChange:
    """The choice of that name."""
    try:
        return OnChange(name.lower())
    except ValueError:
        known = ", ".join(each.value for each in OnChange)
        raise InvalidInputError(f"on_change is one of {known}, not {name!r}") from None


def is_table_source(source: FileSource) -> bool:
    """Whether a source is a table."""
    return source.path is not None and source.format.lower() in _FORMATS


def _history(source: FileSource) -> History:
    return open_history(TableFormat(source.format.lower()), source.path or "", source.options)


def table_frame(spark: SparkSession, source: FileSource) -> DataFrame:
    """All rows that a table has now."""
    history = _history(source)
    whole = history.whole()
    return _frame(spark, history.columns(), [] if whole is None else whole.files)


@dataclass(frozen=True, slots=True)
class _TableRows:
    """Reads the files of splits, in a task."""

    columns: pa.Schema
    splits: tuple[Bin[AddedFile], ...]

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for file in self.splits[number].items:
                    yield from read_rows(file, self.columns)


@dataclass(frozen=True, slots=True)
class _TableLoad:
    """Reads the files of a split and stages their rows, in a task."""

    writing: Writing
    directory: str
    columns: tuple[tuple[str, str], ...]
    """Columns of records, and the table's columns that they are."""
    schema: pa.Schema

    def __call__(self, number: int, split: Bin[AddedFile]) -> list[dict[str, Any]]:
        return [{"task": number, "manifest": self.writing.stage(self._rows(split), self.directory, number)}]

    def _rows(self, split: Bin[AddedFile]) -> Iterator[pa.RecordBatch]:
        names = [column for column, _ in self.columns]
        for file in split.items:
            for batch in read_rows(file, self.schema):
                arrays = [batch.column(source) for _, source in self.columns]
                yield pa.RecordBatch.from_arrays(arrays, names)


def _frame(spark: SparkSession, columns: pa.Schema, files: Sequence[AddedFile]) -> DataFrame:
    """The rows of files, in the order of the files."""
    from pyspark.sql.pandas.types import from_arrow_schema

    splits = tuple(pack(files, share_bytes(spark, sum(one.size for one in files))))
    numbers = spark.range(0, len(splits), 1, max(len(splits), 1))
    bare = pa.schema([pa.field(one.name, one.type) for one in columns])
    return numbers.mapInArrow(ship(_TableRows(columns, splits)), from_arrow_schema(bare))


class TableIngest:
    """One run of an ingest of a table."""

    def __init__(
        self,
        spark: SparkSession,
        source: FileSource,
        columns: Columns,
        sink: Mapping[str, str],
        progress: Path,
        on_change: OnChange,
    ) -> None:
        """`sink` has the options of the sink; `progress` is the ledger's directory, held by the caller."""
        self._spark = spark
        self._batches = BatchWriter(spark, columns, sink, progress)
        self._ledger = self._batches.ledger
        if self._ledger.batches and self._ledger.position is None:
            raise InvalidInputError(f"{progress} is that of an ingest of files: take another name")
        self._given = {name: getattr(columns, name) for name in RECORD_COLUMNS}
        self._on_change = on_change
        self._history = _history(source)
        self._columns = self._history.columns()

    def run(self, files_at_a_time: int) -> None:
        """Take what was added to the table and was not taken."""
        ledger = self._ledger
        position = self._position()
        journal = self._batches.settled()
        for number, files in enumerate(ledger.batches):
            if not journal.has(ledger.query, number):
                self._take(number, files)
        waiting: list[SourceFile] = []
        for change, done in self._changes(position):
            if change.removes_rows and self._on_change is OnChange.FAIL:
                self._flush(waiting, position)
                raise InvalidInputError(
                    f"version {change.version} of {self._history.name} has removed or rewritten rows, which "
                    "topics cannot follow. What was added before it is ingested. To go on, pass over such "
                    "versions (--on-change skip), or take the rows of their new files (--on-change take)"
                )
            is_passed = change.removes_rows and self._on_change is OnChange.SKIP
            for at, file in enumerate(() if is_passed else change.files):
                if at >= done:
                    waiting.append(SourceFile(file.url, file.size, 0, file.constants))
                    position = self._at(change, at + 1)
                    if len(waiting) == files_at_a_time:
                        self._flush(waiting, position)
            position = self._at(change, None)
        self._flush(waiting, position)

    def _position(self) -> dict[str, Any] | None:
        found = self._ledger.position
        if found is None:
            return None
        if not {"table", "version"} <= found.keys():
            raise InvalidIndexError(f"{self._ledger.directory} does not say where to read on, but {found}")
        if found["table"] != self._history.identity:
            raise InvalidInputError(
                f"{self._history.name} is another table than the one that was ingested: it was replaced or "
                "created again; ingest under another name to take it from its start"
            )
        return found

    def _at(self, change: Change, taken: int | None) -> dict[str, Any]:
        """Where to read on: after a version, or within it."""
        found: dict[str, Any] = {"table": self._history.identity, "version": change.version}
        return found if taken is None else found | {"taken": taken, "whole": change.is_whole}

    def _changes(self, position: Mapping[str, Any] | None) -> Iterator[tuple[Change, int]]:
        """The versions to take, and how many of the first one's files were taken."""
        history = self._history
        if position is None:
            whole = history.whole()
            if whole is not None:
                yield whole, 0
            return
        version, taken = str(position["version"]), position.get("taken")
        if taken is not None and position.get("whole"):
            whole = history.whole(version)
            assert whole is not None
            yield whole, int(taken)
        elif taken is not None:
            yield history.one(version), int(taken)
        yield from ((change, 0) for change in history.since(version))

    def _flush(self, files: list[SourceFile], position: dict[str, Any] | None) -> None:
        """Take the files that wait; remember the position in any case."""
        if files:
            chosen = tuple(files)
            files.clear()
            self._take(self._ledger.add(chosen, position), chosen)
        elif position is not None and position != self._ledger.position:
            self._ledger.move(position)

    def _take(self, number: int, files: Sequence[SourceFile]) -> None:
        """Stage and publish a batch."""
        added = [AddedFile(one.path, one.size, one.constants) for one in files]
        mapped = plain_columns(self._columns, self._given)
        if mapped is None or (
            self._batches.options.topic is None and "topic" not in [one[0] for one in mapped]
        ):
            self._batches.write(number, _frame(self._spark, self._columns, added))
            return
        pairs = tuple((column, wanted) for column, wanted, _ in mapped)
        schema = pa.schema([self._columns.field(name) for name in dict.fromkeys(name for _, name in pairs)])
        splits = pack(added, share_bytes(self._spark, sum(one.size for one in added)))
        self._batches.load(number, splits, lambda writing, at: _TableLoad(writing, at, pairs, schema))
