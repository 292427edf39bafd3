"""Runs `recover` on a root or a partition, and prints the result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidelog.cli.actions.directories import check_target, existing_directory, parse_settings
from tidelog.cli.actions.loading import LoadBar, RootOptions
from tidelog.cli.errors import FOUND_WRONG, UsageError
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.units import counted
from tidelog.config import LogConfig
from tidelog.manager.upkeep.kept_aside import KeepingFileSystem
from tidelog.manager.upkeep.recovery import Recovered, recover_partition, recover_root
from tidelog.storage import LOCAL, FileSystem
from tidelog.storage.directory import is_partition
from tidelog.storage.processes import available_cpus

__all__ = ["recover_path"]

_RECOVERED = (
    Column("partition", "PARTITION"),
    Column("recovery_point", "FROM", right=True),
    Column("log_start_offset", "START", right=True, optional=True),
    Column("log_end_offset", "END", right=True),
    Column("segments", "SEGMENTS", right=True),
    Column("segments_removed", "REMOVED", right=True),
    Column("bytes_cut", "BYTES CUT", right=True),
    Column("error", "ERROR", folds=True),
)
_CAUSE = Column("cause", "WHY", folds=True)


def recover_path(
    path: Path,
    output: Output,
    *,
    recovery_point: int | None,
    keep: Path | None,
    discard: bool,
    dry_run: bool,
    properties: Path | None,
    settings: Sequence[str] = (),
) -> int:
    """Recover a root or partition, or show what that would cut; the exit code.

    What is cut is kept beside the log, or in `keep`, unless it is to be discarded.
    """
    directory = existing_directory(path)
    if discard and keep is not None:
        raise UsageError("--keep and --discard cannot be combined")
    broker = RootOptions(properties).broker
    config = parse_settings(settings)
    LogConfig.from_properties(config, broker.topic_defaults)
    check_target(keep)
    keeping = None if dry_run or discard else _keeping(keep)
    fs: FileSystem = LOCAL if keeping is None else keeping
    with LoadBar(output) as tell:
        if is_partition(LOCAL, directory):
            results = [
                recover_partition(
                    fs,
                    directory,
                    recovery_point=recovery_point,
                    tell=tell,
                    dry_run=dry_run,
                    broker=broker,
                    settings=config,
                )
            ]
        else:
            results = recover_root(
                fs,
                directory,
                recovery_point=recovery_point,
                threads=min(available_cpus(), 8),
                tell=tell,
                dry_run=dry_run,
                broker=broker,
                settings=config,
            )
    if dry_run:
        output.table((*_RECOVERED, _CAUSE), ([*_recovered_row(one), one.cause] for one in results))
    else:
        output.table(_RECOVERED, map(_recovered_row, results))
    failed = sum(one.error is not None for one in results)
    cut = sum(one.bytes_cut for one in results)
    done, going = ("would be recovered", "would be cut") if dry_run else ("recovered", "cut")
    output.say(f"{counted(len(results) - failed, 'log')} {done}, {failed} failed, {cut} bytes {going}")
    for name, size in keeping.kept if keeping is not None else ():
        output.say(f"kept {size} bytes in {name}")
    return FOUND_WRONG if failed else 0


def _keeping(directory: Path | None) -> KeepingFileSystem:
    """Files, of which what is cut is kept in a directory, or beside the log."""
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    return KeepingFileSystem(LOCAL, None if directory is None else str(directory.absolute()))


def _recovered_row(one: Recovered) -> Sequence[Cell]:
    return (
        str(one.partition),
        one.recovery_point,
        one.log_start_offset,
        one.log_end_offset,
        one.segments,
        one.segments_removed,
        one.bytes_cut,
        one.error,
    )
