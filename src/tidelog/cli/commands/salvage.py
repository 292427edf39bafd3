"""`tidelog salvage`: copy what is sound of damaged partitions to a new root."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.declare import Argument, Exit, Option

__all__ = ["salvage"]


@app.command()
def salvage(
    source: Annotated[Path, Argument(metavar="SRC", help="A root (log.dirs) or one partition's directory.")],
    target: Annotated[Path, Argument(metavar="DST", help="A new or empty directory: the new root.")],
    topic: Annotated[list[str] | None, Option("--topic", metavar="NAME", help="Only this topic.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Copy all sound batches to a new root, byte for byte and with their offsets, and report what was lost.

    The source is only read: no broker may be writing to it. The exit code is 0 if nothing was lost, 1 if
    something was.
    """
    from tidelog.cli.actions.salvage import salvage_to
    from tidelog.cli.render.output import make_output

    raise Exit(salvage_to(source, target, topic, make_output(json=json)))
