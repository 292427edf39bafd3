"""`tidelog find`: where an offset is, what a timestamp finds, what of a committed read was aborted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.declare import Argument, Option

__all__ = ["find"]


@app.command()
def find(
    partition: Annotated[
        Path,
        Argument(metavar="PARTITION_DIR", help="A directory <topic>-<partition>.", show_default=False),
    ],
    offset: Annotated[
        list[int] | None,
        Option("--offset", metavar="N", help="Where is this offset?", show_default=False),
    ] = None,
    timestamp: Annotated[
        list[int] | None,
        Option(
            "--timestamp",
            metavar="MS",
            help="Which record is the first that is not older? -1 to -6 ask for Kafka's special offsets.",
            show_default=False,
        ),
    ] = None,
    committed_from: Annotated[
        list[int] | None,
        Option(
            "--committed-from",
            metavar="N",
            help="Which transactions that a committed read from here meets were aborted?",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Look up offsets and timestamps in a partition; without a question, tell its own offsets.

    Each option can be given several times. The directory is only read, also while a broker writes to it.
    """
    from tidelog.cli.actions.find import Questions, answer
    from tidelog.cli.render.output import make_output

    questions = Questions(tuple(offset or ()), tuple(timestamp or ()), tuple(committed_from or ()))
    answer(partition, questions, make_output(json=json))
