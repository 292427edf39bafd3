"""A rewrite cut from power at any step: every record is as before or as after, and undo brings all back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rewriting.rewritten import root_with
from tidelog.config import LogConfig
from tidelog.doctor.fixing import undo_last
from tidelog.doctor.quarantine import find_runs
from tidelog.log import Log
from tidelog.records.decode import read_record_batches
from tidelog.rewriting.edits import Edits, Span
from tidelog.rewriting.rewrite import Rewriting, rewrite_root, threads
from tidelog.storage import LOCAL, FileSystem, read_file
from tidelog.storage.names import CLEAN_SHUTDOWN_FILE
from tidelog.testing.crash import CrashFileSystem, copy_tree

ROOT = "/disk/root"
NAME = "golden-multi-0"
EDITS = Edits(span=Span(600), erase=True)
STEPS = 13


def content(fs: FileSystem, path: str = ROOT) -> dict[str, bytes]:
    """All files of a root, but for what a crash takes away and what an atomic write leaves."""
    found = {}
    for entry in fs.list(path):
        inner = f"{path}/{entry.name}"
        if entry.is_directory:
            found |= content(fs, inner)
        elif not entry.name.endswith(".tmp") and entry.name != CLEAN_SHUTDOWN_FILE:
            found[inner] = read_file(fs, inner)
    return found


def loaded(fs: FileSystem) -> tuple[int, list[tuple[int, bytes | None]]]:
    """The log after a start that follows a crash: its end, and the records in it."""
    with Log.open(f"{ROOT}/{NAME}", LogConfig(), recovery_point=700, fs=fs) as log:
        end = log.log_end_offset
        data = [bytes(segment.buffer()) for segment in log.segments]
    batches = [one for each in data for one in read_record_batches(each, columns=["offset", "value"])]
    return end, [(row["offset"], row["value"]) for batch in batches for row in batch.to_pylist()]


def do(fs: FileSystem, *, discard: bool = False) -> None:
    rewrite_root(Rewriting(fs, ROOT, (NAME,), EDITS, discard), threads(fs))


@pytest.fixture
def disk(tmp_path: Path) -> CrashFileSystem:
    root = root_with(tmp_path / "root", NAME)
    fs = CrashFileSystem()
    fs.make_directory("/disk")
    copy_tree(LOCAL, str(root), fs, ROOT)
    return fs.crash(kept="all")


@pytest.mark.parametrize("discard", [False, True])
def test_a_crash_leaves_each_segment_old_or_new(disk: CrashFileSystem, discard: bool) -> None:
    end, before = loaded(disk.crash(kept="all"))
    do(disk, discard=discard)
    after = [row for row in before if row[0] < 600]
    assert loaded(disk.crash(kept="all")) == (end, after)
    for step in range(0, disk.steps + 1, STEPS):
        found_end, found = loaded(disk.crash(step, seed=step))
        assert found_end == end, step
        assert found in (before, after), (step, disk.operation(step) if step else None)


def test_a_rewrite_that_is_cut_short_is_undone(disk: CrashFileSystem) -> None:
    before = content(disk)
    do(disk)
    assert content(disk) != before
    for step in range(0, disk.steps + 1, STEPS):
        crashed = disk.crash(step, seed=step)
        if list(find_runs(crashed, ROOT)):
            undo_last(crashed, [ROOT])
        found = content(crashed)
        staged = {path for path in found if "/staged/" in path}
        assert {path: found[path] for path in found if path not in staged} == before, step
