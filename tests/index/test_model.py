"""Offset and time index, written and read in any order, against plain lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.index.model import ModelOffsetIndex, ModelTimeIndex
from tests.index.twins import TWINS, use
from tidelog.errors import TidelogError
from tidelog.index import ActiveOffsetIndex, ActiveTimeIndex, OffsetIndex, TimeIndex
from tidelog.storage import Directory
from tidelog.types import OffsetPosition, TimestampOffset

BASES = st.sampled_from([0, 7, 2**40])
SIZES = st.integers(12, 150)
NEAR = st.integers(-2, 60)


def outcome(call: Any, *args: Any) -> Any:
    try:
        return call(*args)
    except TidelogError as error:
        return type(error)


def same(found: Any, expected: Any) -> None:
    assert found == (type(expected) if isinstance(expected, TidelogError) else expected)


class OffsetIndexMachine(RuleBasedStateMachine):
    twin: str
    scratch: Path
    runs = 0

    @initialize(base=BASES, size=SIZES)
    def start(self, base: int, size: int) -> None:
        type(self).runs += 1
        path = self.scratch / f"{self.twin}-{self.runs}"
        path.mkdir()
        self.directory = Directory(path)
        self.context = use(self.twin)
        self.context.__enter__()
        self.real = ActiveOffsetIndex(self.directory, base, size)
        self.model = ModelOffsetIndex(base, size)

    def teardown(self) -> None:
        if hasattr(self, "real"):
            self.real.close()
            self.context.__exit__(None, None, None)

    @rule(step=st.integers(-2, 9), move=st.integers(1, 50))
    def append(self, step: int, move: int) -> None:
        offset, position = self.model.entries[-1] if self.model.entries else (self.model.base, 0)
        expected = self.model.append(offset + step, position + move)
        same(outcome(self.real.append, offset + step, position + move), expected)

    @rule(steps=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 50)), max_size=4))
    def append_many(self, steps: list[tuple[int, int]]) -> None:
        offset, position = self.model.entries[-1] if self.model.entries else (self.model.base - 1, 0)
        entries = []
        for step, move in steps:
            offset, position = offset + step, position + move
            entries.append((offset, position))
        columns = [list(column) for column in zip(*entries, strict=True)] or [[], []]
        if len(self.model.entries) + len(entries) <= self.model.slots:
            self.real.append_many(*columns)
            self.model.entries += entries
        else:
            assert outcome(self.real.append_many, *columns) is not None

    @rule(beyond=st.integers(2**31, 2**40))
    def append_too_far(self, beyond: int) -> None:
        same(
            outcome(self.real.append, self.model.base + beyond, 5),
            self.model.append(self.model.base + beyond, 5),
        )

    @rule(near=NEAR)
    def truncate_to(self, near: int) -> None:
        self.real.truncate_to(self.model.base + near)
        self.model.truncate_to(self.model.base + near)

    @rule(extra=st.integers(0, 100))
    def resize(self, extra: int) -> None:
        size = 8 * len(self.model.entries) + extra
        assert self.real.resize(size) == self.model.resize(size)

    @rule()
    def trim(self) -> None:
        self.real.trim_to_valid_size()
        self.model.trim()

    @rule()
    def reset(self) -> None:
        self.real.reset()
        self.model.reset()

    @rule()
    def reopen(self) -> None:
        self.real.close()
        self.model.trim()
        self.real = ActiveOffsetIndex(self.directory, self.model.base, self.model.max_size)

    @rule()
    def seal_and_reopen(self) -> None:
        sealed = self.real.seal()
        self.check(sealed)
        sealed.sanity_check()
        sealed.close()
        self.model.trim()
        self.real = ActiveOffsetIndex(self.directory, self.model.base, self.model.max_size)

    @rule()
    def snapshot(self) -> None:
        found = OffsetIndex.snapshot(self.directory, self.model.base)
        whole = len(self.model.entries) == self.model.slots
        visible = self.model.entries if whole else self.model.entries[:-1]
        assert [(entry.offset, entry.position) for entry in map(found.entry, range(found.entries))] == visible

    @precondition(lambda self: hasattr(self, "real"))
    @invariant()
    def agrees(self) -> None:
        assert self.real.max_entries == self.model.slots
        assert self.real.is_full == self.model.full
        assert Path(self.real.path).stat().st_size == self.real.length == self.model.slots * 8
        self.check(self.real)

    def check(self, index: OffsetIndex) -> None:
        entries = self.model.entries
        assert index.entries == len(entries)
        assert index.size_in_bytes == 8 * len(entries)
        assert [(e.offset, e.position) for e in map(index.entry, range(len(entries)))] == entries
        assert index.last_entry == OffsetPosition(*(entries[-1] if entries else (self.model.base, 0)))
        assert index.last_offset == index.last_entry.offset
        targets = [self.model.base + near for near in range(-2, 60, 3)] + [offset for offset, _ in entries]
        found = [index.lookup(target) for target in targets]
        assert found == [OffsetPosition(*self.model.lookup(target)) for target in targets]
        assert [index.lookup_position(target) for target in targets] == [each.position for each in found]
        offsets, positions = index.lookup_many(targets)
        assert offsets.tolist() == [each.offset for each in found]
        assert positions.tolist() == [each.position for each in found]
        ends = [position + extra for _, position in entries for extra in (-1, 0, 1)]
        for end in [0, *ends]:
            expected = self.model.upper(end)
            bound = index.fetch_upper_bound_offset(OffsetPosition(0, end // 2), end - end // 2)
            assert bound == (None if expected is None else OffsetPosition(*expected))
        assert np.transpose(index.entries_array()).tolist() == [list(entry) for entry in entries]


class TimeIndexMachine(RuleBasedStateMachine):
    twin: str
    scratch: Path
    runs = 0

    @initialize(base=BASES, size=SIZES)
    def start(self, base: int, size: int) -> None:
        type(self).runs += 1
        path = self.scratch / f"time-{self.twin}-{self.runs}"
        path.mkdir()
        self.directory = Directory(path)
        self.context = use(self.twin)
        self.context.__enter__()
        self.real = ActiveTimeIndex(self.directory, base, size)
        self.model = ModelTimeIndex(base, size)

    def teardown(self) -> None:
        if hasattr(self, "real"):
            self.real.close()
            self.context.__exit__(None, None, None)

    @rule(later=st.integers(-2, 9), step=st.integers(-1, 5), skip=st.booleans())
    def maybe_append(self, later: int, step: int, skip: bool) -> None:
        timestamp, offset = self.model.entries[-1] if self.model.entries else (-1, self.model.base)
        expected = self.model.maybe_append(timestamp + later, offset + step, skip)
        same(outcome(self.real.maybe_append, timestamp + later, offset + step, skip), expected)

    @rule(near=NEAR)
    def truncate_to(self, near: int) -> None:
        offsets = [offset for _, offset in self.model.entries]
        if offsets.count(self.model.base + near) > 1:
            return  # which of the equal ones goes is left to the search
        self.real.truncate_to(self.model.base + near)
        self.model.truncate_to(self.model.base + near)

    @rule(extra=st.integers(0, 100))
    def resize(self, extra: int) -> None:
        size = 12 * len(self.model.entries) + extra
        assert self.real.resize(size) == self.model.resize(size)

    @rule()
    def reset(self) -> None:
        self.real.reset()
        self.model.reset()

    @rule()
    def seal_and_reopen(self) -> None:
        sealed = self.real.seal()
        self.check(sealed)
        sealed.sanity_check()
        self.model.trim()
        self.real = ActiveTimeIndex(self.directory, self.model.base, self.model.max_size)

    @rule()
    def snapshot(self) -> None:
        found = TimeIndex.snapshot(self.directory, self.model.base)
        whole = len(self.model.entries) == self.model.slots
        visible = self.model.entries if whole else self.model.entries[:-1]
        if self.model.entries[:1] == [(0, self.model.base)]:
            visible = []  # zeros: not to be told from a file that was never written
        assert [
            (entry.timestamp, entry.offset) for entry in map(found.entry, range(found.entries))
        ] == visible

    @precondition(lambda self: hasattr(self, "real"))
    @invariant()
    def agrees(self) -> None:
        assert self.real.max_entries == self.model.slots
        assert self.real.is_full == self.model.full
        self.check(self.real)

    def check(self, index: TimeIndex) -> None:
        entries = self.model.entries
        assert index.entries == len(entries)
        assert [(e.timestamp, e.offset) for e in map(index.entry, range(len(entries)))] == entries
        assert index.last_entry == TimestampOffset(*(entries[-1] if entries else (-1, self.model.base)))
        targets = [*range(-2, 60, 3), *(timestamp for timestamp, _ in entries)]
        found = [index.lookup(target) for target in targets]
        assert found == [TimestampOffset(*self.model.lookup(target)) for target in targets]
        timestamps, offsets = index.lookup_many(targets)
        assert timestamps.tolist() == [each.timestamp for each in found]
        assert offsets.tolist() == [each.offset for each in found]
        assert np.transpose(index.entries_array()).tolist() == [list(entry) for entry in entries]


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("machine", [OffsetIndexMachine, TimeIndexMachine])
def test_against_a_list(machine: Any, twin: str, tmp_path: Path) -> None:
    Machine = type("Machine", (machine,), {})
    Machine.twin, Machine.scratch = twin, tmp_path
    case = Machine.TestCase()
    case.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
    case.runTest()
