"""`tidelog cat`: the records of partitions, from where to where one wants."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli import readoptions as options
from tidelog.cli.app import Debug, Json, app

__all__ = ["cat"]


@app.command()
def cat(
    paths: options.Paths,
    topic: options.Topics = None,
    partition: options.Partitions = None,
    offset: options.StartOffset = None,
    since: options.StartTime = None,
    to_offset: options.EndOffset = None,
    until: options.EndTime = None,
    limit: options.Limit = None,
    last: Annotated[
        int | None,
        typer.Option(
            "--last", metavar="N", min=0, help="The last so many of each partition.", show_default=False
        ),
    ] = None,
    key: options.Key = None,
    key_match: options.KeyMatch = None,
    contains: options.ValueContains = None,
    match: options.ValueMatch = None,
    committed: options.Committed = False,
    format: options.Format = "plain",
    show: options.Show = None,
    decode: options.Decode = None,
    avro_schema: options.AvroSchema = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Print records: a value a line, or JSON (--json), or hex (--format hex).

    Partitions come one after the other. Files are only read, also while a broker writes to them.
    """
    if limit is not None and last is not None:
        raise typer.BadParameter("choose --limit or --last")

    from tidelog.cli.filters import RecordFilter
    from tidelog.cli.output import make_output
    from tidelog.cli.reading import Bounds, select
    from tidelog.cli.showing import show_last, show_selection

    out = make_output(json=json)
    lines = options.record_lines(out, format, show, decode, avro_schema)
    selection = select(
        paths,
        topics=topic,
        partitions=partition,
        bounds=Bounds(offset, since, to_offset, until),
        committed_only=committed,
        wanted=RecordFilter(key, key_match, contains, match),
    )
    if last is not None:
        raise typer.Exit(show_last(selection, lines, out, last, go_on=False))
    raise typer.Exit(show_selection(selection, lines, out, limit))
