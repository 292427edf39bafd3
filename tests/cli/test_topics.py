"""`tidelog topics` and `tidelog move`: topics are listed, made and deleted, partitions change their root."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.cli.command import run
from tests.golden import GOLDEN
from tidelog.records import Record


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with tidelog.open(tmp_path / "root") as store:
        topic = store.create_topic("orders", 2, config={"retention.ms": -1})
        topic[1].append([Record(b"%d" % number) for number in range(10)])
    return tmp_path / "root"


def rows(*args: str | Path) -> list[dict[str, Any]]:
    answer = run(*args, "--json")
    assert answer.code == 0, answer.err
    return [json.loads(line) for line in answer.lines]


def test_topics_are_listed_without_the_lock(root: Path) -> None:
    with tidelog.open(root):
        (found,) = rows("topics", root)
    assert (found["topic"], found["partitions"], found["partitions_here"]) == ("orders", 2, 2)
    assert found["config"] == "retention.ms=-1"


def test_a_brokers_topics_are_described() -> None:
    names = [found["topic"] for found in rows("topics", GOLDEN / "clean")]
    assert "golden-none" in names
    first = rows("topics", GOLDEN / "clean", "--describe", "golden-none")[0]
    assert (first["partition"], first["replicas"]) == (0, "1")
    assert first["size_bytes"] > 0


def test_a_topic_is_created_and_deleted(root: Path) -> None:
    made = ("topics", root, "--create", "new", "--partitions", "3", "--config", "segment.ms=7000")
    assert "would be created" in run(*made, "--dry-run").out
    assert [found["topic"] for found in rows("topics", root)] == ["orders"]
    assert "is created with 3 partitions" in run(*made).out
    new, _ = rows("topics", root)
    assert (new["partitions_here"], new["config"]) == (3, "segment.ms=7000")
    assert run("topics", root, "--create", "new").code == 2
    assert "would be deleted" in run("topics", root, "--delete", "orders", "--dry-run").out
    assert "is deleted" in run("topics", root, "--delete", "orders").out
    assert [found["topic"] for found in rows("topics", root)] == ["new"]
    assert not (root / "orders-1").exists()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--create", "a/b"), "a/b"),
        (("--create", "t", "--config", "segment.mss=1"), "segment.mss"),
        (("--create", "t", "--config", "segment.ms=x"), "segment.ms"),
        (("--create", "t", "--delete", "orders"), "choose one"),
        (("--delete", "missing"), "no topic 'missing'"),
        (("--describe", "missing"), "no topic 'missing'"),
        (("--config", "segment.ms=1"), "tidelog config"),
    ],
    ids=str,
)
def test_bad_requests_change_nothing(root: Path, args: tuple[str, ...], says: str) -> None:
    before = rows("topics", root)
    answer = run("topics", root, *args)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err
    assert rows("topics", root) == before


def test_a_partition_moves_to_another_root(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    planned = rows("move", root / "orders-1", other, "--dry-run")
    assert (root / "orders-1").exists()
    assert rows("move", root / "orders-1", other) == planned
    assert not (root / "orders-1").exists()
    with tidelog.open([root, other]) as store:
        partition = store.partition("orders", 1)
        assert [record.value for record in partition] == [b"%d" % number for number in range(10)]
        assert partition.log.path.startswith(str(other))
    again = run("move", other / "orders-1", other)
    assert again.code == 2
    assert "already" in again.err
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / "file").touch()
    refused = run("move", other / "orders-1", stranger)
    assert refused.code == 2
    assert "not the root" in refused.err
