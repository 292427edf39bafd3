"""`tidelog config`: what is set is shown, what is asked is checked, and stays where a broker looks for it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import tidelog
from tests.cli.command import run
from tests.golden import GOLDEN
from tidelog.config import LogConfig
from tidelog.records import Record
from tidelog.storage import LOCAL
from tidelog.storage.metadata import format_id
from tidelog.storage.write_journal import (
    PendingPartition,
    PendingWrite,
    WriteJournal,
    read_journal,
    write_journal,
)
from tidelog.types import TopicPartition


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with tidelog.open(tmp_path / "root") as store:
        store.create_topic("t", config={"retention.ms": -1})
        store.create_topic("u")
    return tmp_path / "root"


def shown(*args: str | Path) -> dict[tuple[str, str], str]:
    answer = run("config", *args, "--json")
    assert answer.code == 0, answer.err
    return {(row["topic"], row["key"]): row["value"] for row in map(json.loads, answer.lines)}


def test_all_keys_are_listed_with_their_defaults() -> None:
    rows = [json.loads(line) for line in run("config", "--list", "--json").lines]
    keys = {key for key, row in LogConfig.keys().items() if not row.internal}
    assert {row["key"] for row in rows} == keys
    retention = next(row for row in rows if row["key"] == "retention.ms")
    assert retention["default"] == "604800000"
    assert retention["broker_keys"] == "log.retention.ms log.retention.minutes log.retention.hours"


def test_what_is_set_is_shown_without_a_lock(root: Path) -> None:
    with tidelog.open(root):  # which holds it
        assert shown(root) == {("t", "retention.ms"): "-1"}
    everything = shown(root, "--topic", "u", "--all")
    assert everything[("u", "segment.bytes")] == str(1 << 30)
    assert "nothing is set for u" in run("config", root, "--topic", "u").out


def test_a_brokers_own_configs_are_shown(tmp_path: Path) -> None:
    copy = shutil.copytree(GOLDEN / "clean", tmp_path / "root")
    assert shown(copy, "--topic", "golden-none")[("golden-none", "index.interval.bytes")] == "512"


def test_changes_are_kept(root: Path) -> None:
    change = ("--topic", "t", "--set", "segment.ms=7000", "--unset", "retention.ms")
    assert "2 keys would be changed" in run("config", root, *change, "--dry-run").out
    assert shown(root) == {("t", "retention.ms"): "-1"}
    answer = run("config", root, *change, "--json")
    assert [json.loads(line) for line in answer.lines] == [
        {"topic": "t", "key": "segment.ms", "before": None, "after": "7000"},
        {"topic": "t", "key": "retention.ms", "before": "-1", "after": None},
    ]
    assert shown(root) == {("t", "segment.ms"): "7000"}
    with tidelog.open(root) as store:
        assert store.partition("t").log.config.segment_ms == 7000


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "name a root"),
        (("ROOT", "--set", "segment.ms=1"), "name it with --topic"),
        (("ROOT", "--topic", "nope"), "there is no topic 'nope', but t, u"),
        (("ROOT", "--topic", "t", "--set", "segment.ms"), "--set takes KEY=VALUE"),
        (("ROOT", "--topic", "t", "--set", "segment.mss=1"), "unknown topic config 'segment.mss'"),
        (("ROOT", "--topic", "t", "--unset", "segment.mss"), "unknown topic config 'segment.mss'"),
        (("ROOT", "--topic", "t", "--set", "segment.ms=0"), "segment.ms='0' is refused"),
        (("ROOT", "--topic", "t", "--set", "segment.ms=1", "--unset", "segment.ms"), "both set and unset"),
        (("EMPTY",), "has no topic metadata"),
    ],
)
def test_bad_usage_is_told_and_changes_nothing(root: Path, args: tuple[str, ...], said: str) -> None:
    (root.parent / "empty").mkdir()
    places = {"ROOT": root, "EMPTY": root.parent / "empty"}
    answer = run("config", *(places.get(arg, arg) for arg in args))
    assert answer.code == 2
    assert said in answer.err
    assert shown(root) == {("t", "retention.ms"): "-1"}


def test_a_write_that_was_cut_short_is_not_settled_by_the_way(root: Path) -> None:
    """It is of a topic that nobody has named: the command says what settles it, and changes nothing."""
    with tidelog.open(root) as store:
        store.partition("u").append([Record(b"half")])
        ours = format_id(store.roots[0].identity.directory_id)
    added = PendingPartition(TopicPartition("u", 0), 0, 2, 0, 0, 0)
    pending = PendingWrite("", 0, "../gone", ("x",), (added,))
    write_journal(LOCAL, root, WriteJournal(1, {}, pending, ours))
    for extra in (("--dry-run",), ()):
        answer = run("config", root, "--topic", "t", "--set", "segment.ms=7000", *extra)
        assert answer.code == 1
        assert "topics u" in answer.err
        assert f"python -c 'import tidelog; tidelog.open(\"{root}\").close()'" in answer.err
    assert read_journal(LOCAL, root).pending == pending
    tidelog.open(root).close()
    assert run("config", root, "--topic", "t", "--set", "segment.ms=7000", "--dry-run").code == 0
