"""When a segment rolls: Kafka's own verdicts, then each condition at its edge."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.log import answers, questions
from tests.oracle import Oracle
from tidelog.config import LogConfig
from tidelog.log.segments.rolling import RollFacts, RollReason, rolled_base_offset, should_roll
from tidelog.log.state import draw_jitter_ms

FACTS = RollFacts(
    max_segment_bytes=1000,
    max_segment_ms=100,
    append_bytes=50,
    append_max_timestamp=5000,
    append_last_offset=20,
    segment_base_offset=10,
    segment_bytes=500,
    segment_rolling_timestamp=4990,
    segment_created_ms=1,
    segment_jitter_ms=0,
    index_full=False,
    now_ms=9999,
)


def compare_with_kafka(request: dict[str, Any], kafkas: answers.Answers) -> None:
    for case, kafka in zip(request["cases"], kafkas, strict=True):
        index_bytes = case["index_bytes"]
        facts = RollFacts(
            max_segment_bytes=case["max_segment_bytes"],
            max_segment_ms=case["max_segment_ms"],
            append_bytes=case["size"],
            append_max_timestamp=case["max_timestamp"],
            append_last_offset=case["last_offset"],
            segment_base_offset=case["base"],
            segment_bytes=kafka["size"],
            segment_rolling_timestamp=case.get("timestamp", -1),
            segment_created_ms=case["created_ms"],
            segment_jitter_ms=case["jitter_ms"],
            index_full=index_bytes // 8 <= 0 or index_bytes // 12 - 1 <= 0,
            now_ms=case["now_ms"],
        )
        assert (should_roll(facts) is not None) == kafka["roll"], case


def test_verdicts_are_kafkas() -> None:
    for request, kafkas in answers.recorded("SegmentRolls"):
        compare_with_kafka(request, kafkas)


def test_verdicts_are_kafkas_now(oracle: Oracle) -> None:
    request = questions.segment_rolls(4000, 300)
    compare_with_kafka(request, answers.ask(oracle, "SegmentRolls", request))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"append_bytes": 500}, None),
        ({"append_bytes": 501}, RollReason.SIZE),
        ({"segment_rolling_timestamp": 4900}, None),
        ({"segment_rolling_timestamp": 4899}, RollReason.TIME),
        ({"segment_rolling_timestamp": 4900, "segment_jitter_ms": 1}, RollReason.TIME),
        ({"segment_rolling_timestamp": 4899, "segment_bytes": 0}, None),
        ({"segment_rolling_timestamp": -1, "segment_created_ms": 9899}, None),
        ({"segment_rolling_timestamp": -1, "segment_created_ms": 9898}, RollReason.TIME),
        ({"index_full": True}, RollReason.INDEX),
        ({"append_last_offset": 10 + (1 << 31) - 1}, None),
        ({"append_last_offset": 10 + (1 << 31)}, RollReason.OFFSET),
        ({"append_last_offset": 9}, RollReason.OFFSET),
    ],
)
def test_each_condition_at_its_edge(changes: dict[str, Any], reason: RollReason | None) -> None:
    assert should_roll(FACTS._replace(**changes)) is reason


def test_the_new_base_is_the_first_offset_or_as_low_as_a_segment_reaches() -> None:
    assert rolled_base_offset(100, 110, 90) == 100
    assert rolled_base_offset(100, 110, 105) == 105
    assert rolled_base_offset(-1, 1 << 33, 90) == (1 << 33) - ((1 << 31) - 1)
    assert rolled_base_offset(-1, 110, 90) == 90


def test_jitter_stays_below_its_limits() -> None:
    source = random.Random(1)
    assert draw_jitter_ms(LogConfig(), source) == 0
    drawn = {draw_jitter_ms(LogConfig(segment_jitter_ms=10, segment_ms=4), source) for _ in range(200)}
    assert drawn == {0, 1, 2, 3}
