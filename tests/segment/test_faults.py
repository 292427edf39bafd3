"""Disks that fail: an append is there whole or not at all, and the next one works or the segment says why."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.segment.crafting import NOW_MS, Nothing, append, batch, created, opened, table_of
from tidelog.errors import LogOfflineError
from tidelog.segment import ActiveSegment
from tidelog.storage import LOCAL, Directory
from tidelog.testing.faults import Call, Fault, FaultyFileSystem, disk_full, fail_at, fail_on


def no_fault(call: Call) -> Fault | None:
    return None


@pytest.fixture
def fs() -> FaultyFileSystem:
    return FaultyFileSystem(LOCAL, no_fault)


@pytest.fixture
def segment(tmp_path: Path, fs: FaultyFileSystem) -> ActiveSegment:
    """Three batches in a segment whose disk can be made to fail."""
    segment = created(Directory(tmp_path, fs))
    for i in range(3):
        append(segment, batch(i, [NOW_MS + i], size=100))
    return segment


def facts(segment: ActiveSegment) -> tuple[object, ...]:
    """All that an append changes."""
    return (
        segment.size,
        Path(segment.path).stat().st_size,
        bytes(segment.buffer()),
        segment.next_offset(),
        segment.max_timestamp_so_far,
        segment.offset_index.entries,
        segment.time_index.entries,
        segment.read_record(3),
    )


def next_batches(number: int) -> bytes:
    return b"".join(batch(3 + i, [NOW_MS + 3 + i], size=100) for i in range(number))


WRITES = {
    "refused": (errno.EIO, 0),
    "half written": (errno.EIO, 50),
    "one of several batches written": (errno.ENOSPC, 200),
    "all written, then an error": (errno.EIO, 1 << 20),
}


@pytest.mark.parametrize("number", [1, 4])
@pytest.mark.parametrize("how", WRITES)
def test_a_failed_write_is_undone(
    segment: ActiveSegment, fs: FaultyFileSystem, how: str, number: int
) -> None:
    before, view = facts(segment), segment.buffer()
    code, written = WRITES[how]
    fs.rule = fail_on("pwrite", "*.log", code, times=1, written=written)
    with pytest.raises(OSError, match=r"error|space") as failure:
        append(segment, next_batches(number))
    assert failure.value.errno == code
    assert fs.faults == 1
    assert facts(segment) == before
    append(segment, next_batches(number))
    assert segment.next_offset() == 3 + number
    assert segment.read_record(2 + number) is not None
    assert bytes(view) == before[2]
    assert table_of(segment.buffer()).count.sum() == 3 + number


@pytest.mark.parametrize("number", [1, 4])
def test_a_write_that_cannot_be_undone_ends_the_segment(
    segment: ActiveSegment, fs: FaultyFileSystem, number: int
) -> None:
    before = bytes(segment.buffer())
    fs.rule = fail_on("*", "*.log", errno.EIO, written=150)
    with pytest.raises(LogOfflineError, match="takes no more appends, its disk failed"):
        append(segment, next_batches(number))
    fs.rule = no_fault
    for refused in (
        lambda: append(segment, next_batches(number)),
        segment.seal,
        lambda: segment.truncate_to(0),
        lambda: segment.recover(Nothing()),
    ):
        with pytest.raises(LogOfflineError, match="disk failed"):
            refused()
    assert bytes(segment.buffer()) == before, "readers see what was there"
    assert segment.read_record(2) is not None
    assert segment.read_record(3) is None
    segment.abandon()
    again = opened(segment.directory)
    again.recover(Nothing())
    assert bytes(again.buffer())[: len(before)] == before
    append(again, batch(again.next_offset()))


@pytest.mark.parametrize("number", [1, 4])
@pytest.mark.parametrize("name", ["*.index", "*.timeindex"])
def test_an_index_without_disk_space_refuses_before_anything_is_written(
    tmp_path: Path, fs: FaultyFileSystem, name: str, number: int
) -> None:
    segment = created(Directory(tmp_path, fs))
    append(segment, batch(0, [NOW_MS], size=100))
    fs.rule = fail_on("allocate", name, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        append(segment, b"".join(batch(1 + i, [NOW_MS + 1 + i], size=100) for i in range(number)))
    assert (segment.next_offset(), segment.offset_index.entries, segment.time_index.entries) == (1, 0, 0)
    assert Path(segment.path).stat().st_size == segment.size
    fs.rule = no_fault
    append(segment, batch(1, [NOW_MS + 1], size=100))
    assert segment.next_offset() == 2


def test_a_disk_that_fills_up(tmp_path: Path, fs: FaultyFileSystem) -> None:
    segment = created(Directory(tmp_path, fs))
    fs.rule = disk_full(10_000)
    written = 0
    while written * 200 < 9_000:
        append(segment, batch(written, [NOW_MS + written], size=100))
        written += 1
    with pytest.raises(OSError, match="No space"):
        append(segment, b"".join(batch(written + i, [NOW_MS], size=100) for i in range(50)))
    assert segment.next_offset() == written
    assert Path(segment.path).stat().st_size == segment.size
    assert table_of(segment.buffer()).count.sum() == written
    fs.rule = no_fault
    append(segment, batch(written, [NOW_MS + written]))
    segment.close()
    assert opened(Directory(tmp_path)).recover(Nothing()) == 0


def test_whatever_fails_while_one_is_made_leaves_nothing_behind(tmp_path: Path) -> None:
    for number in range(1, 20):
        fs = FaultyFileSystem(LOCAL, fail_at(number, errno.EIO))
        try:
            segment = created(Directory(tmp_path, fs))
        except OSError:
            assert list(tmp_path.iterdir()) == []
        else:
            assert not fs.faults
            fs.rule = no_fault
            append(segment, batch(0))
            return
    raise AssertionError("it never went well")


def test_whatever_fails_in_a_truncation_loses_nothing_that_stays(tmp_path: Path) -> None:
    """The segment takes no more, and what is on the disk recovers to what was asked for, or more."""
    for number in range(1, 30):
        path = tmp_path / f"{number}"
        path.mkdir()
        fs = FaultyFileSystem(LOCAL, no_fault)
        segment = created(Directory(path, fs))
        data = b"".join(batch(i, [NOW_MS + i], size=100) for i in range(9))
        append(segment, data)
        fs.rule = fail_at(number, errno.EIO)
        try:
            segment.truncate_to(4)
        except OSError:
            with pytest.raises(LogOfflineError):
                append(segment, batch(20))
        else:
            assert not fs.faults
            assert number > 3
            return
        segment.abandon()
        again = opened(Directory(path))
        again.recover(Nothing())
        assert data.startswith(bytes(again.buffer()))
        assert again.next_offset() >= 4
        again.close()
    raise AssertionError("it never went well")


def test_an_interrupted_append_is_undone(segment: ActiveSegment, fs: FaultyFileSystem) -> None:
    before = facts(segment)

    def interrupt(call: Call) -> Fault | None:
        if call.operation == "pwrite":
            raise KeyboardInterrupt
        return None

    fs.rule = interrupt
    with pytest.raises(KeyboardInterrupt):
        append(segment, next_batches(1))
    assert facts(segment) == before
    fs.rule = no_fault
    append(segment, next_batches(1))
    assert segment.next_offset() == 4


def test_a_preallocated_file_keeps_its_length(tmp_path: Path, fs: FaultyFileSystem) -> None:
    segment = created(Directory(tmp_path, fs), preallocate=True, internal_segment_bytes=5000)
    append(segment, batch(0))
    fs.rule = fail_on("pwrite", "*.log", errno.EIO, times=1, written=50)
    with pytest.raises(OSError, match="error"):
        append(segment, batch(1))
    assert Path(segment.path).stat().st_size == 5000
    assert Path(segment.path).read_bytes()[segment.size :] == bytes(5000 - segment.size)
