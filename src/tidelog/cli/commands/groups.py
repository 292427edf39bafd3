"""`tidelog groups`: consumer groups from the disk."""

from __future__ import annotations

from typing import Annotated

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.declare import Argument, Option

__all__ = ["groups"]


@app.command()
def groups(
    paths: Annotated[
        list[str], Argument(metavar="ROOT", help="The roots (log.dirs) of a broker, or copies.")
    ],
    group: Annotated[str | None, Option("--group", metavar="NAME", help="Only this group.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List consumer groups with their last known members, committed offsets and lag, without a broker.

    Groups of both protocols are read from __consumer_offsets. The lag is counted up to the log end. Nothing
    is locked or changed.
    """
    from tidelog.cli.actions.coordinators import show_groups
    from tidelog.cli.render.output import make_output

    show_groups(paths, group, make_output(json=json))
