"""`tidelog export`: write topics to Parquet files or a table, from where the last export ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from tidelog.cli.app import INTERRUPTED, Debug, Json, app
from tidelog.cli.declare import Argument, Exit, Option
from tidelog.cli.options.values import (
    Framing,
    KeyFormat,
    KeySubject,
    RegistryOption,
    Schemas,
    Subject,
    typed_keys,
    typed_values,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Event

    from pyspark.sql import SparkSession

    from tidelog.cli.render.output import Output
    from tidelog.spark.exporting.following import FollowedRun
    from tidelog.spark.exporting.parquet import ParquetSettings

__all__ = ["export"]

_FOLLOWED_FILES = 16
"""So many small files are merged while a topic is followed; less would be written again and again."""


@app.command()
def export(
    paths: Annotated[
        list[str], Argument(metavar="PATH", help="Root or partition directories, globs, or URLs.")
    ],
    to: Annotated[
        str,
        Option("--to", metavar="TARGET", help="A directory or URL, or for Iceberg CATALOG.NAMESPACE.TABLE."),
    ],
    format: Annotated[
        str, Option("--format", metavar="FORMAT", help="The format of the target: parquet, delta or iceberg.")
    ] = "parquet",
    topic: Annotated[list[str] | None, Option("--topic", metavar="NAME", help="Only this topic.")] = None,
    values: Annotated[
        str,
        Option(
            "--values",
            "--value-format",
            metavar="FORMAT",
            help="The format of values: bytes, string, json, avro, protobuf or jsonschema.",
        ),
    ] = "bytes",
    schemas: Schemas = None,
    framing: Framing = "confluent",
    subject: Subject = None,
    registry_option: RegistryOption = None,
    key_format: KeyFormat = None,
    key_subject: KeySubject = None,
    schema: Annotated[
        str | None,
        Option(
            "--schema",
            metavar="DDL",
            help="The schema of JSON values, such as 'id BIGINT, name STRING'. Default: inferred.",
        ),
    ] = None,
    evolve: Annotated[
        bool, Option("--evolve", help="Widen the schema of JSON values for new fields and larger numbers.")
    ] = False,
    isolation: Annotated[
        str, Option("--isolation", metavar="LEVEL", help="read_committed or read_uncommitted.")
    ] = "read_committed",
    headers: Annotated[bool, Option(help="Export headers.")] = True,
    batch_facts: Annotated[bool, Option(help="Export columns about the batches.")] = False,
    file_mb: Annotated[
        int, Option("--file-mb", metavar="N", help="Approximate size of a file in megabytes.", min=1)
    ] = 128,
    partition_by: Annotated[
        list[str] | None,
        Option(
            "--partition-by",
            metavar="COLUMN",
            help="A partition column of a new table: topic, partition or date. Default: topic and date.",
        ),
    ] = None,
    sort_by: Annotated[
        list[str] | None,
        Option(
            "--sort-by",
            metavar="COLUMN",
            help="Sort the rows of each row group by key, timestamp or offset. Default: offset order.",
        ),
    ] = None,
    by_key: Annotated[
        bool, Option("--by-key", help="A table with the last record of each key; tombstones delete rows.")
    ] = False,
    buckets: Annotated[
        int,
        Option(
            "--buckets", metavar="N", help="With --by-key, the buckets per partition of a new table.", min=1
        ),
    ] = 16,
    compact: Annotated[
        bool, Option("--compact", help="Merge small files of the table after the export, up to --file-mb.")
    ] = False,
    table_option: Annotated[
        list[str] | None,
        Option(
            "--table-option",
            metavar="KEY=VALUE",
            help="A storage option of deltalake, or a property of the Iceberg catalog.",
        ),
    ] = None,
    skip_damage: Annotated[bool, Option("--skip-damage", help="Skip data that is damaged or gone.")] = False,
    follow: Annotated[bool, Option("--follow", help="Export again and again, until Ctrl-C.")] = False,
    every: Annotated[
        int, Option("--every", metavar="SECONDS", help="With --follow, the time between two runs.", min=1)
    ] = 10,
    every_mb: Annotated[
        int | None,
        Option(
            "--every-mb",
            metavar="N",
            help="With --follow, run earlier when the logs have grown by N megabytes.",
            min=1,
        ),
    ] = None,
    spark: Annotated[str, Option("--spark", metavar="MASTER", help="Spark's master.")] = "local[*]",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Export topics to Parquet or to a Delta or Iceberg table, incrementally and exactly once.

    Each run continues where the last one ended. Parquet files are in TARGET/topic=/partition=/date=, and the
    next run completes a run that failed or was killed. A table gets all rows of a run in one commit, which
    also has the end offsets. On a cluster, all workers must reach TARGET and PATH.

    --follow prints a line for each run that added records; `behind` counts records appended meanwhile.
    """
    from contextlib import ExitStack

    from tidelog.cli.actions.directories import parse_settings
    from tidelog.cli.render.output import make_output
    from tidelog.cli.render.spark_progress import Reporter
    from tidelog.errors import InvalidInputError
    from tidelog.spark import ParquetSettings, quiet_session
    from tidelog.spark import export as run_export
    from tidelog.spark.exporting.following import follow as follow_runs
    from tidelog.spark.exporting.job import source_options

    output = make_output(json=json)
    typed = typed_values(values, schemas, framing, subject, registry_option, key_format)
    keys = typed_keys(key_format, schemas, framing, key_subject, registry_option)
    settings = ParquetSettings(file_bytes=file_mb << 20, sort_by=tuple(sort_by or ()))
    options = parse_settings(table_option or [], "--table-option")
    if compact and format.lower() == "parquet":
        raise InvalidInputError("--compact is for tables: choose --format delta or iceberg")
    with quiet_session(spark) as session, ExitStack() as stack:

        def run() -> list[dict[str, Any]]:
            rows = run_export(
                session,
                paths,
                to,
                format=format,
                topics=topic or None,
                value_format=values if typed is None else typed,
                key_format=keys,
                schema=schema,
                evolve=evolve,
                isolation=isolation,
                include_headers=headers,
                include_batch_facts=batch_facts,
                fail_on_data_loss=not skip_damage,
                settings=settings,
                partition_by=partition_by or None,
                by_key=by_key,
                buckets=buckets,
                table_options=options,
                report=None if follow else Reporter(output, stack, "exporting"),
            )
            found: list[dict[str, Any]] = rows.toArrow().to_pylist()
            if compact:
                _merge(output, session, to, format, options, settings, _FOLLOWED_FILES if follow else 2)
            return found

        if follow:
            selected = source_options(paths, topic or None, isolation, not skip_damage)
            every_bytes = None if every_mb is None else every_mb << 20
            stop = _stop_on_interrupt()
            runs = follow_runs(run, selected, every_s=every, every_bytes=every_bytes, stop=stop)
            try:
                _show_runs(output, runs)
            except Exception:
                if not stop.is_set():  # a task that Ctrl-C has ended fails the run
                    raise
            raise Exit(INTERRUPTED)
        rows = run()
    _show(output, rows)


def _merge(
    output: Output,
    session: SparkSession,
    target: str,
    format: str,
    options: dict[str, str],
    settings: ParquetSettings,
    min_files: int,
) -> None:
    """Merge small files of the table, if there is one by now, and tell how many."""
    from tidelog.errors import LogLockedError
    from tidelog.spark import merge_files

    try:
        merged = merge_files(
            session,
            target,
            format=format,
            table_options=options,
            settings=settings,
            min_files=min_files,
            must_exist=False,
        )
    except LogLockedError as error:  # the export itself is committed, and is to be told
        output.warn(f"small files were not merged: {error}")
        return
    groups = merged.toArrow().to_pylist()
    before, after = (sum(row[name] for row in groups) for name in ("files_before", "files_after"))
    if groups:
        output.say(f"merged {before} files into {after}")


def _stop_on_interrupt() -> Event:
    """Set by the first Ctrl-C or SIGTERM, so that the run in progress can end; the second interrupts it."""
    import signal
    from threading import Event

    stop = Event()

    def interrupt(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    return stop


def _show_runs(output: Output, runs: Iterator[FollowedRun]) -> None:
    """A line for each run that added something, or could not."""
    from tidelog.cli.render.output import Column

    names = ["records", "files", "bytes_written", "seconds", "behind"]
    columns = [Column(name, name.replace("_", " "), right=True) for name in names]

    def lines() -> Iterator[list[int | float]]:
        for run in runs:
            if run.refused is not None:
                output.warn(run.refused)
            elif run.records:
                yield [run.records, run.files, run.bytes_written, round(run.seconds, 3), run.behind]
                output.flush()

    if output.terminal:
        for line in lines():  # a table of many rows would wait until it fills a page
            output.table(columns, [line])
    else:
        output.table(columns, lines())


def _show(output: Output, rows: list[dict[str, Any]]) -> None:
    from tidelog.cli.render.output import Column

    partitions: dict[tuple[str, int], dict[str, Any]] = {}
    for row in rows:
        total = partitions.setdefault((row["topic"], row["partition"]), {"files": 0})
        total["files"] += len(row["files"])
        for name in ("records", "bytes_read", "bytes_written", "invalid_values", "bytes_skipped"):
            total[name] = total.get(name, 0) + row[name]
        if row["records"]:
            total["first_offset"] = min(total.get("first_offset", row["first_offset"]), row["first_offset"])
            total["last_offset"] = max(total.get("last_offset", row["last_offset"]), row["last_offset"])
    names = ["first_offset", "last_offset", "records", "files", "bytes_read", "bytes_written"]
    names += ["invalid_values", "bytes_skipped"]
    columns = [Column("topic", "topic"), Column("partition", "partition", right=True)]
    columns += [Column(name, name.replace("_", " "), right=True) for name in names]
    if not partitions:
        output.say("nothing new to export")
    output.table(
        columns, ([*place, *(found.get(n) for n in names)] for place, found in sorted(partitions.items()))
    )
