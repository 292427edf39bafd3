"""`tidelog ls`: list roots, topics and partitions."""

from __future__ import annotations

from typing import Annotated

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.declare import Argument, BadParameter, Exit, Option

__all__ = ["ls"]


@app.command()
def ls(
    paths: Annotated[
        list[str] | None,
        Argument(
            metavar="PATH",
            help="Roots (log.dirs) or partition directories, globs, or URLs. Default: the current directory.",
        ),
    ] = None,
    topics: Annotated[bool, Option("--topics", "-t", help="Print one line per topic.")] = False,
    roots: Annotated[bool, Option("--roots", "-r", help="Print one line per root.")] = False,
    topic: Annotated[list[str] | None, Option("--topic", metavar="NAME", help="Only this topic.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List partitions: size, segments, offsets, time span, codec, health.

    The state column marks directories that wait to be deleted, copies of moves in progress, and strays.

    Only names, the ends of indexes and the last batches are read, so thousands of partitions take seconds;
    verify checks everything. The exit code is 1 if a partition looks damaged.
    """
    if topics and roots:
        raise BadParameter("choose --topics or --roots")

    from tidelog.cli.actions.ls import Grouping, list_paths
    from tidelog.cli.render.output import make_output

    grouping = Grouping.TOPICS if topics else Grouping.ROOTS if roots else Grouping.PARTITIONS
    raise Exit(list_paths(paths or ["."], topic, grouping, make_output(json=json)))
