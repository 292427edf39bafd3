"""`tidelog tail`: the newest records of partitions, and those that come."""

from __future__ import annotations

from typing import Annotated

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.declare import Exit, Option
from tidelog.cli.options.reading import Form, Wanted, grouped

__all__ = ["tail"]

Last = Annotated[
    int, Option("-n", "--last", metavar="N", min=0, help="Print the last N records of each partition.")
]
Follow = Annotated[bool, Option("-f", "--follow", help="Follow what is appended, until Ctrl-C.")]


@app.command()
@grouped
def tail(
    wanted: Wanted,
    form: Form,
    last: Last = 10,
    follow: Follow = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the last records, and with -f the records that other processes append.

    New partitions are followed too, from their start.
    """
    from tidelog.cli.actions.cat import show_last
    from tidelog.cli.render.output import make_output

    out = make_output(json=json)
    selection = wanted.select()
    raise Exit(show_last(selection, form.lines(out, selection), out, last, follow=follow))
