"""`tidelog unstray`: directories that were set aside get their names back."""

from __future__ import annotations

from typing import Annotated

from tidelog.cli.app import Debug, Json, RootPath, app
from tidelog.cli.declare import Option

__all__ = ["unstray"]


@app.command()
def unstray(
    root: RootPath,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be renamed.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Give -stray directories their names back, unless the name is taken.

    Use it for directories that a broker or tidelog renamed by mistake. No broker may be running on the root.
    """
    from tidelog.cli.actions.tidy import unstray_root
    from tidelog.cli.render.output import make_output

    unstray_root(root, make_output(json=json), dry_run=dry_run)
