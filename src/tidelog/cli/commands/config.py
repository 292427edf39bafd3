"""`tidelog config`: show or change the configuration of topics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, ServerProperties, app
from tidelog.cli.declare import Argument, Option

__all__ = ["config"]


@app.command()
def config(
    root: Annotated[Path | None, Argument(metavar="ROOT", help="A root (log.dirs).")] = None,
    topic: Annotated[str | None, Option("--topic", metavar="NAME", help="Only this topic.")] = None,
    set_: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="Set a key of the topic.")
    ] = None,
    unset: Annotated[
        list[str] | None, Option("--unset", metavar="KEY", help="Reset a key to its default.")
    ] = None,
    all_: Annotated[bool, Option("--all", help="Also show defaults.")] = False,
    list_: Annotated[bool, Option("--list", help="List all keys; needs no root.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would change.")] = False,
    server_properties: ServerProperties = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show or change the configuration of topics, under Kafka's keys.

    Changes are written to the metadata that a broker reads. To change something, stop the broker first.
    """
    from tidelog.cli.errors import UsageError
    from tidelog.cli.render.output import make_output

    output = make_output(json=json)
    if list_:
        from tidelog.cli.actions.config_keys import list_keys

        list_keys(output)
        return
    from tidelog.cli.actions.config import change, show
    from tidelog.cli.actions.loading import RootOptions

    if root is None:
        raise UsageError("name a root (log.dirs), or ask for all keys with --list")
    options = RootOptions(server_properties)
    if not (set_ or unset):
        show(root, topic, output, defaults=all_, options=options)
        return
    if topic is None:
        raise UsageError("--set and --unset change one topic: name it with --topic")
    change(root, topic, set_ or [], unset or [], output, dry_run=dry_run, options=options)
