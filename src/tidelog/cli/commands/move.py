"""`tidelog move`: move a partition to another root of the same node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, ServerProperties, app
from tidelog.cli.declare import Argument, Option

__all__ = ["move"]


@app.command()
def move(
    partition: Annotated[
        Path, Argument(metavar="PARTITION_DIR", help="A partition's directory in its root.")
    ],
    target: Annotated[Path, Argument(metavar="TARGET_ROOT", help="The root (log.dirs) to move it to.")],
    root: Annotated[
        list[Path] | None, Option("--root", metavar="ROOT", help="Another root of the same node.")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be moved.")] = False,
    server_properties: ServerProperties = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Move a partition's log between roots of one node, as Kafka's alter-replica-log-dirs does.

    Both roots must belong to the same node; an empty directory becomes one of its roots. The copy is complete
    and synced before it replaces the old log. Then the metadata is updated. No broker may be running on the
    roots.
    """
    from tidelog.cli.actions.loading import RootOptions
    from tidelog.cli.actions.move import move_partition
    from tidelog.cli.render.output import make_output

    options = RootOptions(server_properties)
    move_partition(partition, target, root or [], make_output(json=json), dry_run=dry_run, options=options)
