"""`tidelog fix` as it is run: plans, saved plans, refusals, undo."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.cli.test_salvage import tree
from tests.doctor.harming import batch_at, beside, cut, flip, log, make_root, second
from tests.doctor.test_damages import NOW_MS, without_lock
from tidelog.doctor.fixing import apply_plan
from tidelog.records.batches import scan_batches
from tidelog.storage import LOCAL
from tidelog.storage.lock import RootLock
from tidelog.testing.faults import FaultyFileSystem, disk_full


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a missing index."""
    found = make_root(tmp_path / "root", "golden-none-0")
    beside(log(found, number=1), ".index").unlink()
    (found / ".lock").touch()
    return found


def test_a_saved_plan_is_applied_and_undone(root: Path, tmp_path: Path) -> None:
    before, plan = without_lock(str(root)), tmp_path / "plan.json"
    told = run("fix", root, "--plan", plan, "--json")
    assert told.code == 0
    (step,) = [json.loads(line) for line in told.lines]
    assert "write golden-none-0/00000000000000000240.index" in step["files"]
    assert without_lock(str(root)) == before
    assert run("fix", root, "--apply", "--plan", plan).code == 0
    assert run("doctor", root, "-q").code == 0
    assert run("fix", root, "--undo").lines[-1] == "1 repair is undone"
    assert without_lock(str(root)) == before


@pytest.mark.parametrize(("partition", "number", "at"), [("golden-none-0", 1, 7), ("golden-multi-0", -1, 6)])
def test_only_the_batch_is_lost_whose_base_offset_is_damaged(
    tmp_path: Path, partition: str, number: int, at: int
) -> None:
    """No checksum covers it: what follows the batch is not what is wrong."""
    root = make_root(tmp_path / "root", partition)
    path = log(root, partition, number)
    begin, end = batch_at(path, 1)
    table = scan_batches(path.read_bytes()).require()
    span = (begin, int(table.base_offset[1]), int(table.last_offset[1]) + 1)
    flip(path, begin + at)
    told = map(json.loads, run("doctor", root, "--json").lines)
    (bad,) = [one for one in told if one.get("kind") == "bad-batch"]
    assert (bad["position"], bad["offset"], bad["end_offset"]) == span
    (step,) = [json.loads(line) for line in run("fix", root, "--json").lines]
    assert step["lost"].startswith(f"{end - begin} bytes at position {begin} of {path.name} ")
    before = path.read_bytes()
    assert run("fix", root, "--apply").code == 0
    assert path.read_bytes() == before[:begin] + before[end:]
    assert run("fix", root, "--undo").code == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("size", [4, 30, 7000, 0], ids=["few", "header", "cut", "flipped"])
def test_a_damaged_replacement_is_taken_away(tmp_path: Path, size: int) -> None:
    """A broker would put it in the place of the sound segment; the checkpoints stay as they are."""
    root = make_root(tmp_path / "root", "golden-none-0")
    path = log(root, number=1)
    swap = path.with_suffix(".log.swap")
    swap.write_bytes(path.read_bytes()[: size or None])
    if not size:
        flip(swap, 5000)
    (root / ".lock").touch()
    before = without_lock(str(root))
    told = [json.loads(line) for line in run("doctor", root, "-q", "--json").lines]
    assert [(one["severity"], one["file"]) for one in told if one["about"] == "finding"] == [
        ("loss", str(swap))
    ]
    assert run("fix", root, "--apply").code == 0
    after = without_lock(str(root))
    kept = {name for name in before if name.endswith((".log", ".index", "-checkpoint"))}
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert run("doctor", root, "-q").code == 0
    assert run("fix", root, "--undo").code == 0
    assert without_lock(str(root)) == before


def test_a_saved_plan_of_other_files_is_refused(root: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    run("fix", root, "--plan", plan)
    beside(log(root, number=2), ".index").unlink()
    before = without_lock(str(root))
    told = run("fix", root, "--apply", "--plan", plan)
    assert told.code == 1
    assert "have changed since the plan was saved" in told.err
    assert without_lock(str(root)) == before
    plan.write_text("{}")
    assert run("fix", root, "--apply", "--plan", plan).code == 2


def test_what_has_changed_since_is_not_undone(root: Path) -> None:
    run("fix", root, "--apply")
    with beside(log(root, number=1), ".index").open("ab") as file:
        file.write(b"more")
    told = run("fix", root, "--undo")
    assert told.code == 1
    assert "has changed since the repair" in told.err


@pytest.mark.parametrize("room", [0, 700, 3000])
def test_what_a_full_disk_cuts_short_is_undone_without_a_trace(root: Path, room: int) -> None:
    before = tree(root)
    with pytest.raises(OSError, match="No space"):
        apply_plan(FaultyFileSystem(LOCAL, disk_full(room)), [str(root)], now_ms=NOW_MS)
    run("fix", root, "--undo")
    assert tree(root) == before


def test_a_root_in_use_is_refused(root: Path) -> None:
    lock = RootLock(root)
    try:
        told = run("fix", root, "--apply")
    finally:
        lock.release()
    assert told.code == 1
    assert not list(root.glob(".tidelog-fix*"))


def test_bad_usage(root: Path) -> None:
    assert run("fix", root, "--apply", "--undo").code == 2
    assert run("fix", root / "golden-none-0").code == 2
    assert run("fix", root.parent / "absent").code == 2


def test_a_log_that_was_written_since_is_not_cut_back(root: Path) -> None:
    """A broker that rolls first leaves every file of the repair as it is, and gives offsets out anew."""
    (root / ".kafka_cleanshutdown").unlink()
    cut(log(root), 100)
    assert run("fix", root, "--apply").code == 0
    (root / "golden-none-0" / "00000000000000001540.log").write_bytes(b"a batch")
    told = run("fix", root, "--undo")
    assert told.code == 1
    assert "00000000000000001540.log has changed since the repair" in told.err


def test_only_the_last_repair_is_undone(root: Path) -> None:
    """Also where it was of one disk, and the one before of two."""
    other = make_root(second(root), "golden-multi-0")
    shutil.rmtree(other / "__cluster_metadata-0")
    meta = (other / "meta.properties").read_text()
    lines = [line for line in meta.splitlines() if not line.startswith("directory.id")]
    (other / "meta.properties").write_text("\n".join(lines) + "\n")
    beside(log(other, "golden-multi-0", 0), ".index").unlink()
    assert run("fix", root, other, "--apply").lines[-1].startswith("2 repairs are done")
    first = without_lock(str(root)), without_lock(str(other))
    beside(log(root, number=2), ".index").unlink()
    run("fix", root, "--apply")
    assert run("fix", root, other, "--undo").lines[-1] == "1 repair is undone"
    assert without_lock(str(other)) == first[1]
    beside(log(root, number=1), ".index").write_bytes(b"changed!")
    assert run("fix", root, other, "--undo").code == 1
    assert without_lock(str(other)) == first[1]


def test_what_nobody_can_repair_here_is_told(root: Path) -> None:
    (root / "meta.properties").write_bytes(b"\xff\xfe\x00" * 100)
    told = run("fix", root, "--apply", "--json")
    assert told.code == 1
    assert "meta.properties has to be mended by hand" in told.out


def test_a_plan_is_for_apply(root: Path, tmp_path: Path) -> None:
    assert run("fix", root, "--undo", "--plan", tmp_path / "plan.json").code == 2


def test_a_directory_that_is_no_root_is_left_alone(root: Path) -> None:
    """Somebody's home: all of it would go to a quarantine."""
    home = root.parent
    for name in (".ssh", "photos-2024"):
        (home / name).mkdir()
        (home / name / "one").write_text("mine")
    for option in ((), ("--apply",)):
        told = run("fix", home, *option)
        assert told.code == 2
        assert "is not a disk of a broker" in told.err
    assert sorted(path.name for path in home.iterdir()) == [".ssh", "photos-2024", "root"]


def test_a_root_in_a_root_is_not_moved(root: Path) -> None:
    shutil.copytree(root, root / "inner")
    shutil.copytree(root, root / "disks" / "one")
    (root / "notes").mkdir()
    told = run("fix", root, "--apply")
    assert told.code == 1
    assert "inner has to go by hand" in told.out
    assert (root / "inner" / "meta.properties").exists()
    assert (root / "disks" / "one" / "meta.properties").exists()
    assert not (root / "notes").exists()


def test_a_lost_identity_gets_the_directory_id_of_the_metadata(root: Path) -> None:
    """With another one nobody would lead the partitions of this disk."""
    other = second(root)
    other.mkdir()
    shutil.move(root / "golden-none-0", other)
    wanted = (root / "meta.properties").read_text()
    (root / "meta.properties").rename(other / "meta.properties")
    (root / "meta.properties").write_text(
        "".join(line for line in wanted.splitlines(True) if not line.startswith("directory.id"))
    )
    (other / "meta.properties").unlink()
    run("fix", root, other, "--apply")
    (line,) = [line for line in wanted.splitlines() if line.startswith("directory.id")]
    assert line.replace("\\", "") in (other / "meta.properties").read_text().replace("\\", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may write into a root that nobody may write")
def test_a_root_of_a_read_only_copy_is_mended_and_given_back(root: Path) -> None:
    (root / ".lock").touch()
    for path in (root, *root.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = without_lock(str(root)), root.stat().st_mode
    shown = run("fix", root)
    assert "more, which --plan and --json name" in shown.out
    assert run("fix", root, "--apply").code == 0
    assert root.stat().st_mode & 0o777 == 0o755
    assert run("doctor", root).code == 0
    undone = run("fix", root, "--undo")
    assert undone.code == 0, undone.err
    assert (without_lock(str(root)), root.stat().st_mode) == before


def test_a_directory_that_goes_is_not_mended_as_well(root: Path) -> None:
    """What a move between disks was filling has the partition's own damage."""
    future = root / f"golden-none-0.{'a' * 32}-future"
    flip(log(root, number=1), 100)
    shutil.copytree(root / "golden-none-0", future)
    (root / ".lock").touch()
    before = without_lock(str(root))
    done = run("fix", root, "--apply", "--json")
    assert done.code == 0, done.err
    titles = [json.loads(line)["title"] for line in done.lines]
    assert [title for title in titles if "in order" in title] == ["bring golden-none-0 in order"]
    assert run("doctor", root, "--quiet").code == 0
    assert run("fix", root, "--undo").code == 0
    assert without_lock(str(root)) == before
