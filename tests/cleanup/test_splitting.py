"""Cleaning a log as it is found: segments that reach too far, that were not flushed, that are damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.log.logs import SMALL, Clock, all_records, open_log
from tests.segment.crafting import batch
from tidelog.cleanup.cleaner import CleanReport
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.cleanup.splitting import clean_splitting
from tidelog.errors import CorruptRecordError
from tidelog.log import Log
from tidelog.records import Record, encode_records
from tidelog.storage.names import FileKind, format_segment_file
from tidelog.testing.crash import CrashFileSystem

FAR = 2**31


def clean(log: Log) -> CleanReport:
    log.update_high_watermark(log.log_end_offset)
    return clean_splitting(
        log,
        OffsetMap(1 << 16),
        first_dirty_offset=log.log_start_offset,
        upper_bound=log.last_stable_offset,
        now_ms=Clock()(),
    )


def made(path: Path, *segments: tuple[int, bytes]) -> Path:
    """A partition with these segments, closed in order."""
    path.mkdir()
    for base_offset, data in segments:
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            (path / format_segment_file(base_offset, kind)).write_bytes(b"")
        (path / format_segment_file(base_offset, FileKind.LOG)).write_bytes(data)
    return path


def test_segments_that_reach_too_far_are_split_and_cleaned(tmp_path: Path) -> None:
    near, far = (b"".join(batch(start + n) for n in range(3)) for start in (0, FAR + 5))
    further = b"".join(batch(offset) for offset in (3 * FAR, 5 * FAR))
    with open_log(made(tmp_path / "t-0", (0, near + far), (3 * FAR, further))) as log:
        log.roll()
        assert [segment.has_overflow for segment in log.segments] == [True, True, False]
        report = clean(log)
        assert report.end_offset == 5 * FAR + 1
        assert [record.offset for record in all_records(log)] == [5 * FAR]
        assert not any(segment.has_overflow for segment in log.segments)
        bases = [segment.base_offset for segment in log.segments]
        assert bases == [0, 3 * FAR, 5 * FAR, 5 * FAR + 1], "of the first nothing was left that reaches far"


def test_offsets_that_go_back_are_damage(tmp_path: Path) -> None:
    data = b"".join(
        encode_records([Record(b"value", b"%d" % offset, timestamp=1)], base_offset=offset)
        for offset in (0, 9, 4, 10)
    )
    with open_log(made(tmp_path / "t-0", (0, data), (11, b""))) as log, pytest.raises(CorruptRecordError):
        clean(log)
    assert (tmp_path / "t-0" / format_segment_file(0, FileKind.LOG)).read_bytes() == data


def test_what_was_rolled_is_on_the_disk_before_anything_goes() -> None:
    """The first value was synced; what comes in its place must be as safe."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    with Log.open("/data/t-0", SMALL, fs=fs, clean=True, now_ms=Clock()) as log:
        log.append_as_leader([Record(b"first", b"key", timestamp=1)])
        log.roll()
        log.flush()
        fs.sync_directory("/data")
        fs.sync_directory("/")
        begin = fs.steps
        log.append_as_leader([Record(b"x" * 1900, b"other", timestamp=2)])
        log.append_as_leader([Record(b"second", b"key", timestamp=3)])
        log.roll()
        clean(log)
        assert [record.value for record in all_records(log)] == [b"x" * 1900, b"second"]
        end = fs.steps
    for step in range(begin, end + 1):
        for kept in ("some", "synced"):
            after = fs.crash(step, seed=step, kept=kept)
            with Log.open("/data/t-0", SMALL, fs=after, recovery_point=1, now_ms=Clock()) as log:
                values = [record.value for record in all_records(log) if record.key == b"key"]
                assert values in ([b"first"], [b"first", b"second"], [b"second"]), step
