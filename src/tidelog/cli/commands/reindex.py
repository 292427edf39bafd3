"""`tidelog reindex`: index files rebuilt from the log."""

from __future__ import annotations

from typing import Annotated

from tidelog.cli.app import Debug, Json, OnSpark, RootOrPartition, ServerProperties, app, config_override
from tidelog.cli.declare import Exit, Option

__all__ = ["reindex"]


@app.command()
def reindex(
    path: RootOrPartition,
    everything: Annotated[
        bool, Option("--all", help="Rebuild all indexes, not only missing and wrong ones.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show which indexes would be rebuilt.")] = False,
    config: Annotated[list[str] | None, config_override("index.interval.bytes=4096")] = None,
    server_properties: ServerProperties = None,
    spark: OnSpark = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Rebuild offset, time and transaction indexes from the log, as Kafka's recovery does.

    Records are never touched, and every file is replaced as a whole. No broker may be running on the root.
    The exit code is 1 if a log is damaged (its indexes then end at the damage), or if a dry run finds missing
    or wrong indexes.
    """
    from tidelog.cli.actions.loading import RootOptions
    from tidelog.cli.actions.reindex import reindex_path
    from tidelog.cli.render.output import make_output

    output = make_output(json=json)
    raise Exit(
        reindex_path(
            path,
            output,
            everything=everything,
            dry_run=dry_run,
            settings=config or [],
            master=spark,
            options=RootOptions(server_properties),
        )
    )
