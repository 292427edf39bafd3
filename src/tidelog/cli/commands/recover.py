"""`tidelog recover`: recover logs after a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, RootOrPartition, ServerProperties, app, config_override
from tidelog.cli.declare import Exit, Option

__all__ = ["recover"]


@app.command()
def recover(
    path: RootOrPartition,
    recovery_point: Annotated[
        int | None,
        Option(
            "--recovery-point",
            min=0,
            help="Check from this offset on. Default: the root's checkpoint, or everything.",
        ),
    ] = None,
    keep: Annotated[
        Path | None, Option("--keep", help="Keep what is cut in this directory, not beside the log.")
    ] = None,
    discard: Annotated[bool, Option("--discard", help="Do not keep what is cut.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be cut, and why.")] = False,
    config: Annotated[list[str] | None, config_override("segment.index.bytes=65536")] = None,
    server_properties: ServerProperties = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Recover logs as Kafka does after a crash: rebuild indexes, cut at the first bad batch.

    Nothing below the recovery point is cut. What is cut is kept as <file>.from-<position> in the partition's
    directory, where brokers ignore it. No broker may be running on the root.
    """
    from tidelog.cli.actions.recover import recover_path
    from tidelog.cli.render.output import make_output

    output = make_output(json=json)
    raise Exit(
        recover_path(
            path,
            output,
            recovery_point=recovery_point,
            keep=keep,
            discard=discard,
            dry_run=dry_run,
            properties=server_properties,
            settings=config or [],
        )
    )
