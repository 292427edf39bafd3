"""Readers beside a writer that renames, replaces and removes files between any two of their looks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tidelog.cli.actions.reading import select
from tidelog.errors import DataLossError
from tidelog.records import Record
from tidelog.scanning.partitions import list_partitions
from tidelog.storage.files import DirEntry, FileStat
from tidelog.storage.local import LocalFileSystem
from tidelog.storage.lock import RootLock

FIRST = "00000000000000000000"


class Restless:
    """Does the next thing of a list each time before a name or a directory is looked at."""

    def __init__(self, steps: Sequence[Callable[[], object] | None]) -> None:
        self.steps = list(steps)

    def step(self) -> None:
        if self.steps:
            do = self.steps.pop(0)
            if do is not None:
                do()


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> Restless:
    """What happens before each listing and each look at a log's size, of the local file system."""
    found = Restless([])
    list_names, stat = LocalFileSystem.list, LocalFileSystem.stat

    def listed(self: LocalFileSystem, path: str) -> Sequence[DirEntry]:
        found.step()
        return list_names(self, path)

    def looked_at(self: LocalFileSystem, path: str) -> FileStat:
        if str(path).endswith(".log"):
            found.step()
        return stat(self, path)

    monkeypatch.setattr(LocalFileSystem, "list", listed)
    monkeypatch.setattr(LocalFileSystem, "stat", looked_at)
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a partition of three segments."""
    with tidelog.open(tmp_path / "root", background=False) as store:
        partition = store.create_topic("t", 1)[0]
        for number in range(6):
            partition.append([Record(b"%d" % number)])
            if number % 2:
                partition.log.roll()
    return tmp_path / "root"


def offsets(root: Path) -> list[int]:
    return tidelog.scan(root).read_all().column("offset").to_pylist()


def rename(directory: Path, source: str, target: str) -> Callable[[], object]:
    return lambda: (directory / source).rename(directory / target)


def replacement(directory: Path) -> list[Callable[[], object]]:
    """The steps by which a writer puts a new first segment in the place of the old one."""
    shutil.copy(directory / f"{FIRST}.log", directory / f"{FIRST}.log.swap")
    return [
        rename(directory, f"{FIRST}.log", f"{FIRST}.log.deleted"),
        rename(directory, f"{FIRST}.log.swap", f"{FIRST}.log"),
    ]


@pytest.mark.parametrize("before", range(8))
@pytest.mark.parametrize("between", range(4))
def test_a_segment_that_is_replaced_meanwhile_is_not_missed(
    root: Path, restless: Restless, before: int, between: int
) -> None:
    away, back = replacement(root / "t-0")
    with RootLock(root):
        restless.steps = [*[None] * before, away, *[None] * between, back]
        with suppress(DataLossError):  # it was planned, and has gone when it is to be read
            assert offsets(root) == [*range(6)]


def test_a_replacement_that_a_crash_has_cut_short_does_not_keep_readers_waiting(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    away, _ = replacement(root / "t-0")
    away()
    with pytest.raises(DataLossError, match=r"replacing the segment at offset 0 of .*tidelog recover"):
        offsets(root)
    with tidelog.open(root, mode="r") as store, pytest.raises(DataLossError, match="tidelog recover"):
        list(store["t"][0])
    assert "tidelog recover" in caplog.text
    losses: list[Any] = []
    rest = tidelog.scan(root, corrupt="skip", on_loss=losses.append).read_all()
    assert rest.column("offset").to_pylist() == [2, 3, 4, 5]
    assert [(loss.first_offset, loss.end_offset) for loss in losses] == [(0, 2)]
    assert tidelog.scan(root, start=3).read_all().num_rows == 3


def test_a_segment_that_is_deleted_meanwhile_is_gone(root: Path, restless: Restless) -> None:
    restless.steps = [None, None, None, lambda: [one.unlink() for one in root.glob(f"t-0/{FIRST}.*")]]
    assert offsets(root) in ([2, 3, 4, 5], [*range(6)])


@pytest.mark.parametrize("before", range(6))
def test_a_partition_that_moves_meanwhile_is_there_once(
    root: Path, tmp_path: Path, restless: Restless, before: int
) -> None:
    other = tmp_path / "other"
    other.mkdir()

    def move() -> None:
        (root / "t-0").rename(other / "t-0")

    for roots in ([root, other], [other, root]):
        restless.steps = [*[None] * before, move]
        there = list_partitions(roots)
        assert [str(one.topic_partition) for one in there if not one.is_internal] == ["t-0"]
        restless.steps = []
        if (other / "t-0").exists():
            (other / "t-0").rename(root / "t-0")


def test_a_partition_for_a_moment_in_both_roots_is_no_error(
    root: Path, tmp_path: Path, restless: Restless
) -> None:
    other = tmp_path / "other"
    shutil.copytree(root / "t-0", other / "t-0")
    restless.steps = [None, None, None, lambda: shutil.rmtree(root / "t-0")]
    with RootLock(root):
        there = list_partitions([root, other])
    assert [one.url for one in there if not one.is_internal] == [f"{other}/t-0"]


@pytest.mark.parametrize("before", range(12))
def test_a_topic_that_is_deleted_meanwhile_is_left_out_of_many(
    root: Path, restless: Restless, before: int
) -> None:
    with tidelog.open(root) as store:
        store.create_topic("u", 1)[0].append([Record(b"u")])
    restless.steps = [*[None] * before, lambda: shutil.rmtree(root / "t-0")]
    found = select([str(root)])
    names = [str(one.partition.topic_partition) for one in found.ranges]
    assert names in (["t-0", "u-0"], ["u-0"])
