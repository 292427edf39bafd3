"""The life of one log on a file system that loses power: random from a seed, with a model of what it holds.

Appends, rolls, truncations, flushes, work that was left for later, deleted records and segments, orderly
stops; in between the recovery point and the log start are written down, as a root's checkpoints are. After a
cut at any step the log is opened as a root would, and then:

1. what was there when a flush, a truncation or an orderly stop returned is there, unless a later call, which
   may have been under way at the cut, removes it;
2. each record that is found was there then, or was appended since: nothing that was cut off comes back;
3. the log takes appends, and what it holds then survives the next cut.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.log.logs import NOW_MS, SMALL, all_records
from tidelog.log import Log
from tidelog.records import Record
from tidelog.testing.crash import CrashFileSystem

__all__ = ["Life", "check", "live"]

PATH = "/disk/orders-0"
CONFIG = replace(SMALL, internal_segment_bytes=700, segment_index_bytes=240, index_interval_bytes=100)

Contents = dict[int, bytes]


class Later:
    """A scheduler that waits to be told."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], None]] = []

    def schedule_once(self, name: str, action: Callable[[], None], delay_ms: int = 0) -> None:
        """Remember it."""
        self.tasks.append(action)

    def run(self, some: int) -> None:
        """Run the first so many."""
        tasks, self.tasks = self.tasks[:some], self.tasks[some:]
        for task in tasks:
            task()


@dataclass(frozen=True)
class Vouched:
    """From `step` on these records are on the disk, and the log starts and ends there."""

    step: int
    contents: Contents
    log_start: int


@dataclass(frozen=True)
class Change:
    """Between two steps: records that may have come, and the range of those that stay for sure."""

    begin: int
    appended: Contents = field(default_factory=dict)
    keep_from: int = 0
    keep_below: int = 1 << 62


@dataclass(frozen=True)
class Checkpoints:
    """What a root's checkpoints say from `step` on, and whether it was closed cleanly."""

    step: int
    recovery_point: int
    log_start: int
    clean: bool


@dataclass
class Life:
    """A file system with a past, and what is known of it."""

    fs: CrashFileSystem
    vouched: list[Vouched] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    checkpoints: list[Checkpoints] = field(default_factory=list)


class _Liver:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.life = Life(CrashFileSystem(clock=lambda: NOW_MS))
        self.fs = self.life.fs
        self.fs.make_directory("/disk")
        self.fs.sync_directory("/")
        self.later = Later()
        self.contents: Contents = {}
        self.batches: dict[int, int] = {}  # the first offset of the batch that holds an offset
        self.number = 0
        self.log = self._open(clean=True, recovery_point=0, log_start=0)
        self._checkpoint()

    def _open(self, *, clean: bool, recovery_point: int, log_start: int) -> Log:
        return open_on(self.fs, self.later, clean=clean, recovery_point=recovery_point, log_start=log_start)

    def run(self, actions: int) -> Life:
        choices = {
            self.append: 10,
            self.roll: 3,
            self.flush: 3,
            self.truncate: 3,
            self.truncate_fully: 1,
            self.tasks: 4,
            self.checkpoint: 2,
            self.delete_records: 1,
            self.delete_segments: 1,
            self.restart: 1,
        }
        for _ in range(actions):
            self.dice.choices(list(choices), list(choices.values()))[0]()
            assert self.log.recovery_point <= self.log.log_end_offset
        return self.life

    def _change(self, **what: Any) -> None:
        self.life.changes.append(Change(self.fs.steps, **what))

    def _vouch(self) -> None:
        start = self.log.log_start_offset
        self.contents = {at: value for at, value in self.contents.items() if at >= start}
        self.life.vouched.append(Vouched(self.fs.steps, dict(self.contents), start))

    def _checkpoint(self, *, clean: bool = False) -> None:
        log = self.log
        self.life.checkpoints.append(
            Checkpoints(self.fs.steps, log.recovery_point, log.log_start_offset, clean)
        )

    def append(self) -> None:
        records = []
        for _ in range(self.dice.randint(1, 3)):
            self.number += 1
            records.append(
                Record(b"%d" % self.number, b"k" * self.dice.choice((5, 60)), (), NOW_MS + self.number)
            )
        end = self.log.log_end_offset
        new = {end + i: bytes(record.value or b"") for i, record in enumerate(records)}
        self._change(appended=new)
        self.log.append_as_leader(records, leader_epoch=self.number // 20)
        self.log.update_high_watermark(self.log.log_end_offset)
        self.contents |= new
        self.batches |= dict.fromkeys(new, end)

    def roll(self) -> None:
        self.log.roll()

    def flush(self) -> None:
        self.log.flush()
        self._vouch()

    def truncate(self) -> None:
        end = self.log.log_end_offset
        target = self.dice.randint(max(end - self.dice.choice((3, 30)), 0), end)
        below = self.batches.get(target, target)  # a batch goes whole
        self._change(keep_below=below)
        if self.log.truncate_to(target):
            self.contents = {at: value for at, value in self.contents.items() if at < below}
            self._vouch()
            self._checkpoint()

    def truncate_fully(self) -> None:
        target = max(self.log.log_end_offset + self.dice.choice((-20, -1, 0, 5)), 0)
        self._change(keep_below=0)
        self.log.truncate_fully_and_start_at(target)
        self.contents = {}
        self._vouch()
        self._checkpoint()

    def tasks(self) -> None:
        self.later.run(self.dice.choice((1, 2, 100)))

    def checkpoint(self) -> None:
        self._checkpoint()

    def delete_records(self) -> None:
        start = self.dice.randint(self.log.log_start_offset, self.log.log_end_offset)
        self._change(keep_from=start)
        self.log.delete_records(start)
        self._checkpoint()

    def delete_segments(self) -> None:
        sealed = list(self.log.segments)[:-1]
        gone = sealed[: self.dice.randint(0, len(sealed))]
        if gone:
            self._change(keep_from=self.log.segments.base_offsets[len(gone)])
            self.log.delete_segments(gone)
            self._checkpoint()

    def restart(self) -> None:
        self.log.close()
        self._vouch()
        self._checkpoint(clean=True)
        self.later.run(100)
        known = self.life.checkpoints[-1]
        self.life.checkpoints.append(replace(known, step=self.fs.steps, clean=False))
        self.log = self._open(clean=True, recovery_point=known.recovery_point, log_start=known.log_start)
        self.log.update_high_watermark(self.log.log_end_offset)
        if self.log.recovery_point < known.recovery_point:  # as a store does when it is opened
            self._checkpoint()


def open_on(
    fs: CrashFileSystem, later: Later | None, *, clean: bool, recovery_point: int, log_start: int
) -> Log:
    """The log, as a root with these checkpoints opens it."""
    return Log.open(
        PATH,
        CONFIG,
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=log_start,
        fs=fs,
        now_ms=lambda: NOW_MS,
        scheduler=later,
    )


def live(seed: int, actions: int = 60) -> Life:
    """A life."""
    return _Liver(seed).run(actions)


def check(life: Life, step: int, seed: int, kept: str = "some") -> None:
    """Cut the power behind a step, open the log, and compare."""
    known = [one for one in life.checkpoints if one.step <= step]
    if not known:
        return
    for told in {known[-1], replace(known[-1], clean=False)}:
        after = life.fs.crash(step, seed=seed, kept=kept)
        _check_opened(life, step, after, told)


def _check_opened(life: Life, step: int, after: CrashFileSystem, told: Checkpoints) -> None:
    vouched = [one for one in life.vouched if one.step <= step]
    last = vouched[-1] if vouched else Vouched(0, {}, 0)
    since = [one for one in life.changes if last.step <= one.begin <= step]
    allowed = {at: {value} for at, value in last.contents.items()}
    for change in since:
        for at, value in change.appended.items():
            allowed.setdefault(at, set()).add(value)
    start = max((last.log_start, *(one.keep_from for one in since)))
    below = min((one.keep_below for one in since), default=1 << 62)
    required = {at: value for at, value in last.contents.items() if start <= at < below}
    if not after.exists("/disk"):
        assert not required
        return
    log = open_on(after, None, clean=told.clean, recovery_point=told.recovery_point, log_start=told.log_start)
    where = f"step {step}: {told}"
    found = _contents(log)
    assert {at: value for at, value in found.items() if value not in allowed.get(at, ())} == {}, where
    assert {at: value for at, value in required.items() if found.get(at) != value} == {}, where
    assert log.recovery_point <= log.log_end_offset, where
    end = log.log_end_offset
    log.append_as_leader([Record(b"after")], leader_epoch=10_000)
    log.flush()
    again = after.crash(kept="synced")
    log = open_on(again, None, clean=False, recovery_point=log.recovery_point, log_start=log.log_start_offset)
    assert _contents(log) == {**found, end: b"after"}, where


def _contents(log: Log) -> Contents:
    log.update_high_watermark(log.log_end_offset)
    return {one.offset: bytes(one.value or b"") for one in all_records(log)}
