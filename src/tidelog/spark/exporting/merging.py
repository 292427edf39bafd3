"""Small files of a table into larger ones; its rows stay as they are.

Files of the same partition of the table are put together, by Kafka's partition and offset, up to the size
that files are meant to have. Tasks read a group of files and write one. One commit replaces all files that
were read; it adds and removes no rows (Delta: dataChange=false; Iceberg: a snapshot `replace`). It is refused
if another writer has changed one of these files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.errors import DataLossError, InvalidInputError
from tidelog.scanning.volumes import local_path
from tidelog.spark.exporting.by_key import Run
from tidelog.spark.exporting.directory import target_place
from tidelog.spark.exporting.parquet import DatedFiles, ParquetSettings, WrittenFile
from tidelog.spark.exporting.table_target import TableTarget
from tidelog.spark.exporting.tasks import FILE_TYPE, TableLayout, attempt
from tidelog.spark.runtime.jobs import report_frame, run_job
from tidelog.tables.changes import AddedFile
from tidelog.tables.opening import open_table, table_format
from tidelog.tables.rows import read_rows
from tidelog.tables.table import LiveFile, Table, TableFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["MERGE_SCHEMA", "Merge", "MergeWork", "merge_files", "merge_in", "plan_merges"]

_SMALL = 0.75
_WHERE = ("topic", "partition")
MERGE_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("files_before", pa.int64()),
        pa.field("files_after", pa.int64()),
        pa.field("bytes_before", pa.int64()),
        pa.field("bytes_after", pa.int64()),
    ]
)
"""A row for each group of files that became one; `topic` is null if it has several topics."""
_MERGED_SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("topic", pa.string()),
        pa.field("max_topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("max_partition", pa.int32()),
        pa.field("has_bounds", pa.bool_()),
        pa.field("files", pa.list_(FILE_TYPE)),
    ]
)


@dataclass(frozen=True, slots=True)
class Merge:
    """Files that become one."""

    files: tuple[LiveFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all."""
        return sum(file.size for file in self.files)


def plan_merges(files: Sequence[LiveFile], file_bytes: int, min_files: int = 2) -> list[Merge]:
    """Which files become one: at least `min_files`, or as many as make up a whole file."""
    small = [file for file in files if file.size < _SMALL * file_bytes and not file.is_foreign]
    small.sort(key=_place)
    merges: list[Merge] = []
    for _, of_partition in groupby(small, key=lambda file: _place(file)[0]):
        waiting: list[LiveFile] = []
        filled = 0
        for file in of_partition:
            if waiting and filled + file.size > file_bytes:
                merges.append(Merge(tuple(waiting)))
                waiting, filled = [], 0
            waiting.append(file)
            filled += file.size
        if len(waiting) >= min_files:
            merges.append(Merge(tuple(waiting)))
    return [merge for merge in merges if len(merge.files) > 1]


def _place(file: LiveFile) -> tuple[list[str], tuple[int, int], str]:
    """The table's partition, then the order of rows."""
    values = [f"{name}={value!r}" for name, value in sorted(file.values.items())]
    return values, file.first, file.name


@dataclass(frozen=True, slots=True)
class MergeWork:
    """Reads files and writes one, in a task."""

    target: str
    staging: str
    layout: TableLayout
    settings: ParquetSettings

    def __call__(self, number: int, merge: Merge) -> list[dict[str, Any]]:
        """Write one file; its report."""
        values = merge.files[0].values
        bucket, date = values.get("bucket"), values.get("date") or ""
        topic, partition = values.get("topic"), values.get("partition")
        directory = self.layout.directory_in(self.staging, topic, partition, date, bucket)
        name = f"{directory}/{number:06}-{attempt()}"
        bounds = _Bounds(values)
        out = DatedFiles(
            target_place(self.target),
            lambda _, n: f"{name}-{n}.parquet",
            self.layout.schema,
            self.settings,
            by_date=False,
        )
        closed: list[WrittenFile] = []
        for rows in self._rows(merge):
            bounds.see(rows)
            closed += out.write(rows)
        closed += out.close()
        return [{"number": number, **bounds.report(), "files": [file.report() for file in closed]}]

    def _rows(self, merge: Merge) -> Iterator[pa.RecordBatch]:
        for file in merge.files:
            found = 0
            for batch in read_rows(AddedFile(file.url, file.size), self.layout.schema):
                found += batch.num_rows
                yield batch
            if file.records and found != file.records:
                raise DataLossError(f"{file.url} has {found} rows; the table says {file.records}")


class _Bounds:
    """The topics and Kafka partitions of rows."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._found: dict[str, list[Any]] = {name: [] for name in _WHERE}
        self._has_nulls = False

    def see(self, rows: pa.RecordBatch) -> None:
        """Take note of rows."""
        for name in _WHERE:
            if name in rows.schema.names:
                column = rows.column(name)
                self._has_nulls = self._has_nulls or column.null_count > 0
                self._found[name] += [one for one in pc.min_max(column).as_py().values() if one is not None]
        self._has_nulls = self._has_nulls or rows.column("offset").null_count > 0

    def report(self) -> dict[str, Any]:
        """What is known, for the table."""
        least: dict[str, Any] = {}
        for name, found in self._found.items():
            own = self._values.get(name)
            least[name] = own if own is not None else min(found, default=None)
            least[f"max_{name}"] = own if own is not None else max(found, default=None)
        return {**least, "has_bounds": not self._has_nulls and None not in least.values()}


def merge_files(
    spark: SparkSession,
    target: str,
    *,
    format: str,
    table_options: Mapping[str, str] | None = None,
    settings: ParquetSettings | None = None,
    min_files: int = 2,
    must_exist: bool = True,
) -> DataFrame:
    """Merge small files of an exported Delta or Iceberg table; a row for each group that became one file.

    `settings.file_bytes` is the size that files are meant to have: smaller ones of a partition of the table
    are put together, if there are `min_files` or as many as make up that size.
    Without `must_exist`, a table that is not there has nothing to merge.
    """
    kind = table_format(format)
    if kind is TableFormat.PARQUET:
        raise InvalidInputError("files of tables are merged, those of Parquet exports are not")
    table = open_table(kind, local_path(str(target)), table_options)
    if not table.exists and not must_exist:
        return report_frame(spark, [], MERGE_SCHEMA)
    if not table.exists:
        raise InvalidInputError(f"there is no table {target}")
    _check_columns(table)
    wanted = settings or ParquetSettings()
    held = TableTarget(table, by_key=table.buckets is not None)
    try:
        found = merge_in(partial(run_job, spark), held, wanted, min_files)
    finally:
        held.release()
    return report_frame(spark, found, MERGE_SCHEMA)


def _check_columns(table: Table) -> None:
    """Refuse a table without the columns that tell where rows belong."""
    there = table.schema() or pa.schema([])
    for name in (*_WHERE, "offset", "timestamp"):
        if name not in there.names:
            raise InvalidInputError(
                f"{table.name} has no column {name}: files are merged of tables that an export could add to"
            )


def merge_in(run: Run, held: TableTarget, settings: ParquetSettings, min_files: int) -> list[dict[str, Any]]:
    """Merge files of a table that is held; rows of `MERGE_SCHEMA`."""
    merges = plan_merges(held.files(), settings.file_bytes, min_files)
    if not merges:
        return []
    layout = held.prepare_merge()
    large = replace(settings, file_bytes=2 * settings.file_bytes)  # one file, whatever it compresses to now
    work = MergeWork(held.place.url, held.staging, layout, large)
    rows = run(work, merges, _MERGED_SCHEMA)
    if sorted(row["number"] for row in rows) != list(range(len(merges))):
        raise DataLossError(f"Spark answered {len(rows)} of {len(merges)} merges; nothing was changed")
    rows.sort(key=lambda row: int(row["number"]))
    told = [{**row, **_values(merge)} for row, merge in zip(rows, merges, strict=True)]
    held.replace(told, [file.name for merge in merges for file in merge.files])
    return [
        {
            "topic": row["topic"] if row["topic"] == row["max_topic"] else None,
            "files_before": len(merge.files),
            "files_after": len(row["files"]),
            "bytes_before": merge.size,
            "bytes_after": sum(file["bytes"] for file in row["files"]),
        }
        for row, merge in zip(rows, merges, strict=True)
    ]


def _values(merge: Merge) -> dict[str, Any]:
    values = merge.files[0].values
    return {"bucket": values.get("bucket"), "table_date": values.get("date")}
