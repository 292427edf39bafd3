"""Verification: golden directories are sound, and each kind of damage is found where it was done."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import tidelog
from tests.golden import GOLDEN, GoldenPartition, golden_partitions
from tests.manager.damage import TornCase, make_torn, make_unclean, torn_cases
from tidelog.cli.app import app
from tidelog.log import Log
from tidelog.manager.verification import Finding, Kind, verify_partition, verify_root
from tidelog.records import Record
from tidelog.storage import LOCAL
from tidelog.testing.faults import Call, FaultyFileSystem

CLEAN = GOLDEN / "clean"


def damages(path: Path, *, deep: bool = False) -> list[Finding]:
    found = verify_partition(LOCAL, str(path), deep=deep).findings
    return [one for one in found if one.kind is Kind.DAMAGE]


@pytest.mark.parametrize("partition", golden_partitions(), ids=lambda partition: partition.name)
def test_golden_partitions_are_sound(partition: GoldenPartition) -> None:
    assert damages(partition.directory, deep=True) == []


def test_a_killed_root_has_notes_only(tmp_path: Path) -> None:
    root = make_unclean(tmp_path / "root")
    found = [one for one in verify_root(LOCAL, str(root)) if "has no directory here" not in one.cause]
    assert found
    assert {one.kind for one in found} == {Kind.NOTE}
    assert {one.cause.partition(" ")[2] for one in found} == {
        "empty entries at the end: it was never trimmed"
    }


@pytest.mark.parametrize("case", torn_cases(), ids=lambda case: f"{case.name} {case.damage}")
def test_golden_damage_is_found_where_it_is(case: TornCase, tmp_path: Path) -> None:
    (found, *_) = damages(make_torn(case, tmp_path))
    assert Path(found.file).name == case.file
    assert found.offset == case.records_after
    assert found.position is not None


@pytest.mark.parametrize("step", range(1, 40, 3))
def test_what_is_deleted_meanwhile_is_not_damaged(tmp_path: Path, step: int) -> None:
    directory = tmp_path / "t-0"
    with Log.open(directory, clean=True) as log:
        for number in range(3):
            log.append_as_leader([Record(b"%d" % number)])
            log.roll()
    calls = 0

    def delete(_: Call) -> None:
        nonlocal calls
        calls += 1
        if calls == step:
            for path in sorted(directory.glob(f"{0:020}.*")):
                path.rename(f"{path}.deleted")

    found = verify_partition(FaultyFileSystem(LOCAL, delete), str(directory)).findings
    assert calls >= step
    assert not [one for one in found if one.kind is Kind.DAMAGE]


def test_what_is_written_and_recreated_meanwhile_is_not_damaged(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with tidelog.open(root, create=True) as store:
        for topic in ("grows", "made-anew", "goes"):
            store.create_topic(topic, 2)
            for partition in store.topic(topic):
                partition.append([Record(b"v")])

    def work(call: Call) -> None:
        """When the files of the root are looked at, all partitions have been checked."""
        if call.path.endswith("meta.properties") and not done:
            done.append(call)
            with tidelog.open(root) as store:
                store.delete_topic("goes")
                store.delete_topic("made-anew")
                store.create_topic("made-anew", 2)
                for topic in ("grows", "made-anew"):
                    for partition in store.topic(topic):
                        partition.append([Record(b"v")] * 3)

    done: list[Call] = []
    found = list(verify_root(FaultyFileSystem(LOCAL, work), str(root)))
    assert done
    assert [one for one in found if one.kind is Kind.DAMAGE] == []


def test_a_partition_that_is_deleted_meanwhile_is_not_damaged(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    for step in range(1, 12):
        with Log.open(directory, clean=True) as log:
            log.append_as_leader([Record(b"v")])
        calls = 0

        def delete(_: Call, step: int = step) -> None:
            nonlocal calls
            calls += 1
            if calls == step:
                shutil.rmtree(directory)

        found = verify_partition(FaultyFileSystem(LOCAL, delete), str(directory)).findings
        assert calls >= step
        assert not [one for one in found if one.kind is Kind.DAMAGE]


def index_entry(path: Path, number: int, size: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[number * size : number * size + len(data)] = data
    path.write_bytes(content)


def first(directory: Path, pattern: str) -> Path:
    return next(path for path in sorted(directory.glob(pattern)) if path.stat().st_size)


DAMAGE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "offset index, position": (
        ".index",
        lambda path: index_entry(first(path, "*.index"), 2, 8, b"\0\0\0\x7f\0\0\x10\x01"),
        "no batch begins there|not above",
    ),
    "offset index, cut": (
        ".index",
        lambda path: first(path, "*.index").write_bytes(first(path, "*.index").read_bytes()[:-3]),
        "not a number of 8-byte entries",
    ),
    "offset index, missing": (".index", lambda path: first(path, "*.index").unlink(), "missing"),
    "time index, time": (
        ".timeindex",
        lambda path: index_entry(first(path, "*.timeindex"), 0, 12, bytes(7) + b"\1"),
        "later time before it|the batch there has",
    ),
    "time index, order": (
        ".timeindex",
        lambda path: index_entry(first(path, "*.timeindex"), 1, 12, bytes(7) + b"\1"),
        "not above the one before it",
    ),
    "transaction index, version": (
        ".txnindex",
        lambda path: index_entry(first(path, "*.txnindex"), 0, 34, b"\0\7"),
        "unknown version 7",
    ),
    "transaction index, producer": (
        ".txnindex",
        lambda path: index_entry(first(path, "*.txnindex"), 0, 34, b"\0\0" + bytes(7) + b"\x63"),
        "no marker of producer 99",
    ),
    "transaction index, entry missing": (
        ".txnindex",
        lambda path: first(path, "*.txnindex").write_bytes(first(path, "*.txnindex").read_bytes()[34:]),
        "no entry for the transaction of producer",
    ),
    "transaction index, missing": (
        ".txnindex",
        lambda path: first(path, "*.txnindex").unlink(),
        "no entry for the transaction of producer",
    ),
    "snapshot": (
        ".snapshot",
        lambda path: index_entry(first(path, "*.snapshot"), 9, 1, b"\xff"),
        "",
    ),
    "epochs": (
        "leader-epoch-checkpoint",
        lambda path: (path / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n"),
        "epoch 0 is missing",
    ),
    "epoch file": (
        "leader-epoch-checkpoint",
        lambda path: (path / "leader-epoch-checkpoint").write_text("nonsense"),
        "line 1",
    ),
    "partition.metadata": (
        "partition.metadata",
        lambda path: (path / "partition.metadata").write_text("version: x"),
        "line 1|line 2",
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_each_kind_of_damage_is_found(what: str, tmp_path: Path) -> None:
    suffix, hurt, cause = DAMAGE[what]
    path = shutil.copytree(CLEAN / "golden-txn-0", tmp_path / "golden-txn-0")
    assert damages(path) == []
    hurt(path)
    found = damages(path)
    assert found
    assert all(one.file.endswith(suffix) for one in found)
    assert any(part in found[0].cause for part in cause.split("|"))


def test_checkpoints_are_compared_with_the_logs(tmp_path: Path) -> None:
    root = shutil.copytree(CLEAN, tmp_path / "root")
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\ngolden-none 0 1561\n")
    (root / "replication-offset-checkpoint").write_text("0\n2\ngolden-none 0 1\n")
    (root / "meta.properties").write_text("version=1\n")
    found = {Path(one.file).name: one for one in verify_root(LOCAL, str(root)) if one.kind is Kind.DAMAGE}
    assert sorted(found) == [
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ]
    point = found["recovery-point-offset-checkpoint"]
    assert "is 1561, but its log ends at 1560" in point.cause
    assert (point.offset, point.end_offset) == (1560, 1561)


# ---- the commands


def run(*args: object) -> tuple[int, list[dict[str, object]]]:
    result = CliRunner().invoke(app, [str(arg) for arg in (*args, "--json")])
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def test_verify_says_what_and_where(tmp_path: Path) -> None:
    assert run("verify", CLEAN / "golden-none-0") == (0, [])
    case = torn_cases()[0]
    code, lines = run("verify", make_torn(case, tmp_path))
    assert code == 1
    assert lines[0]["kind"] == "damage"
    assert str(lines[0]["file"]).endswith(case.file)
    assert lines[0]["offset"] == case.records_after
    assert run("verify", tmp_path / "missing")[0] == 2


@pytest.mark.parametrize("command", ["verify", "reindex"])
def test_a_directory_without_logs_is_not_called_sound(command: str, tmp_path: Path) -> None:
    (tmp_path / "something").mkdir()
    assert run(command, tmp_path) == (2, [])
    shutil.copy(CLEAN / "meta.properties", tmp_path)
    assert run(command, tmp_path)[0] == 0  # a root that has no topics yet


def test_recover_keeps_what_it_cuts(tmp_path: Path) -> None:
    case = next(one for one in torn_cases() if one.name == "golden-outoforder6-0")
    path = make_torn(case, tmp_path)
    before = {log.name: log.read_bytes() for log in path.glob("*.log")}
    keep = tmp_path / "kept"
    code, (line,) = run("recover", path, "--recovery-point", case.recovery_point, "--keep", keep)
    assert code == 0
    assert (line["log_end_offset"], line["segments_removed"], line["error"]) == (case.records_after, 1, None)
    after = {log.name: log.read_bytes() for log in path.glob("*.log")}
    kept = {file.name: file.read_bytes() for file in (keep / path.name).iterdir()}
    for name, data in before.items():
        position = len(after.get(name, b""))
        if data[position:].rstrip(b"\0"):  # the zeros of preallocation are not kept
            assert after.get(name, b"") + kept.pop(f"{name}.from-{position}") == data
    assert not kept
    assert line["bytes_cut"] == sum(map(len, before.values())) - sum(map(len, after.values()))
    assert run("verify", path)[0] == 0


def test_recover_brings_a_root_in_order(tmp_path: Path) -> None:
    root = make_unclean(tmp_path / "root")
    metadata = (root / "__cluster_metadata-0" / f"{0:020}.log").read_bytes()
    code, lines = run("recover", root)
    assert code == 0
    assert {line["error"] for line in lines} == {None}
    assert sum(int(str(line["bytes_cut"])) for line in lines) == 0
    assert (root / ".kafka_cleanshutdown").exists()
    assert (root / "__cluster_metadata-0" / f"{0:020}.log").read_bytes() == metadata
    assert run("verify", root)[0] == 0


def test_retention_shows_the_reason_of_each_segment(tmp_path: Path) -> None:
    path = shutil.copytree(CLEAN / "golden-none-0", tmp_path / "golden-none-0")
    before = sorted(file.name for file in path.iterdir())
    forever = ("retention", path, "--dry-run", "--config", "retention.ms=-1", "--config")
    code, lines = run(*forever, "retention.bytes=40000")
    assert code == 0
    assert {line["reason"] for line in lines} == {"retention.bytes"}
    assert lines[0]["base_offset"] == 0
    assert sorted(file.name for file in path.iterdir()) == before
    assert run(*forever, "retention.bytes=-1") == (0, [])
    assert run("retention", path, "--dry-run", "--config", "nonsense")[0] == 2
    assert run("retention", path)[0] == 2, "it is in no root"
