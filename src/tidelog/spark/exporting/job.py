"""`export`: topics -> Parquet or a table, incrementally and exactly once.

How that is kept: `directory` (Parquet), `table_target` (Delta and Iceberg).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.errors import DataLossError, InvalidInputError
from tidelog.records.schema import BATCH_FACTS
from tidelog.scanning.losses import Corrupt
from tidelog.scanning.partitions import Partition
from tidelog.scanning.ranges import OffsetRange, is_committed, range_bytes
from tidelog.scanning.splits import Split, plan_splits
from tidelog.scanning.volumes import local_path
from tidelog.spark.exporting.by_key import export_by_key
from tidelog.spark.exporting.directory import ExportTarget, StagedFile
from tidelog.spark.exporting.parquet import ParquetSettings
from tidelog.spark.exporting.table_target import TableTarget
from tidelog.spark.exporting.tasks import REPORT_SCHEMA, ExportWork
from tidelog.spark.exporting.value_schemas import (
    Evolution,
    choose_decoders,
    choose_typed,
    files_to_rewrite,
)
from tidelog.spark.runtime.collecting import without_collections
from tidelog.spark.runtime.jobs import Bin, parallelism, report_frame, run_job
from tidelog.spark.runtime.packing import pack_splits
from tidelog.spark.source.data_loss import LossPolicy
from tidelog.spark.source.offsets import LogEnds, log_ends, range_of, select_partitions
from tidelog.spark.source.options import SourceOptions, Subscribed
from tidelog.spark.source.topic_ids import for_each, is_another, recreated, topic_id_at
from tidelog.tables.opening import open_table, table_format
from tidelog.tables.table import DEFAULT_BUCKETS, MAX_BUCKETS, Done, TableFormat
from tidelog.values.decoding import Decoder, ValueFormat
from tidelog.values.spec import Values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["REPORT_SCHEMA", "export", "export_tasks", "plan_export", "source_options"]

_MIN_SPLIT_BYTES = 32 << 20
_MAX_SPLIT_BYTES = 512 << 20
_TASKS_PER_CORE = 4


@dataclass(frozen=True, slots=True)
class _Request:
    """What was asked for."""

    options: SourceOptions
    values: ValueFormat | Values
    schema: Any
    evolve: bool
    isolation: str
    columns: tuple[str, ...]
    settings: ParquetSettings
    by_key: bool
    keys: Values | None = None


def export(
    spark: SparkSession,
    path: str | Path | Iterable[str | Path],
    target: str | Path,
    *,
    format: str = "parquet",
    topics: str | Iterable[str] | None = None,
    value_format: str | Values = "bytes",
    key_format: Values | None = None,
    schema: Any = None,
    evolve: bool = False,
    isolation: str = "read_committed",
    include_headers: bool = True,
    include_batch_facts: bool = False,
    fail_on_data_loss: bool = True,
    settings: ParquetSettings | None = None,
    partition_by: Sequence[str] | None = None,
    by_key: bool = False,
    buckets: int = DEFAULT_BUCKETS,
    table_options: Mapping[str, str] | None = None,
    report: Callable[[int, int], None] | None = None,
) -> DataFrame:
    """Export topics to `target`, from where the last export ended to the logs' ends.

    `format` is parquet, delta or iceberg. Parquet files are under `topic=/partition=/date=` (the record's
    date, UTC) and have the columns of the source without topic and partition. A table has these columns too,
    and keeps itself where to continue (`tidelog.tables`). The target is a directory that the driver and all
    workers share, an fsspec URL such as `s3://bucket/lake`, or for Iceberg `catalog.namespace.table`.
    `partition_by` (topic, partition, date) is for a table that is yet to be made; `table_options` are
    deltalake's storage options, or the properties of pyiceberg's catalog.

    With `by_key`, a table has the last record of each key of a partition; tombstones delete (`by_key`).
    `buckets` is for such a table that is yet to be made: a run rewrites files of the buckets that it changes.

    `value_format` is bytes, string, or json with `schema` (a Spark or Arrow schema, or a DDL string; by
    default inferred from the first records and kept for later runs). Values that do not decode or do not fit
    the schema are null, and complete in the column `value_invalid`; with `evolve` the schema is widened for
    them first (`schema_evolution`). A `tidelog.Values` decodes Avro, Protobuf and JSON under a JSON Schema;
    `value_error` then has the reasons, and the column gets the fields and wider types that new versions of
    the schema have. `key_format` does the same with keys (`key`, `key_invalid`, `key_error`).

    Returns a row for each split, see `REPORT_SCHEMA`; `report` is called with progress.
    """
    kind = table_format(format)
    options = source_options(path, topics, isolation, fail_on_data_loss)
    values = _value_format(value_format, schema, evolve)
    columns = ["key", "value", "offset", "timestamp", "timestampType"]
    columns += ["headers"] if include_headers else []
    columns += BATCH_FACTS if include_batch_facts else ()
    request = _Request(
        options,
        values,
        schema,
        evolve,
        isolation,
        tuple(columns),
        settings or ParquetSettings(),
        by_key,
        key_format,
    )
    _check_keys(request)
    _check_by_key(request, kind, partition_by, buckets)
    select_partitions(options)  # raises before the target is made; what counts is listed under its lock
    held: ExportTarget | TableTarget
    if kind is TableFormat.PARQUET:
        if partition_by is not None or table_options:
            raise InvalidInputError("partition_by and table_options mean something for tables only")
        held = ExportTarget(target)
    else:
        at = local_path(str(target))
        wanted = buckets if by_key else None
        held = TableTarget(open_table(kind, at, table_options, partition_by, wanted), by_key=by_key)
    try:
        rows = _run(spark, held, request, report)
    finally:
        held.release()
    return report_frame(spark, rows, REPORT_SCHEMA)


def _run(
    spark: SparkSession,
    held: ExportTarget | TableTarget,
    request: _Request,
    report: Callable[[int, int], None] | None,
) -> list[dict[str, Any]]:
    """One run under the target's lock: plan, have tasks write files, commit them; the reports."""
    options, columns = request.options, request.columns
    held.agree(
        {
            "version": 1,
            "values": request.values.format if isinstance(request.values, Values) else request.values.value,
            "columns": list(columns),
            "keys": None if request.keys is None else request.keys.format,
            "isolation": request.isolation,
        }
    )
    partitions = select_partitions(options)
    before = held.done(partitions)
    plan = plan_export(partitions, before, options)
    if request.by_key and plan.done.generations:
        raise _has_old_rows(held)
    if not plan.ranges:
        if plan.done.generations != before.generations:
            held.commit(plan.done, [])  # or the log could grow beyond the old offset unnoticed
        return []
    tasks = export_tasks(plan.ranges, options, parallelism(spark))
    splits = [split for task in tasks for split in task.items]
    fail = options.fail_on_data_loss
    evolution = Evolution(spark, splits, fail) if request.evolve else None
    decoders, keys = _decoders(held, plan, request, evolution)
    layout = None
    if isinstance(held, TableTarget):
        decoders, keys = held.one_type(decoders), held.one_type(keys)
        layout = held.prepare(columns, decoders, keys)
    work = ExportWork(
        held.place.url,
        held.staging,
        columns,
        decoders,
        request.settings,
        fail,
        plan.ids,
        plan.done.generations,
        layout,
        keys,
    )
    if request.by_key:
        assert isinstance(held, TableTarget)
        rows, buckets = export_by_key(
            lambda work, splits, schema: run_job(spark, work, splits, schema, report), held, work, tasks
        )
        held.commit(plan.done, buckets, [name for row in buckets for name in row["removed"]])
        return _with_files(rows, buckets)
    rows = run_job(spark, work, tasks, REPORT_SCHEMA, report)
    if sorted(row["split"] for row in rows) != list(range(len(splits))):
        raise DataLossError(f"Spark answered {len(rows)} reports for {len(splits)} splits; nothing was added")
    if isinstance(held, TableTarget):
        held.commit(plan.done, rows)
        return rows
    again = files_to_rewrite(held, spark, request.settings)
    new = [StagedFile(f["staged"], f["path"]) for row in rows for f in row["files"]]
    held.commit(plan.done, [*again, *new])
    if again:
        held.remember(rewrite=[])
    return rows


def _decoders(
    held: ExportTarget | TableTarget, plan: ExportPlan, request: _Request, evolution: Evolution | None
) -> tuple[dict[str, Decoder], dict[str, Decoder]]:
    """What decodes the values of each topic, and the keys if they are decoded."""
    ranges, committed = plan.ranges, request.options.committed_only
    if isinstance(request.values, Values):
        decoders = choose_typed(held, ranges, request.values, committed)
    else:
        decoders = choose_decoders(held, ranges, request.values, request.schema, committed, evolution)
    keys = {} if request.keys is None else choose_typed(held, ranges, request.keys, committed, "key")
    return decoders, keys


def _check_keys(request: _Request) -> None:
    """Refuse what means nothing for keys that are decoded."""
    if request.keys is not None and request.by_key:
        raise InvalidInputError("a table by key has keys as they are: leave out the format of keys")
    if request.keys is not None and "key" in request.settings.sort_by:
        raise InvalidInputError("rows are sorted by keys that are bytes: leave out the format of keys")


def _check_by_key(
    request: _Request, kind: TableFormat, partition_by: Sequence[str] | None, buckets: int
) -> None:
    """Refuse what means nothing for a table by key."""
    if not request.by_key:
        return
    if kind is TableFormat.PARQUET:
        raise InvalidInputError("tables are exported by key, Parquet files are not: choose delta or iceberg")
    if partition_by is not None:
        raise InvalidInputError("a table by key is partitioned by topic, partition and bucket")
    if not request.options.committed_only:
        raise InvalidInputError("a table by key has committed records only: they replace others for good")
    if not 1 <= buckets <= MAX_BUCKETS:
        raise InvalidInputError(f"buckets is from 1 to {MAX_BUCKETS}, not {buckets}")


def _has_old_rows(held: ExportTarget | TableTarget) -> InvalidInputError:
    return InvalidInputError(
        f"a topic was deleted and created again, or cut back; {held.url} has rows of the old one by key: "
        "export to another table"
    )


def _with_files(rows: list[dict[str, Any]], buckets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reports of splits as `REPORT_SCHEMA` has them; a partition's files are with its first split."""
    found = [{name: row[name] for name in REPORT_SCHEMA.names} for row in rows]
    first: dict[tuple[str, int], dict[str, Any]] = {}
    for row in found:
        first.setdefault((row["topic"], row["partition"]), row)
    for bucket in buckets:
        row = first[bucket["topic"], bucket["partition"]]
        row["files"] = [*row["files"], *bucket["files"]]
        row["bytes_written"] += sum(file["bytes"] for file in bucket["files"])
    return found


def source_options(
    path: str | Path | Iterable[str | Path], topics: str | Iterable[str] | None, isolation: str, fail: bool
) -> SourceOptions:
    """What is to be exported, as an option of the source."""
    paths = (str(path),) if isinstance(path, (str, Path)) else tuple(str(each) for each in path)
    options = SourceOptions(
        paths,
        fail_on_data_loss=fail,
        corrupt=Corrupt.FAIL if fail else Corrupt.SKIP,
        committed_only=is_committed(isolation),
        include_control_records=False,
    )
    if topics is None:
        return options
    named = (topics,) if isinstance(topics, str) else tuple(topics)
    return replace(options, selection=Subscribed(named))


def _value_format(name: str | Values, schema: Any, evolve: bool) -> ValueFormat | Values:
    if isinstance(name, Values):
        if schema is not None or evolve:
            raise InvalidInputError(
                f"{name.format} values have schemas of their own: leave out schema and evolve"
            )
        return name
    try:
        kind = ValueFormat(name.lower())
    except ValueError:
        known = ", ".join(each.value for each in ValueFormat)
        raise InvalidInputError(f"value_format is one of {known}, or Values(...), not {name!r}") from None
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


@without_collections()
def plan_export(partitions: Sequence[Partition], before: Done, options: SourceOptions) -> ExportPlan:
    """From where the last run ended, or the log's start; a topic that was deleted and created again, or
    cut back, is data lost, or else exported from the start of what is new, as another generation.
    """
    policy = LossPolicy(options.fail_on_data_loss)
    if before.lost is not None:
        policy.lost(before.lost)
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
