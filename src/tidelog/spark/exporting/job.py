"""`export`: topics -> Parquet, incrementally and exactly once; how that is kept: `directory`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.errors import DataLossError, InvalidInputError
from tidelog.records.schema import BATCH_FACTS, Projection
from tidelog.scanning.partitions import Partition
from tidelog.scanning.ranges import OffsetRange, is_committed, range_bytes
from tidelog.scanning.salvage import Loss, salvage_task
from tidelog.scanning.splits import Split, plan_splits
from tidelog.scanning.tasks import run_task
from tidelog.spark.exporting.directory import Done, ExportTarget, StagedFile, target_place
from tidelog.spark.exporting.parquet import DatedFiles, ParquetSettings, WrittenFile
from tidelog.spark.exporting.value_schemas import Evolution, choose_decoders, files_to_rewrite
from tidelog.spark.exporting.values import ValueDecoder, ValueFormat
from tidelog.spark.runtime.jobs import Bin, parallelism, report_frame, run_job
from tidelog.spark.runtime.packing import pack_splits
from tidelog.spark.source.data_loss import LossPolicy
from tidelog.spark.source.offsets import LogEnds, log_ends, range_of, select_partitions
from tidelog.spark.source.options import SourceOptions, Subscribed
from tidelog.spark.source.topic_ids import check_still, for_each, is_another, recreated, topic_id_at
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["REPORT_SCHEMA", "export"]

_MIN_SPLIT_BYTES = 32 << 20
_MAX_SPLIT_BYTES = 512 << 20
_TASKS_PER_CORE = 4
_ALWAYS = ("offset", "timestampType")
"""What every record has: Parquet need not note if it is missing."""

_FILE = pa.struct(
    [
        pa.field("staged", pa.string()),
        pa.field("path", pa.string()),
        pa.field("records", pa.int64()),
        pa.field("bytes", pa.int64()),
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
        pa.field("files", pa.list_(_FILE)),
    ]
)
"""A row for each split: what it read, and the files that came of it."""


@dataclass(frozen=True, slots=True)
class ExportWork:
    """What a task does with a split: read it, decode the values, write files into the staging."""

    target: str
    staging: str
    columns: tuple[str, ...]
    decoders: Mapping[str, ValueDecoder]
    """By topic."""

    settings: ParquetSettings
    fail_on_data_loss: bool
    ids: Mapping[str, str] = field(default_factory=dict)
    """By a directory's URL, the id of the topic that it is of."""
    generations: Mapping[str, int] = field(default_factory=dict)
    """By topic: files of another generation than the first have it in their names."""

    def __call__(self, number: int, splits: Bin[Split]) -> list[dict[str, Any]]:
        """Export the splits of a task; a report each."""
        return [self._export(splits.first + n, split) for n, split in enumerate(splits.items)]

    def _export(self, number: int, split: Split) -> dict[str, Any]:
        decoder = self.decoders[split.topic]
        schema = self.schema(decoder)
        prefix = f"{self.staging}/{number:06}-{_attempt()}"
        files = DatedFiles(target_place(self.target), prefix, schema, self.settings)
        lost: list[Loss] = []
        closed: list[WrittenFile] = []
        records = invalid = 0
        for batch in self._read(split, lost):
            decoded = decoder.decode(batch.column("value"))
            invalid += decoded.invalid
            records += batch.num_rows
            closed += files.write(_with_values(batch, decoded.columns, schema))
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

    def schema(self, decoder: ValueDecoder) -> pa.Schema:
        """The columns of a file: those read, the value in its place under its own type."""
        fields: list[pa.Field] = []
        for column in Projection.of(self.columns).schema:
            column = column.with_nullable(column.name not in _ALWAYS)
            fields += decoder.fields if column.name == "value" else [column]
        return pa.schema(fields)

    def _read(self, split: Split, lost: list[Loss]) -> Iterator[pa.RecordBatch]:
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
            "staged": file.path,
            "path": f"{directory}/{name}",
            "records": file.records,
            "bytes": file.size,
        }


def _with_values(batch: pa.RecordBatch, values: tuple[pa.Array, ...], schema: pa.Schema) -> pa.RecordBatch:
    arrays: list[pa.Array] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        arrays += values if name == "value" else [column]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _attempt() -> str:
    """A name that no other attempt at this task has."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "0" if context is None else str(context.taskAttemptId())


def export(
    spark: SparkSession,
    path: str | Path | Iterable[str | Path],
    target: str | Path,
    *,
    topics: str | Iterable[str] | None = None,
    value_format: str = "bytes",
    schema: Any = None,
    evolve: bool = False,
    isolation: str = "read_committed",
    include_headers: bool = True,
    include_batch_facts: bool = False,
    fail_on_data_loss: bool = True,
    settings: ParquetSettings | None = None,
    report: Callable[[int, int], None] | None = None,
) -> DataFrame:
    """Export topics to Parquet under `target`, from where the last export ended to the logs' ends.

    Files are under `topic=/partition=/date=` (the record's date, UTC) and have the columns of the source
    without topic and partition. `value_format` is bytes, string, or json with `schema` (a Spark or Arrow
    schema, or a DDL string; by default inferred from the first records and kept for later runs). Values that
    do not decode or do not fit the schema are null, and complete in the column `value_invalid`; with `evolve`
    the schema is widened for them first (`schema_evolution`). The target is a directory that the driver and
    all workers share, or an fsspec URL such as `s3://bucket/lake`. Returns a row for each split, see
    `REPORT_SCHEMA`; `report` is called with progress.
    """
    options = _options(path, topics, isolation, fail_on_data_loss)
    kind = _value_format(value_format, schema, evolve)
    columns = ["key", "value", "offset", "timestamp", "timestampType"]
    columns += ["headers"] if include_headers else []
    columns += BATCH_FACTS if include_batch_facts else ()
    select_partitions(options)  # raises before the target is made; what counts is listed under its lock
    held = ExportTarget(target)
    try:
        held.agree({"version": 1, "values": kind.value, "columns": columns, "isolation": isolation})
        plan = plan_export(select_partitions(options), held.done(), options)
        tasks = export_tasks(plan.ranges, options, parallelism(spark))
        splits = [split for task in tasks for split in task.items]
        evolution = Evolution(spark, splits, fail_on_data_loss) if evolve else None
        decoders = choose_decoders(held, plan.ranges, kind, schema, options.committed_only, evolution)
        work = ExportWork(
            held.place.url,
            held.staging,
            tuple(columns),
            decoders,
            settings or ParquetSettings(),
            fail_on_data_loss,
            plan.ids,
            plan.done.generations,
        )
        rows = run_job(spark, work, tasks, REPORT_SCHEMA, report)
        if sorted(row["split"] for row in rows) != list(range(len(splits))):
            raise DataLossError(
                f"Spark answered {len(rows)} reports for {len(splits)} splits; nothing was added"
            )
        if plan.ranges:
            again = files_to_rewrite(held, spark, work.settings)
            new = [StagedFile(f["staged"], f["path"]) for row in rows for f in row["files"]]
            held.commit(plan.done, [*again, *new])
            if again:
                held.remember(rewrite=[])
    finally:
        held.release()
    return report_frame(spark, rows, REPORT_SCHEMA)


def _options(
    path: str | Path | Iterable[str | Path], topics: str | Iterable[str] | None, isolation: str, fail: bool
) -> SourceOptions:
    paths = (str(path),) if isinstance(path, (str, Path)) else tuple(str(each) for each in path)
    options = SourceOptions(
        paths, fail_on_data_loss=fail, committed_only=is_committed(isolation), include_control_records=False
    )
    if topics is None:
        return options
    named = (topics,) if isinstance(topics, str) else tuple(topics)
    return replace(options, selection=Subscribed(named))


def _value_format(name: str, schema: Any, evolve: bool) -> ValueFormat:
    try:
        kind = ValueFormat(name.lower())
    except ValueError:
        known = ", ".join(each.value for each in ValueFormat)
        raise InvalidInputError(f"value_format is one of {known}, not {name!r}") from None
    if (schema is not None or evolve) and kind is not ValueFormat.JSON:
        raise InvalidInputError(f"a schema means something for json values only, not for {kind.value}")
    return kind


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """What a run is to export."""

    ranges: list[OffsetRange]
    """Of the partitions that have something new."""
    done: Done
    """How far the export has come then."""
    ids: dict[str, str]
    """By a directory's URL, the id of the topic that it is of."""


def plan_export(partitions: Sequence[Partition], before: Done, options: SourceOptions) -> ExportPlan:
    """From where the last run ended, or the log's start; a topic that was deleted and created again, or
    cut back, is data lost, or else exported from the start of what is new, as another generation.
    """
    policy = LossPolicy(options.fail_on_data_loss)
    offsets, ids = dict(before.offsets), dict(before.ids)
    urls: dict[str, str] = {}
    ranges, renewed = [], set()
    seen = for_each(partitions, lambda each: (topic_id_at(each.url, each.volume), log_ends(each, options)))
    for partition, (found, ends) in zip(partitions, seen, strict=True):
        name = partition.topic_partition
        start = offsets.get(name, partition.log_start_offset)
        if is_another(ids.get(name), found):
            policy.lost(
                f"{recreated(name, ids.get(name), found)}; the old one was exported up to offset {start}, "
                "the new one would be exported from its start, beside the old one's files"
            )
            start = partition.log_start_offset
            renewed.add(name.topic)
        elif start > ends.log_end:
            policy.lost(
                f"{name} was exported up to offset {start}, but its log ends at {ends.log_end}: "
                "it was cut back or replaced; export to another directory"
            )
            start = ends.log_end
            renewed.add(name.topic)
        stop = max(start, ends.visible_end)
        wanted = range_of(partition, start, stop, LogEnds(ends.log_end, stop), policy)
        offsets[name] = wanted.end
        ids.pop(name, None)
        if found is not None:
            ids[name] = urls[partition.url] = found
        if len(wanted):
            ranges.append(wanted)
    there = {partition.topic_partition for partition in partitions}
    for name in [each for each in offsets if each.topic in renewed and each not in there]:
        del offsets[name]  # a partition that the new topic does not have
        ids.pop(name, None)
    generations = {**before.generations, **{topic: before.generations.get(topic, 1) + 1 for topic in renewed}}
    return ExportPlan(ranges, Done(offsets, ids, generations), urls)


def export_tasks(ranges: list[OffsetRange], options: SourceOptions, cores: int) -> list[Bin[Split]]:
    """Splits large enough for files of a good size; enough tasks for all cores, small splits share one."""
    total = sum(range_bytes(wanted) for wanted in ranges)
    share = min(max(total // (2 * cores), _MIN_SPLIT_BYTES), _MAX_SPLIT_BYTES)
    splits = plan_splits(ranges, committed_only=options.committed_only, with_control=False, max_bytes=share)
    tasks: list[Bin[Split]] = []
    first = 0
    for group in pack_splits(splits, max_bytes=_MAX_SPLIT_BYTES, tasks=_TASKS_PER_CORE * cores):
        tasks.append(Bin(first, group))
        first += len(group)
    return tasks
