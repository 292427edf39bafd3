"""What is told to go at a time is what retention deletes at that time."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tidelog.cleanup import plan_retention
from tidelog.config import LogConfig
from tidelog.report.retention import forecast
from tidelog.types import TimestampOffset

DAY_MS = 86_400_000
NOW = 100 * DAY_MS


@dataclass(frozen=True)
class Segment:
    base_offset: int
    size: int
    largest_timestamp: int

    @property
    def max_timestamp_so_far(self) -> TimestampOffset:
        return TimestampOffset(self.largest_timestamp, self.base_offset)


SEGMENTS = [Segment(n * 10, 1000 + 100 * (n % 3), NOW - (9 - n) * DAY_MS - (n % 2) * 5) for n in range(10)]


def told(config: LogConfig, rate: int) -> list[tuple[int, int]]:
    bounds = {"log_start_offset": 0, "high_watermark": 100, "log_end_offset": 100}
    plan = plan_retention(SEGMENTS, config, now_ms=NOW, **bounds)
    found = forecast(SEGMENTS, config, plan, high_watermark=100, now_ms=NOW, bytes_per_day=rate)
    assert [one.base_offset for one in found] == [one.base_offset for one in SEGMENTS[: len(found)]]
    return [(one.base_offset, one.at_ms) for one in found]


def deleted(config: LogConfig, at_ms: int, grown: int = 0) -> list[int]:
    """What retention deletes then, the last segment having grown by so much."""
    last = Segment(90, SEGMENTS[-1].size + grown, at_ms if grown else SEGMENTS[-1].largest_timestamp)
    plan = plan_retention(
        [*SEGMENTS[:-1], last],
        config,
        log_start_offset=0,
        high_watermark=100,
        log_end_offset=100,
        now_ms=at_ms,
    )
    return [one.base_offset for one in plan.deletions]


@pytest.mark.parametrize("days", [0, 2, 5, 30])
def test_by_time(days: int) -> None:
    config = LogConfig(retention_ms=days * DAY_MS, retention_bytes=-1)
    found = told(config, rate=0)
    assert len(found) == len(SEGMENTS)
    for base, at_ms in found:
        assert base in deleted(config, at_ms)
        assert at_ms == NOW or base not in deleted(config, at_ms - 1)


@pytest.mark.parametrize("kept", [500, 3000, 9000, 20_000])
def test_by_size_at_a_rate(kept: int) -> None:
    config = LogConfig(retention_ms=-1, retention_bytes=kept)
    found = told(config, rate=1000)
    assert [base for base, _ in found] == [n * 10 for n in range(9)]  # the last one is written to
    for base, at_ms in found:
        grown = (at_ms - NOW) * 1000 // DAY_MS
        assert base in deleted(config, at_ms, grown)
        assert at_ms == NOW or base not in deleted(config, at_ms, grown - 2)


def test_what_is_kept_for_ever_does_not_go() -> None:
    assert told(LogConfig(retention_ms=-1, retention_bytes=-1), rate=1000) == []
    assert told(LogConfig(cleanup_policy=("compact",)), rate=0) == []
    config = LogConfig(retention_ms=DAY_MS)
    plan = plan_retention(
        SEGMENTS, config, log_start_offset=0, high_watermark=35, log_end_offset=100, now_ms=NOW
    )
    found = forecast(SEGMENTS, config, plan, high_watermark=35, now_ms=NOW, bytes_per_day=0)
    assert [one.base_offset for one in found] == [0, 10, 20]
