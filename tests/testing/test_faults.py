"""A faulty file system fails where it is told to, and nowhere else."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tidelog.storage import LOCAL, atomic_write, read_file
from tidelog.testing.faults import Fault, FaultyFileSystem, disk_full, fail_at, fail_on, read_only


def healthy(call: object) -> Fault | None:
    return None


def test_without_faults_it_is_the_file_system_below(tmp_path: Path) -> None:
    fs = FaultyFileSystem(LOCAL, healthy)
    fs.make_directory(tmp_path / "d")
    atomic_write(fs, tmp_path / "d" / "f", b"bytes")
    fs.link(tmp_path / "d" / "f", tmp_path / "d" / "g")
    file = fs.open(tmp_path / "d" / "f", writable=True)
    file.allocate(0, 5)
    mapping = file.map_writable()
    mapping.buffer[0] = ord("B")
    mapping.flush()
    mapping.close()
    fs.set_mtime(tmp_path / "d" / "g", 5000)
    assert bytes(file.map_readonly()) == b"Bytes"
    assert (file.size(), file.path, fs.stat(tmp_path / "d" / "g").mtime_ms) == (
        5,
        str(tmp_path / "d" / "f"),
        5000,
    )
    fs.unlink(tmp_path / "d" / "g")
    fs.unlink(tmp_path / "d" / "f")
    assert fs.list(tmp_path / "d") == []
    fs.remove_directory(tmp_path / "d")
    assert (fs.exists(tmp_path / "d"), fs.faults, fs.calls > 10) == (False, 0, True)


def test_the_nth_change_fails_and_reads_do_not_count(tmp_path: Path) -> None:
    fs = FaultyFileSystem(LOCAL, fail_at(3, errno.EIO, times=2, written=2))
    file = fs.open(tmp_path / "f", create=True)
    file.pwrite(b"12345", 0)
    assert file.pread(5, 0) == b"12345"
    with pytest.raises(OSError, match="Input/output error") as caught:
        file.pwrite(b"abcde", 0)
    assert caught.value.filename == str(tmp_path / "f")
    assert file.pread(5, 0) == b"ab345"
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()
    assert fs.faults == 2


def test_an_operation_on_a_name_fails(tmp_path: Path) -> None:
    fs = FaultyFileSystem(LOCAL, fail_on("pwrite", "*.log", errno.EIO, times=1))
    log, index = fs.open(tmp_path / "0.log", create=True), fs.open(tmp_path / "0.index", create=True)
    index.pwrite(b"x", 0)
    with pytest.raises(OSError, match="Input/output error"):
        log.pwritev([b"x"], 0)
    log.pwrite(b"x", 0)
    fs.rule = fail_on("*", "0.log", errno.EIO)
    for call in (log.sync, log.map_writable, lambda: log.pread(1, 0), lambda: fs.stat(tmp_path / "0.log")):
        with pytest.raises(OSError, match="Input/output error"):
            call()
    index.sync()


def test_a_full_disk_takes_what_fits(tmp_path: Path) -> None:
    old = LOCAL.open(tmp_path / "old", create=True)
    old.pwrite(bytes(100), 0)
    fs = FaultyFileSystem(LOCAL, disk_full(10))
    file = fs.open(tmp_path / "old", writable=True)
    file.pwrite(b"y" * 100, 0)
    file.pwrite(b"z" * 6, 100)
    with pytest.raises(OSError, match="No space left on device"):
        file.pwrite(b"z" * 6, 106)
    assert file.size() == 110
    with pytest.raises(OSError, match="No space left on device"):
        fs.open(tmp_path / "new", create=True).allocate(0, 1)
    file.pwrite(b"again", 3)


def test_a_read_only_file_system_can_be_read(tmp_path: Path) -> None:
    atomic_write(LOCAL, tmp_path / "f", b"bytes")
    fs = FaultyFileSystem(LOCAL, read_only())
    assert read_file(fs, tmp_path / "f") == b"bytes"
    for call in (
        lambda: fs.open(tmp_path / "f", writable=True),
        lambda: fs.open(tmp_path / "g", create=True),
        lambda: fs.rename(tmp_path / "f", tmp_path / "g"),
        lambda: fs.link(tmp_path / "f", tmp_path / "g"),
        lambda: fs.unlink(tmp_path / "f"),
        lambda: fs.make_directory(tmp_path / "d"),
        lambda: fs.remove_directory(tmp_path / "d"),
        lambda: fs.sync_directory(tmp_path),
        lambda: fs.set_mtime(tmp_path / "f", 1),
    ):
        with pytest.raises(OSError, match="Read-only file system"):
            call()
    assert [entry.name for entry in fs.list(tmp_path)] == ["f"]
