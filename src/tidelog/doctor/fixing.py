"""Repairs from examination to undo: what `tidelog fix` does.

A saved plan is applied only if planning again, with the same time, gives the same plan: the same files in the
same state, and the same changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tidelog.doctor.applying import apply_actions, check_unchanged, empty, undo
from tidelog.doctor.disks import is_disk
from tidelog.doctor.examining import Examination, examine
from tidelog.doctor.plans import Plan, digest_of
from tidelog.doctor.quarantine import Manifest, RunState, find_runs, new_run
from tidelog.doctor.repairs import plan_repairs
from tidelog.errors import InvalidInputError, LogError
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.storage import FileSystem, LocalFileSystem
from tidelog.storage.lock import RootLock

__all__ = [
    "apply_plan",
    "empty_quarantine",
    "held",
    "load_plan",
    "make_plan",
    "saved_plan",
    "undo_last",
    "unfinished",
]


def make_plan(
    fs: FileSystem,
    roots: Sequence[str],
    *,
    config: BrokerConfig | None = None,
    now_ms: int,
    advance: Callable[[int], None] = lambda size: None,
) -> Plan:
    """Examine the disks of one broker, and plan their repairs; nothing is changed.

    InvalidInputError for a directory that is no broker's disk: its directories are not a broker's to judge.
    """
    _check_roots(fs, roots)
    found: list[Examination] = []
    for _ in examine(fs, roots, config=config, now_ms=now_ms, keep=found.append, advance=advance):
        pass
    return plan_repairs(fs, found[0])


def _check_roots(fs: FileSystem, roots: Sequence[str]) -> None:
    for root in roots:
        if not is_disk(fs, root):
            raise InvalidInputError(
                f"{root} is not a disk of a broker: it has no meta.properties, no checkpoint and no "
                "partition with a log. Name a directory of log.dirs"
            )


def saved_plan(fs: FileSystem, plan: Plan, now_ms: int) -> dict[str, Any]:
    """A plan as it is saved."""
    return {**plan.to_json(fs), "now_ms": now_ms}


def load_plan(data: bytes, source: str) -> Mapping[str, Any]:
    """A saved plan; InvalidInputError if it is none."""
    try:
        found = json.loads(data)
        if isinstance(found, dict) and isinstance(found["now_ms"], int) and isinstance(found["roots"], list):
            return found
    except (ValueError, KeyError, RecursionError):
        pass
    raise InvalidInputError(f"{source} is not a plan that tidelog fix has saved")


@contextmanager
def held(fs: FileSystem, roots: Sequence[str]) -> Iterator[None]:
    """The roots under their locks: no broker and no store is running on them."""
    with ExitStack() as stack:
        if isinstance(fs, LocalFileSystem):
            for root in roots:
                lock = RootLock(root)
                stack.callback(lock.release)
        yield


def unfinished(fs: FileSystem, roots: Sequence[str]) -> list[Manifest]:
    """Repairs, undos and emptyings that were cut short."""
    return [run for root in roots for run in find_runs(fs, root) if run.state is not RunState.APPLIED]


def apply_plan(
    fs: FileSystem,
    roots: Sequence[str],
    *,
    saved: Mapping[str, Any] | None = None,
    config: BrokerConfig | None = None,
    now_ms: int,
    advance: Callable[[int], None] = lambda size: None,
) -> tuple[Plan, list[Manifest]]:
    """Plan again under the roots' locks, and carry it out; LogError if a saved plan does not fit any more.

    A repair that was cut short is undone first.
    """
    _check_roots(fs, roots)
    with held(fs, roots):
        for run in unfinished(fs, roots):
            empty(fs, run) if run.state is RunState.EMPTYING else undo(fs, run)
        plan = make_plan(fs, roots, config=config, now_ms=now_ms, advance=advance)
        if saved is not None and digest_of(saved_plan(fs, plan, now_ms)) != digest_of(saved):
            raise LogError("the files or their names have changed since the plan was saved: make a new plan")
        name = new_run()
        done = []
        for root in roots:
            actions = list(plan.actions_in(root))
            if actions:
                done.append(apply_actions(fs, root, actions, name))
        return plan, done


def undo_last(fs: FileSystem, roots: Sequence[str]) -> list[Manifest]:
    """Undo the newest repair, in all roots that it was of, or what is left of it; what was undone.

    LogError, before anything is changed, if a file of it has changed since.
    """
    with held(fs, roots):
        runs = [run for root in roots for run in find_runs(fs, root)]
        newest = max((run.run for run in runs), default="")
        done = [run for run in runs if run.run == newest]
        for run in done:
            check_unchanged(fs, run)
        for run in done:
            undo(fs, run)
        return done


def empty_quarantine(fs: FileSystem, roots: Sequence[str]) -> tuple[int, int]:
    """Delete what all repairs have kept: how many repairs, and the bytes that became free."""
    with held(fs, roots):
        runs = [run for root in roots for run in find_runs(fs, root)]
        return len(runs), sum(empty(fs, run) for run in runs)
