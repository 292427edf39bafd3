"""What `tidelog reconcile` does: merges copies of partitions, and reports what came from where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tidelog.cli.actions.directories import check_target, existing_directory
from tidelog.cli.errors import FOUND_WRONG, UsageError
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.spark_progress import Reporter
from tidelog.cli.render.units import are, counted
from tidelog.manager.reconciling.outcome import Outcome
from tidelog.manager.reconciling.reconciling import LogStart
from tidelog.manager.reconciling.rooting import Job, find_sources, finish_root, run_job, staged_root
from tidelog.storage import LOCAL

__all__ = ["reconcile_to"]

_COLUMNS = (
    Column("about", "about"),
    Column("partition", "partition"),
    Column("copy", "copy", folds=True),
    Column("first_offset", "from offset", right=True),
    Column("end_offset", "to offset", right=True),
    Column("batches", "batches", right=True),
    Column("records", "records", right=True),
    Column("bytes", "bytes", right=True, optional=True),
    Column("was_committed", "committed", optional=True),
    Column("reason", "reason", folds=True),
)


def reconcile_to(
    paths: Sequence[Path],
    target: Path | None,
    output: Output,
    *,
    topics: Sequence[str] | None,
    log_start: str,
    losers: Path | None,
    node_id: int | None,
    master: str | None,
) -> int:
    """Merge the copies under `paths` into a new root, or only look without one; the exit code."""
    for new in (target, losers):
        check_target(new, paths)
    found = find_sources([existing_directory(path) for path in paths], topics, _log_start(log_start))
    for note in found.notes:
        output.warn(note)
    if losers is not None and losers.exists() and (not losers.is_dir() or any(losers.iterdir())):
        raise UsageError(f"{losers} exists already: name a new or empty directory")
    aside = None if losers is None else str(losers.absolute())
    done: list[Outcome] = []

    def rows(jobs: Sequence[Job]) -> Iterator[Sequence[Cell]]:
        for one in _outcomes(jobs, output, master):
            done.append(one)
            yield from _rows(one)

    if target is None:
        output.table(_COLUMNS, rows(found.jobs))
    else:
        with staged_root(LOCAL, str(target.absolute())) as staging:
            jobs = [replace(job, target=staging, truncated_to=aside) for job in found.jobs]
            output.table(_COLUMNS, rows(jobs))
            finish_root(LOCAL, staging, found, done, node_id=node_id)
    records, batches = sum(one.records for one in done), sum(one.batches for one in done)
    bad = [one for one in done if not one.is_whole]
    what = f"{counted(records, 'record')} in {counted(batches, 'batch', 'batches')}"
    where = counted(len(done), "partition")
    output.say(f"{what} of {where} {are(records, dry_run=target is None)} reconciled")
    if bad:
        output.say(f"{counted(len(bad), 'partition')} {are(len(bad))} not whole")
    return FOUND_WRONG if bad else 0


def _log_start(text: str) -> LogStart:
    if text in ("earliest", "latest"):
        return LogStart(latest=text == "latest")
    if not text.isascii() or not text.isdigit():
        raise UsageError(f"--log-start takes earliest, latest or an offset, not {text!r}")
    return LogStart(offset=int(text))


def _outcomes(jobs: Sequence[Job], output: Output, master: str | None) -> Iterator[Outcome]:
    if master is None:
        with output.progress(sum(job.size for job in jobs), "reconciling") as progress:
            for job in jobs:
                yield run_job(job, advance=progress.advance)
        return
    from tidelog.spark import quiet_session
    from tidelog.spark.upkeep.reconciling import run_jobs

    with quiet_session(master) as spark, ExitStack() as stack:
        yield from run_jobs(spark, jobs, Reporter(output, stack, "reconciling"))


def _rows(one: Outcome) -> Iterator[Sequence[Cell]]:
    name = str(one.partition)
    for taken in one.ranges:
        yield (
            "taken",
            name,
            taken.copy,
            taken.first_offset,
            taken.end_offset,
            taken.batches,
            taken.records,
            taken.size_bytes,
            None,
            taken.reason,
        )
    for cut in one.truncated:
        yield (
            "truncated",
            name,
            cut.copy,
            cut.first_offset,
            cut.end_offset,
            cut.batches,
            cut.records,
            None,
            cut.was_committed,
            cut.reason,
        )
    for lost in one.lost:
        yield "lost", name, None, lost.first_offset, lost.end_offset, None, None, None, None, lost.reason
    for note in one.notes:
        yield "note", name, None, None, None, None, None, None, None, note
    yield (
        "partition",
        name,
        one.winner,
        one.log_start_offset,
        one.log_end_offset,
        one.batches,
        one.records,
        one.size_bytes,
        None,
        one.why,
    )
