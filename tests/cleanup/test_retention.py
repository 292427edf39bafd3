"""Retention: the plan by cases, and logs of all sorts as Kafka's own retention leaves them."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cleanup.cases import NOW, opened
from tidelog.cleanup import RetentionPlan, RetentionReason, apply_retention, plan_retention
from tidelog.config import LogConfig
from tidelog.log import Log
from tidelog.records import Record
from tidelog.types import TimestampOffset

if TYPE_CHECKING:
    from tests.oracle import Oracle

LOG_START, SIZE, TIME = RetentionReason.LOG_START, RetentionReason.SIZE, RetentionReason.TIME


@dataclass(frozen=True)
class Facts:
    base_offset: int
    size: int = 100
    timestamp: int = NOW
    mtime_ms: int = NOW

    @property
    def max_timestamp_so_far(self) -> TimestampOffset:
        return TimestampOffset(self.timestamp, self.base_offset)

    @property
    def largest_timestamp(self) -> int:
        return self.timestamp if self.timestamp >= 0 else self.mtime_ms


def plan(
    segments: list[Facts], start: int = 0, mark: int = 40, end: int = 40, **config: Any
) -> RetentionPlan:
    return plan_retention(
        segments,
        LogConfig(**config),
        log_start_offset=start,
        high_watermark=mark,
        log_end_offset=end,
        now_ms=NOW,
    )


def gone(found: RetentionPlan) -> list[tuple[int, RetentionReason]]:
    return [(deletion.base_offset, deletion.reason) for deletion in found.deletions]


def segments(*ages: int, sizes: int = 100) -> list[Facts]:
    return [Facts(10 * index, sizes, NOW - age) for index, age in enumerate(ages)]


def test_old_segments_go_up_to_the_first_young_one() -> None:
    found = plan(segments(50, 40, 5, 60), retention_ms=30)
    assert gone(found) == [(0, TIME), (10, TIME)]
    assert (found.log_start_offset, found.roll, found.size) == (20, False, 200)
    assert found.deletions[0].detail == "its newest record is 50 ms old, of 30 to keep"
    assert (found.deletions[1].base_offset, found.deletions[1].end_offset) == (10, 20)
    assert found.stay is not None
    assert "5 ms old" in found.stay
    assert gone(plan(segments(31, 30), retention_ms=30)) == [(0, TIME)]
    assert gone(plan(segments(10**9), retention_ms=-1)) == []


def test_a_time_in_the_future_is_not_old() -> None:
    found = plan(segments(50, -70, 60), retention_ms=30)
    assert gone(found) == [(0, TIME)]
    assert "70 ms in the future" in (found.stay or "")


def test_without_record_times_the_file_counts() -> None:
    old, young = Facts(0, timestamp=-1, mtime_ms=NOW - 50), Facts(10, timestamp=-1, mtime_ms=NOW - 20)
    found = plan([old, young], retention_ms=30)
    assert gone(found) == [(0, TIME)]
    assert "file" in found.deletions[0].detail


def test_the_log_keeps_retention_bytes() -> None:
    ages = (0, 0, 0, 0)
    assert gone(plan(segments(*ages), retention_bytes=400)) == []
    assert gone(plan(segments(*ages), retention_bytes=301)) == []
    assert gone(plan(segments(*ages), retention_bytes=300)) == [(0, SIZE)]
    assert gone(plan(segments(*ages), retention_bytes=199)) == [(0, SIZE), (10, SIZE)]
    found = plan(segments(*ages), retention_bytes=0)
    assert [base for base, _ in gone(found)] == [0, 10, 20, 30]
    assert found.roll
    assert found.stay is None


def test_the_log_start_comes_first_then_size_then_time() -> None:
    found = plan(segments(99, 99, 99, 5), start=12, retention_bytes=200, retention_ms=30)
    assert gone(found) == [(0, LOG_START), (10, SIZE), (20, TIME)]


def test_only_the_log_start_deletes_what_is_not_to_be_deleted() -> None:
    for policy in (("compact",), ()):
        found = plan(segments(99, 99, 99), start=20, cleanup_policy=policy, retention_ms=1, retention_bytes=0)
        assert gone(found) == [(0, LOG_START), (10, LOG_START)]
    assert len(gone(plan(segments(99, 99), cleanup_policy=("compact", "delete"), retention_ms=1))) == 2


def test_nothing_past_the_high_watermark_goes() -> None:
    found = plan(segments(99, 99, 99), mark=19, end=30, retention_ms=1)
    assert gone(found) == [(0, TIME)]
    assert found.stay == "it holds offsets from the log start 0 on; it reaches past the high watermark 19"
    assert gone(plan(segments(99), mark=9, end=10, retention_ms=1)) == []


def test_an_empty_active_segment_stays() -> None:
    assert gone(plan([Facts(0, 0, -1, 0)], mark=0, end=0, retention_ms=1, retention_bytes=0)) == []
    found = plan([Facts(0, 100, 1), Facts(10, 0, -1, 0)], mark=10, end=10, retention_ms=1)
    assert gone(found) == [(0, TIME)]
    assert not found.roll
    assert plan([], mark=0, end=0).deletions == ()


@given(
    ages=st.lists(st.integers(-50, 100), min_size=1, max_size=8),
    sizes=st.lists(st.integers(1, 200), min_size=8, max_size=8),
    start=st.integers(0, 80),
    mark=st.integers(0, 80),
    retention_ms=st.integers(-1, 90),
    retention_bytes=st.integers(-1, 900),
)
def test_any_plan_is_a_prefix_below_the_high_watermark(
    ages: list[int], sizes: list[int], start: int, mark: int, retention_ms: int, retention_bytes: int
) -> None:
    listed = [Facts(10 * i, size, NOW - age) for i, (age, size) in enumerate(zip(ages, sizes, strict=False))]
    end = 10 * len(listed)
    mark, start = min(mark, end), min(start, mark, end)
    found = plan(listed, start, mark, end, retention_ms=retention_ms, retention_bytes=retention_bytes)
    count = len(found.deletions)
    assert [deletion.base_offset for deletion in found.deletions] == [
        one.base_offset for one in listed[:count]
    ]
    assert found.log_start_offset <= max(mark, start)
    assert found.roll == (count == len(listed))
    rest = listed[count:] or [Facts(end, 0, -1, 0)]
    again = plan(
        rest, found.log_start_offset, mark, end, retention_ms=retention_ms, retention_bytes=retention_bytes
    )
    assert again.deletions == ()
    left = sum(one.size for one in rest)
    if retention_bytes >= 0 and any(deletion.reason is SIZE for deletion in found.deletions):
        by_size = [one for one in found.deletions if one.reason is TIME]
        assert left + sum(one.size for one in by_size) >= retention_bytes


def make_log(path: Path, dice: random.Random) -> dict[str, Any]:
    """A log of a few segments, closed cleanly; how to ask about it."""
    settings: dict[str, Any] = {
        "cleanup.policy": dice.choice(["delete", "delete", "delete", "compact,delete", "compact"]),
        "retention.ms": dice.choice([-1, 0, 500, 1000, 5000]),
        "retention.bytes": dice.choice([-1, 0, 300, 900, 2500]),
        "segment.index.bytes": 1024,
    }
    config = LogConfig.from_properties(settings)
    with Log.open(path, config, now_ms=lambda: NOW) as log:
        for index in range(dice.randrange(0, 6)):
            if index:
                log.roll()
            for _ in range(dice.randrange(1, 4)):
                timestamp = (
                    dice.choice([NOW - dice.randrange(8000), NOW + 500]) if dice.random() < 0.9 else -1
                )
                record = Record(dice.randbytes(dice.randrange(300)), b"key", timestamp=timestamp)
                log.append_as_leader([record])
        if dice.random() < 0.3 and log.log_end_offset:
            log.roll()
        end = log.log_end_offset
        bases = [segment.base_offset for segment in log.segments]
    for base in bases:
        age_s = dice.randrange(8000) / 1000
        os.utime(path / f"{base:020}.log", (NOW / 1000 - age_s,) * 2)
    mark = dice.choice([end, end, dice.randint(0, end)])
    return {
        "dir": str(path),
        "config": {key: str(value) for key, value in settings.items()},
        "log_start": dice.choice([0, dice.randint(0, mark)]),
        "high_watermark": mark,
        "now_ms": NOW,
    }


@pytest.mark.parametrize("seed", range(2))
def test_kafka_leaves_the_same_log(oracle: Oracle, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    cases = [make_log(tmp_path / f"t-{number}", dice) for number in range(40)]
    theirs = []
    for case in cases:
        copy = shutil.copytree(case["dir"], tmp_path / "kafka" / Path(case["dir"]).name)
        theirs.append(case | {"dir": str(copy)})
    answers = oracle.programs.ask("tidelog.oracle.Retention", {"cases": theirs})
    deleted = 0
    for case, answer in zip(cases, answers, strict=True):
        with opened(case) as log:
            plan = apply_retention(log, NOW)
            found = {
                "log_start_offset": log.log_start_offset,
                "deleted": len(plan.deletions),
                "base_offsets": [segment.base_offset for segment in log.segments],
            }
        assert found == answer, case
        deleted += len(plan.deletions)
    assert deleted > 20
