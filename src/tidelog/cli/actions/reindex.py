"""Runs `reindex` on a root or a partition, and prints the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tidelog.cli.actions.directories import existing_directory, log_bytes, parse_settings
from tidelog.cli.actions.loading import RootOptions
from tidelog.cli.errors import FOUND_WRONG
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.spark_progress import Reporter
from tidelog.cli.render.units import are, counted
from tidelog.manager.metadata.files import home_of_metadata
from tidelog.manager.upkeep.reindexing import Reindexed, ReindexOptions, reindex
from tidelog.storage import LOCAL
from tidelog.storage.directory import is_partition
from tidelog.storage.files import parent

__all__ = ["reindex_path"]

_COLUMNS = (
    Column("log", "LOG"),
    Column("indexes", "INDEXES"),
    Column("cause", "CAUSE", optional=True),
    Column("error", "ERROR", folds=True),
)


def reindex_path(
    path: Path,
    output: Output,
    *,
    everything: bool,
    dry_run: bool,
    settings: Sequence[str],
    master: str | None,
    options: RootOptions,
) -> int:
    """Rebuild the indexes of a root or partition; the exit code."""
    directory = existing_directory(path)
    root = parent(directory) if is_partition(LOCAL, directory) else directory
    asked = ReindexOptions(
        everything=everything,
        dry_run=dry_run,
        settings=parse_settings(settings),
        defaults=options.broker.topic_defaults,
        metadata=home_of_metadata(LOCAL, options.roots(root)),
    )
    done: list[Reindexed] = []

    def rows() -> Iterator[Sequence[Cell]]:
        for one in _reindexed(directory, output, asked, master):
            done.append(one)
            yield one.file, " ".join(one.indexes), one.cause, one.error

    output.table(_COLUMNS, rows())
    files = sum(len(one.indexes) for one in done)
    damaged = sum(one.error is not None for one in done)
    what = "would be replaced" if dry_run else "replaced"
    output.say(
        f"{counted(files, 'index file')} {what}"
        + (f"; {counted(damaged, 'log')} {are(damaged)} damaged" if damaged else "")
    )
    return FOUND_WRONG if damaged or (dry_run and not everything and files) else 0


def _reindexed(
    directory: str, output: Output, asked: ReindexOptions, master: str | None
) -> Iterator[Reindexed]:
    """What was done, as it is done."""
    if master is not None:
        from tidelog.spark import quiet_session
        from tidelog.spark.upkeep.reindexing import rebuild

        with quiet_session(master) as session, ExitStack() as stack:
            report = Reporter(output, stack, "reindexing")
            yield from rebuild(session, directory, report=report, **asked)
        return
    with output.progress(log_bytes(directory), "reindexing") as progress:
        yield from reindex(LOCAL, directory, advance=progress.advance, **asked)
