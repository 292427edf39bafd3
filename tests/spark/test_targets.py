"""The target of an export: a run adds all of its files or none, wherever it dies."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tidelog.errors import DataLossError, InvalidInputError, LogLockedError
from tidelog.spark.exporting.directory import Done, ExportTarget, StagedFile, target_place
from tidelog.spark.exporting.storage import ObjectPlace
from tidelog.types import TopicPartition

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


class Died(Exception):
    """Stands for the end of a process."""


def visible(target: Path) -> list[str]:
    found = (path for path in target.rglob("*") if path.is_file())
    return sorted(str(path.relative_to(target)) for path in found if path.parts[len(target.parts)][0] != "_")


def stage(held: ExportTarget, *names: str) -> list[StagedFile]:
    files = []
    for name in names:
        staged = f"{held.staging}/{name}"
        with held.place.sink(staged) as sink:
            sink.write(name.encode())
        assert held.place.finish(staged) == len(name)
        files.append(StagedFile(staged, f"topic=a/{name}.parquet"))
    return files


def let_go(held: ExportTarget) -> None:
    """What the system does with a dead process's lock."""
    held.place.release()


def test_runs_add_up(tmp_path: Path) -> None:
    held = ExportTarget(tmp_path / "out")
    assert held.done().offsets == {}
    held.commit(Done({A0: 10, B0: 3}), stage(held, "one"))
    assert visible(tmp_path / "out") == ["topic=a/one.parquet"]
    assert held.done().offsets == {A0: 10, B0: 3}
    held.release()
    held = ExportTarget(tmp_path / "out")
    held.commit(Done({A0: 12, B0: 3}), stage(held, "two"))
    held.release()
    assert visible(tmp_path / "out") == ["topic=a/one.parquet", "topic=a/two.parquet"]
    assert ExportTarget(tmp_path / "out").done().offsets == {A0: 12, B0: 3}
    assert not (tmp_path / "out/_tidelog/staging").exists()


def test_dead_before_the_commit_nothing_is_added(tmp_path: Path) -> None:
    held = ExportTarget(tmp_path)
    stage(held, "one", "two")
    let_go(held)
    again = ExportTarget(tmp_path)
    assert visible(tmp_path) == []
    assert again.done().offsets == {}
    assert not (tmp_path / "_tidelog/staging").exists()


@pytest.mark.parametrize("renames", [0, 1, 2, 3])
def test_dead_after_the_commit_the_next_run_completes_it(
    tmp_path: Path, renames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidelog.storage import LocalFileSystem

    held = ExportTarget(tmp_path)
    files = stage(held, "one", "two", "three")
    rename, done = LocalFileSystem.rename, 0

    def dying(self: LocalFileSystem, source: Path, target: Path) -> None:
        nonlocal done
        if str(target).endswith(".parquet"):
            if done == renames:
                raise Died
            done += 1
        elif done == 3 == renames and str(target).endswith("published"):
            raise Died
        rename(self, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(LocalFileSystem, "rename", dying)
        with pytest.raises(Died):
            held.commit(Done({A0: 10}), files)
    let_go(held)
    assert len(visible(tmp_path)) == renames
    again = ExportTarget(tmp_path)
    assert visible(tmp_path) == [f"topic=a/{name}.parquet" for name in ("one", "three", "two")]
    assert again.done().offsets == {A0: 10}
    assert (tmp_path / "topic=a/one.parquet").read_text() == "one"


def test_one_run_at_a_time(tmp_path: Path) -> None:
    held = ExportTarget(tmp_path)
    with pytest.raises(LogLockedError):
        ExportTarget(tmp_path)
    held.release()
    ExportTarget(tmp_path).release()


def test_a_run_that_came_in_between_wins(tmp_path: Path) -> None:
    held = ExportTarget(tmp_path)
    let_go(held)  # as on a file system whose locks do not work
    other = ExportTarget(tmp_path)
    other.commit(Done({A0: 10}), stage(other, "one"))
    with pytest.raises(LogLockedError, match=r"another export to .* came in between; nothing was added"):
        held.commit(Done({A0: 10}), stage(held, "late"))
    assert visible(tmp_path) == ["topic=a/one.parquet"]


def test_an_exported_file_that_is_lost_is_told(tmp_path: Path) -> None:
    held = ExportTarget(tmp_path)
    files = stage(held, "one")
    (tmp_path / files[0].staged).unlink()
    with pytest.raises(DataLossError, match="is neither there nor in the staging"):
        held.commit(Done({A0: 10}), files)


def test_an_export_is_made_one_way(tmp_path: Path) -> None:
    held = ExportTarget(tmp_path)
    assert held.agree({"values": "json", "columns": ["a"]}) == {"values": "json", "columns": ["a"]}
    held.remember(schemas={"t": "x"})
    assert held.agree({"values": "json"})["schemas"] == {"t": "x"}
    with pytest.raises(InvalidInputError, match="was exported with values 'json', not 'bytes'"):
        held.agree({"values": "bytes"})


# ---- an object store: no lock, no rename


@pytest.fixture
def bucket() -> Iterator[str]:
    url = f"memory://{uuid.uuid4().hex}/lake"
    yield url
    fsspec.filesystem("memory").rm(url, recursive=True)


def objects(url: str, below: str = "topic=a") -> dict[str, bytes]:
    place = target_place(url)
    return {name: place.read(f"{below}/{name}") for name in place.names(below)}


def test_runs_add_up_in_an_object_store(bucket: str) -> None:
    held = ExportTarget(bucket)
    held.commit(Done({A0: 10, B0: 3}), stage(held, "one"))
    held.release()
    held = ExportTarget(bucket)
    assert held.done().offsets == {A0: 10, B0: 3}
    held.commit(Done({A0: 12, B0: 3}), stage(held, "two"))
    held.release()
    assert objects(bucket) == {"one.parquet": b"one", "two.parquet": b"two"}
    assert ExportTarget(bucket).done().offsets == {A0: 12, B0: 3}
    assert target_place(bucket).names("_tidelog/staging") == []


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_dead_after_the_commit_in_an_object_store(
    bucket: str, moves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = ExportTarget(bucket)
    files = stage(held, "one", "two", "three")
    move, done = ObjectPlace.move, 0

    def dying(self: ObjectPlace, source: str, target: str) -> None:
        nonlocal done
        if done == moves:
            raise Died
        done += 1
        move(self, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(ObjectPlace, "move", dying)
        with pytest.raises(Died):
            held.commit(Done({A0: 10}), files)
    assert len(objects(bucket)) == moves
    assert ExportTarget(bucket).done().offsets == {A0: 10}
    assert objects(bucket) == {f"{name}.parquet": name.encode() for name in ("one", "three", "two")}


def test_of_two_runs_in_an_object_store_one_wins_and_loses_nothing(bucket: str) -> None:
    slow, fast = ExportTarget(bucket), ExportTarget(bucket)
    staged = stage(slow, "slow")
    fast.commit(Done({A0: 10}), stage(fast, "fast"))
    fast.release()
    with pytest.raises(LogLockedError, match="came in between; nothing was added"):
        slow.commit(Done({A0: 9}), staged)
    slow.release()
    assert objects(bucket) == {"fast.parquet": b"fast"}
    winner, waiting = ExportTarget(bucket), ExportTarget(bucket)
    files = stage(winner, "more")
    waiting.release()  # must not take away what the other has staged
    winner.commit(Done({A0: 20}), files)
    assert sorted(objects(bucket)) == ["fast.parquet", "more.parquet"]


class PlainStore(MemoryFileSystem):
    """As stores whose fsspec class knows nothing of `mode`."""

    protocol = "plain"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def pipe_file(self, path: str, value: bytes) -> None:
        super().pipe_file(path, value)


class FailingStore(MemoryFileSystem):
    """Refuses what is written."""

    protocol = "failing"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite") -> None:
        raise ValueError("no such signature")

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        if "forbidden" in path:
            raise PermissionError(path)


def test_a_store_without_conditional_writes_is_looked_at_first() -> None:
    fsspec.register_implementation("plain", PlainStore, clobber=True)
    place = ObjectPlace("plain://lake")
    place.create("a", b"1")
    with pytest.raises(FileExistsError):
        place.create("a", b"2")
    assert place.read("a") == b"1"


def test_a_store_that_fails_says_so() -> None:
    """What it refuses is not taken for what it does not know."""
    fsspec.register_implementation("failing", FailingStore, clobber=True)
    place = ObjectPlace("failing://lake")
    with pytest.raises(ValueError, match="no such signature"):
        place.create("a", b"1")
    with pytest.raises(PermissionError):
        place.write("forbidden/a", b"1")
