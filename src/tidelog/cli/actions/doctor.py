"""Prints what `doctor` finds."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidelog.cli.actions.directories import existing_directory, log_bytes
from tidelog.cli.actions.loading import RootOptions
from tidelog.cli.errors import FOUND_WRONG, UsageError
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.units import parse_time
from tidelog.doctor import Finding, PartitionVerdict, RootVerdict, examine
from tidelog.storage import LOCAL
from tidelog.storage.directory import is_partition
from tidelog.storage.files import parent
from tidelog.storage.processes import available_cpus

__all__ = ["chosen_roots", "examine_paths", "start_time"]

_FINDINGS = (
    Column("about", "ABOUT", optional=True),
    Column("severity", "SEVERITY"),
    Column("kind", "KIND"),
    Column("file", "FILE", folds=True),
    Column("position", "POSITION", right=True, optional=True),
    Column("offset", "OFFSET", right=True),
    Column("end_offset", "UP TO", right=True, optional=True),
    Column("cause", "FOUND", folds=True),
    Column("kafka", "WHAT KAFKA DOES", folds=True),
    Column("advice", "WHAT TO DO", folds=True),
)
_PARTITIONS = (
    Column("about", "ABOUT", optional=True),
    Column("partition", "PARTITION", folds=True),
    Column("path", "PATH", optional=True, folds=True),
    Column("size_bytes", "BYTES", right=True),
    Column("recovery_bytes", "TO RECOVER", right=True),
    Column("log_start_offset", "START", right=True),
    Column("log_end_offset", "END", right=True),
    Column("last_stable_offset", "STABLE", right=True, optional=True),
    Column("findings", "FINDINGS", right=True),
    Column("verdict", "VERDICT", folds=True),
)
_ROOTS = (
    Column("about", "ABOUT", optional=True),
    Column("root", "ROOT", folds=True),
    Column("starts", "STARTS"),
    Column("partitions", "PARTITIONS", right=True),
    Column("size_bytes", "BYTES", right=True),
    Column("recovery_bytes", "TO RECOVER", right=True),
    Column("recovery_seconds", "SECONDS", right=True),
    Column("verdict", "VERDICT", folds=True),
)


def chosen_roots(paths: Sequence[Path], options: RootOptions) -> tuple[list[str], str | None]:
    """The roots to look at, and the one partition in them that is meant; None: all.

    What loading logs as it is rehearsed has not happened: it is not shown.
    """
    logging.getLogger("tidelog").setLevel(logging.CRITICAL)
    named = [existing_directory(path) for path in paths]
    alone = [path for path in named if is_partition(LOCAL, path)]
    if alone and len(named) > 1:
        raise UsageError("name the roots of one broker, or one partition's directory")
    if alone:
        return options.roots(parent(alone[0])), alone[0]
    return options.roots(named), None


def start_time(now: str | None) -> int:
    """The time that is meant, in milliseconds; the present if none is given."""
    present = time.time_ns() // 1_000_000
    return present if now is None else parse_time(now, present)


def examine_paths(
    paths: Sequence[Path], output: Output, *, quiet: bool, now: str | None, properties: Path | None
) -> int:
    """Examine the disks of a broker; the exit code."""
    options = RootOptions(properties)
    roots, only = chosen_roots(paths, options)
    partitions: list[PartitionVerdict] = []
    disks: list[RootVerdict] = []
    wrong = 0

    def findings() -> Iterator[Sequence[Cell]]:
        nonlocal wrong
        size = log_bytes(only) if only is not None else sum(log_bytes(root) for root in roots)
        with output.progress(size, "examining") as progress:
            verdicts = examine(
                LOCAL,
                roots,
                config=options.broker,
                now_ms=start_time(now),
                only=only,
                advance=progress.advance,
                threads=available_cpus(),
            )
            for one in verdicts:
                (disks.append(one) if isinstance(one, RootVerdict) else partitions.append(one))
                for finding in one.findings:
                    wrong += finding.severity.is_wrong
                    if finding.severity.is_wrong or not quiet:
                        yield _row(finding, roots, output)

    output.table(_FINDINGS, findings())
    output.table(_PARTITIONS, [_partition(one) for one in partitions])
    output.table(_ROOTS, [_root(one) for one in disks])
    for disk in disks:
        output.say(f"{disk.path}: {disk.verdict}")
    return FOUND_WRONG if wrong else 0


def _row(one: Finding, roots: Sequence[str], output: Output) -> Sequence[Cell]:
    file = one.file
    if output.terminal and len(roots) == 1:
        file = file.removeprefix(f"{roots[0]}/")
    return (
        "finding",
        one.severity.value,
        one.kind.value,
        file,
        one.position,
        one.offset,
        one.end_offset,
        one.cause,
        one.kafka,
        one.advice,
    )


def _partition(one: PartitionVerdict) -> Sequence[Cell]:
    return (
        "partition",
        one.partition,
        one.path,
        one.size_bytes,
        one.recovery_bytes,
        one.log_start_offset,
        one.log_end_offset,
        one.last_stable_offset,
        len(one.findings),
        one.verdict,
    )


def _root(one: RootVerdict) -> Sequence[Cell]:
    return (
        "root",
        one.path,
        one.starts,
        one.partitions,
        one.size_bytes,
        one.recovery_bytes,
        one.recovery_seconds,
        one.verdict,
    )
