"""`tidelog report` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import run
from tests.golden import GOLDEN
from tidelog.testing.builders import LogBuilder, flip_bit

CLEAN = GOLDEN / "clean"


def test_the_page_is_written_and_written_again(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    answer = run("report", CLEAN, "-o", target)
    assert (answer.code, answer.err) == (0, "")
    assert f"{target}: 12 topics, 12 partitions" in answer.out
    first = target.read_text()
    assert run("report", CLEAN, "-o", target, "--doctor").code == 0
    assert target.read_text() != first
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_another_file_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "notes.html"
    target.write_text("<!doctype html>mine")
    answer = run("report", CLEAN, "-o", target)
    assert answer.code == 2
    assert "is not a report" in answer.err
    assert target.read_text() == "<!doctype html>mine"
    assert "is a directory" in run("report", CLEAN, "-o", tmp_path).err
    assert "make it first" in run("report", CLEAN, "-o", tmp_path / "none" / "x.html").err


def test_facts_as_json_and_what_is_missing(tmp_path: Path) -> None:
    facts = json.loads(run("report", CLEAN, "--json").out)
    assert facts["totals"]["topics"] == 12
    assert "-o FILE" in run("report", CLEAN).err
    for path in (tmp_path / "none", tmp_path):
        assert run("report", path, "--json").code == 2


def test_damage_makes_the_exit_code(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "data" / "orders-0").records(100).roll().records(100).close()
    flip_bit(tmp_path / "data" / "orders-0" / f"{0:020d}.log", 700)
    assert run("report", tmp_path / "data", "--json").code == 0  # headers do not tell of it
    answer = run("report", tmp_path / "data", "--doctor", "-o", tmp_path / "report.html")
    assert answer.code == 1
    assert "1 partition is damaged" in answer.out
