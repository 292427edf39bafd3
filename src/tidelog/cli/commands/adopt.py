"""`tidelog adopt`: take a topic of another cluster's disks into this root."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, ServerProperties, app
from tidelog.cli.declare import Argument, Option

__all__ = ["adopt"]


@app.command()
def adopt(
    sources: Annotated[
        list[Path],
        Argument(
            metavar="SRC", help="Directories of partitions of one topic, or roots (log.dirs) that hold them."
        ),
    ],
    into: Annotated[
        Path, Option("--into", metavar="ROOT", help="The root that gets the topic; created if it is missing.")
    ],
    topic: Annotated[
        str | None, Option("--topic", metavar="NAME", help="The topic, if SRC has several.")
    ] = None,
    rename: Annotated[
        str | None, Option("--rename", metavar="NEW", help="Rename the topic; it gets a new topic id.")
    ] = None,
    config: Annotated[
        list[str] | None,
        Option(
            "--config",
            metavar="KEY=VALUE",
            help="Set a config of the topic, in addition to those in SRC's metadata.",
        ),
    ] = None,
    groups: Annotated[
        bool, Option("--groups", help="Also copy the offsets that groups have committed for the topic.")
    ] = False,
    fill: Annotated[
        bool, Option("--fill", help="Create empty partitions for those that SRC does not have.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would be done.")] = False,
    server_properties: ServerProperties = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Take a topic from the disks of another cluster into a root, with its offsets.

    Its logs are copied and checked; its id, configs and leader epochs go into the metadata of the root, so
    that the broker of that root serves it. SRC is only read. No broker may be running on either side.
    """
    from tidelog.cli.actions.adopt import adopt_topic
    from tidelog.cli.actions.loading import RootOptions
    from tidelog.cli.render.output import make_output

    adopt_topic(
        sources,
        into,
        make_output(json=json),
        topic=topic,
        rename=rename,
        config=config or [],
        groups=groups,
        fill=fill,
        dry_run=dry_run,
        options=RootOptions(server_properties),
    )
