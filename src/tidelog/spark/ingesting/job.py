"""`ingest`: anything that Spark reads -> topics, resumable and exactly once.

    files       Parquet, JSON, CSV, ORC, text, ...: in batches, by a ledger beside the root (`files`)
    tables      Delta, Iceberg: what each version has added, by the same ledger (`from_tables`)
    streams     Kafka through Spark's own connector, and what else `readStream` knows: up to where the source
                ends now; Spark's checkpoint beside the root remembers what was taken
    DataFrames  one batch, under a name of its own: written again under the same name it adds nothing

The journal in the root says which batches were published. So a run that was killed is finished by the next
one, and a later run takes what is new.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.scanning.log_end import log_end_offset
from tidelog.scanning.partitions import list_partitions
from tidelog.spark.ingesting.files import FileIngest, is_file_source
from tidelog.spark.ingesting.from_tables import TableIngest, is_table_source, table_frame
from tidelog.spark.ingesting.from_tables import on_change as parse_on_change
from tidelog.spark.ingesting.ledger import hold, is_ledger
from tidelog.spark.ingesting.records import Columns, FileSource, records_of
from tidelog.spark.runtime.jobs import ours, report_frame
from tidelog.spark.sink.options import SinkOptions
from tidelog.spark.sink.writers import check_columns
from tidelog.storage.names import CLUSTER_METADATA_TOPIC
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["INGEST_SCHEMA", "Columns", "FileSource", "check_source", "ingest", "preview"]

INGEST_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("first_offset", pa.int64()),
        pa.field("last_offset", pa.int64()),
        pa.field("records", pa.int64()),
    ]
)
"""A row for each partition that was written to."""

_PROGRESS = ".tidelog-ingest"
_FILES_AT_A_TIME = 1000
_SAID_BY_SPARK = re.compile(r"\[(DATA_SOURCE_NOT_FOUND|FAILED_READ_FILE\b).*")
_LARGE_BATCHES = {"spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1)}
"""Without it, Spark looks at every row's size again for each row where a column of lists is null."""


def ingest(
    spark: SparkSession,
    source: DataFrame | FileSource | tuple[str, str | None, Mapping[str, str]],
    root: str | Path,
    *,
    topic: str | None = None,
    columns: Columns | None = None,
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    files_at_a_time: int = _FILES_AT_A_TIME,
    on_change: str = "fail",
) -> DataFrame:
    """Write what a source has into topics; a row for each partition that was written to.

    `name` says whose progress it is: a source is taken once under one name (default: from the source and the
    topic; for a DataFrame none, which is rewritten each time). `options` are the sink's (`partitions`,
    Kafka's config keys, ...). `files_at_a_time` bounds what one commit publishes.

    Of a table (`delta`, `iceberg`; options as in `export`) a run takes what was added since the last one.
    `on_change` says what to do about a version that has removed or rewritten rows: `fail`, `skip` it, or
    `take` the rows of its new files.
    """
    wanted = parse_on_change(on_change)
    sink = {"path": str(root), **{key: str(value) for key, value in (options or {}).items()}}
    if topic is not None:
        sink["topic"] = topic
    parsed = SinkOptions.parse(sink)
    sink["path"] = json.dumps(parsed.roots)  # whole: Spark's processes may be in other directories
    before = _ends(parsed)
    chosen = columns or Columns()
    try:
        with _settings(spark):
            if not isinstance(source, (FileSource, tuple)):
                _ingest_frame(source, chosen, sink, name)
            else:
                files = source if isinstance(source, FileSource) else FileSource(*source)
                progress = _progress(files, parsed, name)
                if is_table_source(files):
                    with hold(progress):
                        TableIngest(spark, files, chosen, sink, progress, wanted).run(files_at_a_time)
                elif is_file_source(files):
                    with hold(progress):
                        FileIngest(spark, files, chosen, sink, progress).run(files_at_a_time)
                else:
                    _ingest_stream(spark, files, chosen, sink, progress)
    except Exception as error:
        raise _told(error) from error
    after = _ends(parsed)
    return _report(spark, before, after)


def preview(
    spark: SparkSession,
    source: FileSource,
    root: str | Path,
    *,
    topic: str | None = None,
    columns: Columns | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """How many records of each topic the source has now, taken before or not; nothing is written.

    Options and columns are checked as a write would check them.
    """
    from pyspark.sql import functions as sql

    sink = {"path": str(root), **{key: str(value) for key, value in (options or {}).items()}}
    SinkOptions.parse(sink if topic is None else {**sink, "topic": topic})
    records = check_source(spark, source, columns or Columns(), has_topic=topic is not None)
    named = records if topic is None else records.withColumn("topic", sql.lit(topic))
    counted = named.groupBy("topic").agg(sql.count("*").alias("records"))
    found: list[dict[str, Any]] = counted.toArrow().to_pylist()
    return sorted(found, key=lambda row: str(row["topic"]))


def check_source(spark: SparkSession, source: FileSource, columns: Columns, *, has_topic: bool) -> DataFrame:
    """The records of a source, checked as a write would check them; nothing is written."""
    try:
        if is_table_source(source):
            rows = table_frame(spark, source)
        else:
            rows = spark.read.format(source.format).options(**source.options).load(source.path)
        records = records_of(rows, columns)
        schema = records.schema
    except Exception as error:
        raise _told(error) from error
    check_columns(schema, has_topic)
    return records


def _told(error: Exception) -> Exception:
    """The error of ours that was raised in a task; what Spark says of a source that it cannot read."""
    from pyspark.errors import AnalysisException, IllegalArgumentException

    found = ours(error)
    text = str(error)
    said = _SAID_BY_SPARK.search(text)
    is_refused = isinstance(error, (AnalysisException, IllegalArgumentException))
    if found is error and (said or is_refused):
        return InvalidInputError(said[0] if said else text.strip().partition("\n")[0])
    return found


def _ingest_frame(frame: DataFrame, columns: Columns, sink: Mapping[str, str], name: str | None) -> None:
    writer = records_of(frame, columns).write.format("tidelog").mode("append").options(**sink)
    if name is not None:
        writer = writer.option("writeId", f"ingest {name}")
    writer.save()


def _ingest_stream(
    spark: SparkSession, source: FileSource, columns: Columns, sink: Mapping[str, str], checkpoint: Path
) -> None:
    if is_ledger(checkpoint):
        raise InvalidInputError(f"{checkpoint} is that of an ingest of files: take another name")
    reader = spark.readStream.format(source.format).options(**source.options)
    stream = reader.load() if source.path is None else reader.load(source.path)
    query = (
        records_of(stream, columns)
        .writeStream.format("tidelog")
        .options(**sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()


def _progress(source: FileSource, sink: SinkOptions, name: str | None) -> Path:
    """Where it is remembered what was taken: beside the first root, under the ingest's name."""
    if name is None:
        options = {} if is_table_source(source) else source.options  # a table's are about how to reach it
        where = json.dumps([source.format, source.path, sorted(options.items())])
        name = f"{sink.topic or 'topics'}-{hashlib.sha256(where.encode()).hexdigest()[:12]}"
    if "/" in name or name in ("", ".", ".."):
        raise InvalidInputError(f"{name!r} is not a name for an ingest: it becomes the name of a directory")
    return Path(sink.roots[0]).parent / _PROGRESS / name


class _settings:
    """Settings of a session for as long as the `with` lasts."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._before: dict[str, str | None] = {}

    def __enter__(self) -> None:
        for key, value in _LARGE_BATCHES.items():
            self._before[key] = self._spark.conf.get(key, None)
            self._spark.conf.set(key, value)

    def __exit__(self, *_: object) -> None:
        for key, value in self._before.items():
            if value is None:
                self._spark.conf.unset(key)
            else:
                self._spark.conf.set(key, value)


def _ends(options: SinkOptions) -> dict[TopicPartition, int]:
    """Where the logs end now."""
    roots = [root for root in options.roots if Path(root).is_dir()]
    there = list_partitions(roots) if roots else []
    return {
        one.topic_partition: log_end_offset(one)
        for one in there
        if one.topic_partition.topic != CLUSTER_METADATA_TOPIC
    }


def _report(
    spark: SparkSession, before: Mapping[TopicPartition, int], after: Mapping[TopicPartition, int]
) -> DataFrame:
    rows = [
        {
            "topic": name.topic,
            "partition": name.partition,
            "first_offset": before.get(name, 0),
            "last_offset": end - 1,
            "records": end - before.get(name, 0),
        }
        for name, end in sorted(after.items())
        if end > before.get(name, 0)
    ]
    return report_frame(spark, rows, INGEST_SCHEMA)
