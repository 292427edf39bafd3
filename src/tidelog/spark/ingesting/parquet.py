"""Parquet files into records by the tasks themselves: no row goes through the JVM.

Only what is the same either way is read so: files of this machine (or a mount that all workers have), record
columns that are plain columns of the types that records have, no partition columns in the path, no option
that changes what Spark reads. All else is Spark's to read; `plan_load` answers None.

A task reads row groups, in the order of the files, a few megabytes at a time however large they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.errors import InvalidInputError
from tidelog.spark.ingesting.ledger import SourceFile
from tidelog.spark.runtime.jobs import Bin
from tidelog.storage import LOCAL

if TYPE_CHECKING:
    from tidelog.spark.sink.writing import Writing

__all__ = ["LOADED_SCHEMA", "LoadPlan", "LoadWork", "RowGroup", "local_file", "plain_columns", "plan_load"]

LOADED_SCHEMA = pa.schema([pa.field("task", pa.int64()), pa.field("manifest", pa.string())])
"""What a task reports."""

_BATCH_BYTES = 4 << 20
_BATCH_ROWS = 1 << 15
_BUFFER_BYTES = 1 << 20  # of each column; else all of a row group is read ahead
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LITERALS = frozenset({"null", "true", "false"})
_HARMLESS_OPTIONS = frozenset({"pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter"})
"""They choose files; the files are chosen already."""
_OLD_CALENDAR = b"org.apache.spark.legacyDateTime"
_types = pa.types
_Column = tuple[str, str, pa.DataType]
"""A column of a record, the file's column that it is, and its type there: it must be that in all files."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a file."""

    path: str
    file: SourceFile
    group: int
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What is to be read: columns of records and the files' columns that they are, and the row groups."""

    columns: tuple[tuple[str, str], ...]
    groups: tuple[RowGroup, ...]

    @property
    def size(self) -> int:
        """Bytes of all."""
        return sum(group.size for group in self.groups)


@dataclass(frozen=True, slots=True)
class LoadWork:
    """A task's work: reads row groups and stages their rows."""

    writing: Writing
    directory: str
    columns: tuple[tuple[str, str], ...]

    def __call__(self, number: int, split: Bin[RowGroup]) -> list[dict[str, Any]]:
        """Stage the rows of a split."""
        return [{"task": number, "manifest": self.writing.stage(self._rows(split), self.directory, number)}]

    def _rows(self, split: Bin[RowGroup]) -> Iterator[pa.RecordBatch]:
        wanted = sorted({source for _, source in self.columns})
        names = [column for column, _ in self.columns]
        for path, groups in groupby(split.items, lambda group: group.path):
            for batch in _read(path, list(groups), wanted):
                arrays = [batch.column(source) for _, source in self.columns]
                yield pa.RecordBatch.from_arrays(arrays, names)


def _read(path: str, groups: Sequence[RowGroup], wanted: list[str]) -> Iterator[pa.RecordBatch]:
    """The rows of some row groups of a file; InvalidInputError if it is not what was listed."""
    try:
        with pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES) as file:
            for group in groups:
                per_row = max(group.size // max(group.rows, 1), 1)
                rows = min(max(_BATCH_BYTES // per_row, 1), _BATCH_ROWS)
                yield from file.iter_batches(rows, [group.group], wanted, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        _check_unchanged(path, groups[0].file)
        raise InvalidInputError(f"{path} cannot be read: {error}") from error
    _check_unchanged(path, groups[0].file)


def _check_unchanged(path: str, listed: SourceFile) -> None:
    """Called when it was read: a change before that shows, too."""
    try:
        found = LOCAL.stat(path)
    except FileNotFoundError:
        raise InvalidInputError(f"{path} was removed while it was read") from None
    if (found.size, found.mtime_ms) != (listed.size, listed.mtime_ms):
        raise InvalidInputError(f"{path} was changed while it was read; run again when it is complete")


def local_file(url: str) -> str | None:
    """The path of a file of this machine; None for any other."""
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme in ("file", "") and not parts.netloc else None


def plan_load(
    source: str, options: Mapping[str, str], columns: Mapping[str, str | None], files: Sequence[SourceFile]
) -> LoadPlan | None:
    """How tasks can read these files of a source by themselves; None where Spark must.

    `columns` has for each column of a record the expression that was given for it, or None.
    """
    paths = [local_file(one.path) for one in files]
    if any(key.lower() not in _HARMLESS_OPTIONS for key in options) or None in paths:
        return None
    mapped: tuple[_Column, ...] | None = None
    groups: list[RowGroup] = []
    for path, one in zip(paths, files, strict=True):
        if path is None or _has_partition_columns(source, path):
            return None
        try:
            with pq.ParquetFile(path) as file:
                found = _columns(file, columns)
                metadata = file.metadata
                for number in range(metadata.num_row_groups):
                    group = metadata.row_group(number)
                    groups.append(RowGroup(path, one, number, group.num_rows, group.total_byte_size))
        except (pa.ArrowException, OSError):
            return None  # Spark can read it, or says why it cannot
        if found is None or (mapped is not None and found != mapped):
            return None
        mapped = found
    if mapped is None:
        return None
    pairs = tuple((column, wanted) for column, wanted, _ in mapped)
    return LoadPlan(pairs, tuple(group for group in groups if group.rows))


def _has_partition_columns(source: str, path: str) -> bool:
    """Whether directories below the source may be columns (`date=2026-11-15`)."""
    above = PurePosixPath(path).parent
    base = PurePosixPath(local_file(source) or source)
    within = above.relative_to(base) if above.is_relative_to(base) else above
    return "=" in str(within)


def _columns(file: pq.ParquetFile, columns: Mapping[str, str | None]) -> tuple[_Column, ...] | None:
    """A file's column for each column of a record; None if it takes more than reading them."""
    if _OLD_CALENDAR in (file.metadata.metadata or {}):
        return None
    return plain_columns(file.schema_arrow, columns)


def plain_columns(schema: pa.Schema, columns: Mapping[str, str | None]) -> tuple[_Column, ...] | None:
    """The column of a schema for each column of a record; None if it takes more than reading them.

    `columns` has for each column of a record the expression that was given for it, or None.
    """
    folded = [name.lower() for name in schema.names]
    if len(set(folded)) != len(folded):
        return None
    found = []
    for column, expression in columns.items():
        wanted = column if expression is None else expression.strip()
        if not _PLAIN_NAME.fullmatch(wanted) or wanted.lower() in _LITERALS:
            return None
        if wanted not in schema.names:
            if expression is None and column != "value" and column.lower() not in folded:
                continue  # a column that records may lack
            return None
        kind = schema.field(wanted).type
        if not _is_ready(column, kind):
            return None
        found.append((column, wanted, kind))
    return tuple(found)


def _is_ready(column: str, kind: pa.DataType) -> bool:
    """Whether a column of this type needs no cast to be a record's."""
    if column in ("key", "value"):
        return kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
    if column == "topic":
        return kind in (pa.string(), pa.large_string())
    if column == "partition":
        return bool(kind == pa.int32())
    if column == "timestamp":
        # Without a zone it is Spark's session that decides; of nanoseconds Spark makes what it is told to.
        return bool(kind == pa.int64()) or (
            _types.is_timestamp(kind) and kind.tz is not None and kind.unit in ("ms", "us")
        )
    return bool(_types.is_list(kind) and kind.value_type == _HEADER)


_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
