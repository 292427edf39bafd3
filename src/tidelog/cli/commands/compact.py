"""`tidelog compact`: keep the last value of every key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, OnSpark, app
from tidelog.cli.declare import Argument, Exit, Option

__all__ = ["compact"]


@app.command()
def compact(
    path: Annotated[
        Path,
        Argument(help="A root (log.dirs) or one partition's directory.", show_default=False),
    ],
    topic: Annotated[
        list[str] | None,
        Option("--topic", help="Of a root, only this topic; may be repeated.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be compacted.")] = False,
    now: Annotated[
        int | None,
        Option(
            "--now",
            metavar="MS",
            min=0,
            help="Judge tombstones and lags by this time instead of the clock's.",
            show_default=False,
        ),
    ] = None,
    from_start: Annotated[
        bool, Option("--from-start", help="Compact again what the cleaner's checkpoint says is clean.")
    ] = False,
    config: Annotated[
        list[str] | None,
        Option(
            "--config",
            metavar="KEY=VALUE",
            help="A topic config to use instead of the metadata's, such as delete.retention.ms=0.",
            show_default=False,
        ),
    ] = None,
    spark: OnSpark = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compact logs as Kafka does: keep the last value of every key, drop what was deleted or aborted.

    The active segment is rolled first, so that everything up to the last stable offset is compacted. No
    broker may be running on the root. Topics whose cleanup.policy is not compact are left alone; a directory
    whose topic no metadata knows is compacted because it was named. With --spark, tasks of a cluster that
    shares the root's disk compact its partitions, and large ones together.
    """
    from tidelog.cli.actions.compact import compact_path
    from tidelog.cli.render.output import make_output

    raise Exit(
        compact_path(
            path,
            make_output(json=json),
            topics=topic or [],
            dry_run=dry_run,
            now_ms=now,
            from_start=from_start,
            settings=config or [],
            master=spark,
        )
    )
