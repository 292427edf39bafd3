"""Directories that are renamed while in use, and files that are replaced whole."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.storage import (
    LOCAL,
    Directory,
    File,
    LocalFileSystem,
    atomic_create,
    atomic_write,
    make_directories,
    read_file,
)
from tidelog.testing.crash import CrashFileSystem

if TYPE_CHECKING:
    from _typeshed import StrPath


def test_files_are_found_after_the_directory_moved(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    directory = Directory(tmp_path / "t-0")
    directory.open("a", create=True).pwrite(b"a", 0)
    directory.move(tmp_path / "t-0.0123-delete")
    assert directory.open("a").pread(1, 0) == b"a"
    assert directory.path == str(tmp_path / "t-0.0123-delete")
    directory.rename("a", "b")
    assert not directory.exists("a")
    assert directory.unlink("b")
    assert not directory.unlink("b")
    directory.sync()


def test_a_failed_move_leaves_the_name(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "f").touch()
    directory = Directory(tmp_path / "t-0")
    with pytest.raises(OSError, match="not empty"):
        directory.move(tmp_path / "other")
    assert directory.path == str(tmp_path / "t-0")


def test_opening_never_misses_a_moving_directory(tmp_path: Path) -> None:
    (tmp_path / "d0").mkdir()
    (tmp_path / "d0" / "f").write_bytes(b"x")
    directory = Directory(tmp_path / "d0")
    failures: list[OSError] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                directory.open("f").pread(1, 0)
            except OSError as error:
                failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(1, 200):
        directory.move(tmp_path / f"d{i % 2}")
    done.set()
    reader.join()
    assert failures == []


class RecordedFile:
    """A file that writes down what is done to it."""

    def __init__(self, file: File, events: list[str]) -> None:
        self._file = file
        self._events = events
        self._name = Path(file.path).name

    def pwrite(self, data: bytes, position: int) -> int:
        self._events.append(f"write {self._name}")
        return self._file.pwrite(data, position)

    def sync(self) -> None:
        self._events.append(f"sync {self._name}")
        self._file.sync()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class Recording(LocalFileSystem):
    """Writes down the order of what matters for durability."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def open(self, path: StrPath, *, writable: bool = False, create: bool = False) -> Any:
        return RecordedFile(super().open(path, writable=writable, create=create), self.events)

    def rename(self, source: StrPath, target: StrPath) -> None:
        self.events.append(f"rename {Path(source).name} {Path(target).name}")
        super().rename(source, target)

    def sync_directory(self, path: StrPath) -> None:
        self.events.append(f"sync directory {Path(path).name}")
        super().sync_directory(path)


def test_atomic_write_syncs_before_it_renames_and_the_directory_after(tmp_path: Path) -> None:
    fs = Recording()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f.tmp").write_bytes(b"left by a crash, and longer")
    atomic_write(fs, tmp_path / "d" / "f", b"new")
    assert fs.events == ["write f.tmp", "sync f.tmp", "rename f.tmp f", "sync directory d"]
    assert (tmp_path / "d" / "f").read_bytes() == b"new"
    assert not (tmp_path / "d" / "f.tmp").exists()
    fs.events.clear()
    atomic_write(fs, tmp_path / "d" / "f", b"newer", sync_directory=False)
    assert "sync directory d" not in fs.events


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    class Full(Recording):
        def rename(self, source: StrPath, target: StrPath) -> None:
            raise OSError(28, "No space left on device")

    (tmp_path / "f").write_bytes(b"old")
    with pytest.raises(OSError, match="No space"):
        atomic_write(Full(), tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old"
    atomic_write(LOCAL, tmp_path / "f", b"newer")
    assert (tmp_path / "f").read_bytes() == b"newer"


def test_atomic_create_takes_no_name_that_is_taken(tmp_path: Path) -> None:
    atomic_create(LOCAL, tmp_path / "f", b"one")
    with pytest.raises(FileExistsError):
        atomic_create(LOCAL, tmp_path / "f", b"two")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"f": b"one"}


@pytest.mark.parametrize("kept", ["synced", "all", "some"])
def test_what_atomic_create_made_survives_the_power_whole(kept: str) -> None:
    fs = CrashFileSystem()
    make_directories(fs, "/a/b")
    made = fs.steps
    atomic_create(fs, "/a/b/f", b"content")
    for step in range(made, fs.steps + 1):
        after = fs.crash(step, seed=step, kept=kept)
        assert after.exists("/a/b")
        if after.exists("/a/b/f"):
            assert read_file(after, "/a/b/f") == b"content"
        else:
            assert step < fs.steps
