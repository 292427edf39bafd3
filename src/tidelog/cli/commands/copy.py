"""`tidelog copy`: append a partition's batches, as they are, to a new one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, ServerProperties, app
from tidelog.cli.declare import Argument, Option

__all__ = ["copy"]


@app.command()
def copy(
    source: Annotated[Path, Argument(metavar="SRC_PARTITION", help="A directory <topic>-<partition>.")],
    target: Annotated[Path, Argument(metavar="DST_PARTITION", help="A new directory <topic>-<partition>.")],
    config: Annotated[
        list[str] | None,
        Option("--config", metavar="KEY=VALUE", help="A topic config for the copy."),
    ] = None,
    roll_by_config: Annotated[
        bool, Option("--roll-by-config", help="Roll segments by the config, not where the source does.")
    ] = False,
    server_properties: ServerProperties = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Copy a partition as a follower does: every batch is checked and appended, indexes are rebuilt.

    The source is only read. Segments start at the same offsets as in the source.
    """
    from tidelog.cli.actions.copy import copy_partition
    from tidelog.cli.render.output import make_output

    copy_partition(
        source,
        target,
        config or [],
        make_output(json=json),
        roll_by_config=roll_by_config,
        properties=server_properties,
    )
