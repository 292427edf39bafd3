"""Prints what `fix` plans and does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidelog.cli.actions.directories import log_bytes
from tidelog.cli.actions.doctor import chosen_roots
from tidelog.cli.actions.loading import RootOptions
from tidelog.cli.errors import FOUND_WRONG, UsageError
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.units import are, counted
from tidelog.doctor.fixing import (
    apply_plan,
    empty_quarantine,
    load_plan,
    make_plan,
    saved_plan,
    undo_last,
    unfinished,
)
from tidelog.doctor.plans import Plan, Step
from tidelog.storage import LOCAL

__all__ = ["empty_roots", "fix_roots", "undo_roots"]

_STEPS = (
    Column("step", "STEP", right=True),
    Column("title", "REPAIR", folds=True),
    Column("why", "WHY", folds=True),
    Column("files", "FILES", folds=True),
    Column("lost", "LOST", folds=True),
    Column("undo", "UNDO", folds=True, optional=True),
)

_MOST_FILES = 30
"""Of one step, in a table for people."""


def _roots(paths: Sequence[Path], properties: Path | None) -> tuple[list[str], RootOptions]:
    options = RootOptions(properties)
    roots, only = chosen_roots(paths, options)
    if only is not None:
        raise UsageError(f"{only} is a partition's directory: name its root, which has its checkpoints")
    return roots, options


def fix_roots(
    paths: Sequence[Path], output: Output, *, apply: bool, file: Path | None, properties: Path | None
) -> int:
    """Plan the repairs of a broker's disks, and carry them out if asked; the exit code."""
    roots, options = _roots(paths, properties)
    size = sum(log_bytes(root) for root in roots)
    now_ms = time.time_ns() // 1_000_000
    with output.progress(size, "examining") as progress:
        if not apply:
            for run in unfinished(LOCAL, roots):
                output.warn(f"a repair of {run.root} was cut short: undo it with tidelog fix --undo")
            plan = make_plan(LOCAL, roots, config=options.broker, now_ms=now_ms, advance=progress.advance)
            if file is not None:
                file.write_text(json.dumps(saved_plan(LOCAL, plan, now_ms), indent=1) + "\n")
        else:
            saved = None if file is None else load_plan(file.read_bytes(), str(file))
            plan, _ = apply_plan(
                LOCAL,
                roots,
                saved=saved,
                config=options.broker,
                now_ms=now_ms if saved is None else saved["now_ms"],
                advance=progress.advance,
            )
    output.table(_STEPS, _rows(plan, None if output.json else _MOST_FILES))
    left = sum(not step.actions for step in plan.steps)
    done = len(plan.steps) - left
    if apply:
        output.say(
            f"{counted(done, 'repair')} {are(done)} done"
            + ("; tidelog fix --undo reverts them" if done else "")
        )
    else:
        output.say(
            f"{counted(done, 'repair')} {are(done)} planned"
            + ("; tidelog fix --apply carries them out" if done else "")
        )
    if left:
        output.say(f"{counted(left, 'problem')} cannot be repaired here")
    return FOUND_WRONG if left else 0


def _rows(plan: Plan, most: int | None) -> Iterator[Sequence[Cell]]:
    for number, step in enumerate(plan.steps, 1):
        yield number, step.title, step.why, _files(step, most), step.lost or None, step.undo or None


def _files(step: Step, most: int | None) -> str | None:
    """The first files of a step, or all, with what is done to each."""
    told = []
    for action in step.actions[:most]:
        path = action.path.removeprefix(f"{step.root}/")
        target = action.target.removeprefix(f"{step.root}/")
        told.append(f"{action.act.value} {path}" + (f" to {target}" if target else ""))
    if len(told) < len(step.actions):
        told.append(f"{len(step.actions) - len(told)} more, which --plan and --json name")
    return "; ".join(told) or None


def undo_roots(paths: Sequence[Path], output: Output, *, properties: Path | None) -> int:
    """Undo the last repairs; the exit code."""
    roots, _ = _roots(paths, properties)
    done = undo_last(LOCAL, roots)
    columns = (Column("root", "ROOT"), Column("run", "REPAIR"), Column("files", "FILES", right=True))
    output.table(columns, [(run.root, run.run, len(run.kept)) for run in done])
    output.say(f"{counted(len(done), 'repair')} {are(len(done))} undone")
    return 0


def empty_roots(paths: Sequence[Path], output: Output, *, properties: Path | None) -> int:
    """Delete what repairs have kept; the exit code."""
    roots, _ = _roots(paths, properties)
    runs, freed = empty_quarantine(LOCAL, roots)
    output.table((Column("repairs", "REPAIRS"), Column("freed_bytes", "FREED", right=True)), [(runs, freed)])
    output.say(f"{counted(runs, 'repair')} {are(runs)} final now; {freed} bytes are free")
    return 0
