"""Runs `verify` on a root or a partition, and prints the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tidelog.cli.actions.directories import existing_directory, log_bytes
from tidelog.cli.errors import FOUND_WRONG
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.spark_progress import Reporter
from tidelog.manager.verification import Finding, Kind, verify_partition, verify_root
from tidelog.storage import LOCAL
from tidelog.storage.directory import is_partition

__all__ = ["verify_path"]

_FINDINGS = (
    Column("kind", "KIND"),
    Column("file", "FILE", folds=True),
    Column("position", "POSITION", right=True),
    Column("offset", "OFFSET", right=True),
    Column("end_offset", "UP TO", right=True, optional=True),
    Column("cause", "CAUSE", folds=True),
)


def verify_path(
    path: Path, output: Output, *, deep: bool, quiet: bool = False, master: str | None = None
) -> int:
    """Check a root or partition, with Spark if a master is given; the exit code.

    `quiet` leaves out notes. On a terminal, files are named from the directory on.
    """
    directory = existing_directory(path)
    counts = dict.fromkeys(Kind, 0)

    def rows() -> Iterator[Sequence[Cell]]:
        for one in _findings(directory, output, deep=deep, master=master):
            counts[one.kind] += 1
            if quiet and one.kind is Kind.NOTE:
                continue
            file = one.file.removeprefix(f"{directory}/") if output.terminal else one.file
            yield one.kind.value, file, one.position, one.offset, one.end_offset, one.cause

    output.table(_FINDINGS, rows())
    damage, notes = counts[Kind.DAMAGE], counts[Kind.NOTE]
    aside = f" ({notes} notes)" if notes else ""
    output.say(f"{damage} damaged places found{aside}" if damage else f"all is sound{aside}")
    return FOUND_WRONG if damage else 0


def _findings(directory: str, output: Output, *, deep: bool, master: str | None) -> Iterator[Finding]:
    """What is found, as it is found."""
    if master is not None:
        from tidelog.spark import quiet_session
        from tidelog.spark.upkeep.verification import find

        with quiet_session(master) as session, ExitStack() as stack:
            yield from find(session, directory, deep=deep, report=Reporter(output, stack, "verifying"))
        return
    with output.progress(log_bytes(directory), "verifying") as progress:
        if is_partition(LOCAL, directory):
            yield from verify_partition(LOCAL, directory, deep=deep, advance=progress.advance).findings
        else:
            yield from verify_root(LOCAL, directory, deep=deep, advance=progress.advance)
