"""Rebuilt indexes: Kafka's own bytes again, every damage mended, records never touched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.golden import GOLDEN, GoldenPartition, golden_partitions
from tests.manager.damage import TornCase, make_torn, torn_cases
from tests.manager.test_verification import DAMAGE, damages
from tidelog.cli.app import app
from tidelog.errors import LogLockedError
from tidelog.manager.upkeep.reindexing import reindex
from tidelog.storage import LOCAL, read_file
from tidelog.storage.lock import RootLock
from tidelog.testing.crash import CrashFileSystem, copy_tree

CLEAN = GOLDEN / "clean"
INDEXES = (".index", ".timeindex", ".txnindex")
SETTINGS = {"index.interval.bytes": "512"}

# A restart begins counting bytes anew, which the metadata log went through; the cleaner leaves entries of
# transactions out whose records it has removed.
AS_WRITTEN = [
    partition
    for partition in golden_partitions()
    if partition.name not in ("__cluster_metadata-0", "golden-txncompact-0") and not partition.legacy
]


def content(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def copied(name: str, tmp_path: Path) -> Path:
    return shutil.copytree(CLEAN / name, tmp_path / name)


@pytest.mark.parametrize("partition", AS_WRITTEN, ids=lambda partition: partition.name)
def test_rebuilt_indexes_are_the_ones_that_kafka_wrote(partition: GoldenPartition, tmp_path: Path) -> None:
    path = shutil.copytree(partition.directory, tmp_path / partition.name)
    settings = {"index.interval.bytes": str(partition.index_interval_bytes)}
    before = content(path)
    assert list(reindex(LOCAL, str(path), everything=True, settings=settings)) == []
    gone = [file for file in path.iterdir() if file.suffix in INDEXES]
    for file in gone:
        file.unlink()
    done = list(reindex(LOCAL, str(path), settings=settings))
    assert sorted(name for one in done for name in one.indexes) == sorted(file.name for file in gone)
    assert content(path) == before


@pytest.mark.parametrize("what", [what for what in DAMAGE if DAMAGE[what][0] in INDEXES])
def test_damaged_indexes_are_mended(what: str, tmp_path: Path) -> None:
    path = copied("golden-txn-0", tmp_path)
    before = content(path)
    DAMAGE[what][1](path)
    hurt = content(path)
    (planned,) = reindex(LOCAL, str(path), settings=SETTINGS, dry_run=True)
    assert content(path) == hurt
    (done,) = reindex(LOCAL, str(path), settings=SETTINGS)
    assert done == planned
    assert [name for name in before if before[name] != hurt.get(name)] == list(done.indexes)
    assert done.cause is not None
    assert content(path) == before


@pytest.mark.parametrize("name", ["golden-txncompact-0", "golden-compact-0", "__cluster_metadata-0"])
def test_sound_indexes_are_left_alone(name: str, tmp_path: Path) -> None:
    path = copied(name, tmp_path)
    before = content(path)
    assert list(reindex(LOCAL, str(path), settings={"index.interval.bytes": "1000"})) == []
    assert content(path) == before


def test_transactions_are_found_without_snapshots(tmp_path: Path) -> None:
    path = copied("golden-txn-0", tmp_path)
    before = content(path)
    for file in path.iterdir():
        if file.suffix in (".snapshot", ".txnindex"):
            file.unlink()
    list(reindex(LOCAL, str(path), settings=SETTINGS))
    found = content(path)
    assert {name for name in found if name.endswith(".txnindex")}
    assert found == {name: data for name, data in before.items() if not name.endswith(".snapshot")}


@pytest.mark.parametrize("case", torn_cases()[:4], ids=lambda case: case.name)
def test_a_damaged_log_is_indexed_up_to_the_damage(case: TornCase, tmp_path: Path) -> None:
    path = make_torn(case, tmp_path)
    logs = {name: data for name, data in content(path).items() if name.endswith(".log")}
    done = list(reindex(LOCAL, str(path), everything=True, settings=SETTINGS))
    assert [Path(one.file).name for one in done if one.error] == [case.file]
    assert {name: data for name, data in content(path).items() if name.endswith(".log")} == logs
    assert {Path(one.file).suffix for one in damages(path)} == {".log"}


def test_a_crash_leaves_each_index_old_or_new() -> None:
    fs = CrashFileSystem()
    copy_tree(LOCAL, str(CLEAN / "golden-txn-0"), fs, "/golden-txn-0")
    base = f"/golden-txn-0/{0:020}"
    names = [f"{base}.index", f"{base}.timeindex"]
    new = {name: read_file(fs, name) for name in names}
    old = {name: data[:-5] for name, data in new.items()}
    for name in names:
        file = fs.open(name, writable=True)
        file.truncate(len(old[name]))
        file.close()
    fs = fs.crash(kept="all")  # all of this is on the disk
    begin = fs.steps
    list(reindex(fs, "/golden-txn-0", settings=SETTINGS))
    assert fs.steps > begin
    for step in range(begin, fs.steps + 1):
        for seed in range(5):
            after = fs.crash(step, seed=seed)
            for name in names:
                assert read_file(after, name) in (old[name], new[name]), (step, seed)
            list(reindex(after, "/golden-txn-0", settings=SETTINGS))
            assert all(read_file(after, name) == new[name] for name in names)


# ---- the command


def run(*args: object) -> tuple[int, list[dict[str, object]]]:
    result = CliRunner().invoke(app, [str(arg) for arg in (*args, "--json")])
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def test_the_command_mends_a_root(tmp_path: Path) -> None:
    root = shutil.copytree(CLEAN, tmp_path / "root")
    assert run("reindex", root) == (0, [])
    index = root / "golden-none-0" / f"{240:020}.timeindex"
    before = index.read_bytes()
    index.unlink()
    code, (line,) = run("reindex", root, "--dry-run")
    assert (code, line["indexes"], line["cause"]) == (1, index.name, ".timeindex: the index is missing")
    assert not index.exists()
    code, (line,) = run("reindex", root)
    assert (code, line["error"]) == (0, None)
    assert index.read_bytes() == before, "the interval is in the metadata log"
    assert run("verify", root)[0] == 0


def test_the_command_says_what_it_cannot_do(tmp_path: Path) -> None:
    assert run("reindex", tmp_path / "missing")[0] == 2
    path = make_torn(torn_cases()[0], tmp_path)
    assert run("reindex", path, "--config", "nonsense")[0] == 2
    assert run("reindex", path, "--all", "--config", "index.interval.bytes=512")[0] == 1


def test_a_root_in_use_is_refused(tmp_path: Path) -> None:
    root = shutil.copytree(CLEAN, tmp_path / "root")
    with RootLock(root):
        with pytest.raises(LogLockedError):
            list(reindex(LOCAL, str(root)))
        assert list(reindex(LOCAL, str(root), dry_run=True)) == []
