"""`tidelog find`: Kafka's own answers, from directories that stay as they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import on_terminal, run
from tests.golden import GoldenPartition, golden_partition, golden_partitions
from tests.log.logs import contents, numbered, open_log
from tidelog.records import Record

PARTITIONS = [partition for partition in golden_partitions() if partition.lookups_path is not None]
OPTIONS = {"offset": "--offset", "timestamp": "--timestamp", "committed_from": "--committed-from"}


def _ask(path: Path, *options: str) -> list[dict[str, Any]]:
    answer = run("find", path, "--json", *options)
    assert (answer.code, answer.err) == (0, "")
    return [json.loads(line) for line in answer.lines]


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda partition: partition.name)
def test_answers_are_kafkas(partition: GoldenPartition) -> None:
    expected = partition.lookups()
    before = contents(partition.directory)
    options = [
        word
        for line in expected
        for key, option in OPTIONS.items()
        if key in line
        for word in (option, str(line[key]))
    ]
    assert _ask(partition.directory) + _ask(partition.directory, *options) == expected
    assert contents(partition.directory) == before


def test_a_log_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    with open_log(path) as log:
        for number in range(60):
            log.append_as_leader(numbered(3, 3 * number))
        before = contents(path)
        overview, stable = _ask(path)
        assert overview["log_end_offset"] == stable["last_stable_offset"] == 180
        (found,) = _ask(path, "--offset", "178")
        assert found["batch_offset"] == 177
        assert contents(path) == before


def test_special_targets_are_kafkas() -> None:
    path = golden_partition("golden-none-0").directory
    targets = [word for target in range(-1, -7, -1) for word in ("--timestamp", str(target))]
    latest, earliest, newest, local, *remote = [line["found"] for line in _ask(path, *targets)]
    assert latest == {"timestamp": -1, "offset": 1560}
    assert earliest == local == {"timestamp": -1, "offset": 0}
    assert newest["timestamp"] > 0
    assert remote == [{"timestamp": -1, "offset": -1}] * 2


def test_for_people() -> None:
    path = golden_partition("golden-txn-0").directory
    answer = run(
        "find", path, "--offset", "7", "--offset", "1400", "--timestamp", "0", "--committed-from", "0"
    )
    assert answer.code == 0
    heading, first, second, *_ = (line.split("\t") for line in answer.lines)
    assert heading[:2] == ["offset", "segment"]
    assert (first[0], second[0]) == ("7", "1400")
    shown = on_terminal("find", path)
    assert shown.code == 0
    assert "LOG END OFFSET" in shown.out


@pytest.mark.parametrize(
    ("options", "says"),
    [(("--offset", "99999"), "99999"), (("--offset", "-1"), "-1"), (("--committed-from", "99999"), "99999")],
)
def test_an_offset_outside_of_the_log_is_bad_usage(options: tuple[str, ...], says: str) -> None:
    answer = run("find", golden_partition("golden-none-0").directory, *options)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err


def test_what_is_no_partition_is_bad_usage(tmp_path: Path) -> None:
    empty = tmp_path / "empty-0"
    empty.mkdir()
    for path in (tmp_path, empty, tmp_path / "missing-0"):
        answer = run("find", path)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("tidelog: ")


def test_damage_is_found_wrong(tmp_path: Path) -> None:
    path = shutil.copytree(golden_partition("golden-none-0").directory, tmp_path / "golden-none-0")
    first = sorted(path.glob("*.log"))[0]
    data = bytearray(first.read_bytes())
    data[8:12] = b"\xff\xff\xff\xff"
    first.write_bytes(data)
    answer = run("find", path, "--offset", "3")
    assert answer.code == 1
    assert first.name in answer.err


def test_dates_and_whole_topics(tmp_path: Path) -> None:
    for number in (0, 1):
        with open_log(tmp_path / f"orders-{number}") as log:
            log.append_as_leader(
                [Record(b"v", timestamp=1_700_000_000_000 + 1000 * n) for n in range(10 + number)]
            )
    asked = _ask(tmp_path, "--topic", "orders", "--timestamp", "2023-11-14T22:13:25", "--offset", "10")
    assert [(one["partition"], one["batch_offset"]) for one in asked[:2]] == [
        ("orders-0", None),
        ("orders-1", 0),
    ]
    found = {"timestamp": 1_700_000_005_000, "offset": 5}
    assert asked[2:] == [
        {"partition": f"orders-{number}", "timestamp": 1_700_000_005_000, "found": found} for number in (0, 1)
    ]
    assert {one["partition"] for one in _ask(tmp_path)} == {"orders-0", "orders-1"}
    refused = run("find", tmp_path / "orders-0", "--timestamp", "last Tuesday")
    assert refused.code == 2
    assert "is not a time" in refused.err
