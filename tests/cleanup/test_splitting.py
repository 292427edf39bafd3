"""Cleaning a log as it is found: segments that reach too far, that were not flushed, that are damaged."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from tests.log.logs import SMALL, Clock, all_records, data_files, open_log
from tests.segment.crafting import batch
from tidelog.cleanup.cleaner import CleanReport, LocalPasses, clean_log
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.errors import CorruptRecordError, InvalidTimestampError
from tidelog.kernels.crc import crc32c
from tidelog.log import Log
from tidelog.records import Record, encode_records
from tidelog.storage.names import FileKind, format_segment_file
from tidelog.testing.crash import CrashFileSystem
from tidelog.types import Codec

FAR = 2**31


def clean(log: Log, first_dirty: int = 0) -> CleanReport:
    log.update_high_watermark(log.log_end_offset)
    return clean_log(
        log,
        LocalPasses(OffsetMap(1 << 16)),
        first_dirty_offset=max(first_dirty, log.log_start_offset),
        upper_bound=log.last_stable_offset,
        now_ms=Clock()(),
    )


def made(path: Path, *segments: tuple[int, bytes]) -> Path:
    """A partition with these segments, closed cleanly."""
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


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize(
    ("written", "damaged"),
    [(50, 10), (50, 40), (50, 2), (50, 2**40), (50, -3), (20, 60), (70, 40), (80, 100)],
    ids=lambda offset: str(offset),
)
@pytest.mark.parametrize("dirty", [0, 100])
def test_a_batch_whose_offset_was_damaged_loses_nothing(
    written: int, damaged: int, dirty: int, codec: Codec, tmp_path: Path
) -> None:
    """No checksum covers it: the last value of a key would be taken for an old one, or an old one for it."""
    first, second = (
        {
            offset: encode_records(
                [Record(b"value %d" % offset, b"key", timestamp=1)], base_offset=offset, codec=codec
            )
            for offset in offsets
        }
        for offsets in ((20, 30, 40, 50), (70, 80, 90))
    )
    for batches in (first, second):
        if written in batches:
            batches[written] = struct.pack(">q", damaged) + batches[written][8:]
    segments = (20, b"".join(first.values())), (70, b"".join(second.values()))
    with open_log(made(tmp_path / "t-0", *segments, (100, b""))) as log:
        log.append_as_leader([Record(b"last", b"other", timestamp=1)])
        log.roll()
        before = data_files(tmp_path / "t-0")
        with pytest.raises(CorruptRecordError, match=r"does not belong behind"):
            clean(log, dirty)
        assert data_files(tmp_path / "t-0") == before


def test_a_time_that_cannot_be_is_told_with_its_file(tmp_path: Path) -> None:
    """Sound bytes by their checksum, but no batch can be written with that time."""
    data = bytearray(encode_records([Record(b"old", b"a", timestamp=1), Record(b"v", b"b", timestamp=1)]))
    data[27:35] = struct.pack(">q", -5)
    data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    path = made(tmp_path / "t-0", (0, bytes(data)), (2, b""))
    with open_log(path) as log:
        log.append_as_leader([Record(b"new", b"a", timestamp=1)])
        log.roll()
        where = re.escape(f"({path / format_segment_file(0, FileKind.LOG)}, position 0, offset 0)")
        with pytest.raises(InvalidTimestampError, match=where):
            clean(log)


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
