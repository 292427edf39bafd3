"""The choice of what is cleaned: by cases, and against Kafka's own answers about real logs."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cleanup.cases import NOW, opened
from tidelog.cleanup.selection import (
    LogFacts,
    LogToClean,
    choose_filthiest,
    cleanable_offsets,
    facts_of,
    plan_cleaning,
)
from tidelog.config import LogConfig
from tidelog.log import Log
from tidelog.records import Record
from tidelog.storage import LOCAL, write_offset_checkpoint
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tests.oracle import Oracle


@dataclass(frozen=True)
class Facts:
    base_offset: int
    size: int = 100
    largest_timestamp: int = NOW - 1000
    first_batch_timestamp: int = NOW - 1000


def facts(
    segments: list[Facts] | None = None, start: int = 0, stable: int = 45, end: int = 45, **config: Any
) -> LogFacts:
    """Four sealed segments of ten offsets and 100 bytes, and an active one from 40 on."""
    listed = [Facts(base) for base in (0, 10, 20, 30, 40)] if segments is None else segments
    return LogFacts(listed, LogConfig(**config), start, stable, end)


def plan(log: LogFacts, checkpoint: int | None = None) -> LogToClean:
    return plan_cleaning(log, checkpoint, NOW)


def test_the_dirty_part_begins_at_the_checkpoint() -> None:
    assert plan(facts(), None).first_dirty_offset == 0
    found = plan(facts(), 20)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (20, 40)
    assert (found.clean_bytes, found.cleanable_bytes, found.cleanable_ratio) == (200, 200, 0.5)
    assert found.offsets.reset is None
    inside = plan(facts(), 25)
    assert (inside.clean_bytes, inside.cleanable_bytes) == (300, 200), "the segment counts on both sides"
    assert plan(facts(start=10)).first_dirty_offset == 10


@pytest.mark.parametrize(("checkpoint", "why"), [(9, "below the log start 10"), (46, "past the log end 45")])
def test_a_checkpoint_outside_of_the_log_is_set_back(checkpoint: int, why: str) -> None:
    found = plan(facts(start=10), checkpoint).offsets
    assert found.first_dirty_offset == 10
    assert found.reset is not None
    assert why in found.reset
    for inside in (10, 45, None):
        assert plan(facts(start=10), inside).offsets.reset is None


def test_nothing_is_cleaned_past_the_active_segment_and_the_last_stable_offset() -> None:
    assert plan(facts()).first_uncleanable_offset == 40
    assert plan(facts(stable=30)).first_uncleanable_offset == 30
    found = plan(facts(stable=35))
    assert found.offsets.first_uncleanable_dirty_offset == 35
    assert (found.first_uncleanable_offset, found.cleanable_bytes) == (30, 300), "whole segments only"
    below = plan(facts(stable=5), 20)
    assert below.offsets.first_uncleanable_dirty_offset == 20
    assert (below.cleanable_bytes, below.is_due) == (0, False)


def test_young_records_wait() -> None:
    segments = [
        Facts(0, largest_timestamp=NOW - 500),
        Facts(10),
        Facts(20, largest_timestamp=NOW - 99),
        Facts(30),
    ]
    log = facts([*segments, Facts(40)], min_compaction_lag_ms=100)
    assert plan(log).first_uncleanable_offset == 20
    assert plan(replace(log, config=LogConfig(min_compaction_lag_ms=99))).first_uncleanable_offset == 40
    assert plan(replace(log, config=LogConfig())).first_uncleanable_offset == 40
    # the active segment is not looked at, nor is what is clean
    assert plan(log, 30).first_uncleanable_offset == 40
    late = facts([*segments[:2], Facts(20), Facts(40, largest_timestamp=NOW)], min_compaction_lag_ms=100)
    assert plan(late).first_uncleanable_offset == 40


def test_the_ratio_must_be_above_the_least() -> None:
    assert plan(facts()).is_due, "all of it is dirty"
    assert not plan(facts(), 20).is_due, "half of it is not more than half of it"
    assert plan(facts(min_cleanable_dirty_ratio=0.49), 20).is_due
    assert not plan(facts(min_cleanable_dirty_ratio=1.0)).is_due
    assert not plan(facts([Facts(0, 0), Facts(10)])).is_due, "empty logs are passed over"
    assert not plan(facts([Facts(0)], end=5, stable=5)).is_due


def test_old_dirt_is_required_to_go() -> None:
    segments = [
        Facts(base, first_batch_timestamp=NOW - age) for base, age in ((0, 900), (10, 50), (20, 70), (30, 60))
    ]
    log = facts(
        [*segments, Facts(40, first_batch_timestamp=1)],
        max_compaction_lag_ms=60,
        min_cleanable_dirty_ratio=1.0,
    )
    assert plan(log).compaction_delay_ms == 840
    assert plan(log).is_due
    found = plan(log, 10)
    assert (found.compaction_delay_ms, found.is_due) == (10, True)
    assert (plan(log, 30).compaction_delay_ms, plan(log, 30).is_due) == (0, False), "exactly at the limit"
    assert not plan(replace(log, last_stable_offset=5), 10).is_due, "nothing of it can be cleaned"
    timeless = [Facts(0, first_batch_timestamp=-1), Facts(10, first_batch_timestamp=0), Facts(20)]
    assert plan(facts(timeless, max_compaction_lag_ms=60, end=20, stable=20)).compaction_delay_ms == 0


def test_the_dirtiest_is_taken_first() -> None:
    logs = {
        name: plan(facts(min_cleanable_dirty_ratio=0.2), at) for name, at in (("a", 30), ("b", 10), ("c", 20))
    }
    assert [one.cleanable_ratio for one in logs.values()] == [0.25, 0.75, 0.5]
    found = choose_filthiest(logs.items())
    assert found is not None
    assert found[0] == "b"
    assert choose_filthiest([("clean", plan(facts(), 40))]) is None
    assert choose_filthiest([]) is None


@given(
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=6),
    numbers=st.lists(st.integers(0, 70), min_size=3, max_size=3),
    checkpoint=st.none() | st.integers(0, 80),
    lag=st.integers(0, 3),
)
def test_the_parts_never_overlap(
    sizes: list[int], numbers: list[int], checkpoint: int | None, lag: int
) -> None:
    segments = [Facts(10 * i, size, NOW - i % 4, NOW - 5) for i, size in enumerate(sizes)]
    start, stable, end = sorted(numbers)
    end = max(end, segments[-1].base_offset)
    log = LogFacts(segments, LogConfig(min_compaction_lag_ms=lag), start, stable, end)
    offsets = cleanable_offsets(log, checkpoint, NOW)
    found = plan(log, checkpoint)
    assert start <= found.first_dirty_offset <= max(end, start)
    assert offsets.first_dirty_offset <= offsets.first_uncleanable_dirty_offset
    assert found.first_uncleanable_offset <= log.active_base_offset
    assert found.first_uncleanable_offset in {segment.base_offset for segment in segments}
    if found.cleanable_bytes:
        assert found.first_uncleanable_offset <= stable
        assert found.first_dirty_offset < found.first_uncleanable_offset


# As Kafka chooses


def make_log(path: Path, dice: random.Random) -> dict[str, Any]:
    """A log of a few segments, closed cleanly; how to ask about it."""
    settings = {
        "cleanup.policy": dice.choice(["compact", "compact", "compact", "compact,delete", "delete"]),
        "min.cleanable.dirty.ratio": dice.choice([0, 0.1, 0.5, 0.5, 0.8, 1]),
        "min.compaction.lag.ms": dice.choice([0, 0, 100, 3000]),
        "max.compaction.lag.ms": dice.choice([2**63 - 1, 3000, 6000]),
        "segment.index.bytes": 1024,
        "message.timestamp.after.max.ms": 2**62,
    }
    with Log.open(path, LogConfig.from_properties(settings), now_ms=lambda: NOW) as log:
        for index in range(dice.randrange(0, 6)):
            if index:
                log.roll()
            for _ in range(dice.randrange(1, 4)):
                timestamp = NOW - dice.randrange(8000) if dice.random() < 0.9 else -1
                log.append_as_leader(
                    [Record(dice.randbytes(dice.randrange(300)), b"key", timestamp=timestamp)]
                )
        if dice.random() < 0.5 and log.log_end_offset:
            log.roll()
        end = log.log_end_offset
    mark = dice.choice([end, end, end, dice.randint(0, end)])
    return {
        "dir": str(path),
        "config": {key: str(value) for key, value in settings.items()},
        "log_start": dice.choice([0, 0, dice.randint(0, mark)]),
        "high_watermark": mark,
        "now_ms": NOW,
        "checkpoint": dice.choice([None, 0, dice.randint(0, end), dice.randint(0, end), end + 7]),
    }


def our_choice(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What we would clean, one after the other."""
    left: dict[str, LogToClean] = {}
    for case in cases:
        with opened(case) as log:
            if log.config.compact:
                left[Path(case["dir"]).name] = plan(facts_of(log), case["checkpoint"])
    order = []
    while (chosen := choose_filthiest(left.items())) is not None:
        name, found = chosen
        del left[name]
        order.append(
            {
                "partition": name,
                "first_dirty_offset": found.first_dirty_offset,
                "first_uncleanable_offset": found.first_uncleanable_offset,
                "clean_bytes": found.clean_bytes,
                "cleanable_bytes": found.cleanable_bytes,
            }
        )
    return order


def test_kafka_chooses_the_same(oracle: Oracle, tmp_path: Path) -> None:
    dice = random.Random(3)
    ours, theirs = tmp_path / "ours", tmp_path / "kafka"
    ours.mkdir()
    cases = [make_log(ours / f"t-{number}", dice) for number in range(80)]
    shutil.copytree(ours, theirs)
    known = {
        TopicPartition("t", number): case["checkpoint"]
        for number, case in enumerate(cases)
        if case["checkpoint"] is not None
    }
    write_offset_checkpoint(LOCAL, str(theirs / "cleaner-offset-checkpoint"), known)
    copies = [case | {"dir": case["dir"].replace(str(ours), str(theirs))} for case in cases]
    answers = oracle.programs.ask(
        "tidelog.oracle.Choice", {"root": str(theirs), "now_ms": NOW, "cases": copies}
    )
    found = our_choice(cases)
    assert len(found) > 25

    def ratio(each: dict[str, Any]) -> float:
        return float(each["cleanable_bytes"] / (each["clean_bytes"] + each["cleanable_bytes"]))

    assert [ratio(one) for one in found] == [ratio(one) for one in answers], "the dirtiest first"
    by_name = {one["partition"]: one for one in found}
    assert by_name == {one["partition"]: one for one in answers}
