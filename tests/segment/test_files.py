"""The files of a segment: made, mapped, sealed, renamed and removed while somebody looks."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from tests.segment.crafting import NOW_MS, append, batch, clock, config, created, opened, table_of
from tidelog.errors import (
    IndexFullError,
    IndexOffsetOverflowError,
    InvalidInputError,
    LogClosedError,
    OffsetsOutOfOrderError,
)
from tidelog.records import BatchTable
from tidelog.segment import ActiveSegment, BatchPosition, SealedSegment
from tidelog.storage import Directory
from tidelog.storage.names import Transient
from tidelog.types import TimestampOffset


def filled(directory: Directory, batches: int = 5, **values: object) -> ActiveSegment:
    """Batches of three records each, a millisecond apart."""
    segment = created(directory, **values)
    for i in range(batches):
        append(segment, batch(3 * i, range(NOW_MS + 3 * i, NOW_MS + 3 * i + 3), size=100))
    return segment


def names(directory: Directory) -> set[str]:
    return {path.name for path in Path(directory.path).iterdir()}


def mapped(suffix: str) -> int:
    gc.collect()  # what earlier tests left must not go while this one counts
    return Path("/proc/self/maps").read_text().count(suffix)


def test_a_new_segment_is_empty(directory: Directory) -> None:
    segment = created(directory, 7)
    assert names(directory) == {f"{7:020}{kind}" for kind in (".log", ".index", ".timeindex")}
    assert (segment.size, segment.next_offset(), segment.first_batch_timestamp) == (0, 7, -1)
    assert segment.max_timestamp_so_far == TimestampOffset(-1, 7)
    assert segment.largest_timestamp == segment.mtime_ms
    assert (segment.created_ms, segment.jitter_ms, segment.progress.index_full) == (NOW_MS, 0, False)
    assert bytes(segment.buffer()) == b""
    assert segment.translate_offset(7) is segment.read(7, 100) is segment.read_record(7) is None
    assert segment.find_offset_by_timestamp(0, 0) is None
    assert segment.truncate_to(7) == 0
    with pytest.raises(FileExistsError, match="is there already"):
        created(directory, 7)


def test_making_one_removes_index_files_that_have_no_log(directory: Directory) -> None:
    for kind in ("index", "timeindex", "txnindex"):
        Path(directory.path, f"{0:020}.{kind}").write_bytes(b"stray" * 20)
    segment = created(directory)
    assert segment.offset_index.entries == segment.time_index.entries == segment.txn_index.entries == 0
    assert segment.index_fault() is None


def test_opening_a_sealed_one_maps_nothing_before_it_is_asked(directory: Directory) -> None:
    filled(directory).close()
    before = mapped(directory.path)
    segment = SealedSegment.open(directory, 0)
    assert segment.size > 0
    assert mapped(directory.path) == before
    assert segment.read_record(4) is not None
    assert mapped(directory.path) == before + 2, "the log and the offset index"
    with pytest.raises(FileNotFoundError):
        SealedSegment.open(directory, 99)


def test_the_active_one_is_mapped_once_for_many_appends(directory: Directory) -> None:
    segment = created(directory)
    for i in range(50):
        append(segment, batch(i))
        assert segment.read_record(i) is not None
    assert mapped(f"{segment.path}") == 1


def test_seal(directory: Directory) -> None:
    segment = filled(directory, preallocate=True, internal_segment_bytes=100_000)
    size, view = segment.size, segment.buffer()
    assert Path(segment.path).stat().st_size == 100_000
    sealed = segment.seal()
    assert not hasattr(sealed, "append")
    sizes = [Path(each.path).stat().st_size for each in (sealed, sealed.offset_index, sealed.time_index)]
    assert sizes == [size, sealed.offset_index.entries * 8, sealed.time_index.entries * 12]
    assert sealed.time_index.last_entry == TimestampOffset(NOW_MS + 14, 14)
    assert sealed.max_timestamp_so_far == TimestampOffset(NOW_MS + 14, 14)
    assert sealed.first_batch_timestamp == NOW_MS + 2
    for refused in (lambda: append(segment, batch(99)), segment.seal, lambda: segment.truncate_to(0)):
        with pytest.raises(LogClosedError, match="was sealed or closed"):
            refused()
    for each in (segment, sealed):
        assert each.read_record(13) is not None
        assert each.next_offset() == 15
        assert each.buffer() == view
        assert each.find_offset_by_timestamp(NOW_MS + 7, 0) == TimestampOffset(NOW_MS + 7, 7)


def test_close_trims_and_opening_goes_on(directory: Directory) -> None:
    segment = filled(directory)
    segment.close()
    segment.close()
    with pytest.raises(LogClosedError):
        segment.read_record(1)
    with pytest.raises(LogClosedError):
        append(segment, batch(15))
    assert Path(directory.path, f"{0:020}.index").stat().st_size < 100
    again = opened(directory)
    assert again.index_fault() is None
    append(again, batch(15, [NOW_MS + 20]))
    assert again.next_offset() == 16
    assert again.max_timestamp_so_far == TimestampOffset(NOW_MS + 20, 15)
    assert again.first_batch_timestamp == NOW_MS + 2


def test_views_and_readers_survive_renaming_and_deletion(directory: Directory) -> None:
    sealed = filled(directory).seal()
    view = sealed.buffer()
    copy = bytes(view)
    sealed.rename_to(Transient.DELETED)
    assert names(directory) == {f"{0:020}{kind}.deleted" for kind in (".log", ".index", ".timeindex")}
    assert sealed.read_record(4) is not None
    sealed.delete()
    assert names(directory) == set()
    assert view == copy
    for question in (lambda: sealed.read_record(4), sealed.buffer, sealed.next_offset):
        with pytest.raises(LogClosedError):
            question()


def test_an_unmapped_segment_is_found_under_its_new_name(directory: Directory, tmp_path: Path) -> None:
    filled(directory).close()
    sealed = SealedSegment.open(directory, 0)
    sealed.rename_to(Transient.SWAP)
    directory.move(tmp_path.with_name(tmp_path.name + "-moved"))
    assert sealed.read_record(4) is not None
    assert sealed.find_offset_by_timestamp(NOW_MS, 0) == TimestampOffset(NOW_MS, 0)
    assert sealed.largest_timestamp == NOW_MS + 14


def test_a_view_stays_through_truncation_and_new_appends(directory: Directory) -> None:
    segment = filled(directory, batches=100)  # several pages
    view, tail = segment.buffer(), segment.buffer()[-10:]
    copy, last = bytes(view), bytes(tail)
    assert segment.truncate_to(9) > 0
    append(segment, batch(9, range(500), size=200))
    assert view == copy
    assert tail == last
    assert segment.truncate_to(3) > 0
    assert view == copy
    record = segment.read_record(2)
    assert record is not None
    assert record.value is not None
    assert record.value.rstrip(b".") == b"2"
    assert segment.read_record(3) is None


def test_a_sealed_segment_that_becomes_active_again(directory: Directory) -> None:
    sealed = filled(directory, batches=50).seal()
    assert sealed.read_record(149) is not None
    unread = SealedSegment.open(directory, 0)
    active = ActiveSegment.reopen(sealed, config(), clock=clock)
    closed = ActiveSegment.reopen(unread, config(), clock=clock)
    closed.abandon()
    assert active.truncate_to(30) > 0
    append(active, batch(30, [5]))
    assert active.next_offset() == 31
    record = sealed.read_record(149)
    assert record is not None, "who has begun to read goes on"
    assert sealed.next_offset() == 150
    with pytest.raises(LogClosedError, match=r"ask the log again|was closed"):
        unread.read_record(4)


def test_truncation(directory: Directory) -> None:
    segment = filled(directory)
    sizes = table_of(segment.buffer()).size.tolist()
    assert segment.truncate_to(100) == 0
    assert segment.truncate_to(13) == sizes[4], "the whole batch that holds it"
    assert (segment.size, segment.next_offset()) == (sum(sizes[:4]), 12)
    assert segment.max_timestamp_so_far == TimestampOffset(NOW_MS + 11, 11)
    assert segment.offset_index.last_offset <= 11
    append(segment, batch(12, [7]))
    assert segment.truncate_to(0) > 0
    assert (segment.size, segment.next_offset(), segment.first_batch_timestamp) == (0, 0, -1)
    assert segment.max_timestamp_so_far == TimestampOffset(-1, 0)
    append(segment, batch(0, [1]))
    assert segment.first_batch_timestamp == 1


def test_a_segment_that_becomes_empty_is_young_again(directory: Directory) -> None:
    now = iter(range(100, 200))
    segment = ActiveSegment.create(directory, 0, config(), clock=lambda: next(now))
    append(segment, batch(0))
    append(segment, batch(1))
    segment.truncate_to(1)
    assert segment.created_ms == 100
    segment.truncate_to(0)
    assert segment.created_ms == 101


def test_appends_that_are_refused_change_nothing(directory: Directory) -> None:
    segment = created(directory, 10)
    append(segment, batch(10, [1, 2]))
    state = (segment.size, segment.next_offset(), segment.max_timestamp_so_far)
    two = batch(12, [9]) + batch(13, [9])
    far = batch(12, [9]) + batch(10 + 2**31, [9])
    wrong = batch(14, [9]) + batch(13, [9])
    for data, error in (
        (batch(11, [9]), OffsetsOutOfOrderError),
        (batch(9, [9]), IndexOffsetOverflowError),
        (batch(10 + 2**31, [9]), IndexOffsetOverflowError),
        (far, IndexOffsetOverflowError),
        (wrong, OffsetsOutOfOrderError),
    ):
        with pytest.raises(error):
            append(segment, data)
    for data, table in ((two, table_of(two)[:1]), (two[:-1], table_of(two)), (b"", table_of(two)[1:])):
        with pytest.raises(InvalidInputError, match="bytes given"):
            segment.append(data, table)
    segment.append(b"", BatchTable(table_of(two).rows[:0]))
    assert (segment.size, segment.next_offset(), segment.max_timestamp_so_far) == state
    append(segment, batch(10 + 2**31 - 1, [3]))
    assert segment.next_offset() == 10 + 2**31
    assert not segment.has_overflow


def test_a_full_index_refuses_an_append_before_it_is_written(directory: Directory) -> None:
    values = {"segment_index_bytes": 36, "index_interval_bytes": 0}  # 4 offset entries, 3 time entries
    segment = created(directory, **values)
    append(segment, batch(0, [1]))
    with pytest.raises(IndexFullError):
        append(segment, b"".join(batch(i, [i]) for i in range(1, 4)))
    assert segment.next_offset() == 1
    append(segment, batch(1, [1]))
    assert not segment.progress.index_full
    append(segment, batch(2, [2]))
    assert segment.progress.index_full, "the last time entry is for the roll"
    with pytest.raises(IndexFullError):
        append(segment, batch(3, [3]))
    assert segment.next_offset() == 3
    sealed = segment.seal()
    assert sealed.time_index.last_entry == TimestampOffset(2, 2)


def test_reads(directory: Directory) -> None:
    segment = filled(directory, batches=3)
    first, second, third = (int(size) for size in table_of(segment.buffer()).size)
    everything = bytes(segment.buffer())

    def read(*args: Any) -> tuple[BatchPosition, bytes, bool] | None:
        found = segment.read(*args)
        return None if found is None else (found.start, bytes(found.data), found.first_entry_incomplete)

    middle = BatchPosition(3, first, second)
    assert read(4, 10_000) == (middle, everything[first:], False)
    assert read(4, second + 5) == (middle, everything[first:][: second + 5], False)
    assert read(4, 10) == (middle, everything[first:][:10], True)
    assert read(4, 10, None, True) == (middle, everything[first:][:second], False)
    assert read(4, 10_000, first + second) == (middle, everything[first:][:second], False)
    assert read(4, 10_000, first + 7, True) == (middle, everything[first:][:7], False)
    assert read(4, 10_000, 0) == (middle, b"", False)
    assert read(4, 0) == (middle, b"", False)
    assert read(9, 100) is None
    with pytest.raises(ValueError, match="cannot read"):
        read(0, -1)
    assert third > 0


def test_a_snapshot_for_another_process(directory: Directory) -> None:
    segment = filled(directory, batches=40)
    elsewhere = Directory(directory.path)
    seen = SealedSegment.snapshot(elsewhere, 0)
    append(segment, batch(120, [NOW_MS + 500]))
    assert (seen.next_offset(), seen.read_record(120)) == (120, None)
    assert seen.max_timestamp_so_far == TimestampOffset(NOW_MS + 119, 119)
    assert seen.find_offset_by_timestamp(NOW_MS + 100, 0) == TimestampOffset(NOW_MS + 100, 100)
    whole = segment.size
    with Path(segment.path).open("ab") as file:
        file.write(batch(121)[:-1])  # a write under way
    seen = SealedSegment.snapshot(elsewhere, 0)
    assert (seen.size, seen.next_offset()) == (whole, 121)
    assert seen.max_timestamp_so_far == TimestampOffset(NOW_MS + 500, 120)
    for kind in ("index", "timeindex"):
        Path(directory.path, f"{0:020}.{kind}").unlink()
    assert SealedSegment.snapshot(elsewhere, 0).next_offset() == 121


def test_flush(directory: Directory) -> None:
    segment = filled(directory)
    segment.flush()
    sealed = segment.seal()
    segment.flush()
    sealed.flush()


def test_no_descriptor_stays_behind(directory: Directory) -> None:
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    segment = filled(directory)
    view = segment.buffer()
    sealed = segment.seal()
    assert sealed.read_record(3) is not None
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    sealed.close()
    del segment, sealed, view
    assert mapped(directory.path) == 0
