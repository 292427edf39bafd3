"""`tidelog tail`: the newest records of partitions, and those that come."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli import readoptions as options
from tidelog.cli.app import Debug, Json, app

__all__ = ["tail"]


@app.command()
def tail(
    paths: options.Paths,
    topic: options.Topics = None,
    partition: options.Partitions = None,
    last: Annotated[
        int, typer.Option("-n", "--last", metavar="N", min=0, help="So many of each partition.")
    ] = 10,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with what is written, until Ctrl-C.")
    ] = False,
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
    """Print the last records, and with -f those that another process appends, as they come.

    Partitions that come to be later are not followed.
    """
    from tidelog.cli.filters import RecordFilter
    from tidelog.cli.output import make_output
    from tidelog.cli.reading import select
    from tidelog.cli.showing import show_last

    out = make_output(json=json)
    lines = options.record_lines(out, format, show, decode, avro_schema)
    wanted = RecordFilter(key, key_match, contains, match)
    selection = select(paths, topics=topic, partitions=partition, committed_only=committed, wanted=wanted)
    raise typer.Exit(show_last(selection, lines, out, last, go_on=follow))
