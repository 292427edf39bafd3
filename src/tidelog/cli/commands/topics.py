"""`tidelog topics`: list, describe, create and delete topics of a root."""

from __future__ import annotations

from typing import Annotated

from tidelog.cli.app import Debug, Json, RootPath, ServerProperties, app
from tidelog.cli.declare import Option

__all__ = ["topics"]


@app.command()
def topics(
    root: RootPath,
    describe: Annotated[
        str | None, Option("--describe", metavar="NAME", help="Show this topic's partitions.")
    ] = None,
    create: Annotated[str | None, Option("--create", metavar="NAME", help="Create a topic.")] = None,
    partitions: Annotated[
        int | None, Option("--partitions", min=1, help="The number of partitions of the new topic.")
    ] = None,
    config: Annotated[
        list[str] | None, Option("--config", metavar="KEY=VALUE", help="A config of the new topic.")
    ] = None,
    delete: Annotated[
        str | None, Option("--delete", metavar="NAME", help="Delete a topic and its records.")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would change.")] = False,
    server_properties: ServerProperties = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the topics in a root's metadata, or describe, create or delete one.

    Listing and describing take no lock. To create or delete a topic, stop the broker first. A deleted topic
    cannot be restored.
    """
    from tidelog.cli.actions import topics as actions
    from tidelog.cli.actions.loading import RootOptions
    from tidelog.cli.errors import UsageError
    from tidelog.cli.render.output import make_output

    asked = [name for name in (describe, create, delete) if name is not None]
    if len(asked) > 1:
        raise UsageError("choose one of --describe, --create and --delete")
    if create is None and (partitions is not None or config):
        raise UsageError("--partitions and --config are for --create; change a topic with `tidelog config`")
    output, options = make_output(json=json), RootOptions(server_properties)
    if create is not None:
        actions.create_topic(root, create, partitions, config or [], output, dry_run=dry_run, options=options)
    elif delete is not None:
        actions.delete_topic(root, delete, output, dry_run=dry_run, options=options)
    elif describe is not None:
        actions.describe_topic(root, describe, output, options)
    else:
        actions.list_topics(root, output, options)
