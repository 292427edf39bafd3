"""`tidelog recover`: what it would cut, what it cuts, and what it keeps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import tidelog
from tests.cli.command import run
from tidelog.records import Record
from tidelog.testing.builders import LogBuilder, flip_bit


def test_a_dry_run_changes_nothing_and_says_why(tmp_path: Path) -> None:
    path = LogBuilder(tmp_path / "orders-0").records(30).roll().records(10).close()
    log = path / f"{0:020}.log"
    size, later = log.stat().st_size, (path / f"{30:020}.log").stat().st_size
    flip_bit(log, -1)  # in the last of three batches
    before = {file: file.read_bytes() for file in path.iterdir()}
    keep = tmp_path / "kept"
    planned = run("recover", path, "--keep", keep, "--dry-run", "--json")
    assert planned.code == 0, planned.err
    row = json.loads(planned.out)
    assert (row["log_end_offset"], row["segments_removed"]) == (20, 1)
    assert "checksum" in row["cause"]
    assert {file: file.read_bytes() for file in path.iterdir()} == before
    assert not keep.exists()
    assert "would be cut" in run("recover", path, "--dry-run").out

    done = run("recover", path, "--keep", keep, "--json")
    assert json.loads(done.out).items() <= row.items()
    kept = {file.name: file.read_bytes() for file in (keep / "orders-0").iterdir()}
    assert len(kept) == 2
    assert sum(map(len, kept.values())) == row["bytes_cut"] == size - log.stat().st_size + later


def test_a_sound_log_loses_nothing(tmp_path: Path) -> None:
    path = LogBuilder(tmp_path / "orders-0").records(30).crash()
    row = json.loads(run("recover", path, "--dry-run", "--json").out)
    assert (row["bytes_cut"], row["cause"], row["log_end_offset"]) == (0, None, 30)


@pytest.mark.parametrize("state", ["stray", "future"])
def test_a_marked_directory_is_not_what_the_checkpoints_tell_of(tmp_path: Path, state: str) -> None:
    root = tmp_path / "root"
    with tidelog.open(root) as store:
        store.create_topic("orders", 1)
        store.partition("orders").append([Record(b"v")] * 20)
    marked = root / f"orders-0.0123456789abcdef0123456789abcdef-{state}"
    shutil.copytree(root / "orders-0", marked)
    with tidelog.open(root) as store:
        orders = store.partition("orders")
        orders.append([Record(b"v")] * 20)
        orders.delete_records(30)
    before = {file: file.read_bytes() for file in root.glob("*-checkpoint")}
    planned = json.loads(run("recover", marked, "--dry-run", "--json").out)
    done = run("recover", marked, "--json")
    assert done.code == 0, done.err
    row = json.loads(done.out)
    assert (row["recovery_point"], row["log_start_offset"], row["log_end_offset"]) == (0, 0, 20)
    assert row["bytes_cut"] == planned["bytes_cut"] == 0
    assert {file: file.read_bytes() for file in root.glob("*-checkpoint")} == before


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_nothing_is_kept_in_a_root_which_no_broker_would_start_on_then(
    tmp_path: Path, dry_run: tuple[str, ...]
) -> None:
    with tidelog.open(tmp_path / "root") as store:
        store.create_topic("orders", 1)
    answer = run("recover", tmp_path / "root", "--keep", tmp_path / "root" / "kept", *dry_run)
    assert answer.code == 2
    assert "no broker would start" in answer.err
    assert not (tmp_path / "root" / "kept").exists()
