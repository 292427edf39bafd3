"""`tidelog dump`: what is in a log file, in the words of kafka-dump-log or as JSON lines."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.app import Debug, Json, app, report

__all__ = ["dump"]


@app.command()
def dump(
    ctx: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Segments: .log files.", show_default=False)
    ],
    deep: Annotated[
        bool,
        typer.Option("--deep", "--deep-iteration", help="Show each record, not only each batch."),
    ] = False,
    print_data_log: Annotated[
        bool,
        typer.Option("--print-data-log", help="Show keys and payloads too; implies --deep."),
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the batches of log files, or with --deep their records.

    Every checksum is checked. At damage the file is left with an error and the next one is read; the exit
    code is then 1. JSON lines of records have keys, values and header values in base64.
    """
    from tidelog.cli.dumping import dump_logs
    from tidelog.cli.lines import LineStyle
    from tidelog.cli.output import make_output

    style = LineStyle(json=json, deep=deep or print_data_log, payloads=print_data_log)
    raise typer.Exit(dump_logs(files, style, make_output(json=json), partial(report, ctx)))
