"""What `tidelog adopt` does: plans the adoption of a topic, carries it out, and says what it came to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tidelog.cli.actions.directories import check_target, existing_directory, parse_settings
from tidelog.cli.actions.loading import RootOptions
from tidelog.cli.errors import UsageError
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.units import are, counted
from tidelog.doctor.adopting import Adoption, adopt, plan_adoption
from tidelog.manager.reconciling.outcome import Outcome
from tidelog.manager.reconciling.rooting import run_job
from tidelog.storage import LOCAL, read_file
from tidelog.storage.metadata import format_id, parse_properties

__all__ = ["adopt_topic"]

_COLUMNS = (
    Column("about", "about"),
    Column("name", "name"),
    Column("partition", "partition", right=True),
    Column("source", "from", folds=True),
    Column("log_start_offset", "log start", right=True),
    Column("log_end_offset", "log end", right=True),
    Column("leader_epoch", "epoch", right=True),
    Column("records", "records", right=True),
    Column("committed_offset", "committed", right=True),
    Column("detail", "detail", folds=True),
)
_GROUPS_PARTITIONS = 50


def adopt_topic(
    paths: Sequence[Path],
    into: Path,
    output: Output,
    *,
    topic: str | None,
    rename: str | None,
    config: Sequence[str],
    groups: bool,
    fill: bool,
    dry_run: bool,
    options: RootOptions,
) -> None:
    """Take a topic over into a root, or only show what that comes to."""
    if into.exists() and not into.is_dir():
        raise UsageError(f"{into} is not a directory")
    if not into.exists():
        check_target(into, paths)
    root = str(into.absolute())
    roots = [root, *(one for one in options.roots(root) if one != root)]
    plan = plan_adoption(
        LOCAL,
        [existing_directory(path) for path in paths],
        roots,
        topic=topic,
        rename=rename,
        config=parse_settings(config),
        groups=groups,
        fill=fill,
        broker=options.broker,
    )
    for note in plan.notes:
        output.warn(note)
    with output.progress(plan.size, "adopting") as progress:
        if dry_run:
            outcomes = [run_job(job, advance=progress.advance) for job in plan.jobs]
        else:
            outcomes = adopt(
                LOCAL,
                plan,
                broker=options.broker,
                groups_partitions=_groups_partitions(options),
                advance=progress.advance,
            )
    output.table(_COLUMNS, _rows(plan, outcomes))
    partitions = counted(len(plan.jobs) + len(plan.missing), "partition")
    output.say(f"topic {plan.topic} {are(1, dry_run=dry_run)} adopted with {partitions}")


def _groups_partitions(options: RootOptions) -> int:
    """How many partitions a new `__consumer_offsets` gets, as the broker's configuration says."""
    if options.properties is None:
        return _GROUPS_PARTITIONS
    found = parse_properties(read_file(LOCAL, options.properties), str(options.properties))
    text = found.get("offsets.topic.num.partitions", str(_GROUPS_PARTITIONS))
    if not text.isdigit() or not int(text):
        raise UsageError(f"{options.properties}: offsets.topic.num.partitions={text}")
    return int(text)


def _rows(plan: Adoption, outcomes: Sequence[Outcome]) -> Iterator[Sequence[Cell]]:
    settings = " ".join(f"{key}={value}" for key, value in sorted(plan.config.items()))
    detail = f"topic id {format_id(plan.topic_id)}" + (f"; {settings}" if settings else "")
    yield "topic", plan.topic, None, plan.source_topic, None, None, None, None, None, detail
    for job, one in zip(plan.jobs, outcomes, strict=True):
        notes = [*one.notes, *(f"lost: {lost.reason}" for lost in one.lost)]
        yield (
            "partition",
            plan.topic,
            job.partition.partition,
            one.winner,
            one.log_start_offset,
            one.log_end_offset,
            one.leader_epoch + 1,
            one.records,
            None,
            "; ".join(notes) or None,
        )
    for number in plan.missing:
        yield "partition", plan.topic, number, None, 0, 0, 0, 0, None, "made empty"
    logs = {job.partition.partition: one for job, one in zip(plan.jobs, outcomes, strict=True)}
    for commit in plan.commits:
        log, warning = logs.get(commit.partition), None
        if commit.offset > (0 if log is None else log.log_end_offset):
            warning = "past the log end: consumers will reset it"
        elif log is not None and commit.offset < log.log_start_offset:
            warning = "before the log start: consumers will reset it"
        yield (
            "group",
            commit.group,
            commit.partition,
            None,
            None,
            None,
            commit.leader_epoch,
            None,
            commit.offset,
            warning,
        )
