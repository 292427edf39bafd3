"""Widening the schema of an export's JSON values for what has come since (`evolve`).

1. Tasks look at all values that are to be exported, and widen the schema for those that it does not hold
   (`json_types`). The driver joins what they found; where two tasks disagree on a field, the first wins.
2. The wider schema is kept in the target. Where a type has changed, it is kept too that the topic's older
   files are to be written again.
3. They are, into the staging, and become part of this run's commit: each replaces the old one under its
   name. A run that dies before its commit leaves that to the next one.

Added fields leave older files as they are: readers that merge schemas see null there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.records.schema import Projection
from tidelog.scanning.salvage import salvage_task
from tidelog.scanning.splits import Split
from tidelog.scanning.tasks import run_task
from tidelog.spark.exporting.directory import ExportTarget, StagedFile, target_place
from tidelog.spark.exporting.parquet import ParquetSettings, parquet_writer
from tidelog.spark.runtime.jobs import run_job
from tidelog.values.decoding import widen_struct
from tidelog.values.json_reading import Misfit
from tidelog.values.json_types import join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["column_of", "from_text", "kept_name", "rewrite_files", "survey", "to_text", "types_changed"]

_SURVEYED = pa.schema(
    [pa.field("split", pa.int64()), pa.field("topic", pa.string()), pa.field("schema", pa.string())]
)
_REWRITTEN = pa.schema([pa.field("staged", pa.string()), pa.field("path", pa.string())])

_ALONE = {b"tidelog": b"one column"}


@dataclass(frozen=True, slots=True)
class SurveyWork:
    """A task's look at the values of a split."""

    structs: Mapping[str, pa.DataType]
    fail_on_data_loss: bool

    def __call__(self, number: int, split: Split) -> list[dict[str, Any]]:
        """The schema that the split's topic needs."""
        struct = self.structs[split.topic]
        projection = Projection(("value",))
        for task in split.tasks:
            if self.fail_on_data_loss:
                batches = run_task(task, projection)
            else:
                batches = salvage_task(task, projection, lambda loss: None)
            for batch in batches:
                struct = widen_struct(struct, batch.column("value"))
        return [{"split": number, "topic": split.topic, "schema": to_text(struct)}]


def survey(
    spark: SparkSession, splits: Sequence[Split], structs: Mapping[str, pa.DataType], fail_on_data_loss: bool
) -> dict[str, pa.DataType]:
    """The schemas of topics, widened for what is in the splits."""
    found = dict(structs)
    rows = run_job(spark, SurveyWork(structs, fail_on_data_loss), splits, _SURVEYED)
    for row in sorted(rows, key=lambda row: int(row["split"])):
        found[row["topic"]] = _joined(found[row["topic"]], from_text(row["schema"]))
    return found


def _joined(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Two structs joined, field by field as far as they agree."""
    try:
        return join(a, b)
    except Misfit:
        pass
    if not (pa.types.is_struct(a) and pa.types.is_struct(b)):
        return a
    fields = {one.name: one.type for one in a}
    for one in b:
        fields[one.name] = _joined(fields.get(one.name, one.type), one.type)
    return pa.struct(list(fields.items()))


def types_changed(before: pa.DataType, after: pa.DataType) -> bool:
    """Whether more than fields were added, so that files of both cannot be read as one table."""
    if pa.types.is_struct(before) and pa.types.is_struct(after):
        kinds = {one.name: one.type for one in after}
        return any(types_changed(one.type, kinds[one.name]) for one in before)
    if pa.types.is_list(before) and pa.types.is_list(after):
        return types_changed(before.value_type, after.value_type)
    if pa.types.is_map(before) and pa.types.is_map(after):
        return types_changed(before.item_type, after.item_type)
    return bool(before != after)


# ---- older files


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class RewriteWork:
    """A task's work: writes an older file again, its values under a wider schema."""

    target: str
    staging: str
    structs: Mapping[str, str]
    settings: ParquetSettings

    def __call__(self, number: int, file: _File) -> list[dict[str, Any]]:
        """The file in the staging, and where it belongs."""
        place = target_place(self.target)
        with pq.ParquetFile(pa.BufferReader(place.read(file.path))) as source:
            schema = source.schema_arrow
            wide = schema
            for column in ("value", "key"):
                text = self.structs.get(kept_name(_topic_of(file.path), column))
                if text is not None:
                    at = schema.get_field_index(column)
                    wide = wide.set(at, schema.field(at).with_type(from_text(text)))
            staged = f"{self.staging}/again-{number:06}-{_attempt()}"
            with place.sink(staged) as sink, parquet_writer(sink, wide, self.settings) as writer:
                for group in range(source.num_row_groups):
                    table = source.read_row_group(group)
                    writer.write_table(table.cast(wide, safe=False), row_group_size=table.num_rows)
        place.finish(staged)
        return [{"staged": staged, "path": file.path}]


def rewrite_files(
    spark: SparkSession, held: ExportTarget, structs: Mapping[str, str], settings: ParquetSettings
) -> list[StagedFile]:
    """Write the older files of topics again; they are staged for this run's commit."""
    topics = {name.partition("/")[0] for name in structs}
    files = [_File(path, 0) for path in held.exported_files() if _topic_of(path) in topics]
    as_they_are = replace(settings, sort_by=())  # rows stay in the order that they have
    work = RewriteWork(held.place.url, held.staging, dict(structs), as_they_are)
    return [StagedFile(row["staged"], row["path"]) for row in run_job(spark, work, files, _REWRITTEN)]


def _topic_of(path: str) -> str:
    return path.partition("/")[0].removeprefix("topic=")


def _attempt() -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    return "0" if context is None else str(context.taskAttemptId())


# ---- schemas as text


def kept_name(topic: str, column: str) -> str:
    """Under which name the schema of a topic's values, or keys, is kept. No topic has a slash in its name."""
    return topic if column == "value" else f"{topic}/{column}"


def column_of(name: str) -> str:
    """The column that a schema kept under a name is of."""
    return name.partition("/")[2] or "value"


def to_text(kind: pa.DataType) -> str:
    """A type as it is kept: the fields of a struct, or one column of that type."""
    is_struct = pa.types.is_struct(kind)
    schema = pa.schema(list(kind) if is_struct else [pa.field("value", kind)], None if is_struct else _ALONE)
    data: bytes = schema.serialize().to_pybytes()
    return data.hex()


def from_text(text: str) -> pa.DataType:
    """The type that a text is of."""
    schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(text)))
    return schema.field(0).type if schema.metadata == _ALONE else pa.struct(list(schema))
