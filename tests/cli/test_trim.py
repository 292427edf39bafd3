"""`tidelog trim`: the log start moves up, whole segments below it go, and that stays so."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

import tidelog
from tests.cli.command import run
from tidelog.records import Record
from tidelog.storage import LOCAL, read_offset_checkpoint
from tidelog.types import TopicPartition

NOW = 1_700_000_000_000
STARTS = "log-start-offset-checkpoint"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with tidelog.open(tmp_path / "root") as store:
        store.create_topic("t", 2, {"internal.segment.bytes": 400, "retention.ms": 1})
        for partition in store.partitions:
            for first in range(0, 60, 5):
                partition.append([Record(b"v%d" % n, timestamp=NOW + n) for n in range(first, first + 5)])
    return tmp_path / "root"


def bases(directory: Path) -> list[int]:
    return sorted(int(file.stem) for file in directory.glob("*.log"))


@pytest.mark.parametrize("limit", [("--before", "33"), ("--before-time", str(NOW + 33))])
def test_what_lies_below_goes(root: Path, limit: tuple[str, str]) -> None:
    before = bases(root / "t-1")
    gone = [base for base, following in itertools.pairwise(before) if following <= 33]
    files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    planned = run("trim", root / "t-1", *limit, "--dry-run", "--json")
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == files
    answer = run("trim", root / "t-1", *limit, "--json")
    assert answer.code == 0, answer.err
    told = json.loads(answer.out)
    assert told == json.loads(planned.out)
    assert (told["log_start_offset"], told["new_log_start_offset"]) == (0, 33)
    assert told["segments"] == len(gone) > 1
    assert told["size_bytes"] == sum(len(files[root / "t-1" / f"{base:020}.log"]) for base in gone)
    assert bases(root / "t-1") == before[len(gone) :], "and not those that are too old, which is not asked"
    assert read_offset_checkpoint(LOCAL, root / STARTS)[TopicPartition("t", 1)] == 33
    assert bases(root / "t-0") == before
    with tidelog.open(root) as store:
        assert store.partition("t", 1).log_start_offset == 33
        assert store.partition("t", 1).read_record(33) is not None
    assert tidelog.scan(root, partitions=[1]).read_all().column("offset").to_pylist() == list(range(33, 60))


def test_a_time_trims_many_partitions_and_may_empty_them(root: Path) -> None:
    answer = run("trim", root, "--topic", "t", "--before-time", "now", "--json")
    assert [json.loads(line)["new_log_start_offset"] for line in answer.lines] == [60, 60]
    with tidelog.open(root) as store:
        assert [partition.log_start_offset for partition in store.partitions] == [60, 60]


def test_an_offset_below_the_start_changes_nothing(root: Path) -> None:
    assert run("trim", root / "t-0", "--before", "20").code == 0
    before = bases(root / "t-0")
    answer = run("trim", root / "t-0", "--before", "10", "--json")
    assert json.loads(answer.out)["new_log_start_offset"] == 20
    assert bases(root / "t-0") == before


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "--before OFFSET or --before-time TIME"),
        (("--before", "1", "--before-time", "now"), "--before OFFSET or --before-time TIME"),
        (("--before", "1"), "an offset of one partition"),
        (("--before", "1", "--partition", "0"), "--partition needs --topic"),
        (("--before", "1", "--topic", "t", "--partition", "9"), "no topic 't' with a partition 9"),
        (("--before-time", "soon"), "'soon' is not a time"),
    ],
)
def test_bad_usage_is_told(root: Path, args: tuple[str, ...], said: str) -> None:
    answer = run("trim", root, *args)
    assert answer.code == 2
    assert said in answer.err


def test_an_offset_past_the_end_is_refused(root: Path) -> None:
    for more in ((), ("--dry-run",)):
        answer = run("trim", root / "t-0", "--before", "61", *more)
        assert answer.code != 0
        assert "ends at 60" in answer.err
    assert len(bases(root / "t-0")) > 1


def test_a_partition_in_no_root_has_no_place_for_its_start(tmp_path: Path) -> None:
    with tidelog.Log.open(tmp_path / "t-0"):
        pass
    answer = run("trim", tmp_path / "t-0", "--before", "0")
    assert answer.code == 2
    assert "is not the root of" in answer.err
