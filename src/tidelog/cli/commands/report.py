"""`tidelog report`: a log directory as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, OnSpark, ServerProperties, app
from tidelog.cli.declare import Argument, BadParameter, Exit, Option

__all__ = ["report"]


@app.command()
def report(
    paths: Annotated[list[str], Argument(metavar="PATH", help="Root or partition directories, or URLs.")],
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="The page to write.")
    ] = None,
    doctor: Annotated[
        bool, Option("--doctor", help="Have doctor examine local disks too, which reads every byte.")
    ] = False,
    records: Annotated[
        bool, Option("--records", help="Decode records, too: compression ratios, exact hours and key skew.")
    ] = False,
    now: Annotated[
        str | None,
        Option("--now", metavar="TIME", help="Forecast retention as of this time.", show_default="now"),
    ] = None,
    server_properties: ServerProperties = None,
    spark: OnSpark = None,
    json: Annotated[bool, Option("--json", help="Print the facts as JSON.")] = False,
    debug: Debug = False,
) -> None:
    """Draw roots or partitions as one page of HTML that works offline. The logs are only read.

    The page shows topics by size and health, each partition's segments by offset and time, codecs, producers,
    transactions, damage, what retention will delete when, and the lag of groups. Batch headers and indexes
    are read; no record is decoded without --records. An earlier report is replaced; any other file is not.
    The exit code is 1 if something is damaged.
    """
    if output is None and not json:
        raise BadParameter("name the page with -o FILE, or ask for --json")
    from tidelog.cli.actions.report import write_report
    from tidelog.cli.render.output import make_output

    raise Exit(
        write_report(
            paths,
            output,
            make_output(json=json),
            doctor=doctor,
            records=records,
            now=now,
            properties=server_properties,
            master=spark,
        )
    )
