"""Removing a directory touches nothing outside of it, whatever links and odd files are in it."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tidelog.storage import LOCAL, FileSystem
from tidelog.storage.removal import remove_tree
from tidelog.testing.faults import FaultyFileSystem

SYSTEMS = {"local": LOCAL, "wrapped": FaultyFileSystem(LOCAL, lambda call: None)}


@pytest.fixture(params=SYSTEMS)
def fs(request: pytest.FixtureRequest) -> FileSystem:
    return SYSTEMS[request.param]


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A directory outside, which must stay as it is."""
    there = tmp_path / "victim"
    (there / "sub").mkdir(parents=True)
    (there / "sub" / "precious").write_text("x")
    (there / "file").write_text("y")
    return there


def contents(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}


def test_links_of_every_kind_go_and_what_they_lead_to_stays(
    fs: FileSystem, tmp_path: Path, victim: Path
) -> None:
    before = contents(victim)
    gone = tmp_path / "gone"
    (gone / "inner" / "deep").mkdir(parents=True)
    for place in (gone, gone / "inner", gone / "inner" / "deep"):
        (place / "to-directory").symlink_to(victim)
        (place / "to-file").symlink_to(victim / "file")
        (place / "relative").symlink_to(os.path.relpath(victim, place))
        (place / "up").symlink_to("..")
        (place / "circle").symlink_to("circle")
        (place / "dangling").symlink_to("/nowhere/at/all")
        (place / "root").symlink_to("/")
        os.mkfifo(place / "fifo")
    os.link(victim / "file", gone / "hard")
    remove_tree(fs, str(gone))
    assert not gone.exists()
    assert contents(victim) == before


@pytest.mark.parametrize("target", ["victim", "/nowhere/at/all", "gone"])
def test_a_link_in_the_directorys_place_goes_alone(
    fs: FileSystem, tmp_path: Path, victim: Path, target: str
) -> None:
    before = contents(victim)
    gone = tmp_path / "gone"
    gone.symlink_to(target)
    remove_tree(fs, str(gone))
    assert not gone.is_symlink()
    assert contents(victim) == before


def test_what_is_gone_already_is_no_fault(fs: FileSystem, tmp_path: Path) -> None:
    remove_tree(fs, str(tmp_path / "never"))


def test_names_that_are_not_text_and_sockets_go(fs: FileSystem, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    (Path(os.fsdecode(bytes(gone) + b"/\xff\xfe-0"))).mkdir()
    (Path(os.fsdecode(bytes(gone) + b"/\xff\xfe-0/\x80"))).write_text("")
    with socket.socket(socket.AF_UNIX) as bound:
        with contextlib.chdir(gone):  # a socket's path is short
            bound.bind("s")
        remove_tree(fs, str(gone))
    assert not gone.exists()


def test_a_tree_deeper_than_descriptors_and_path_names_goes(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    with contextlib.chdir(gone):
        for _ in range(3000):
            Path("deep").mkdir()
            os.chdir("deep")
    remove_tree(LOCAL, str(gone))
    assert not gone.exists()


def test_a_link_put_in_a_directorys_place_meanwhile_is_not_followed(tmp_path: Path, victim: Path) -> None:
    """A directory and a link to the victim swap names, all the time; the victim stays."""
    before = contents(victim)
    stop = threading.Event()
    work = tmp_path / "work"
    work.mkdir()

    def swap() -> None:
        while not stop.is_set():
            for name in ("a", "b"):
                aside = work / f"{name}.aside"
                try:
                    (work / "gone" / name).rename(aside)
                    (work / "gone" / name).symlink_to(victim)
                    (work / "gone" / name).unlink()
                    aside.rename(work / "gone" / name)
                except OSError:
                    continue

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                for name in ("a", "b"):
                    (work / "gone" / name / "sub").mkdir(parents=True, exist_ok=True)
            for _ in range(5):
                with contextlib.suppress(OSError):
                    remove_tree(LOCAL, str(work / "gone"))
    finally:
        stop.set()
        thread.join()
    assert contents(victim) == before


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound, contextlib.chdir(path.parent):
        bound.bind(path.name)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [_fifo, _socket, _device])
@pytest.mark.parametrize("writable", [False, True])
def test_what_is_no_file_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], None], writable: bool
) -> None:
    make(tmp_path / "odd")
    with pytest.raises(OSError, match=r"not a file|symbolic link") as caught:
        LOCAL.open(tmp_path / "odd", writable=writable, create=writable)
    assert caught.value.filename == str(tmp_path / "odd")


def test_a_link_is_read_through_but_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("fresh")
    assert LOCAL.open(tmp_path / "link").pread(1, 0) == b"x"
    for name in ("link", "dangling"):
        with pytest.raises(OSError, match="symbolic link") as caught:
            LOCAL.open(tmp_path / name, create=True)
        assert caught.value.errno == errno.ELOOP
    assert not (tmp_path / "fresh").exists()


def test_links_that_lead_in_circles_are_listed(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "d").mkdir()
    (tmp_path / "to-d").symlink_to("d")
    found = {entry.name: (entry.is_directory, entry.is_link) for entry in LOCAL.list(tmp_path)}
    assert found == {"circle": (False, True), "d": (True, False), "to-d": (True, True)}


def test_several_may_remove_the_same_directory_while_files_in_it_are_renamed(tmp_path: Path) -> None:
    """A move that fails and the deletion of its topic do, beside a log that deletes its segments."""
    for attempt in range(10):
        path = tmp_path / str(attempt)
        (path / "inner" / "inmost").mkdir(parents=True)
        for number in range(200):
            (path / f"{number}.log").touch()
            (path / "inner" / f"{number}.log").touch()

        def rename(path: Path = path) -> None:
            for number in range(200):
                with contextlib.suppress(FileNotFoundError):
                    (path / f"{number}.log").rename(path / f"{number}.log.deleted")

        with ThreadPoolExecutor(4) as pool:
            renaming = pool.submit(rename)
            removing = [pool.submit(remove_tree, LOCAL, str(path)) for _ in range(3)]
            for one in (renaming, *removing):
                one.result()
        assert not path.exists()
