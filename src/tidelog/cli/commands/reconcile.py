"""`tidelog reconcile`: the copies of replicas made into one log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.app import Debug, Json, OnSpark, app
from tidelog.cli.declare import Argument, Exit, Option

__all__ = ["reconcile"]


@app.command()
def reconcile(
    sources: Annotated[
        list[Path],
        Argument(metavar="SRC", help="Roots (log.dirs) of several brokers, or directories of one partition."),
    ],
    target: Annotated[
        Path | None, Option("--to", metavar="DST", help="A new or empty directory: the new root.")
    ] = None,
    topic: Annotated[list[str] | None, Option("--topic", metavar="NAME", help="Only this topic.")] = None,
    log_start: Annotated[
        str,
        Option(
            "--log-start",
            metavar="earliest|latest|OFFSET",
            help="Start the logs where the first or the last copy does, or at an offset.",
        ),
    ] = "earliest",
    losers: Annotated[
        Path | None,
        Option(
            "--losers",
            metavar="DIR",
            help="A new directory for logs with the records that an election cut off.",
        ),
    ] = None,
    node_id: Annotated[
        int | None, Option("--node-id", metavar="ID", help="The new root's node.id; 1 if not given.")
    ] = None,
    spark: OnSpark = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Only report; write nothing.")] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Merge the copies of several replicas into one log, by leader epochs and checksums.

    Each record appears once, at its offset. The report says which offsets come from which copy and why,
    where copies diverge, and what is lost. The sources are only read: no broker may be writing to them. The
    exit code is 1 if records are lost that were committed.
    """
    from tidelog.cli.actions.reconcile import reconcile_to
    from tidelog.cli.errors import UsageError
    from tidelog.cli.render.output import make_output

    if target is None and not dry_run:
        raise UsageError("name the new root with --to, or only look with --dry-run")
    raise Exit(
        reconcile_to(
            sources,
            None if dry_run else target,
            make_output(json=json),
            topics=topic,
            log_start=log_start,
            losers=None if dry_run else losers,
            node_id=node_id,
            master=spark,
        )
    )
