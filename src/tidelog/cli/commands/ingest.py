"""`tidelog ingest`: write what Spark reads into topics, from where the last run ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.declare import Argument, Option

if TYPE_CHECKING:
    from tidelog.cli.render.output import Output

__all__ = ["ingest"]


@app.command()
def ingest(
    source: Annotated[str, Argument(metavar="SRC", help="Files, a directory, a glob, a URL, or a table.")],
    root: Annotated[str, Argument(metavar="ROOT", help="The root directory (log.dirs).")],
    format_name: Annotated[
        str,
        Option("--format", metavar="NAME", help="The format of SRC: parquet, json, csv, delta, iceberg, ..."),
    ],
    topic: Annotated[
        str | None, Option("--topic", metavar="NAME", help="The topic; default: the column topic.")
    ] = None,
    key: Annotated[
        str | None, Option("--key", metavar="SQL", help="The key; default: the column key.")
    ] = None,
    value: Annotated[
        str | None,
        Option(
            "--value", metavar="SQL", help="The value; default: the column value, or all columns as JSON."
        ),
    ] = None,
    timestamp: Annotated[
        str | None, Option("--timestamp", metavar="SQL", help="The timestamp; default: the column timestamp.")
    ] = None,
    partitions: Annotated[
        int | None,
        Option("--partitions", metavar="N", help="The number of partitions of a new topic.", min=1),
    ] = None,
    config: Annotated[
        list[str] | None,
        Option("--config", metavar="KEY=VALUE", help="A config of a new topic, such as retention.ms=-1."),
    ] = None,
    option: Annotated[
        list[str] | None,
        Option("--option", metavar="KEY=VALUE", help="An option of Spark's reader or the table."),
    ] = None,
    on_change: Annotated[
        str,
        Option(
            "--on-change",
            metavar="WHAT",
            help="What to do at versions of a table that removed or rewrote rows: fail, skip them, or take "
            "their new files.",
        ),
    ] = "fail",
    compression: Annotated[
        str, Option("--compression", metavar="CODEC", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    name: Annotated[
        str | None, Option("--name", metavar="NAME", help="The name under which progress is recorded.")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be written.")] = False,
    spark: Annotated[str, Option("--spark", metavar="MASTER", help="Spark's master.")] = "local[*]",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write files or a table into topics, exactly once.

    Each run continues where the last one ended or was killed. From a Delta or Iceberg table (SRC is its path,
    or CATALOG.NAMESPACE.TABLE), a run takes the rows that were added since the last one.
    """
    from tidelog.cli.actions.directories import parse_settings
    from tidelog.cli.render.output import make_output
    from tidelog.spark import Columns, FileSource, quiet_session
    from tidelog.spark import ingest as run_ingest
    from tidelog.spark.ingesting.job import preview

    output = make_output(json=json)
    columns = Columns(value=value, key=key, timestamp=timestamp)
    files = FileSource(format_name, source, parse_settings(option or []))
    options: dict[str, Any] = {**parse_settings(config or []), "kafka.compression.type": compression}
    if partitions is not None:
        options["partitions"] = partitions
    with quiet_session(spark) as session:
        if dry_run:
            rows = preview(session, files, root, topic=topic, columns=columns, options=options)
        else:
            found = run_ingest(
                session,
                files,
                root,
                topic=topic,
                columns=columns,
                name=name,
                options=options,
                on_change=on_change,
            )
            rows = found.toArrow().to_pylist()
    _show(output, rows, dry_run)


def _show(output: Output, rows: list[dict[str, Any]], dry_run: bool) -> None:
    from tidelog.cli.render.output import Column

    if not rows:
        output.say("nothing new to ingest")
    if dry_run:
        names = ["topic", "records"]
    else:
        names = ["topic", "partition", "first_offset", "last_offset", "records"]
    output.table(
        [Column(name, name.replace("_", " "), right=name != "topic") for name in names],
        ([row[name] for name in names] for row in rows),
    )
