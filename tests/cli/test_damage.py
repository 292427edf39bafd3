"""`cat` and `search` past damage: what they print, what they tell, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import run
from tidelog.testing.builders import LogBuilder, flip_bit


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two segments of 30 records; a batch in the middle of the first one is damaged."""
    path = tmp_path / "orders-0"
    with LogBuilder(path) as builder:
        builder.records(30).roll().records(30)
    log = path / f"{0:020}.log"
    flip_bit(log, 12 + int.from_bytes(log.read_bytes()[8:12]) + 70)
    return path


@pytest.mark.parametrize("command", ["cat", "search"])
def test_past_damage(directory: Path, command: str) -> None:
    everything = [f"value-{n}" for n in range(60)]
    found = run(command, directory, "--format", "plain", "--show", "", "--corrupt", "skip")
    assert found.lines == everything[:10] + everything[20:]
    assert "(offsets 10 to 19): a batch's checksum does not match its bytes" in found.err
    assert found.err.count("\n") == 1
    assert found.code == 1
    stopped = run(command, directory, "--show", "", "--corrupt", "stop")
    assert stopped.lines == everything[:10]
    assert "offsets from 10 on" in stopped.err
    assert stopped.code == 1
    failed = run(command, directory, "--show", "")
    assert failed.code == 1
    assert "checksum" in failed.err


def test_the_last_records_past_damage(directory: Path) -> None:
    found = run("cat", directory, "--last", "45", "--json", "--corrupt", "skip")
    assert [json.loads(line)["offset"] for line in found.lines] == [*range(5, 10), *range(20, 60)]
    assert found.err.count("skipped") == 1


def test_an_unknown_policy(directory: Path) -> None:
    found = run("cat", directory, "--corrupt", "maybe")
    assert (found.code, found.err) == (
        2,
        "tidelog: corrupt must be one of fail, stop, skip, not 'maybe'\n",
    )


def test_an_unfinished_write_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    with LogBuilder(path) as builder:
        builder.records(10)
    log = path / f"{0:020}.log"
    log.write_bytes(log.read_bytes() * 2)
    log.write_bytes(log.read_bytes()[:-7])
    found = run("cat", path, "--corrupt", "skip")
    assert len(found.lines) == 10
    assert found.code == 0
    assert "offsets from 10 on" in found.err
