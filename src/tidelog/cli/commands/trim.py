"""`tidelog trim`: delete the oldest records of partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, OnSpark, ServerProperties, app
from tidelog.cli.declare import Argument, Option

__all__ = ["trim"]


@app.command()
def trim(
    path: Annotated[Path, Argument(help="A root (log.dirs), or one partition's directory in a root.")],
    before: Annotated[
        int | None, Option("--before", metavar="OFFSET", min=0, help="Delete records below this offset.")
    ] = None,
    before_time: Annotated[
        str | None,
        Option(
            "--before-time",
            metavar="TIME",
            help="Delete records before the first one at or after this time: 2026-11-15T10:00 (UTC), "
            "milliseconds, or '7 days ago'.",
        ),
    ] = None,
    topic: Annotated[
        str | None, Option("--topic", metavar="NAME", help="Only this topic of the root.")
    ] = None,
    partition: Annotated[
        int | None, Option("--partition", min=0, help="Only this partition of the topic.")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be deleted.")] = False,
    server_properties: ServerProperties = None,
    spark: OnSpark = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Delete the oldest records, as Kafka's delete-records does: raise the log start offset.

    Segments that lie completely below it are removed; the rest can no longer be read. What is deleted cannot
    be restored. No broker may be running on the root.
    """
    from tidelog.cli.actions.loading import RootOptions
    from tidelog.cli.actions.trim import Selection, trim_path
    from tidelog.cli.render.output import make_output

    selection = Selection.of(path, topic, partition)
    options = RootOptions(server_properties)
    output = make_output(json=json)
    trim_path(selection, before, before_time, output, dry_run=dry_run, master=spark, options=options)
