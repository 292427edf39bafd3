"""The local file system keeps the contracts of the seam."""

from __future__ import annotations

import errno
import gc
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mapped import resident_bytes
from tidelog.storage import LOCAL, DirEntry, map_file, read_file, release_pages, rename_noreplace
from tidelog.storage import local as local_module
from tidelog.storage.local import LocalFile


def descriptors() -> int:
    gc.collect()  # what earlier tests left must not go while this one counts
    return len(list(Path("/proc/self/fd").iterdir()))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = LOCAL.open(tmp_path / "f", create=True)
    assert file.pwrite(b"hello", 3) == 5
    assert file.size() == 8
    assert file.pread(100, 0) == b"\0\0\0hello"
    assert file.pread(2, 4) == b"el"
    assert file.pread(5, 8) == b""
    file.truncate(5)
    assert file.pread(100, 0) == b"\0\0\0he"
    file.truncate(7)
    assert file.pread(100, 0) == b"\0\0\0he\0\0"
    file.sync()
    file.close()
    assert read_file(LOCAL, tmp_path / "f") == b"\0\0\0he\0\0"


def test_an_open_file_is_not_made_unless_asked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LOCAL.open(tmp_path / "f")
    with pytest.raises(FileNotFoundError):
        LOCAL.open(tmp_path / "f", writable=True)
    LOCAL.open(tmp_path / "f", create=True).pwrite(b"kept", 0)
    assert LOCAL.open(tmp_path / "f", create=True).pread(9, 0) == b"kept"
    with pytest.raises(OSError, match="Bad file descriptor"):
        LOCAL.open(tmp_path / "f").pwrite(b"x", 0)


class Stingy:
    """A system that writes and reads at most a few bytes a call, as it may."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.calls = 0

    def pwrite(self, fd: int, data: bytes | memoryview, position: int) -> int:
        self.calls += 1
        return REAL_PWRITE(fd, memoryview(data).cast("B")[: self.most], position)

    def pwritev(self, fd: int, buffers: Sequence[bytes], position: int) -> int:
        return self.pwrite(fd, b"".join(bytes(memoryview(data).cast("B")) for data in buffers), position)

    def pread(self, fd: int, n: int, position: int) -> bytes:
        return REAL_PREAD(fd, min(n, self.most), position)


REAL_PWRITE, REAL_PREAD = os.pwrite, os.pread


@settings(max_examples=60, deadline=None)
@given(parts=st.lists(st.binary(max_size=40), max_size=6), most=st.integers(1, 30), start=st.integers(0, 9))
def test_short_writes_and_reads_are_finished(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], most: int, start: int
) -> None:
    path = tmp_path_factory.mktemp("short") / "f"
    stingy = Stingy(most)
    file = LOCAL.open(path, create=True)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("pwrite", "pwritev", "pread"):
            patch.setattr(local_module.os, name, getattr(stingy, name))
        whole = b"".join(parts)
        assert file.pwritev(parts, start) == len(whole)
        assert file.pread(len(whole) + 5, start) == whole
        assert file.pwrite(whole, start + len(whole)) == len(whole)
        assert file.pread(3 * len(whole), start) == whole * 2


def test_more_buffers_than_the_system_takes_at_once(tmp_path: Path) -> None:
    file = LOCAL.open(tmp_path / "f", create=True)
    buffers = [bytes([i % 251]) * (i % 5) for i in range(5000)]
    whole = b"".join(buffers)
    assert file.pwritev(buffers, 7) == len(whole)
    assert file.pread(len(whole) + 7, 0) == bytes(7) + whole


def test_buffers_of_wider_items_are_written_whole(tmp_path: Path) -> None:
    file = LOCAL.open(tmp_path / "f", create=True)
    data = memoryview(bytes(range(16))).cast("Q")
    assert file.pwrite(data, 0) == 16
    assert file.pwritev([data, data], 16) == 32
    assert file.pread(99, 0) == bytes(range(16)) * 3


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    file = LocalFile("/dev/full", os.open("/dev/full", os.O_RDWR))
    for write in (lambda: file.pwrite(b"x", 0), lambda: file.pwritev([b"x", b"y"], 0)):
        with pytest.raises(OSError, match="No space left") as caught:
            write()
        assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "/dev/full")


def test_a_closed_file_says_so(tmp_path: Path) -> None:
    file = LOCAL.open(tmp_path / "f", create=True)
    file.close()
    file.close()
    for call in (file.size, file.sync, lambda: file.pread(1, 0), lambda: file.pwrite(b"x", 0)):
        with pytest.raises(ValueError, match="f is closed"):
            call()


def test_files_and_mappings_give_their_descriptors_back(tmp_path: Path) -> None:
    before = descriptors()
    (tmp_path / "f").write_bytes(b"x" * 5000)
    views = [map_file(LOCAL, tmp_path / "f") for _ in range(50)]
    assert descriptors() == before, "a mapping keeps no descriptor"
    files = [LOCAL.open(tmp_path / "f") for _ in range(10)]
    assert descriptors() == before + 10
    for file in files[:5]:
        file.close()
    del file, files
    assert descriptors() == before
    assert all(bytes(view) == b"x" * 5000 for view in views)


def test_a_read_under_way_never_meets_a_recycled_descriptor(tmp_path: Path) -> None:
    """One thread closes the file and opens others; readers get its bytes or 'closed', never others."""
    (tmp_path / "right").write_bytes(b"right")
    (tmp_path / "wrong").write_bytes(b"wrong")
    wrong: list[bytes] = []
    current = [LOCAL.open(tmp_path / "right")]
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                data = current[0].pread(5, 0)
            except ValueError:
                continue
            if data != b"right":
                wrong.append(data)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(2000):
        current[0].close()
        others = [LOCAL.open(tmp_path / "wrong") for _ in range(2)]
        for other in others:
            other.close()
        current[0] = LOCAL.open(tmp_path / "right")
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []


def test_a_mapping_outlives_close_rename_and_unlink(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc" * 3000)
    file = LOCAL.open(tmp_path / "f")
    view = file.map_readonly()
    part = file.map_readonly(4)
    file.close()
    LOCAL.rename(tmp_path / "f", tmp_path / "g")
    LOCAL.unlink(tmp_path / "g")
    assert bytes(view) == b"abc" * 3000
    assert bytes(part) == b"abca"
    assert view.readonly
    with pytest.raises(TypeError):
        view[0] = 1


def test_mapping_nothing_and_too_much(tmp_path: Path) -> None:
    file = LOCAL.open(tmp_path / "f", create=True)
    assert bytes(file.map_readonly()) == b""
    mapping = file.map_writable()
    assert len(mapping.buffer) == 0
    mapping.flush()
    mapping.close()
    with pytest.raises(ValueError, match="has 0 bytes, not 1"):
        file.map_readonly(1)


def test_a_mapping_ahead_of_a_file_sees_it_grow(tmp_path: Path) -> None:
    file = LOCAL.open(tmp_path / "f", create=True)
    file.pwrite(b"a" * 10, 0)
    view = file.map_readonly(1 << 20, ahead=True)
    assert len(view) == 1 << 20
    file.pwrite(b"b" * 100_000, 10)
    assert view[:100_010] == b"a" * 10 + b"b" * 100_000
    with pytest.raises(ValueError, match="bytes, not"):
        file.map_readonly(1 << 20)


@pytest.mark.parametrize("cuts", [[0], [5000], [4096], [9000, 8999, 100], [8192, 4096, 0]])
def test_a_mapping_keeps_what_a_truncation_cuts(tmp_path: Path, cuts: list[int]) -> None:
    """Reading it would kill the process otherwise."""
    data = os.urandom(20_000)
    file = LOCAL.open(tmp_path / "f", create=True)
    file.pwrite(data, 0)
    ahead = file.map_readonly(1 << 20, ahead=True)
    views = [file.map_readonly(), file.map_readonly(9_500), map_file(LOCAL, tmp_path / "f"), ahead[:20_000]]
    piece = file.map_readonly()[19_000:19_010]
    for cut in cuts:
        LOCAL.open(tmp_path / "f", writable=True).truncate(cut)
        file.pwrite(b"new" * 3000, cut)
        for view in views:
            assert view == data[: len(view)]
        assert piece == data[19_000:19_010]
    assert file.map_readonly() == file.pread(1 << 20, 0) == data[: cuts[-1]] + b"new" * 3000


def test_pages_given_back_come_again_unless_they_were_cut_off(tmp_path: Path) -> None:
    data = os.urandom(64 << 10)
    file = LOCAL.open(tmp_path / "f", create=True)
    file.pwrite(data, 0)
    view, other = file.map_readonly(), memoryview(bytearray(b"mine"))
    assert view == data
    release_pages(view.obj)
    assert resident_bytes(tmp_path / "f") == 0
    assert view == data
    assert resident_bytes(tmp_path / "f") == len(data)
    file.truncate(10_000)  # what is cut off is a copy in memory from now on
    release_pages(view.obj)
    release_pages(other.obj)
    assert view == data
    assert other == b"mine"


def test_mappings_are_forgotten_when_nobody_holds_them(tmp_path: Path) -> None:
    gc.collect()
    before = dict(local_module._read_mappings._by_file)
    file = LOCAL.open(tmp_path / "f", create=True)
    file.pwrite(b"x" * 10_000, 0)
    first, second = file.map_readonly(), file.map_readonly()
    del first
    assert second[:1] == b"x"
    del second
    assert local_module._read_mappings._by_file == before


def test_a_writable_mapping_is_the_file(tmp_path: Path) -> None:
    file = LOCAL.open(tmp_path / "f", create=True)
    file.truncate(10_000)
    file.allocate(0, 10_000)
    mapping = file.map_writable()
    mapping.buffer[9_000:9_003] = b"abc"
    assert file.pread(3, 9_000) == b"abc"
    file.pwrite(b"xyz", 100)
    assert bytes(mapping.buffer[100:103]) == b"xyz"
    mapping.flush()
    looking = memoryview(mapping.buffer)
    with pytest.raises(BufferError):
        mapping.close()
    looking.release()


def test_allocate_keeps_bytes_and_takes_room(tmp_path: Path) -> None:
    file = LOCAL.open(tmp_path / "f", create=True)
    file.pwrite(b"abc", 0)
    file.truncate(1 << 20)
    blocks = (tmp_path / "f").stat().st_blocks
    file.allocate(0, 1 << 18)
    file.allocate(0, 0)
    assert (tmp_path / "f").stat().st_blocks > blocks
    assert file.size() == 1 << 20
    assert file.pread(4, 0) == b"abc\0"


def test_names(tmp_path: Path) -> None:
    LOCAL.make_directory(tmp_path / "d")
    with pytest.raises(FileExistsError):
        LOCAL.make_directory(tmp_path / "d")
    (tmp_path / "f").write_bytes(b"12345")
    LOCAL.set_mtime(tmp_path / "f", 1_700_000_000_123)
    assert sorted(LOCAL.list(tmp_path)) == [DirEntry("d", True), DirEntry("f", False)]
    assert LOCAL.stat(tmp_path / "f") == (5, 1_700_000_000_123, False)
    assert LOCAL.stat(tmp_path / "d").is_directory
    with pytest.raises(FileNotFoundError):
        LOCAL.stat(tmp_path / "none")
    assert LOCAL.exists(tmp_path / "f")
    assert not LOCAL.exists(tmp_path / "none")
    LOCAL.sync_directory(tmp_path)
    LOCAL.remove_directory(tmp_path / "d")
    LOCAL.unlink(tmp_path / "f")
    with pytest.raises(FileNotFoundError):
        LOCAL.unlink(tmp_path / "f")
    assert LOCAL.list(tmp_path) == []


def test_rename_replaces_and_rename_noreplace_does_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    with pytest.raises(FileExistsError):
        rename_noreplace(LOCAL, tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == b"a"
    assert (tmp_path / "b").read_bytes() == b"b"
    rename_noreplace(LOCAL, tmp_path / "a", tmp_path / "c")
    assert not (tmp_path / "a").exists()
    LOCAL.rename(tmp_path / "c", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"a"


def test_reserved_space_is_not_seen_and_goes_back(tmp_path: Path) -> None:
    """The length stays, and what was set aside and not used is given back by the next truncation."""
    file = LOCAL.open(tmp_path / "reserved", create=True)
    file.pwrite(b"x" * 5000, 0)
    if not file.reserve(5000, 1 << 20):
        pytest.skip("this file system cannot set space aside")
    assert file.size() == 5000
    file.sync()
    taken = (tmp_path / "reserved").stat().st_blocks * 512
    file.truncate(5000)
    file.sync()
    assert (tmp_path / "reserved").stat().st_blocks * 512 < taken - (1 << 19)
    file.close()
