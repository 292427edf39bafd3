"""`tidelog retention`: which old segments go, and why."""

from __future__ import annotations

from typing import Annotated

from tidelog.cli.app import Debug, Json, OnSpark, RootOrPartition, ServerProperties, app, config_override
from tidelog.cli.declare import Option

__all__ = ["retention"]


@app.command()
def retention(
    path: RootOrPartition,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be deleted, and why.")] = False,
    config: Annotated[list[str] | None, config_override("retention.ms=86400000")] = None,
    server_properties: ServerProperties = None,
    spark: OnSpark = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Delete segments that are too old, exceed the size limit or lie below the log start, as Kafka does.

    Topics without a retention of their own follow the broker's (--server-properties), or Kafka's default of
    one week.
    """
    from tidelog.cli.actions.loading import RootOptions
    from tidelog.cli.actions.retention import retain_path
    from tidelog.cli.render.output import make_output

    output = make_output(json=json)
    options = RootOptions(server_properties)
    retain_path(path, output, dry_run=dry_run, settings=config or [], master=spark, options=options)
