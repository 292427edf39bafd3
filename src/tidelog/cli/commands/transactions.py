"""`tidelog transactions`: transactions from the disk."""

from __future__ import annotations

from typing import Annotated

from tidelog.cli.app import Debug, Json, app
from tidelog.cli.declare import Argument, Option

__all__ = ["transactions"]


@app.command()
def transactions(
    paths: Annotated[list[str], Argument(metavar="PATH", help="Roots (log.dirs) or partition directories.")],
    aborted: Annotated[bool, Option("--aborted", help="Also list aborted transactions.")] = False,
    producer: Annotated[int | None, Option("--producer", metavar="ID", help="Only this producer id.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List transactions by producer, without a broker: open, hanging and, with --aborted, aborted ones.

    A transaction hangs if a partition's log has it open and the coordinator in __transaction_state does not
    know of it: it pins the last stable offset. Transactional ids are listed with the state of their
    coordinator. Nothing is locked or changed.
    """
    from tidelog.cli.actions.coordinators import show_transactions
    from tidelog.cli.render.output import make_output

    show_transactions(paths, make_output(json=json), aborted=aborted, producer=producer)
