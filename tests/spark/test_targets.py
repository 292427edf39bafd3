"""The target of an export: a run adds all of its files or none, wherever it dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.errors import DataLossError, InvalidInputError, LogLockedError
from tidelog.spark.targets import ExportTarget, StagedFile
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
        staged = held.staging / name
        staged.write_text(name)
        files.append(StagedFile(str(staged.relative_to(held.target)), f"topic=a/{name}.parquet"))
    return files


def let_go(held: ExportTarget) -> None:
    """What the system does with a dead process's lock."""
    held._lock.release()


def test_runs_add_up(tmp_path: Path) -> None:
    held = ExportTarget(tmp_path / "out")
    assert held.next_offsets() == {}
    held.commit({A0: 10, B0: 3}, stage(held, "one"))
    assert visible(held.target) == ["topic=a/one.parquet"]
    assert held.next_offsets() == {A0: 10, B0: 3}
    held.release()
    held = ExportTarget(tmp_path / "out")
    held.commit({A0: 12, B0: 3}, stage(held, "two"))
    held.release()
    assert visible(held.target) == ["topic=a/one.parquet", "topic=a/two.parquet"]
    assert ExportTarget(tmp_path / "out").next_offsets() == {A0: 12, B0: 3}
    assert not (tmp_path / "out/_tidelog/staging").exists()


def test_dead_before_the_commit_nothing_is_added(tmp_path: Path) -> None:
    held = ExportTarget(tmp_path)
    stage(held, "one", "two")
    let_go(held)
    again = ExportTarget(tmp_path)
    assert visible(tmp_path) == []
    assert again.next_offsets() == {}
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
            held.commit({A0: 10}, files)
    let_go(held)
    assert len(visible(tmp_path)) == renames
    again = ExportTarget(tmp_path)
    assert visible(tmp_path) == [f"topic=a/{name}.parquet" for name in ("one", "three", "two")]
    assert again.next_offsets() == {A0: 10}
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
    other.commit({A0: 10}, stage(other, "one"))
    with pytest.raises(LogLockedError, match=r"another export to .* came in between; nothing was added"):
        held.commit({A0: 10}, stage(held, "late"))
    assert visible(tmp_path) == ["topic=a/one.parquet"]


def test_an_exported_file_that_is_lost_is_told(tmp_path: Path) -> None:
    held = ExportTarget(tmp_path)
    files = stage(held, "one")
    (tmp_path / files[0].staged).unlink()
    with pytest.raises(DataLossError, match="is neither there nor in the staging"):
        held.commit({A0: 10}, files)


def test_an_export_is_made_one_way(tmp_path: Path) -> None:
    held = ExportTarget(tmp_path)
    assert held.agree({"values": "json", "columns": ["a"]}) == {"values": "json", "columns": ["a"]}
    held.remember("schemas", {"t": "x"})
    assert held.agree({"values": "json"})["schemas"] == {"t": "x"}
    with pytest.raises(InvalidInputError, match="was exported with values 'json', not 'bytes'"):
        held.agree({"values": "bytes"})
