"""Records -> Parquet files of about a size, one run of files for each date.

Record batches come in offset order and may hold records of several dates (UTC, by the record's timestamp).
Rows wait in memory until they make a row group; a file is closed when it has reached its size, or when more
dates are open than is good for memory. Every file is written whole and synced under the name it is given;
nothing here publishes it. What is written is synced by a thread of its own, so that the disk works while the
next rows are compressed.

Statistics are kept of offset and timestamp, and of what rows are sorted by, in each row group: readers skip
by them. Offsets and timestamps are delta-encoded: offsets cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.errors import InvalidInputError
from tidelog.spark.exporting.storage import Place

__all__ = ["SORT_COLUMNS", "DatedFiles", "ParquetSettings", "WrittenFile", "parquet_writer"]

NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""What Hive calls a partition whose value is null."""

SORT_COLUMNS = ("key", "timestamp", "offset")
"""What rows can be sorted by."""

_MAX_OPEN = 16
_HAVE_LEVELS = ("zstd", "gzip", "brotli")
_DELTA = ("offset", "timestamp", "partition")
_WITH_STATISTICS = ("offset", "timestamp")
_US_PER_DAY = 86_400_000_000
_WRITE_ROWS = 1 << 13  # 1,024 rows at a time, which is the default, cost 2 % more


@dataclass(frozen=True, slots=True)
class ParquetSettings:
    """How files are written."""

    compression: str = "zstd"
    compression_level: int | None = 1
    file_bytes: int = 128 << 20
    row_group_rows: int = 1 << 18
    row_group_bytes: int = 32 << 20
    sort_by: tuple[str, ...] = ()
    """By which columns (`SORT_COLUMNS`) the rows of each row group are sorted; by default they stay in offset
    order."""

    def __post_init__(self) -> None:
        """Raises InvalidInputError for a column that rows are not sorted by."""
        unknown = [name for name in self.sort_by if name not in SORT_COLUMNS]
        if unknown or len(set(self.sort_by)) < len(self.sort_by):
            raise InvalidInputError(
                f"rows are sorted by any of {', '.join(SORT_COLUMNS)}, once each, "
                f"not by {', '.join(unknown or self.sort_by)}"
            )


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A whole file: its name in the place, the date of its records, and what it holds."""

    path: str
    date: str
    records: int
    size: int
    first_offset: int
    last_offset: int
    min_timestamp_us: int | None
    max_timestamp_us: int | None
    null_timestamps: int

    def report(self) -> dict[str, Any]:
        """As a task reports it."""
        return {
            "staged": self.path,
            "path": self.path,
            "records": self.records,
            "bytes": self.size,
            "date": None if self.date == NO_DATE else self.date,
            "first_offset": self.first_offset,
            "last_offset": self.last_offset,
            "min_timestamp_us": self.min_timestamp_us,
            "max_timestamp_us": self.max_timestamp_us,
            "null_timestamps": self.null_timestamps,
        }


@dataclass(slots=True)
class _OpenFile:
    """A file in progress, and the rows that wait for it."""

    path: str
    date: str
    writer: pq.ParquetWriter
    sink: Any
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    records: int = 0
    first_offset: int = -1
    last_offset: int = -1
    timestamps_us: list[int] = field(default_factory=list)
    """The least and the largest of each row group."""
    null_timestamps: int = 0


class DatedFiles:
    """Writes record batches of one schema, which has the columns `offset` and `timestamp`."""

    def __init__(
        self,
        place: Place,
        path_of: Callable[[str, int], str],
        schema: pa.Schema,
        settings: ParquetSettings,
        *,
        by_date: bool = True,
    ) -> None:
        """`path_of` tells the path of a file in the place, from the date of its records and its number.

        Without `by_date`, all dates are in one file, and rows may come in any order.
        """
        self._by_date = _by_date if by_date else _undated
        self._place = place
        self._path_of = path_of
        self._schema = schema
        self._settings = settings
        self._open: dict[str, _OpenFile] = {}  # the one written to last is last
        self._count = 0
        self._disk = ThreadPoolExecutor(1, "tidelog-sync")
        self._syncing: Future[None] | None = None

    def write(self, batch: pa.RecordBatch) -> Iterator[WrittenFile]:
        """Take rows; yields the files that were closed."""
        for date, rows in self._by_date(batch):
            file = self._open.pop(date, None) or self._begin(date)
            self._open[date] = file
            file.waiting.append(rows)
            file.rows += rows.num_rows
            file.size += rows.nbytes
            if file.rows >= self._settings.row_group_rows or file.size >= self._settings.row_group_bytes:
                self._write_group(file)
                if file.sink.tell() >= self._settings.file_bytes:
                    yield self._finish(self._open.pop(date))
                else:
                    self._hasten(file)
            while len(self._open) > _MAX_OPEN:
                yield self._finish(self._open.pop(next(iter(self._open))))

    def close(self) -> Iterator[WrittenFile]:
        """Close what is open."""
        while self._open:
            yield self._finish(self._open.pop(next(iter(self._open))))
        self._disk.shutdown()

    def _begin(self, date: str) -> _OpenFile:
        path = self._path_of(date, self._count)
        self._count += 1
        sink = self._place.sink(path)
        return _OpenFile(path, date, parquet_writer(sink, self._schema, self._settings), sink)

    def _write_group(self, file: _OpenFile) -> None:
        table = pa.Table.from_batches(file.waiting, self._schema)
        offsets = table.column("offset")
        span = pc.min_max(offsets).as_py()
        file.first_offset = span["min"] if file.first_offset < 0 else min(file.first_offset, span["min"])
        file.last_offset = max(file.last_offset, span["max"])
        file.records += table.num_rows
        timestamps = table.column("timestamp")
        file.null_timestamps += timestamps.null_count
        if timestamps.null_count < len(timestamps):
            file.timestamps_us += pc.min_max(timestamps.cast(pa.int64())).as_py().values()
        if self._settings.sort_by:
            order = dict.fromkeys((*self._settings.sort_by, "offset"), "ascending")
            table = table.sort_by(list(order.items()))
        file.writer.write_table(table, row_group_size=table.num_rows)
        file.waiting, file.rows, file.size = [], 0, 0

    def _hasten(self, file: _OpenFile) -> None:
        """Have the thread sync a file, unless it is at it."""
        if self._syncing is None or self._syncing.done():
            self._synced()
            self._syncing = self._disk.submit(self._place.hasten, file.path)

    def _synced(self) -> None:
        """Wait for the thread. A failed sync is told once, to whoever asked for it."""
        if self._syncing is not None:
            self._syncing.result()
            self._syncing = None

    def _finish(self, file: _OpenFile) -> WrittenFile:
        if file.waiting:
            self._write_group(file)
        file.writer.close()
        file.sink.close()
        self._synced()
        size = self._place.finish(file.path)
        return WrittenFile(
            file.path,
            file.date,
            file.records,
            size,
            file.first_offset,
            file.last_offset,
            min(file.timestamps_us, default=None),
            max(file.timestamps_us, default=None),
            file.null_timestamps,
        )


def parquet_writer(sink: Any, schema: pa.Schema, settings: ParquetSettings) -> pq.ParquetWriter:
    """A writer of such a file.

    With dictionaries, Arrow's own schema is left out: readers would take them for the columns' types.
    """
    delta = [name for name in _DELTA if name in schema.names]
    skipped_by = [name for name in _WITH_STATISTICS if name in schema.names]
    has_dictionaries = any(pa.types.is_dictionary(column.type) for column in schema)
    order = [(name, "ascending") for name in settings.sort_by]
    return pq.ParquetWriter(
        sink,
        schema,
        compression=settings.compression,
        compression_level=settings.compression_level if settings.compression in _HAVE_LEVELS else None,
        write_statistics=list(dict.fromkeys([*skipped_by, *settings.sort_by])),
        sorting_columns=pq.SortingColumn.from_ordering(schema, order) if order else None,
        use_dictionary=_dictionary_columns(schema),
        column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED"),
        write_batch_size=_WRITE_ROWS,
        store_schema=not has_dictionaries,
    )


def _dictionary_columns(schema: pa.Schema) -> list[str]:
    """Columns in which values repeat: not the payloads, nor what is delta-encoded; and not the one that is
    the same in all rows, which costs less as it is.
    """
    leaves = [leaf for column in schema for leaf in _leaves(column.name, column.type)]
    return [
        name for name in leaves if name not in ("key", "value", "value_invalid", "timestampType", *_DELTA)
    ]


def _leaves(name: str, kind: pa.DataType) -> Iterator[str]:
    """The paths of the columns that Parquet stores for one of ours."""
    if pa.types.is_struct(kind):
        for inner in kind:
            yield from _leaves(f"{name}.{inner.name}", inner.type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{name}.list.element", kind.value_type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{name}.key_value.key", kind.key_type)
        yield from _leaves(f"{name}.key_value.value", kind.item_type)
    else:
        yield name


def _by_date(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each date, in order; nearly always there is one."""
    timestamps = batch.column("timestamp")
    if timestamps.null_count == 0:
        range_ = pc.min_max(timestamps.cast(pa.int64())).as_py()
        first, last = range_["min"] // _US_PER_DAY, range_["max"] // _US_PER_DAY
        if first == last:
            yield _date(first), batch
            return
    days = np.floor_divide(timestamps.cast(pa.int64()).fill_null(0).to_numpy(), _US_PER_DAY)
    is_null = timestamps.is_null()
    for day in np.unique(days[~is_null.to_numpy(zero_copy_only=False)]).tolist():
        yield _date(day), batch.filter(pc.and_not(pa.array(days == day), is_null))
    if timestamps.null_count:
        yield NO_DATE, batch.filter(is_null)


def _undated(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    if batch.num_rows:
        yield "", batch


def _date(day: int) -> str:
    return str(np.datetime64(day, "D"))
