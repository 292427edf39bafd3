"""Look-ups by time in one kernel call: the answers of the long way, or none."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.kernels_twin import TWINS, twin
from tests.log.logs import NOW_MS, open_log
from tests.segment.crafting import batch
from tidelog.errors import CorruptRecordError, LogClosedError
from tidelog.kernels import lookup, published, search, shared, time_lookup
from tidelog.log import Log
from tidelog.log.read.lookups import OffsetTarget
from tidelog.records import Record, decode_records
from tidelog.types import Codec, TimestampOffset

NAMES = ("timestamp", "offset")


def short_way(log: Log, timestamp: int) -> TimestampOffset | None:
    return time_lookup.find_by_time(log._state, timestamp, TimestampOffset, NAMES)


def written(path: Path, codec: Codec = Codec.NONE) -> Log:
    """A log of several segments whose timestamps go back and forth."""
    log = open_log(path)
    ahead = random.Random(1)
    for number in range(120):
        at = NOW_MS + 10 * number + ahead.randrange(-400, 400)
        log.append_as_leader([Record(b"v" * 40, timestamp=at + k) for k in range(3)], codec=codec)
    assert len(log.segments) > 3
    return log


def by_hand(log: Log, timestamp: int) -> TimestampOffset | None:
    """The first record that is not older, of the first segment that has one."""
    for segment in log.segments:
        late = [one for one in decode_records(segment.buffer()) if one.timestamp >= timestamp]
        if late:
            found = next((one for one in late if one.offset >= log.log_start_offset), None)
            return None if found is None else TimestampOffset(found.timestamp, found.offset)
    return None


def test_both_ways_give_one_answer(tmp_path: Path) -> None:
    log = written(tmp_path / "t-0")
    log.update_high_watermark(log.log_end_offset)
    log.delete_records(100)
    times = range(NOW_MS - 500, NOW_MS + 1700, 7)
    assert short_way(log, times[50]) is None  # nothing was looked at yet
    taken = 0
    for timestamp in (*times, *times):
        found = short_way(log, timestamp)
        taken += found is not None
        expected = by_hand(log, timestamp)
        assert found in (None, expected)
        assert log.offset_for_timestamp(timestamp) == expected
    assert taken > len(times) / 2
    log.append_as_leader([Record(b"late", timestamp=NOW_MS + 10_000)])
    assert log.offset_for_timestamp(NOW_MS + 9_000) == TimestampOffset(NOW_MS + 10_000, 360)


@pytest.mark.parametrize("question", [*OffsetTarget, -7, 1 << 63, 1 << 80])
def test_what_is_no_timestamp_is_left_to_the_long_way(tmp_path: Path, question: int) -> None:
    log = written(tmp_path / "t-0")
    log.offset_for_timestamp(NOW_MS)
    assert short_way(log, question) is None
    log.offset_for_timestamp(question)


def test_compressed_batches_are_left_to_the_long_way(tmp_path: Path) -> None:
    log = written(tmp_path / "t-0", Codec.LZ4)
    for _ in range(2):
        assert log.offset_for_timestamp(NOW_MS + 300) == by_hand(log, NOW_MS + 300)
    assert short_way(log, NOW_MS + 300) is None


def test_damage_is_never_answered(tmp_path: Path) -> None:
    log = written(tmp_path / "t-0")
    asked = NOW_MS + 300
    found = log.offset_for_timestamp(asked)
    assert found is not None
    assert short_way(log, asked) == found
    segment = log.segments.floor(found.offset)
    assert segment is not None
    place = segment.translate_offset(found.offset)
    assert place is not None
    with Path(segment.path).open("r+b") as file:
        file.seek(place.position + place.size - 5)
        file.write(b"x")
    assert short_way(log, asked) is None
    with pytest.raises(CorruptRecordError):
        log.offset_for_timestamp(asked)


def test_a_log_that_was_cut_or_closed(tmp_path: Path) -> None:
    log = written(tmp_path / "t-0")
    for timestamp in range(NOW_MS - 500, NOW_MS + 1700, 7):
        log.offset_for_timestamp(timestamp)
    log.truncate_to(200)
    for timestamp in range(NOW_MS - 500, NOW_MS + 1700, 7):
        assert log.offset_for_timestamp(timestamp) == by_hand(log, timestamp)
    log.close()
    assert short_way(log, NOW_MS) is None
    with pytest.raises(LogClosedError):
        log.offset_for_timestamp(NOW_MS)


def kernels(which: str) -> SimpleNamespace:
    """The kernels of a look-up, compiled or not."""
    modules: list[ModuleType] = [lookup, published, search, shared, time_lookup]
    names = [module.__name__.rpartition(".")[2] for module in modules]
    if which != TWINS[0]:
        modules = [twin(name) for name in names]
    return SimpleNamespace(**dict(zip(names, modules, strict=True)))


def index_of(kernel: SimpleNamespace, size: int, entries: list[tuple[int, int]]) -> Any:
    made = kernel.search.Entries(bytearray(size * len(entries)), size, 0, True)
    for key, value in entries:
        assert made.append(key, value)
    return made


def state_of(kernel: SimpleNamespace, log: bytes, times: Any, offsets: Any, largest: int) -> Any:
    """A log of one sealed segment with these bytes, and an active one of which nothing is known."""
    bytes_ = kernel.lookup.LogBytes(0, len(log))
    bytes_.remap(memoryview(log))
    sealed, active = kernel.shared.SegmentFields(), kernel.shared.SegmentFields()
    sealed._time_path = kernel.lookup.TimePath(bytes_, times, offsets, None)
    segments = kernel.shared.SegmentsFields((sealed, active), [largest])
    return kernel.published.Published(tuple, tuple, tuple, (segments, (0, None, None, None)))


@pytest.mark.parametrize("which", TWINS)
def test_twins(which: str) -> None:
    kernel = kernels(which)
    rng = random.Random(3)
    batches = []
    for number in range(12):
        times = [NOW_MS + 100 * number + rng.randrange(-150, 150) for _ in range(5)]
        batches.append(batch(5 * number, times, codec=Codec.LZ4 if number == 7 else Codec.NONE))
    records = list(decode_records(b"".join(batches)))
    answered, position, offsets, entries = 0, 0, [], []
    for data in batches:
        last = max(one.offset for one in decode_records(data))
        newest = max(one.timestamp for one in decode_records(data))
        offsets.append((last, position))
        if newest > max((key for key, _ in entries), default=-1):
            entries.append((newest, last))
        position += len(data)
    known = sorted({one.timestamp for one in records})
    for some in (offsets, offsets[:1], [(key, value + 1) for key, value in offsets]):
        state = state_of(
            kernel, b"".join(batches), index_of(kernel, 12, entries), index_of(kernel, 8, some), known[-1]
        )
        for timestamp in (*known, known[0] - 1, known[-1] + 1, sys.maxsize):
            first = next((one for one in records if one.timestamp >= timestamp), None)
            found = kernel.time_lookup.find_by_time(state, timestamp, TimestampOffset, NAMES)
            if found is not None:
                assert first is not None
                assert found == TimestampOffset(first.timestamp, first.offset)
                answered += 1
            else:  # a compressed batch, an index that is wrong, or nothing as late
                assert first is None or some is not offsets or first.offset in range(25, 40)
    assert answered
