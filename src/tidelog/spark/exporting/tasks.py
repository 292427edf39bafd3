"""What a task of an export does: read a split, decode the values, write Parquet files, report them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidelog.records.schema import Projection
from tidelog.scanning.salvage import Loss, salvage_task
from tidelog.scanning.splits import Split
from tidelog.scanning.tasks import run_task
from tidelog.spark.exporting.directory import target_place
from tidelog.spark.exporting.parquet import NO_DATE, DatedFiles, ParquetSettings, WrittenFile
from tidelog.spark.runtime.jobs import Bin
from tidelog.spark.source.topic_ids import check_still
from tidelog.types import TopicPartition
from tidelog.values.decoding import Decoded, Decoder

__all__ = [
    "FILE_TYPE",
    "REPORT_SCHEMA",
    "ExportWork",
    "TableLayout",
    "arranged",
    "attempt",
    "columns_of",
    "table_date",
]

_ALWAYS = ("offset", "timestampType")
"""What every record has: Parquet need not note if it is missing."""

FILE_TYPE = pa.struct(
    [
        pa.field("staged", pa.string()),
        pa.field("path", pa.string()),
        pa.field("records", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("date", pa.string()),
        pa.field("first_offset", pa.int64()),
        pa.field("last_offset", pa.int64()),
        pa.field("min_timestamp_us", pa.int64()),
        pa.field("max_timestamp_us", pa.int64()),
        pa.field("null_timestamps", pa.int64()),
    ]
)
REPORT_SCHEMA = pa.schema(
    [
        pa.field("split", pa.int64()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("first_offset", pa.int64()),
        pa.field("last_offset", pa.int64()),
        pa.field("records", pa.int64()),
        pa.field("bytes_read", pa.int64()),
        pa.field("bytes_written", pa.int64()),
        pa.field("invalid_values", pa.int64()),
        pa.field("bytes_skipped", pa.int64()),
        pa.field("files", pa.list_(FILE_TYPE)),
    ]
)
"""A row for each split: what it read, and the files that came of it."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The files of a table: all of one schema, under the names that they keep."""

    schema: pa.Schema
    partition_by: tuple[str, ...]

    @property
    def written(self) -> pa.Schema:
        """The schema of what is written to a file of one partition: Parquet keeps the topic's name once."""
        at = self.schema.get_field_index("topic")
        if at < 0:
            return self.schema  # the table has it in the names of directories
        topic = self.schema.field(at)
        return self.schema.set(at, topic.with_type(pa.dictionary(pa.int32(), topic.type)))

    def directory_in(
        self, staging: str, topic: str | None, partition: int | None, date: str, bucket: int | None = None
    ) -> str:
        """Where a file belongs; readers such as Polars take the values of partition columns from there."""
        values: dict[str, Any] = {"topic": topic, "partition": partition, "bucket": bucket}
        values["date"] = table_date(date)
        told = {name: NO_DATE if value is None else value for name, value in values.items()}
        return "/".join([staging, *(f"{name}={told[name]}" for name in self.partition_by)])


@dataclass(frozen=True, slots=True)
class ExportWork:
    """What a task does with a split: read it, decode the values, write files into the staging."""

    target: str
    staging: str
    columns: tuple[str, ...]
    decoders: Mapping[str, Decoder]
    """By topic."""

    settings: ParquetSettings
    fail_on_data_loss: bool
    ids: Mapping[str, str] = field(default_factory=dict)
    """By a directory's URL, the id of the topic that it is of."""
    generations: Mapping[str, int] = field(default_factory=dict)
    """By topic: files of another generation than the first have it in their names."""
    layout: TableLayout | None = None
    """Of a table."""
    keys: Mapping[str, Decoder] = field(default_factory=dict)
    """By topic, if keys are decoded."""

    def __call__(self, number: int, splits: Bin[Split]) -> list[dict[str, Any]]:
        """Export the splits of a task; a report each."""
        return [self._export(splits.first + n, split) for n, split in enumerate(splits.items)]

    def _export(self, number: int, split: Split) -> dict[str, Any]:
        decoder = self.decoders[split.topic]
        keys = self.keys.get(split.topic)
        schema = columns_of(self.columns, decoder, keys) if self.layout is None else self.layout.written
        files = DatedFiles(target_place(self.target), self._naming(number, split), schema, self.settings)
        lost: list[Loss] = []
        closed: list[WrittenFile] = []
        records = invalid = 0
        for batch in self.read(split, lost):
            decoded = decoder.decode(batch.column("value"), split.topic)
            invalid += decoded.invalid
            records += batch.num_rows
            values = _named(decoder, decoded)
            if keys is not None:
                values |= _named(keys, keys.decode(batch.column("key"), split.topic))
            closed += files.write(arranged(batch, values, split, schema))
        closed += files.close()
        return {
            "split": number,
            "topic": split.topic,
            "partition": split.partition,
            "first_offset": min((file.first_offset for file in closed), default=None),
            "last_offset": max((file.last_offset for file in closed), default=None),
            "records": records,
            "bytes_read": split.size,
            "bytes_written": sum(file.size for file in closed),
            "invalid_values": invalid,
            "bytes_skipped": sum(loss.size for loss in lost),
            "files": [self._report(split, file) for file in closed],
        }

    def _naming(self, number: int, split: Split) -> Callable[[str, int], str]:
        """The paths of the files of a split; no other attempt at the task has the same."""
        taken, layout = attempt(), self.layout
        if layout is None:
            return lambda date, count: f"{self.staging}/{number:06}-{taken}-{count}"
        name = f"{number:06}-{taken}"
        return lambda date, n: (
            f"{layout.directory_in(self.staging, split.topic, split.partition, date)}/{name}-{n}.parquet"
        )

    def read(self, split: Split, lost: list[Loss]) -> Iterator[pa.RecordBatch]:
        """The records of a split; what is damaged is added to `lost`, or raised."""
        projection = Projection.of(self.columns)
        url, name = split.tasks[0].url, TopicPartition(split.topic, split.partition)
        check_still(url, name, self.ids.get(url))  # at once, and when all was read
        for task in split.tasks:
            if self.fail_on_data_loss:
                yield from run_task(task, projection)
            else:
                yield from salvage_task(task, projection, lost.append)
        check_still(url, name, self.ids.get(url))

    def _report(self, split: Split, file: WrittenFile) -> dict[str, Any]:
        generation = self.generations.get(split.topic)
        suffix = "" if generation is None else f"-g{generation}"
        name = f"{file.first_offset:020}-{file.last_offset:020}{suffix}.parquet"
        directory = f"topic={split.topic}/partition={split.partition}/date={file.date}"
        return {
            **file.report(),
            "path": f"{directory}/{name}" if self.layout is None else file.path,
        }


def _named(decoder: Decoder, decoded: Decoded) -> dict[str, pa.Array]:
    return dict(zip((each.name for each in decoder.fields), decoded.columns, strict=True))


def columns_of(columns: tuple[str, ...], decoder: Decoder, keys: Decoder | None = None) -> pa.Schema:
    """The columns of a file: those read, the value and the key in their places under their own types."""
    decoders = {"value": decoder} | ({} if keys is None else {"key": keys})
    fields: list[pa.Field] = []
    for column in Projection.of(columns).schema:
        column = column.with_nullable(column.name not in _ALWAYS)
        fields += decoders[column.name].fields if column.name in decoders else [column]
    return pa.schema(fields)


def table_date(date: str) -> str | None:
    """A date as tables know it: of the years 1 to 9999."""
    return date if len(date) == 10 and date[:4].isdigit() and date[:4] != "0000" else None


def arranged(
    batch: pa.RecordBatch, values: dict[str, pa.Array], split: Split, schema: pa.Schema
) -> pa.RecordBatch:
    """The columns of a schema: the decoded values, what was read, and where it was read."""
    arrays: list[pa.Array] = []
    for column in schema:
        if column.name in values:
            arrays.append(values[column.name])
        elif column.name in ("topic", "partition"):
            arrays.append(_repeated(getattr(split, column.name), column.type, batch.num_rows))
        else:
            arrays.append(batch.column(column.name))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _repeated(value: object, kind: pa.DataType, count: int) -> pa.Array:
    if not pa.types.is_dictionary(kind):
        return pa.repeat(pa.scalar(value, kind), count)
    indices = pa.repeat(pa.scalar(0, kind.index_type), count)
    return pa.DictionaryArray.from_arrays(indices, pa.array([value], kind.value_type))


def attempt() -> str:
    """A name that no other attempt at this task has."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "0" if context is None else str(context.taskAttemptId())
