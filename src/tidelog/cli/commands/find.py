"""`tidelog find`: where an offset is, what a timestamp finds, what of a committed read was aborted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.declare import Argument, Option

__all__ = ["find"]


@app.command()
def find(
    path: Annotated[
        Path, Argument(metavar="PATH", help="A partition directory, or a root (all of it, or one --topic).")
    ],
    topic: Annotated[
        list[str] | None, Option("--topic", metavar="NAME", help="All partitions of this topic, in a root.")
    ] = None,
    offset: Annotated[
        list[int] | None, Option("--offset", metavar="N", help="Find the position of this offset.")
    ] = None,
    timestamp: Annotated[
        list[str] | None,
        Option(
            "--timestamp",
            metavar="TIME",
            help="Find the first record at or after this time: 2026-11-15T10:00 (UTC), milliseconds, '10 "
            "minutes ago'; -1 to -6 are Kafka's special timestamps.",
        ),
    ] = None,
    committed_from: Annotated[
        list[int] | None,
        Option(
            "--committed-from",
            metavar="N",
            help="List the aborted transactions that a committed read from this offset skips.",
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Look up offsets and timestamps in partitions. Without options, print the partitions' own offsets.

    Each option may be repeated. Files are only read; a broker may be writing to them.
    """
    from tidelog.cli.actions.find import Questions, answer
    from tidelog.cli.render.output import make_output
    from tidelog.cli.render.units import parse_target

    now_ms = time.time_ns() // 1_000_000
    timestamps = tuple(parse_target(text, now_ms) for text in timestamp or ())
    questions = Questions(tuple(offset or ()), timestamps, tuple(committed_from or ()))
    answer(path, questions, make_output(json=json), topic)
