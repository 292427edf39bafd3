"""What `verify`, `recover` and `retention` do with a root or a partition, told through the output."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tidelog.cleanup.retention import Deletion
from tidelog.cli.actions.loading import LoadBar, opened_root
from tidelog.cli.actions.spark_upkeep import retain_on_spark
from tidelog.cli.errors import FOUND_WRONG, UsageError
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.spark_progress import Reporter
from tidelog.manager.upkeep.kept_aside import KeepingFileSystem
from tidelog.manager.upkeep.recovery import Recovered, is_partition, recover_partition, recover_root
from tidelog.manager.upkeep.retention_plan import plan_root_retention
from tidelog.manager.verification import Finding, Kind, verify_partition, verify_root
from tidelog.manager.verification.root import partition_directories
from tidelog.storage import LOCAL, FileSystem
from tidelog.storage.files import parent
from tidelog.storage.names import META_PROPERTIES_FILE, FileKind, parse_partition_directory
from tidelog.types import TopicPartition

__all__ = [
    "check_root",
    "existing_directory",
    "log_bytes",
    "parse_settings",
    "recover_path",
    "retain_path",
    "root_for_spark",
    "verify_path",
]

_FINDINGS = (
    Column("kind", "KIND"),
    Column("file", "FILE", folds=True),
    Column("position", "POSITION", right=True),
    Column("offset", "OFFSET", right=True),
    Column("end_offset", "UP TO", right=True, optional=True),
    Column("cause", "CAUSE", folds=True),
)
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
_RETENTION = (
    Column("partition", "PARTITION"),
    Column("base_offset", "SEGMENT", right=True),
    Column("end_offset", "UP TO", right=True, optional=True),
    Column("size_bytes", "BYTES", right=True),
    Column("reason", "BY"),
    Column("detail", "WHY", folds=True),
)


def parse_settings(settings: Sequence[str]) -> dict[str, str]:
    """What `--config` was given: KEY=VALUE, any number of times."""
    pairs = [setting.partition("=") for setting in settings]
    if any(not equals for _, equals, _ in pairs):
        raise UsageError(f"--config takes KEY=VALUE, not {' '.join(settings)!r}")
    return {key: value for key, _, value in pairs}


def existing_directory(path: Path) -> str:
    """A directory's path as text; UsageError where it is none."""
    found = str(path.absolute())
    if not path.is_dir():
        raise UsageError(
            f"{found} is not a directory: name a root (log.dirs) or a partition's directory in it"
        )
    return found


def check_root(directory: str) -> None:
    """UsageError where a directory is no root: to open one makes it one."""
    if not LOCAL.exists(f"{directory}/{META_PROPERTIES_FILE}"):
        raise UsageError(f"{directory} is no root of a broker or store (it has no {META_PROPERTIES_FILE})")


def root_for_spark(path: Path) -> str:
    """The root that goes to Spark; UsageError where it is none."""
    directory = existing_directory(path)
    if is_partition(LOCAL, directory):
        raise UsageError(f"{directory} is one partition: --spark is for roots")
    check_root(directory)
    return directory


# ---- verify


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
        from tidelog.spark.verifying import find

        with quiet_session(master) as session, ExitStack() as stack:
            yield from find(session, directory, deep=deep, report=Reporter(output, stack, "verifying"))
        return
    with output.progress(log_bytes(directory), "verifying") as progress:
        if is_partition(LOCAL, directory):
            yield from verify_partition(LOCAL, directory, deep=deep, advance=progress.advance).findings
        else:
            yield from verify_root(LOCAL, directory, deep=deep, advance=progress.advance)


def log_bytes(directory: str) -> int:
    """How many bytes the log files in a root or partition have."""
    found = (path for path in Path(directory).rglob(f"*{FileKind.LOG.value}"))
    return sum(path.stat().st_size for path in found if path.is_file())


# ---- recover


def recover_path(
    path: Path, output: Output, *, recovery_point: int | None, keep: Path | None, dry_run: bool
) -> int:
    """Recover a root or partition, or show what that would cut; the exit code."""
    directory = existing_directory(path)
    fs: FileSystem = LOCAL
    keeping = None
    if keep is not None and not dry_run:
        keep.mkdir(parents=True, exist_ok=True)
        fs = keeping = KeepingFileSystem(LOCAL, str(keep.absolute()))
    with LoadBar(output) as tell:
        if is_partition(LOCAL, directory):
            results = [
                recover_partition(fs, directory, recovery_point=recovery_point, tell=tell, dry_run=dry_run)
            ]
        else:
            results = recover_root(
                fs,
                directory,
                recovery_point=recovery_point,
                threads=min(os.cpu_count() or 1, 8),
                tell=tell,
                dry_run=dry_run,
            )
    if dry_run:
        output.table((*_RECOVERED, _CAUSE), ([*_recovered_row(one), one.cause] for one in results))
    else:
        output.table(_RECOVERED, map(_recovered_row, results))
    failed = sum(one.error is not None for one in results)
    cut = sum(one.bytes_cut for one in results)
    done, going = ("would be recovered", "would be cut") if dry_run else ("recovered", "cut")
    output.say(f"{len(results) - failed} logs {done}, {failed} failed, {cut} bytes {going}")
    for name, size in keeping.kept if keeping is not None else ():
        output.say(f"kept {size} bytes in {name}")
    return FOUND_WRONG if failed else 0


def _recovered_row(one: Recovered) -> Sequence[Cell]:
    return (
        str(one.partition),
        one.recovery_point,
        one.log_start_offset,
        one.log_end_offset,
        one.segments,
        max(one.segments_before - one.segments, 0),
        one.bytes_cut,
        one.error,
    )


# ---- retention


def retain_path(
    path: Path, output: Output, *, dry_run: bool, settings: Sequence[str], master: str | None = None
) -> None:
    """Show what retention deletes from a root or partition, and delete it unless `dry_run`."""
    config = parse_settings(settings)
    if config and not dry_run:
        raise UsageError("--config is for --dry-run; what is deleted follows the topic's own config")
    if master is not None:
        going = retain_on_spark(root_for_spark(path), master, dry_run=dry_run, settings=config)
    else:
        going = _going(existing_directory(path), output, dry_run=dry_run, settings=config)
    freed = [0, 0]

    def rows() -> Iterator[Sequence[Cell]]:
        for partition, one in going:
            freed[0] += 1
            freed[1] += one.size
            reason = one.reason.value
            yield str(partition), one.base_offset, one.end_offset, one.size, reason, one.detail

    output.table(_RETENTION, rows())
    output.say(f"{freed[0]} segments {'would go' if dry_run else 'are deleted'}, {freed[1]} bytes")


def _going(
    directory: str, output: Output, *, dry_run: bool, settings: Mapping[str, str]
) -> Iterator[tuple[TopicPartition, Deletion]]:
    """The segments of a root or partition that go; unless it is a dry run, they do."""
    alone = is_partition(LOCAL, directory)
    root = parent(directory) if alone else directory
    if dry_run:
        names = [directory.rpartition("/")[2]] if alone else list(partition_directories(LOCAL, root)[0])
        for planned in plan_root_retention(LOCAL, root, names, time.time_ns() // 1_000_000, settings):
            yield from ((planned.partition, one) for one in planned.plan.deletions)
        return
    only = parse_partition_directory(Path(directory).name).topic_partition if alone else None
    check_root(root)
    with opened_root(root, output) as store:
        for partition, plan in store.apply_retention(only).items():
            yield from ((partition, one) for one in plan.deletions)
