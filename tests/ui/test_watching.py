"""Facts are gathered again only if files have changed, and only where they have."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.golden import GOLDEN
from tidelog.errors import InvalidInputError
from tidelog.log import Log
from tidelog.records import Record, encode_records
from tidelog.report.facts import gather
from tidelog.ui.watching import FactsWatch

CLEAN = GOLDEN / "clean"


class Clock:
    """Time that goes on by so much at each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def watched(root: Path) -> FactsWatch:
    return FactsWatch([str(root)], Clock())


def without_time(facts: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in facts.items() if name != "now_ms"}


def test_what_has_not_changed_is_not_looked_at(tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(CLEAN, root)
    watch = watched(root)
    first = watch.current()
    count = len(first.facts["partitions"]["topic"])
    assert watch.looks == count > 10
    assert watch.current() is first
    assert without_time(first.facts) == without_time(gather([str(root)], examine=False))
    with Log.open(root / "golden-multi-0") as log:
        log.append_as_leader(encode_records([Record(b"new")]))
    second = watch.current()
    assert watch.looks == count + 1
    assert second.etag != first.etag
    assert without_time(second.facts) == without_time(gather([str(root)], examine=False))


def test_a_changed_file_is_seen_wherever_it_is(tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(CLEAN, root)
    watch = watched(root)
    watch.current()
    log = sorted((root / "golden-multi-0").glob("*.log"))[0]
    data = bytearray(log.read_bytes())
    data[20] ^= 0xFF
    log.write_bytes(data)  # of the same length
    assert without_time(watch.current().facts) == without_time(gather([str(root)], examine=False))
    shutil.rmtree(root / "golden-zstd-0")
    facts = watch.current().facts
    assert "golden-zstd" not in facts["partitions"]["topic"]
    (root / "log-start-offset-checkpoint").write_text("0\n1\ngolden-none 0 50\n")
    facts = watch.current().facts
    at = facts["partitions"]["topic"].index("golden-none")
    assert facts["partitions"]["log_start_offset"][at] == 50


def test_an_empty_root_that_gets_a_partition(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\n")
    watch = watched(tmp_path)
    assert watch.current().facts["totals"]["partitions"] == 0
    with Log.open(tmp_path / "orders-0") as log:
        log.append_as_leader(encode_records([Record(b"new")]))
    assert watch.current().facts["totals"]["partitions"] == 1


def test_gathering_that_takes_long_is_followed_by_a_pause(tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(CLEAN, root)
    clock = Clock()

    def slow() -> float:
        clock.now += 1.0
        return clock.now

    watch = FactsWatch([str(root)], slow)
    first = watch.current()
    shutil.rmtree(root / "golden-zstd-0")
    assert watch.current() is first
    clock.now += 10.0
    assert watch.current() is not first


def test_a_root_that_has_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="does not exist"):
        watched(tmp_path / "gone").current()


def test_a_gathering_that_fails_for_a_moment_leaves_the_last_facts(tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(CLEAN, root)
    clock = Clock()
    watch = FactsWatch([str(root)], lambda: clock.now)
    first = watch.current()
    (away := tmp_path / "away").mkdir()
    root.rename(away / "root")
    clock.now += 60.0
    assert watch.current() is first
    clock.now += 10.0
    with pytest.raises(InvalidInputError, match="does not exist"):
        watch.current()
    (away / "root").rename(root)
    assert watch.current().facts["totals"] == first.facts["totals"]
