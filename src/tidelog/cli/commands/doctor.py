"""`tidelog doctor`: what would a stock broker do with these disks?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, ServerProperties, app
from tidelog.cli.declare import Argument, Exit, Option

__all__ = ["doctor"]


@app.command()
def doctor(
    paths: Annotated[
        list[Path],
        Argument(help="The roots (log.dirs) of one broker, or one partition's directory.", metavar="PATH"),
    ],
    quiet: Annotated[bool, Option("--quiet", "-q", help="Leave out notes and warnings.")] = False,
    now: Annotated[
        str | None,
        Option("--now", metavar="TIME", help="The time of the broker's start.", show_default="now"),
    ] = None,
    server_properties: ServerProperties = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Say whether a stock Kafka 4.3 starts on these disks, and what it would do first. Nothing is changed.

    It lists what Kafka would truncate, rebuild, rename to -stray or delete, how much its recovery would read,
    and what else is wrong and how to mend it. Several PATHs are the disks of one broker. The exit code is 0
    if nothing is damaged or lost, 1 if something is or the broker would not start.
    """
    from tidelog.cli.actions.doctor import examine_paths
    from tidelog.cli.render.output import make_output

    output = make_output(json=json)
    raise Exit(examine_paths(paths, output, quiet=quiet, now=now, properties=server_properties))
