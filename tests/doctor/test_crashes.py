"""A repair, or its undo, cut from power at any step: undone, everything is as it was before the repair."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.harming import beside, cut, leave, log, make_root, write_line
from tidelog.doctor.fixing import apply_plan, undo_last
from tidelog.storage import LOCAL, FileSystem, read_file
from tidelog.testing.crash import CrashFileSystem, copy_tree

NOW_MS = 1_800_000_000_000
ROOT = "/disk/root"


def content(fs: FileSystem, path: str = ROOT) -> dict[str, bytes]:
    """All files of a root; what a cut left of an atomic write is nobody's."""
    found = {}
    for entry in fs.list(path):
        inner = f"{path}/{entry.name}"
        if entry.is_directory:
            found |= content(fs, inner)
        elif not entry.name.endswith(".tmp"):
            found[inner] = read_file(fs, inner)
    return found


@pytest.fixture
def disk(tmp_path: Path) -> CrashFileSystem:
    """A root with several damages, safe on a simulated disk."""
    root = make_root(tmp_path / "root", "golden-none-0")
    cut(log(root, number=2), 700)
    beside(log(root, number=1), ".index").unlink()
    leave(root, ".cleaned", 3)
    (root / "golden-none-0" / "partition.metadata").unlink()
    write_line(root, "log-start-offset-checkpoint", "golden-none 0 9999999")
    (root / "backup").mkdir()
    fs = CrashFileSystem()
    fs.make_directory("/disk")
    copy_tree(LOCAL, str(root), fs, ROOT)
    return fs.crash(kept="all")


def test_a_repair_that_is_cut_short_is_undone(disk: CrashFileSystem) -> None:
    before = content(disk)
    apply_plan(disk, [ROOT], now_ms=NOW_MS)
    assert content(disk) != before
    for step in range(0, disk.steps + 1, 2):
        after = disk.crash(step, seed=step)
        undo_last(after, [ROOT])
        assert content(after) == before, (step, disk.operation(step) if step else None)


def test_an_undo_that_is_cut_short_is_undone(disk: CrashFileSystem) -> None:
    before = content(disk)
    apply_plan(disk, [ROOT], now_ms=NOW_MS)
    mended = disk.crash(kept="all")
    undo_last(mended, [ROOT])
    assert content(mended) == before
    for step in range(0, mended.steps + 1, 2):
        after = mended.crash(step, seed=step)
        undo_last(after, [ROOT])
        assert content(after) == before, step


def test_a_repair_that_was_cut_short_is_applied_again(disk: CrashFileSystem) -> None:
    apply_plan(disk, [ROOT], now_ms=NOW_MS)
    middle = disk.crash(disk.steps // 2, seed=1)
    plan, done = apply_plan(middle, [ROOT], now_ms=NOW_MS)
    assert done
    again, _ = apply_plan(middle, [ROOT], now_ms=NOW_MS)
    assert plan.steps
    assert [step for step in again.steps if step.actions] == []
