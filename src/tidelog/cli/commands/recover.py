"""`tidelog recover`: bring logs in order after a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.declare import Argument, Exit, Option

__all__ = ["recover"]


@app.command()
def recover(
    path: Annotated[
        Path,
        Argument(help="A root (log.dirs) or one partition's directory.", show_default=False),
    ],
    recovery_point: Annotated[
        int | None,
        Option(
            "--recovery-point",
            min=0,
            help="Check from this offset on; default: the root's checkpoint, else everything.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        Option("--keep", help="Copy what is cut to this directory first.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be cut, and why.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Recover logs as Kafka does after a crash: rebuild indexes, cut at the first bad batch.

    Nothing below the recovery point is cut. No broker may be running on the root.
    """
    from tidelog.cli.actions.recover import recover_path
    from tidelog.cli.render.output import make_output

    output = make_output(json=json)
    raise Exit(recover_path(path, output, recovery_point=recovery_point, keep=keep, dry_run=dry_run))
