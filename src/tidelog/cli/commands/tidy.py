"""`tidelog tidy`: directories that belong to no topic are set aside."""

from __future__ import annotations

from typing import Annotated

from tidelog.cli.app import Debug, Json, RootPath, ServerProperties, app
from tidelog.cli.declare import Option

__all__ = ["tidy"]


@app.command()
def tidy(
    root: RootPath,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be renamed.")] = False,
    force: Annotated[
        bool, Option("--force", help="Also rename on a disk whose metadata is on another disk.")
    ] = False,
    server_properties: ServerProperties = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Rename directories that belong to no topic to -stray, as a broker does when it starts.

    Brokers and other tools ignore such directories. tidelog unstray reverts it. No broker may be running on
    the root.
    """
    from tidelog.cli.actions.tidy import tidy_root
    from tidelog.cli.render.output import make_output

    tidy_root(root, make_output(json=json), dry_run=dry_run, force=force, properties=server_properties)
