"""`tidelog compact`: keep the last value of every key."""

from __future__ import annotations

from typing import Annotated

from tidelog.cli.app import Debug, Json, OnSpark, RootOrPartition, ServerProperties, app, config_override
from tidelog.cli.declare import Exit, Option

__all__ = ["compact"]


@app.command()
def compact(
    path: RootOrPartition,
    topic: Annotated[
        list[str] | None,
        Option("--topic", metavar="NAME", help="Only this topic of the root; may be repeated."),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be compacted.")] = False,
    now: Annotated[
        int | None,
        Option(
            "--now", metavar="MS", min=0, help="Use this time for tombstones and lags instead of the clock."
        ),
    ] = None,
    from_start: Annotated[
        bool, Option("--from-start", help="Ignore the cleaner's checkpoint and compact from the log start.")
    ] = False,
    config: Annotated[list[str] | None, config_override("delete.retention.ms=0")] = None,
    server_properties: ServerProperties = None,
    spark: OnSpark = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compact logs as Kafka does: keep the last value of every key, remove deleted keys and aborted data.

    The active segment is rolled first, so that everything up to the last stable offset is compacted. No
    broker may be running on the root. Topics whose cleanup.policy is not compact are not touched. A directory
    whose topic is in no metadata is compacted: naming it counts as consent. With --spark, tasks on a cluster
    compact the partitions; a large partition takes several tasks. All workers must reach the root.
    """
    from tidelog.cli.actions.compact import compact_path
    from tidelog.cli.actions.loading import RootOptions
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
            options=RootOptions(server_properties),
        )
    )
