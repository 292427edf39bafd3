"""`tidelog cat`: the records of partitions, in a range of offsets or time."""

from __future__ import annotations

from typing import Annotated

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.declare import BadParameter, Exit, Option
from tidelog.cli.options.reading import Corrupt, Form, Limit, Spread, Wanted, grouped

__all__ = ["cat"]

Last = Annotated[
    int | None, Option("--last", metavar="N", min=0, help="Print the last N records of each partition.")
]


@app.command()
@grouped
def cat(
    wanted: Wanted,
    spread: Spread,
    form: Form,
    corrupt: Corrupt = "fail",
    limit: Limit = None,
    last: Last = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Print records: one value per line, or JSON (--json), or hex (--format hex).

    Partitions are printed one after the other. Files are only read; a broker may be writing to them. With
    --corrupt stop or skip, what is left out is reported on standard error, and the exit code is 1.
    """
    if limit is not None and last is not None:
        raise BadParameter("choose --limit or --last")

    from tidelog.cli.actions.cat import show_last, show_selection
    from tidelog.cli.render.output import make_output

    out = make_output(json=json)
    selection = wanted.select(spread.bounds(), corrupt)
    lines = form.lines(out, selection)
    if last is not None:
        raise Exit(show_last(selection, lines, out, last, follow=False))
    raise Exit(show_selection(selection, lines, out, limit))
