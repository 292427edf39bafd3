"""The leader epoch cache: Kafka's files and answers first, then what they rest on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import GOLDEN
from tests.log import answers, questions
from tests.log.crafting import table
from tests.oracle import Oracle
from tidelog.errors import InvalidIndexError, InvalidInputError
from tidelog.log.epochs import EpochEndOffset, LeaderEpochCache
from tidelog.records import scan_batches
from tidelog.storage import EpochEntry

LOG_END = 1_000_000


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(*entry) for entry in entries)


def entries(of: LeaderEpochCache) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in of.entries]


@pytest.mark.parametrize(
    "path", sorted((GOLDEN / "clean").glob("*/leader-epoch-checkpoint")), ids=lambda p: p.parent.name
)
def test_kafkas_files_come_back_byte_for_byte(path: Path) -> None:
    assert LeaderEpochCache.from_bytes(path.read_bytes(), str(path)).to_bytes() == path.read_bytes()


def test_batches_lead_to_the_file_kafka_wrote() -> None:
    directory = GOLDEN / "clean/golden-none-0"
    made = LeaderEpochCache()
    for log in sorted(directory.glob("*.log")):
        made.assign_batches(scan_batches(log.read_bytes()).require())
    assert entries(made) == [(0, 0), (2, 1500)]
    assert made.assign(4, 1560)  # the last leader came, and wrote nothing
    assert made.to_bytes() == (directory / "leader-epoch-checkpoint").read_bytes()


def compare_with_kafka(request: dict[str, Any], kafkas: answers.Answers) -> None:
    made = LeaderEpochCache()
    epochs, offsets = range(-1, request["epochs"]), request["offsets"]
    for step, kafka in zip(request["steps"], kafkas, strict=True):
        before = entries(made)
        match step["do"]:
            case "assign" if kafka["error"] is not None:
                with pytest.raises(InvalidInputError):
                    made.assign(step["epoch"], step["offset"])
            case "assign":
                changed = made.assign(step["epoch"], step["offset"])
                assert changed == (entries(made) != before)
            case "from_end":
                changed = made.truncate_from_end(step["offset"])
                assert changed == (entries(made) != before)
            case "from_start":
                changed = made.truncate_from_start(step["offset"])
                assert changed == (entries(made) != before)
            case "clear":
                made.clear()
        assert [list(entry) for entry in entries(made)] == kafka["entries"], step
        ranged = made.entries_in_range(offsets // 4, offsets // 2)
        assert [[e.epoch, e.start_offset] for e in ranged] == kafka["in_range"]
        assert [list(made.end_offset_for(epoch, LOG_END)) for epoch in epochs] == kafka["end_offsets"]
        assert [number(made.epoch_for_offset(offset)) for offset in range(offsets)] == kafka["epochs"]
        neighbours = [(made.previous_entry(e), made.next_entry(e), made.entry(e) is not None) for e in epochs]
        assert [[p.epoch if p else -1, n.epoch if n else -1, own] for p, n, own in neighbours] == kafka[
            "neighbours"
        ]


def number(value: int | None) -> int:
    return -1 if value is None else value


def test_answers_are_kafkas_step_by_step() -> None:
    for request, kafkas in answers.recorded("LeaderEpochs"):
        compare_with_kafka(request, kafkas)


def test_answers_are_kafkas_step_by_step_now(oracle: Oracle) -> None:
    request = questions.leader_epochs(3000, 500)
    compare_with_kafka(request, answers.ask(oracle, "LeaderEpochs", request))


@pytest.mark.parametrize(
    ("requested", "answer"),
    [(-1, (-1, -1)), (0, (0, 10)), (2, (2, 20)), (3, (2, 20)), (4, (4, 30)), (7, (7, 99)), (8, (-1, -1))],
)
def test_the_end_of_an_epoch(requested: int, answer: tuple[int, int]) -> None:
    made = cache((2, 10), (4, 20), (7, 30))
    assert made.end_offset_for(requested, 99) == EpochEndOffset(*answer)


def test_an_empty_cache_knows_nothing() -> None:
    made = LeaderEpochCache()
    assert not made
    assert (made.latest, made.earliest, made.latest_epoch, made.epoch_for_offset(5)) == (None,) * 4
    assert made.end_offset_for(0, 10) == EpochEndOffset(-1, -1)


def test_a_new_entry_replaces_what_it_contradicts() -> None:
    made = cache((0, 0), (1, 10), (2, 20))
    assert made.assign(3, 10)
    assert entries(made) == [(0, 0), (3, 10)]
    assert made.assign(1, 12)
    assert entries(made) == [(0, 0), (1, 12)]
    assert not made.assign(1, 15)


def test_old_formats_forget_the_epochs() -> None:
    made = cache((0, 0), (1, 10))
    assert made.assign_batches(table({"magic": 1, "base_offset": 20, "leader_epoch": -1}))
    assert not made
    assert not made.assign_batches(table({"magic": 1, "base_offset": 21, "leader_epoch": -1}))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.sampled_from([1, 2, 2, 2])), min_size=1))
def test_a_run_of_batches_is_as_many_single_ones(batches: list[tuple[int, int, int]]) -> None:
    rows = table(*({"leader_epoch": e, "base_offset": o, "magic": m} for e, o, m in batches))
    at_once, one_by_one = cache((0, 5)), cache((0, 5))
    at_once.assign_batches(rows)
    for row in rows:
        one_by_one.assign_batches(row)
    assert entries(at_once) == entries(one_by_one)


@pytest.mark.parametrize("bad", [b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\nx 0\n", b"0\n1\n-1 0\n"])
def test_damaged_files_are_refused(bad: bytes) -> None:
    with pytest.raises(InvalidIndexError, match="the-file"):
        LeaderEpochCache.from_bytes(bad, "the-file")
