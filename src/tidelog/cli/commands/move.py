"""`tidelog move`: move a partition to another root of the same node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.declare import Argument, Option

__all__ = ["move"]


@app.command()
def move(
    partition: Annotated[
        Path,
        Argument(metavar="PARTITION_DIR", help="A partition's directory in its root.", show_default=False),
    ],
    target: Annotated[
        Path,
        Argument(metavar="TARGET_ROOT", help="The root (log.dirs) to move it to.", show_default=False),
    ],
    root: Annotated[
        list[Path] | None,
        Option("--root", metavar="ROOT", help="Another root of the same node.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be moved.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Move a partition's log between roots of one node, as Kafka's alter-replica-log-dirs does.

    Both roots belong to the same node; an empty directory becomes one of its roots. The copy is complete and
    synced before it takes the place of the old log, and the metadata says where the partition is then. No
    broker may be running on the roots.
    """
    from tidelog.cli.actions.move import move_partition
    from tidelog.cli.render.output import make_output

    move_partition(partition, target, root or [], make_output(json=json), dry_run=dry_run)
