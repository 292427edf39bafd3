"""`tidelog ui`: a log directory in a browser, live."""

from __future__ import annotations

from typing import Annotated

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.declare import Argument, Option

__all__ = ["ui"]


@app.command()
def ui(
    paths: Annotated[
        list[str], Argument(metavar="ROOT", help="Roots (log.dirs) or partition directories, or URLs.")
    ],
    port: Annotated[int, Option("--port", min=0, help="The port; 0 takes a free one.")] = 0,
    listen: Annotated[
        str, Option("--listen", metavar="HOST", help="The address of this machine to listen on.")
    ] = "127.0.0.1",
    allow_other_hosts: Annotated[
        bool,
        Option("--allow-other-hosts", help="Let --listen name an address that other machines can reach."),
    ] = False,
    avro_schema: Annotated[
        list[str] | None,
        Option(
            "--avro-schema",
            metavar="[TOPIC=]FILE",
            help="The schema of values, for one topic or for all without one of their own.",
        ),
    ] = None,
    open: Annotated[
        bool | None, Option("--open/--no-open", help="Open a browser.", show_default="if this is a terminal")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show roots in a browser: the report, kept up to date, and the records of every partition.

    The printed address holds a token; whoever has it can read every record. Nothing is changed, and no lock
    is taken: a broker may be running. Ctrl-C or SIGTERM stops it.
    """
    from tidelog.cli.actions.ui import run_ui
    from tidelog.cli.render.output import make_output

    run_ui(
        paths,
        make_output(json=json),
        host=listen,
        port=port,
        other_hosts=allow_other_hosts,
        schemas=avro_schema or [],
        browser=open,
    )
