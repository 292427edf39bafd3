"""`tidelog verify`: check every file of a root or partition."""

from __future__ import annotations

from typing import Annotated

from tidelog.cli.app import Debug, Json, OnSpark, RootOrPartition, app
from tidelog.cli.declare import Exit, Option

__all__ = ["verify"]


@app.command()
def verify(
    path: RootOrPartition,
    deep: Annotated[bool, Option("--deep", help="Also decode every record.")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Only show damage, no notes.")] = False,
    spark: OnSpark = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Check logs, indexes, snapshots, leader epochs and checkpoints. Nothing is changed.

    The exit code is 0 if all is sound, 1 if there is damage. Notes are not damage: they report leftovers of a
    crash, which the next start removes, and directories that do not belong to Kafka.
    """
    from tidelog.cli.actions.verify import verify_path
    from tidelog.cli.render.output import make_output

    raise Exit(verify_path(path, make_output(json=json), deep=deep, quiet=quiet, master=spark))
