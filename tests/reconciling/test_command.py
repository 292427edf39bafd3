"""`tidelog reconcile`: copies with different damage become the log that they are copies of."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import tidelog
from tests.cli.command import run
from tests.cli.test_salvage import logs, tree
from tests.golden import GOLDEN, GoldenPartition, golden_partitions
from tests.reconciling.histories import stored
from tidelog.testing.builders import LogBuilder, cut_off, flip_bit

PARTITIONS = [one for one in golden_partitions() if not one.name.startswith("__cluster")]


def replicas(tmp_path: Path, *names: str) -> list[Path]:
    """Three roots, each with a copy of golden partitions."""
    roots = [tmp_path / f"broker-{number}" for number in range(3)]
    for root in roots:
        for name in names:
            kind = "clean" if (GOLDEN / "clean" / name).exists() else "legacy"
            shutil.copytree(GOLDEN / kind / name, root / name)
            for file in (GOLDEN / "clean").glob("*-checkpoint"):
                shutil.copy2(file, root)
    return roots


def hurt(directory: Path, every: int, begin: int) -> None:
    """Flip a bit in every so many batches."""
    for number, (log, position, size, _, _) in enumerate(list(stored(directory))):
        if number % every == begin:
            flip_bit(log, position + size - 1)


@pytest.mark.parametrize("golden", PARTITIONS, ids=lambda one: one.name)
def test_kafkas_bytes_come_back_from_damaged_copies(golden: GoldenPartition, tmp_path: Path) -> None:
    roots = replicas(tmp_path, golden.name)
    for number, root in enumerate(roots):
        hurt(root / golden.name, 3, number)
    (roots[1] / golden.name / "leader-epoch-checkpoint").unlink(missing_ok=True)
    before = [tree(root) for root in roots]
    found = run("reconcile", *roots, "--to", tmp_path / "out", "--json")
    assert found.code == 0, found.out + found.err
    assert [tree(root) for root in roots] == before
    if golden.name == "golden-trimmed-0":
        assert json.loads(found.lines[-1])["first_offset"] == golden.log_start
    else:
        assert logs(tmp_path / "out" / golden.name) == logs(golden.directory)
    assert run("verify", tmp_path / "out", "--quiet").code == 0
    said = [json.loads(line) for line in run("doctor", tmp_path / "out", "--quiet", "--json").lines]
    wrong = {one["kind"] for one in said if one["about"] == "finding"}
    assert wrong <= {"retention"}  # the copies' records are old, and no metadata tells the topic's retention
    assert said[-1]["starts"]


def lines(*args: object, code: int = 0) -> list[dict[str, object]]:
    found = run("reconcile", *args, "--json")
    assert found.code == code, found.out + found.err
    return [json.loads(line) for line in found.lines]


def test_an_election_cut_records_off(tmp_path: Path) -> None:
    old, new = tmp_path / "old" / "orders-0", tmp_path / "new" / "orders-0"
    LogBuilder(old).leader_epoch(3).records(30).close()
    shutil.copytree(old, new)
    with LogBuilder(old) as one:
        one.leader_epoch(3).log.append_as_leader([tidelog.Record(b"only here")], leader_epoch=3)
    with LogBuilder(new) as one:
        one.leader_epoch(5).log.append_as_leader([tidelog.Record(b"in epoch 5")] * 4, leader_epoch=5)
    (tmp_path / "old" / "replication-offset-checkpoint").write_text("0\n1\norders 0 31\n")
    told = lines(old, new, "--to", tmp_path / "out", "--losers", tmp_path / "losers", code=1)
    (cut,) = (one for one in told if one["about"] == "truncated")
    assert (cut["first_offset"], cut["end_offset"], cut["records"]) == (30, 31, 1)
    assert cut["was_committed"] is True
    assert "epoch 5 began at offset 30" in str(cut["reason"])
    values = tidelog.scan(tmp_path / "out", columns=["value"]).read_all()["value"].to_pylist()
    assert len(values) == 34
    assert values[30:] == [b"in epoch 5"] * 4
    (kept,) = (tmp_path / "losers").rglob("orders-0/*.log")
    assert tidelog.scan(kept.parent, columns=["offset", "value"]).read_all().to_pylist() == [
        {"offset": 30, "value": b"only here"}
    ]


def test_what_no_copy_has_is_told(tmp_path: Path) -> None:
    for name in ("a", "b"):
        LogBuilder(tmp_path / name / "orders-0").records(100).close()
        log, position, size, _, _ = list(stored(tmp_path / name / "orders-0"))[4]
        flip_bit(log, position + size - 2)
    told = lines(tmp_path / "a", tmp_path / "b", "--to", tmp_path / "out", code=1)
    (lost,) = (one for one in told if one["about"] == "lost")
    assert (lost["first_offset"], lost["end_offset"]) == (40, 50)
    assert str(tmp_path / "a") in str(lost["reason"])


def test_the_log_starts_where_it_is_told(tmp_path: Path) -> None:
    for name in ("a", "b"):
        LogBuilder(tmp_path / name / "orders-0").records(50).close()
    (tmp_path / "b" / "log-start-offset-checkpoint").write_text("0\n1\norders 0 20\n")
    sources = (tmp_path / "a", tmp_path / "b")
    for asked, start in (("earliest", 0), ("latest", 20), ("35", 35)):
        target = tmp_path / f"out-{asked}"
        told = lines(*sources, "--to", target, "--log-start", asked)
        assert told[-1]["first_offset"] == start
        table = tidelog.scan(target, columns=["offset"]).read_all()
        assert table["offset"].to_pylist() == list(range(start, 50))
    assert run("reconcile", *sources, "--to", tmp_path / "x", "--log-start", "soon").code == 2


def test_a_wrong_leader_epoch_in_a_header_is_mended(tmp_path: Path) -> None:
    for name in ("a", "b"):
        LogBuilder(tmp_path / name / "orders-0").leader_epoch(2).records(50).close()
        log, position, *_ = list(stored(tmp_path / name / "orders-0"))[2]
        flip_bit(log, position + 14)
    before = logs(LogBuilder(tmp_path / "c" / "orders-0").leader_epoch(2).records(50).close())
    lines(tmp_path / "a", tmp_path / "b", "--to", tmp_path / "out")
    assert logs(tmp_path / "out" / "orders-0") == before


def test_refusals(tmp_path: Path) -> None:
    roots = replicas(tmp_path, "golden-none-0")
    assert run("reconcile", *roots).code == 2
    assert "no partition of topic nope" in run("reconcile", *roots, "--topic", "nope", "--dry-run").err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert run("reconcile", *roots, "--to", tmp_path / "full").code != 0
    assert run("reconcile", *roots, "--to", tmp_path / "out", "--losers", tmp_path / "full").code == 2
    for option in ("--to", "--losers"):
        told = run("reconcile", *roots, "--to", tmp_path / "out", option, roots[0] / "new")
        assert (told.code, list(roots[0].glob("new*"))) == (2, [])
    (roots[1] / "golden-none-0" / "partition.metadata").write_text(
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAEA"
    )
    found = run("reconcile", *roots, "--to", tmp_path / "out")
    assert found.code == 2
    assert "created again" in found.err
    assert not list(tmp_path.glob("out*"))


def test_a_dry_run_says_the_same_and_writes_nothing(tmp_path: Path) -> None:
    roots = replicas(tmp_path, "golden-none-0", "golden-compact-0")
    hurt(roots[0] / "golden-none-0", 4, 1)
    cut_off(max((roots[2] / "golden-none-0").glob("*.log")), 20)
    before = tree(tmp_path)
    planned = run("reconcile", *roots, "--dry-run", "--json").lines
    assert tree(tmp_path) == before
    assert run("reconcile", *roots, "--to", tmp_path / "out", "--json").lines == planned
