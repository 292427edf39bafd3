"""`tidelog salvage`: what is sound, in a root that verifies clean."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

import tidelog
from tests.cli.command import run
from tests.golden import GOLDEN
from tests.scanning.damage import hurt, make_log
from tidelog.manager.upkeep.salvaging import salvage_partitions
from tidelog.records import Record
from tidelog.scanning.partitions import find_partitions
from tidelog.storage import LOCAL
from tidelog.testing.builders import flip_bit


def tree(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def logs(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def test_a_sound_root_is_saved_whole(tmp_path: Path) -> None:
    names = ["golden-none-0", "golden-txn-0"]
    for name in names:
        shutil.copytree(GOLDEN / "clean" / name, tmp_path / "src" / name)
    before = tree(tmp_path / "src")
    found = run("salvage", tmp_path / "src", tmp_path / "dst", "--json")
    assert (found.code, found.lines, found.err) == (0, [], "")
    assert tree(tmp_path / "src") == before
    for name in names:
        assert logs(tmp_path / "dst" / name) == logs(tmp_path / "src" / name)
    checked = run("verify", tmp_path / "dst", "--deep", "--quiet")
    assert checked.code == 0, checked.out


def test_a_root_in_use_is_told(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "src") as store:
        store.create_topic("orders")[0].append([Record(b"here")])
        found = run("salvage", tmp_path / "src", tmp_path / "dst", "--json")
        assert (found.code, found.lines) == (0, [])
        assert f"{tmp_path / 'src'} is in use: " in found.err
    assert run("salvage", tmp_path / "src", tmp_path / "again").err == ""
    assert tidelog.scan(tmp_path / "dst").read_all().num_rows == 1


def test_a_damaged_batch_is_left_out_and_told(tmp_path: Path) -> None:
    source = tmp_path / "golden-none-0"
    shutil.copytree(GOLDEN / "clean" / "golden-none-0", source)
    log = sorted(source.glob("*.log"))[2]
    size = 12 + int.from_bytes(log.read_bytes()[8:12])
    flip_bit(log, 100)
    found = run("salvage", source, tmp_path / "dst", "--json")
    assert found.code == 1
    (loss,) = map(json.loads, found.lines)
    assert (loss["start_position"], loss["end_position"], loss["file"]) == (0, size, str(log))
    assert loss["first_offset"] == 480
    saved = tidelog.scan(tmp_path / "dst", columns=["offset"]).read_all()["offset"].to_pylist()
    assert saved == [n for n in range(1560) if not loss["first_offset"] <= n < loss["end_offset"]]
    checked = run("verify", tmp_path / "dst", "--deep", "--quiet")
    assert checked.code == 0, checked.out
    shown = run("salvage", source, tmp_path / "other")
    assert "1 loss" in shown.out or "1 loss" in shown.err


def test_the_target_must_be_new(tmp_path: Path) -> None:
    (tmp_path / "dst").mkdir()
    (tmp_path / "dst" / "file").touch()
    found = run("salvage", GOLDEN / "clean" / "golden-none-0", tmp_path / "dst")
    assert found.code == 2
    assert "exists already: name a new or empty directory" in found.err
    assert run("salvage", tmp_path / "nowhere", tmp_path / "other").code == 2
    root = shutil.copytree(GOLDEN / "clean" / "golden-none-0", tmp_path / "root" / "golden-none-0").parent
    (root / "meta.properties").touch()
    found = run("salvage", root, root / "new")
    assert (found.code, list(root.glob("new*"))) == (2, [])
    assert "lies in the root" in found.err


@pytest.mark.parametrize("seed", range(0, 40, 8))
def test_what_is_saved_is_what_is_read(tmp_path: Path, seed: int) -> None:
    from tidelog.manager.upkeep.salvaging import salvage_partitions
    from tidelog.manager.verification import Kind, verify_root
    from tidelog.scanning.partitions import find_partitions
    from tidelog.storage import LOCAL

    for n in range(seed, seed + 8):
        dice = random.Random(n)
        directory = hurt(make_log(dice), dice).write(tmp_path / str(n) / "orders-0")
        target = tmp_path / f"{n}-saved"
        (done,) = salvage_partitions(LOCAL, find_partitions(directory), str(target))
        losses: list[tidelog.scanning.losses.Loss] = []
        read = tidelog.scan(directory, corrupt="skip", on_loss=losses.append).read_all()
        assert tidelog.scan(target).read_all() == read
        assert len(done.losses) == len(losses)
        found = [one for one in verify_root(LOCAL, str(target), deep=True) if one.kind is Kind.DAMAGE]
        assert found == []


def test_what_was_cut_short_is_no_root(tmp_path: Path) -> None:
    """A broker that started on it would make the other partitions anew, empty."""
    source, target = GOLDEN / "clean", tmp_path / "dst"
    saving = salvage_partitions(LOCAL, list(find_partitions(str(source))), str(target))
    next(saving)
    assert not (target / "meta.properties").exists()
    for _ in saving:
        pass
    assert (target / "meta.properties").read_bytes() == (source / "meta.properties").read_bytes()
