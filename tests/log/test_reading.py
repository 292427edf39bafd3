"""Reading: how far each isolation sees, what a committed read shows, records by offset and by time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import golden_partition
from tests.log.logs import NOW_MS, SMALL, abort, all_records, commit, numbered, open_log, record, send
from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError, LogClosedError, OffsetOutOfRangeError
from tidelog.log import Log, LogOffsetMetadata, OffsetTarget
from tidelog.log.read.committed import Aborted, committed
from tidelog.records import Record, decode_records, encode_records, scan_batches
from tidelog.types import FetchIsolation, TimestampOffset, TimestampType

LOG_END, HIGH_WATERMARK, TXN_COMMITTED = FetchIsolation


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


def _filled(path: Path, batches: int = 60, config: LogConfig = SMALL) -> Log:
    """A log of batches of three records each."""
    log = open_log(path, config)
    for number in range(batches):
        log.append_as_leader(numbered(3, 3 * number))
    return log


# By offset


def test_every_offset_can_be_read_from(path: Path) -> None:
    with _filled(path) as log:
        assert len(log.segments) > 3
        for offset in range(180):
            fetched = log.read(offset, 300)
            found = [one.offset for one in decode_records(fetched.data[: fetched.batches().end])]
            assert found[0] == offset - offset % 3 == fetched.start.message_offset
            segment = log.segments.at(fetched.start.segment_base_offset)
            assert segment is not None
            place = fetched.start.relative_position_in_segment
            assert segment.buffer()[place : place + len(fetched.data)] == fetched.data
            assert log.read_arrow(offset, 300).column("offset")[0].as_py() == offset
            one = log.read_record(offset)
            assert one is not None
            assert (one.offset, one.value) == (offset, record(offset).value)


def test_the_first_batch_comes_whole_or_is_told_to_be_cut(path: Path) -> None:
    with _filled(path, 2) as log:
        size = int(log.read(0).batches().size[0])
        whole = log.read(0, 1)
        assert len(whole.data) == size
        assert not whole.first_entry_incomplete
        cut = log.read(0, 1, min_one_message=False)
        assert len(cut.data) == 1
        assert cut.first_entry_incomplete
        assert len(log.read(0, 0, min_one_message=False).data) == 0
        assert len(log.read(0, size + 1).data) == size + 1
        assert len(log.read(0, size + 1).batches()) == 1


def test_outside_of_the_log_is_an_error(path: Path) -> None:
    with _filled(path, 10) as log:
        log.update_high_watermark(30)
        log.delete_records(7)
        assert log.read(30).data == b""
        for offset in (6, 31, -1):
            with pytest.raises(OffsetOutOfRangeError):
                log.read(offset)
        for offset in (6, 30):
            with pytest.raises(OffsetOutOfRangeError):
                log.read_record(offset)
        assert [one.offset for one in all_records(log)] == list(range(7, 30))
        with pytest.raises(InvalidInputError):
            log.read(8, -1)


def test_isolation_says_how_far_one_sees(path: Path) -> None:
    with _filled(path, 10) as log:
        assert log.high_watermark == 0
        assert not all_records(log, HIGH_WATERMARK)
        for mark, seen in ((12, 12), (13, 12), (14, 12), (15, 15), (30, 30)):
            log.update_high_watermark(mark)
            assert len(all_records(log, HIGH_WATERMARK)) == seen
            assert len(all_records(log, TXN_COMMITTED)) == seen
            assert len(all_records(log)) == 30
            at_mark = log.read(mark, isolation=HIGH_WATERMARK)
            assert (at_mark.data, at_mark.start.message_offset) == (b"", mark)
        log.update_high_watermark(12)
        past = log.read(20, isolation=HIGH_WATERMARK)
        assert (past.data, past.start.message_offset) == (b"", 20)
        assert log.read(20, isolation=TXN_COMMITTED).aborted_transactions == ()


def test_columns_of_a_read(path: Path) -> None:
    with _filled(path, 5) as log:
        found = log.read_arrow(4, columns=["partition", "topic", "key"])
        assert found.schema.names == ["partition", "topic", "key"]
        assert found.num_rows == 11
        assert found.to_pylist()[0] == {"partition": 0, "topic": "orders", "key": b"key 4"}
        assert log.read_arrow(15).num_rows == 0


# Committed


def test_a_committed_read_shows_what_a_consumer_sees(path: Path) -> None:
    with open_log(path) as log:
        sequences = dict.fromkeys((1, 2, 3), 0)
        kept: list[int] = []
        for number in range(60):
            producer = number % 3 + 1
            is_aborted = number // 9 % 2 == 1
            info = send(log, producer, sequences[producer], record(number), record(1000 + number))
            sequences[producer] += 2
            kept += [] if is_aborted else [info.first_offset, info.last_offset]
            if number % 9 >= 6:
                (abort if is_aborted else commit)(log, producer)
            if number % 5 == 0:
                kept.append(log.append_as_leader([record(number)]).first_offset)
        for producer in (1, 2, 3):
            commit(log, producer)
        end = log.update_high_watermark(log.log_end_offset)
        assert log.last_stable_offset == end
        for start in range(0, end, 7):
            seen: list[int] = []
            offset = start
            while offset < end:
                part = log.read_arrow(offset, 500, TXN_COMMITTED, columns=["offset"])
                seen += part.column("offset").to_pylist()
                batches = log.read(offset, 500, TXN_COMMITTED).batches()
                offset = int(batches.last_offset[-1]) + 1
            assert seen == [offset for offset in sorted(kept) if offset >= start]


def test_the_golden_log_shows_what_its_expectations_tell() -> None:
    log = golden_partition("golden-txn-0")
    data = b"".join(path.read_bytes() for path in log.logs())
    table = scan_batches(data).require()
    assert committed(table, ()).sum() == (~table.is_control).sum()
    everything = [Aborted(int(producer), 0, 1 << 40) for producer in set(table.producer_id.tolist())]
    assert not (committed(table, everything) & table.is_transactional).any()


# By time


def test_a_timestamp_finds_the_first_record_as_late(path: Path) -> None:
    times = [5000, 1000, 9000, 3000, 9000, 7000, 2000, 8000]
    with open_log(path) as log:
        for time in times * 20:
            log.append_as_leader([Record(b"x" * 50, b"k", (), NOW_MS + time)])
        assert len(log.segments) > 3
        for target in range(0, 9001, 500):
            expected = next(at for at, time in enumerate(times) if time >= target)
            found = log.offset_for_timestamp(NOW_MS + target)
            assert found == TimestampOffset(NOW_MS + times[expected], expected)
        assert log.offset_for_timestamp(NOW_MS + 9001) is None
        log.update_high_watermark(160)
        log.delete_records(33)
        assert log.offset_for_timestamp(0) is None, "as with Kafka, the first segment that is as late decides"
        assert log.first_offset_at(0) == TimestampOffset(NOW_MS + 1000, 33)
        assert log.first_offset_at(NOW_MS + 8500) == TimestampOffset(NOW_MS + 9000, 34)


def test_special_targets(path: Path) -> None:
    with open_log(path) as log:
        assert log.offset_for_timestamp(OffsetTarget.MAX_TIMESTAMP) is None
        for time in (10, 50, 30, 50, 20):
            log.append_as_leader([Record(b"v", b"k", (), time - 1), Record(b"v", b"k", (), time)])
            log.roll()
        log.update_high_watermark(10)
        log.delete_records(3)
        assert log.offset_for_timestamp(OffsetTarget.LATEST) == TimestampOffset(-1, 10)
        assert log.offset_for_timestamp(OffsetTarget.EARLIEST) == TimestampOffset(-1, 3)
        assert log.offset_for_timestamp(OffsetTarget.EARLIEST_LOCAL) == TimestampOffset(-1, 3)
        assert log.offset_for_timestamp(OffsetTarget.MAX_TIMESTAMP) == TimestampOffset(50, 3)
        assert log.offset_for_timestamp(OffsetTarget.LATEST_TIERED) == TimestampOffset(-1, -1)
        assert log.offset_for_timestamp(OffsetTarget.EARLIEST_PENDING_UPLOAD) == TimestampOffset(-1, -1)
        assert log.offset_for_timestamp(-7) is None, "any other number is a timestamp"
        assert log.first_offset_at(-7) == TimestampOffset(50, 3)


def test_times_given_by_the_log_are_found(path: Path) -> None:
    config = LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    with open_log(path, config) as log:
        log.append_as_leader(numbered(3))
        assert log.offset_for_timestamp(NOW_MS) == TimestampOffset(NOW_MS, 0)
        assert log.offset_for_timestamp(OffsetTarget.MAX_TIMESTAMP) == TimestampOffset(NOW_MS, 0)


# Offsets


def test_the_high_watermark_keeps_within_the_log(path: Path) -> None:
    with _filled(path, 10) as log:
        assert log.update_high_watermark(99) == 30
        assert log.update_high_watermark(-5) == 0
        assert log.update_high_watermark(12) == 12
        log.delete_records(6)
        assert log.update_high_watermark(3) == 6
        assert log.maybe_increment_high_watermark(5) is None
        old = log.maybe_increment_high_watermark(9)
        assert old is not None
        assert (old.message_offset, log.high_watermark) == (6, 9)
        with pytest.raises(OffsetOutOfRangeError):
            log.maybe_increment_high_watermark(31)
        with pytest.raises(OffsetOutOfRangeError):
            log.delete_records(10)


def test_the_same_offset_on_a_newer_segment_counts_as_higher(path: Path) -> None:
    with _filled(path, 2) as log:
        log.update_high_watermark(6)
        log.append_as_leader(numbered(1))
        log.update_high_watermark(6)
        assert log.maybe_increment_high_watermark(LogOffsetMetadata(6, 0, 1)) is None
        assert log.maybe_increment_high_watermark(LogOffsetMetadata(6, 6, 0)) is not None
        assert log.offsets.high_watermark == LogOffsetMetadata(6, 6, 0)


def test_offsets_are_completed_with_their_places(path: Path) -> None:
    with open_log(path) as log:
        log.append_as_leader(numbered(3))
        send(log, 1, 0, *numbered(2))
        log.append_as_leader(numbered(3))
        log.update_high_watermark(7)
        assert log.offsets.high_watermark.message_offset_only
        snapshot = log.offset_snapshot()
        batches = log.read(0).batches()
        assert snapshot.high_watermark == LogOffsetMetadata(7, 0, int(batches.position[2]))
        assert snapshot.last_stable == LogOffsetMetadata(3, 0, int(batches.position[1]))
        assert snapshot.log_end == LogOffsetMetadata(8, 0, log.size)


def test_what_lies_between_the_log_start_and_the_first_segment_is_out_of_range(path: Path) -> None:
    """A log that starts earlier than its first segment has the rest elsewhere, as with tiered storage."""
    with open_log(path) as log:
        log.truncate_fully_and_start_at(10, log_start_offset=5)
        log.append_as_leader([record(10)])
        assert (log.log_start_offset, log.log_end_offset) == (5, 11)
        for offset in (5, 9):
            with pytest.raises(OffsetOutOfRangeError, match="first segment begins at 10"):
                log.read(offset)
            assert log.read_record(offset) is None
        assert len(log.read(10).batches()) == 1


def test_a_closed_log_answers_no_more(path: Path) -> None:
    log = _filled(path, 3)
    fetched = log.read(0)
    log.close()
    assert len(fetched.batches()) == 3, "what was read stays"
    for ask in (
        lambda: log.read(0),
        lambda: log.read_record(0),
        lambda: log.append_as_leader(numbered(1)),
        log.flush,
        lambda: log.offset_for_timestamp(5),
    ):
        with pytest.raises(LogClosedError):
            ask()


def test_offsets_in_holes_are_read_past(path: Path) -> None:
    with open_log(path) as log:
        log.append_as_follower(encode_records(numbered(2), base_offset=10))
        log.append_as_follower(encode_records(numbered(2), base_offset=20))
        log.roll(40)
        log.append_as_follower(encode_records(numbered(2), base_offset=50))
        for offset, first in ((0, 10), (11, 10), (12, 20), (22, 50), (40, 50), (51, 50)):
            assert log.read(offset, 1).start.message_offset == first
        assert log.read_record(15) is None
        assert log.read_record(45) is None
        log.update_high_watermark(30)
        assert [one.offset for one in all_records(log, HIGH_WATERMARK)] == [10, 11, 20, 21]
