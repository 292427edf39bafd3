"""A table by key: the last value of each key of a partition; tombstones delete.

The table is partitioned by topic, partition and bucket, a hash of the key, so that a key's row is in files of
one bucket only. A run has two steps:

1. Tasks read splits, as for every export, keep the last record of each key in every few megabytes, and write
   what is left to a file with row groups by bucket.
2. Tasks take a bucket each. They find the last record of each key by its offset. Files of the table that have
   an older row of such a key are written again without these rows; the new rows follow, without tombstones.

The commit removes the files that were written again and adds the new ones, with the end offsets. A task has
the keys of its bucket that the run changes in memory, and otherwise a few megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.errors import DataLossError, InvalidInputError
from tidelog.manager.publishing.partitioner import hash_keys
from tidelog.scanning.salvage import Loss
from tidelog.scanning.splits import Split
from tidelog.spark.exporting.directory import target_place
from tidelog.spark.exporting.parquet import DatedFiles, ParquetSettings, WrittenFile
from tidelog.spark.exporting.table_target import TableTarget
from tidelog.spark.exporting.tasks import FILE_TYPE, REPORT_SCHEMA, ExportWork, TableLayout, arranged, attempt
from tidelog.spark.runtime.jobs import Bin, Work
from tidelog.tables.changes import AddedFile
from tidelog.tables.rows import open_file, read_rows
from tidelog.tables.table import LiveFile
from tidelog.types import TopicPartition

__all__ = ["BucketSplit", "BucketWork", "ChangeWork", "Run", "bucket_splits", "export_by_key", "last_by_key"]

Run = Callable[[Work, Sequence[Any], pa.Schema], list[dict[str, Any]]]
"""Runs work on splits, as `run_job` does in a session."""

_CHUNK_BYTES = 32 << 20
_CHUNK_ROWS = 1 << 18
_DELETED = "deleted"
_MIX = np.uint64(0x9E3779B97F4A7C15)

_PIECE = pa.struct([pa.field("bucket", pa.int32()), pa.field("group", pa.int32())])
CHANGES_SCHEMA = pa.schema(
    [*REPORT_SCHEMA, pa.field("changes", pa.string()), pa.field("pieces", pa.list_(_PIECE))]
)
"""A row for each split: what it read, its file of changes, and the row groups of each bucket."""
BUCKET_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("bucket", pa.int32()),
        pa.field("files", pa.list_(FILE_TYPE)),
        pa.field("removed", pa.list_(pa.string())),
    ]
)
"""A row for each bucket: the files that were written, and the names of those that they replace."""


def buckets_of(keys: pa.Array, count: int) -> npt.NDArray[np.int32]:
    """The bucket of each key. Kafka's partitioner uses the same hash, so it is mixed before the remainder."""
    mixed = (hash_keys(keys).astype(np.uint64) * _MIX) >> np.uint64(33)
    return (mixed % np.uint64(count)).astype(np.int32)


def last_by_key(rows: pa.Table) -> pa.Table:
    """The row with the largest offset of each key: `key` and `offset`."""
    return rows.select(["key", "offset"]).group_by("key").aggregate([("offset", "max")])


@dataclass(frozen=True, slots=True)
class ChangeWork:
    """The first step: what a split changes, by bucket."""

    export: ExportWork
    directory: str
    """Where files of changes are written."""
    buckets: int

    def __call__(self, number: int, splits: Bin[Split]) -> list[dict[str, Any]]:
        """The changes of the splits of a task; a report each."""
        return [self._changes(splits.first + n, split) for n, split in enumerate(splits.items)]

    def _changes(self, number: int, split: Split) -> dict[str, Any]:
        export, decoder = self.export, self.export.decoders[split.topic]
        layout = export.layout
        assert layout is not None
        bare = pa.schema([one for one in layout.schema if one.name != "bucket"])
        file = _ChangeFile(export, f"{self.directory}/{number:06}-{attempt()}", bare, self.buckets)
        lost: list[Loss] = []
        records = invalid = 0
        first = last = None
        for batch in export.read(split, lost):
            if not batch.num_rows:
                continue
            _check_keys(batch, split)
            decoded = decoder.decode(batch.column("value"), split.topic)
            invalid += decoded.invalid
            records += batch.num_rows
            first = batch.column("offset")[0].as_py() if first is None else first
            last = batch.column("offset")[-1].as_py()
            values = dict(zip((each.name for each in decoder.fields), decoded.columns, strict=True))
            rows = arranged(batch, values, split, bare)
            file.write(rows.append_column(pa.field(_DELETED, pa.bool_()), batch.column("value").is_null()))
        return {
            "split": number,
            "topic": split.topic,
            "partition": split.partition,
            "first_offset": first,
            "last_offset": last,
            "records": records,
            "bytes_read": split.size,
            "bytes_written": 0,
            "invalid_values": invalid,
            "bytes_skipped": sum(loss.size for loss in lost),
            "files": [],
            "changes": file.path,
            "pieces": file.close(),
        }


def _check_keys(batch: pa.RecordBatch, split: Split) -> None:
    keys = batch.column("key")
    if keys.null_count:
        at = batch.column("offset")[pc.index(keys.is_null(), True).as_py()]
        name = TopicPartition(split.topic, split.partition)
        raise InvalidInputError(
            f"the record at offset {at} of {name} has no key, and a table by key has a row for each key: "
            "export without --by-key"
        )


class _ChangeFile:
    """A file of changes: each row group has rows of one bucket, the last of each key in a few megabytes."""

    def __init__(self, export: ExportWork, path: str, schema: pa.Schema, buckets: int) -> None:
        self.path = path
        self._schema = schema.append(pa.field(_DELETED, pa.bool_()))
        self._buckets = buckets
        self._sink = target_place(export.target).sink(path)
        self._writer = pq.ParquetWriter(self._sink, self._schema, compression="zstd", compression_level=1)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._size = 0
        self._pieces: list[dict[str, int]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._size += batch.nbytes
        if self._size >= _CHUNK_BYTES or self._rows >= _CHUNK_ROWS:
            self._flush()

    def close(self) -> list[dict[str, int]]:
        """Close it; its row groups."""
        if self._waiting:
            self._flush()
        self._writer.close()
        self._sink.close()
        return self._pieces

    def _flush(self) -> None:
        rows = pa.Table.from_batches(self._waiting, self._schema)
        rows = rows.filter(pc.is_in(rows["offset"], last_by_key(rows)["offset_max"]))
        buckets = buckets_of(rows["key"].combine_chunks(), self._buckets)
        order = np.argsort(buckets, kind="stable")
        found, starts = np.unique(buckets[order], return_index=True)
        rows = rows.take(pa.array(order))
        for bucket, start, end in zip(found.tolist(), starts, [*starts[1:], len(order)], strict=True):
            piece = rows.slice(start, end - start)
            self._writer.write_table(piece, row_group_size=len(piece))
            self._pieces.append({"bucket": bucket, "group": len(self._pieces)})
        self._waiting, self._rows, self._size = [], 0, 0


@dataclass(frozen=True, slots=True)
class BucketSplit:
    """A bucket that a run changes."""

    topic: str
    partition: int
    bucket: int
    pieces: tuple[tuple[str, tuple[int, ...]], ...]
    """Files of changes, in the order of offsets, and the row groups of this bucket."""
    files: tuple[LiveFile, ...]
    """What the table has of it."""

    @property
    def size(self) -> int:
        """Bytes of the table's files."""
        return sum(file.size for file in self.files)


def bucket_splits(changes: Sequence[Mapping[str, Any]], files: Sequence[LiveFile]) -> list[BucketSplit]:
    """A split for each bucket that has changes."""
    pieces: dict[tuple[str, int, int], dict[str, list[int]]] = {}
    for row in sorted(changes, key=lambda row: int(row["split"])):
        for piece in row["pieces"]:
            of = pieces.setdefault((row["topic"], row["partition"], piece["bucket"]), {})
            of.setdefault(row["changes"], []).append(piece["group"])
    there: dict[tuple[str, int, int], list[LiveFile]] = {}
    for file in files:
        values = file.values
        there.setdefault((values["topic"], values["partition"], values["bucket"]), []).append(file)
    return [
        BucketSplit(
            *place,
            tuple((path, tuple(groups)) for path, groups in of.items()),
            tuple(there.get(place, ())),
        )
        for place, of in sorted(pieces.items())
    ]


@dataclass(frozen=True, slots=True)
class BucketWork:
    """The second step: a bucket's files as they are after the changes."""

    target: str
    staging: str
    layout: TableLayout
    settings: ParquetSettings

    def __call__(self, number: int, split: BucketSplit) -> list[dict[str, Any]]:
        """Write the files of a bucket; a report."""
        newest = last_by_key(pa.concat_tables(self._changes(split, ["key", "offset"])))
        directory = self.layout.directory_in(self.staging, split.topic, split.partition, "", split.bucket)
        name = f"{directory}/{number:06}-{attempt()}"
        out = DatedFiles(
            target_place(self.target),
            lambda _, n: f"{name}-{n}.parquet",
            self.layout.schema,
            self.settings,
            by_date=False,
        )
        closed: list[WrittenFile] = []
        removed = []
        for file in split.files:
            kept, newest, is_changed = self._survivors(file, newest)
            if is_changed:
                removed.append(file.name)
                for rows in kept:
                    closed += out.write(rows)
        for rows in self._new_rows(split, newest):
            closed += out.write(rows)
        closed += out.close()
        facts = {"topic": split.topic, "partition": split.partition, "bucket": split.bucket}
        return [{**facts, "files": [file.report() for file in closed], "removed": removed}]

    def _changes(self, split: BucketSplit, columns: list[str] | None = None) -> Iterator[pa.Table]:
        for path, groups in split.pieces:
            with open_file(f"{self.target}/{path}") as source:
                file = pq.ParquetFile(source)
                for group in groups:
                    yield file.read_row_group(group, columns)

    def _survivors(self, file: LiveFile, newest: pa.Table) -> tuple[Iterator[pa.RecordBatch], pa.Table, bool]:
        """The rows of a file that stay, the changes that are newer than its rows, and if any row goes."""
        stored = AddedFile(file.url, file.size)
        narrow = pa.schema([self.layout.schema.field("key"), self.layout.schema.field("offset")])
        is_changed, late = False, []
        for batch in read_rows(stored, narrow):
            known, is_older = _compared(batch, newest)
            is_changed = is_changed or bool(pc.any(is_older).as_py())
            late.append(batch.column("key").filter(pc.and_not(known, is_older)))
        beaten = pa.chunked_array(late, narrow.field("key").type) if late else None
        if beaten is not None and len(beaten):
            newest = newest.filter(pc.invert(pc.is_in(newest["key"], beaten)))
        return self._kept(stored, newest), newest, is_changed

    def _kept(self, file: AddedFile, newest: pa.Table) -> Iterator[pa.RecordBatch]:
        for batch in read_rows(file, self.layout.schema):
            _, is_older = _compared(batch, newest)
            yield batch.filter(pc.invert(is_older))

    def _new_rows(self, split: BucketSplit, newest: pa.Table) -> Iterator[pa.RecordBatch]:
        schema = self.layout.schema
        for changes in self._changes(split):
            is_last = pc.is_in(changes["offset"], newest["offset_max"])
            rows = changes.filter(pc.and_not(is_last, changes[_DELETED])).combine_chunks()
            bucket = pa.repeat(pa.scalar(split.bucket, pa.int32()), len(rows))
            arrays = [bucket if one.name == "bucket" else rows[one.name].combine_chunks() for one in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _compared(batch: pa.RecordBatch, newest: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Of each row, whether its key has a change, and whether that is newer."""
    at = pc.index_in(batch.column("key"), newest["key"])
    offsets = newest["offset_max"].combine_chunks().take(at)
    return at.is_valid(), pc.greater(offsets, batch.column("offset")).fill_null(False)


def export_by_key(
    run: Run, held: TableTarget, work: ExportWork, tasks: Sequence[Bin[Split]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Both steps: the reports of the splits, and of the buckets."""
    assert work.layout is not None
    splits = sum(len(task.items) for task in tasks)
    changes = run(ChangeWork(work, held.scratch, held.buckets), tasks, CHANGES_SCHEMA)
    if sorted(row["split"] for row in changes) != list(range(splits)):
        raise DataLossError(f"Spark answered {len(changes)} reports for {splits} splits; nothing was added")
    files = held.files()
    for file in files:
        if file.is_foreign or "bucket" not in file.values:
            raise InvalidInputError(
                f"{held.url} has files that are not partitioned by bucket, or whose names have escapes, such "
                f"as {file.name}: rewrite them first"
            )
    wanted = bucket_splits(changes, files)
    apply = BucketWork(work.target, work.staging, work.layout, work.settings)
    buckets = run(apply, wanted, BUCKET_SCHEMA)
    if len(buckets) != len(wanted):
        raise DataLossError(f"Spark answered {len(buckets)} of {len(wanted)} buckets; nothing was added")
    return changes, buckets
