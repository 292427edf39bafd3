"""Index files on disk: preallocated, lazily mapped, trimmed, renamed and removed while open, broken."""

from __future__ import annotations

import gc
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.errors import (
    IndexFullError,
    IndexOffsetOverflowError,
    InvalidIndexError,
    InvalidInputError,
    LogClosedError,
    OffsetsOutOfOrderError,
)
from tidelog.index import ActiveOffsetIndex, ActiveTimeIndex, OffsetIndex, TimeIndex
from tidelog.storage import LOCAL, Directory, File, LocalFileSystem
from tidelog.storage.names import Transient
from tidelog.types import OffsetPosition, TimestampOffset

pytestmark = pytest.mark.usefixtures("kernel")

if TYPE_CHECKING:
    from _typeshed import StrPath


def write_offset_index(path: Path, entries: list[tuple[int, int]], base: int = 0) -> Path:
    file = path / f"{base:020}.index"
    file.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    return file


def maps() -> int:
    gc.collect()  # what earlier tests left must not go while this one counts
    return Path("/proc/self/maps").read_text().count(".index")


def test_sizes_are_rounded_down_to_entries(directory: Directory) -> None:
    offsets, times = ActiveOffsetIndex(directory, 0, 67), ActiveTimeIndex(directory, 0, 67)
    assert Path(offsets.path).stat().st_size == 64
    assert Path(times.path).stat().st_size == 60
    assert (offsets.max_entries, times.max_entries) == (8, 5)
    for n in range(8):
        assert not offsets.is_full
        offsets.append(n, n + 1)
    assert offsets.is_full
    with pytest.raises(IndexFullError, match="is full: 8 of 8"):
        offsets.append(8, 9)
    for n in range(4):
        assert not times.is_full
        assert times.maybe_append(n, n)
    assert times.is_full, "one entry early"
    with pytest.raises(IndexFullError, match="is full: 4 of 5"):
        times.maybe_append(4, 4)
    assert times.maybe_append(4, 4, skip_full_check=True)
    with pytest.raises(IndexFullError, match="is full: 5 of 5"):
        times.maybe_append(5, 5, skip_full_check=True)
    with pytest.raises(InvalidInputError, match="no room"):
        ActiveOffsetIndex(directory, 1, 7)
    assert not Path(directory.path, f"{1:020}.index").exists()


def test_preallocation_takes_no_disk_space(directory: Directory) -> None:
    index = ActiveOffsetIndex(directory, 0, 10 << 20)
    assert Path(index.path).stat().st_size == 10 << 20
    assert Path(index.path).stat().st_blocks == 0
    index.append(1, 1)
    assert 0 < Path(index.path).stat().st_blocks * 512 <= 65536


def test_bytes_as_kafka_writes_them(directory: Directory) -> None:
    offsets, times = ActiveOffsetIndex(directory, 100, 80), ActiveTimeIndex(directory, 100, 80)
    offsets.append(105, 4097)
    offsets.append_many([106, 100 + 2**31 - 1], [5000, 2**31 - 1])
    times.maybe_append(1_700_000_000_000, 105)
    offsets.flush()
    offsets.close()
    times.close()
    assert Path(offsets.path).read_bytes().hex() == "00000005000010010000000600001388" + "7fffffff7fffffff"
    assert Path(times.path).read_bytes().hex() == "0000018bcfe5680000000005"


def test_going_back_is_refused(directory: Directory) -> None:
    index = ActiveOffsetIndex(directory, 10, 800)
    index.append(15, 100)
    with pytest.raises(OffsetsOutOfOrderError, match="offset 15 is not larger than the last \\(15\\)"):
        index.append(15, 200)
    with pytest.raises(OffsetsOutOfOrderError):
        index.append_many([16, 16], [200, 300])
    with pytest.raises(IndexOffsetOverflowError, match="offset 9 is not within"):
        index.append(9, 200)
    with pytest.raises(IndexOffsetOverflowError):
        index.append(10 + 2**31, 200)
    with pytest.raises(IndexOffsetOverflowError):
        index.append_many([16, 10 + 2**31], [200, 300])
    for position in (-1, 2**31):
        with pytest.raises(InvalidInputError, match=f"position {position}"):
            index.append(16, position)
    with pytest.raises(IndexFullError):
        index.append_many(np.arange(16, 200), np.arange(16, 200))
    assert index.entries == 1
    assert not index.can_append_offset(10 + 2**31)
    assert index.can_append_offset(9 + 2**31)
    assert index.relative_offset(11) == 1


def test_time_going_back_is_refused(directory: Directory) -> None:
    index = ActiveTimeIndex(directory, 10, 120)
    assert not index.maybe_append(-1, 10), "no timestamp, no entry"
    assert index.maybe_append(1000, 15)
    assert not index.maybe_append(1000, 15), "the same again, at roll or close"
    assert not index.maybe_append(1000, 16)
    with pytest.raises(OffsetsOutOfOrderError, match="goes back"):
        index.maybe_append(1001, 14)
    with pytest.raises(OffsetsOutOfOrderError, match="goes back"):
        index.maybe_append(999, 16)
    with pytest.raises(IndexOffsetOverflowError):
        index.maybe_append(1001, 10 + 2**31)
    assert index.last_entry == TimestampOffset(1000, 15)


def test_nothing_is_mapped_before_the_first_question(tmp_path: Path) -> None:
    for base in range(20):
        write_offset_index(tmp_path, [(5, 100), (9, 200)], base)
    directory = Directory(tmp_path)
    before = maps()
    indexes = [OffsetIndex(directory, base) for base in range(20)]
    missing = OffsetIndex(directory, 999)
    assert not any(index.is_loaded for index in indexes)
    assert maps() == before
    assert indexes[3].lookup(3 + 7) == OffsetPosition(3 + 5, 100)
    assert maps() == before + 1
    del indexes
    assert maps() == before
    with pytest.raises(FileNotFoundError):
        missing.lookup(1)


def test_sealing_trims_and_keeps_answering(directory: Directory) -> None:
    index = ActiveOffsetIndex(directory, 0, 8000)
    index.append(5, 100)
    index.append(9, 200)
    sealed = index.seal()
    assert Path(sealed.path).stat().st_size == 16
    for each in (index, sealed, OffsetIndex(directory, 0)):
        assert each.lookup(8) == OffsetPosition(5, 100)
        assert each.entries == 2
    for change in (lambda: index.append(10, 300), index.reset, index.trim_to_valid_size, index.seal):
        with pytest.raises(LogClosedError, match="sealed or closed"):
            change()
    sealed.flush()
    assert not hasattr(sealed, "append")
    again = ActiveOffsetIndex(directory, 0, 8000)
    assert again.is_full
    assert again.resize(again.max_index_size)
    again.append(10, 300)
    assert again.lookup(10) == OffsetPosition(10, 300)
    again.close()
    assert Path(again.path).stat().st_size == 24


def test_closing_trims_and_ends_the_answers(directory: Directory) -> None:
    for index in (ActiveOffsetIndex(directory, 0, 8000), ActiveTimeIndex(directory, 0, 8000)):
        index.close()
        index.close()
        assert Path(index.path).stat().st_size == 0
        with pytest.raises(LogClosedError, match="closed"):
            index.lookup(1)
    sealed = OffsetIndex(directory, 0)
    sealed.close()
    with pytest.raises(LogClosedError):
        sealed.lookup(1)


def test_abandoning_leaves_the_file(directory: Directory) -> None:
    index = ActiveOffsetIndex(directory, 0, 8000)
    index.append(5, 100)
    index.abandon()
    assert Path(index.path).stat().st_size == 8000
    with pytest.raises(LogClosedError):
        index.append(6, 200)


def test_resize_keeps_entries(directory: Directory) -> None:
    index = ActiveOffsetIndex(directory, 0, 800)
    index.append_many(range(50), range(1, 51))
    with pytest.raises(InvalidInputError, match="50 entries, which do not fit 399"):
        index.resize(399)
    assert index.resize(407)
    assert not index.resize(400)
    assert index.resize(1 << 20)
    assert index.entries == 50
    assert index.lookup(49) == OffsetPosition(49, 50)


def test_what_a_truncation_gave_up_is_zero_in_the_file(directory: Directory) -> None:
    index = ActiveOffsetIndex(directory, 0, 80_000)
    index.append_many(range(5000), range(1, 5001))
    index.truncate_to(10)
    assert index.entries == 10
    data = Path(index.path).read_bytes()
    assert len(data) == 80_000
    assert any(data[:80])
    assert not any(data[80:])
    index.append_many(range(10, 5000), range(11, 5001))
    assert index.lookup(4999) == OffsetPosition(4999, 5000)
    index.truncate()
    assert (index.entries, index.last_offset) == (0, 0)


def test_a_file_left_preallocated_is_taken_at_its_length(tmp_path: Path) -> None:
    """As Kafka takes it; recovery has to reset and rebuild it."""
    file = write_offset_index(tmp_path, [(5, 100), (9, 200), *[(0, 0)] * 98])
    directory = Directory(tmp_path)
    assert OffsetIndex(directory, 0).entries == 100
    with pytest.raises(
        InvalidIndexError, match=r"entry 2 of 100, \(0, 0\), breaks the order .*never trimmed"
    ):
        OffsetIndex(directory, 0).sanity_check()
    seen = OffsetIndex.snapshot(directory, 0)
    assert seen.entries == 1, "another process trusts all but the last"
    active = ActiveOffsetIndex(directory, 0, 400)
    assert active.is_full
    assert active.entries == 100
    active.reset()
    assert (active.entries, active.max_entries, file.stat().st_size) == (0, 50, 400)
    assert not any(file.read_bytes())
    active.append(5, 100)
    assert active.lookup(7) == OffsetPosition(5, 100)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack(">iib", 1, 1, 1), "9 bytes, no multiple of 8"),
        (struct.pack(">iiii", 2, 5, 2, 6), "entry 1 of 2"),
        (struct.pack(">iiii", 2, 5, 3, 5), "entry 1 of 2"),
        (struct.pack(">iiiiii", 2, 5, 4, 7, 3, 6), "entry 2 of 3"),
        (struct.pack(">ii", -1, 5), "entry 0 of 1"),
        (struct.pack(">ii", 1, -5), "entry 0 of 1"),
        (bytes(80), "entry 0 of 10"),
    ],
)
def test_broken_offset_indexes(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / f"{7:020}.index").write_bytes(data)
    index = OffsetIndex(Directory(tmp_path), 7)
    with pytest.raises(InvalidIndexError, match=message) as caught:
        index.sanity_check()
    assert f"{7:020}.index" in str(caught.value)
    singles = [index.lookup(target) for target in range(20)]
    offsets, positions = index.lookup_many(np.arange(20))
    assert [
        OffsetPosition(*pair) for pair in zip(offsets.tolist(), positions.tolist(), strict=True)
    ] == singles


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack(">qib", 1, 1, 1), "13 bytes, no multiple of 12"),
        (struct.pack(">qiqi", 5, 2, 5, 3), "entry 1 of 2"),
        (struct.pack(">qiqi", 5, 2, 6, 1), "entry 1 of 2"),
        (struct.pack(">qi", -1, 5), "entry 0 of 1"),
        (struct.pack(">qi", 1, -5), "entry 0 of 1"),
    ],
)
def test_broken_time_indexes(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / f"{7:020}.timeindex").write_bytes(data)
    with pytest.raises(InvalidIndexError, match=message):
        TimeIndex(Directory(tmp_path), 7).sanity_check()


def test_entries_with_equal_offsets_are_sound_in_a_time_index(tmp_path: Path) -> None:
    (tmp_path / f"{7:020}.timeindex").write_bytes(struct.pack(">qiqi", 0, 0, 6, 0))
    TimeIndex(Directory(tmp_path), 7).sanity_check()


def test_entries_out_of_reach(directory: Directory) -> None:
    offsets, times = ActiveOffsetIndex(directory, 0, 80), ActiveTimeIndex(directory, 0, 80)
    for index in (offsets, times):
        for n in (-1, 0, 10):
            with pytest.raises(IndexError, match=f"none in slot {n}"):
                index.entry(n)


def test_bulk_lookups_of_odd_shapes(tmp_path: Path) -> None:
    write_offset_index(tmp_path, [(n, n + 1) for n in range(1000)], 5)
    index = OffsetIndex(Directory(tmp_path), 5)
    assert [column.tolist() for column in index.lookup_many([])] == [[], []]
    few = [-(2**63), 4, 5, 17, 2**63 - 1]
    assert [column.tolist() for column in index.lookup_many(few)] == [
        [5, 5, 5, 17, 1004],
        [0, 0, 1, 13, 1000],
    ]
    many = np.tile(np.array(few, np.int64), 50)
    assert [column.tolist() for column in index.lookup_many(many)] == [
        [5, 5, 5, 17, 1004] * 50,
        [0, 0, 1, 13, 1000] * 50,
    ]
    every_other = np.arange(0, 2000, dtype=np.int64)[::2]
    assert index.lookup_many(every_other)[0].tolist() == [max(5, min(n, 1004)) for n in range(0, 2000, 2)]
    with pytest.raises(InvalidInputError, match="one-dimensional"):
        index.lookup_many([[1, 2], [3, 4]])


def test_rename_and_unlink_while_open(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    directory = Directory(tmp_path / "t-0")
    write_offset_index(tmp_path / "t-0", [(5, 100)])
    opened, lazy = OffsetIndex(directory, 0), OffsetIndex(directory, 0)
    active = ActiveTimeIndex(directory, 0, 120)
    active.maybe_append(1, 1)
    assert opened.lookup(5) == OffsetPosition(5, 100)
    opened.rename_to(Transient.DELETED)
    lazy.rename_to(Transient.DELETED)
    assert opened.path == lazy.path == str(tmp_path / "t-0" / f"{0:020}.index.deleted")
    directory.move(tmp_path / "t-0.0123-delete")
    assert lazy.lookup(5) == OffsetPosition(5, 100)
    active.maybe_append(2, 2)
    active.trim_to_valid_size()
    assert Path(active.path) == tmp_path / "t-0.0123-delete" / f"{0:020}.timeindex"
    assert Path(active.path).stat().st_size == 24
    entries = lazy.entries_array()
    assert opened.delete_if_exists()
    assert not opened.delete_if_exists()
    assert lazy.lookup(5) == OffsetPosition(5, 100), "its mapping outlives the file"
    assert [column.tolist() for column in entries] == [[5], [100]]
    assert active.delete_if_exists()
    with pytest.raises(LogClosedError):
        opened.lookup(5)


class FullDisk(LocalFileSystem):
    """A file system whose disk is full once it is told so."""

    full = False

    def open(self, path: StrPath, *, writable: bool = False, create: bool = False) -> Any:
        file = super().open(path, writable=writable, create=create)
        return FullFile(file, self)


class FullFile:
    def __init__(self, file: File, fs: FullDisk) -> None:
        self._file, self._fs = file, fs

    def allocate(self, position: int, n: int) -> None:
        if self._fs.full:
            raise OSError(28, "No space left on device")
        self._file.allocate(position, n)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_full_disk_is_an_error_and_not_the_end(tmp_path: Path) -> None:
    fs = FullDisk()
    directory = Directory(tmp_path, fs)
    index, times = ActiveOffsetIndex(directory, 0, 1 << 20), ActiveTimeIndex(directory, 0, 1 << 20)

    def fill() -> None:
        for n in range(1, 3000):
            index.append(n, n + 1)

    def fill_times() -> None:
        for n in range(1, 3000):
            times.maybe_append(n, n)

    index.append(0, 1)
    times.maybe_append(0, 0)
    fs.full = True
    with pytest.raises(OSError, match="No space"):
        fill()
    with pytest.raises(OSError, match="No space"):
        fill_times()
    stored = index.entries
    assert 1 < stored <= 2048, "what the disk had promised was used"
    assert 1 < times.entries <= 1366
    fs.full = False
    index.append(stored, stored + 1)
    assert index.lookup(5000) == OffsetPosition(stored, stored + 1)


def test_from_bytes() -> None:
    data = struct.pack(">iiii", 5, 100, 9, 200) + b"torn"
    index = OffsetIndex.from_bytes(Directory("s3:"), 1000, data)
    assert index.lookup(1008) == OffsetPosition(1005, 100)
    assert index.entries == 2


def test_every_index_gives_its_descriptor_back(directory: Directory) -> None:
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    index = ActiveOffsetIndex(directory, 0, 800)
    sealed = index.seal()
    sealed.lookup(5)
    ActiveTimeIndex(directory, 0, 800).close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert LOCAL.exists(sealed.path)


def test_time_entries_are_added_in_runs_all_or_none(directory: Directory) -> None:
    times = ActiveTimeIndex(directory, 10, 72)  # five entries and the one for the roll
    times.append_many([], [])
    times.append_many([5, 2**62], [10, 10])
    for timestamps, offsets, error in (
        ([2**62, 2**62 + 1], [11, 12], OffsetsOutOfOrderError),
        ([2**62 + 2, 2**62 + 1], [11, 12], OffsetsOutOfOrderError),
        ([2**62 + 1, 2**62 + 2], [12, 11], OffsetsOutOfOrderError),
        ([2**62 + 1], [9], IndexOffsetOverflowError),
        ([2**62 + 1], [10 + 2**31], IndexOffsetOverflowError),
        ([2**62 + 1 + i for i in range(4)], [11] * 4, IndexFullError),
    ):
        with pytest.raises(error):
            times.append_many(timestamps, offsets)
        assert times.entries == 2
    times.append_many([2**62 + 1 + i for i in range(3)], [11] * 3)
    assert times.is_full
    assert times.maybe_append(2**62 + 9, 12, skip_full_check=True)
    assert times.last_entry == TimestampOffset(2**62 + 9, 12)


def test_room_that_was_reserved_is_there(directory: Directory) -> None:
    index = ActiveOffsetIndex(directory, 0, 64)
    index.reserve(8)
    with pytest.raises(IndexFullError, match="0 of 8"):
        index.reserve(9)
    for n in range(8):
        index.append(n, n + 1)
    index.reserve(0)
    with pytest.raises(IndexFullError):
        index.reserve()
