"""What happens to a log's segments: rolling, truncation, deletion, replacement, the directory's own fate."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.log.logs import (
    NOW_MS,
    SMALL,
    Clock,
    abort,
    all_records,
    contents,
    data_files,
    numbered,
    open_log,
    record,
    send,
)
from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError, LogClosedError, LogError, OffsetOutOfRangeError
from tidelog.log import Log
from tidelog.records import Record, encode_records, scan_batches
from tidelog.segment import ActiveSegment, SealedSegment
from tidelog.storage.names import Transient


class Later:
    """A scheduler whose work is done when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[str, Callable[[], None], int]] = []

    def schedule_once(self, name: str, action: Callable[[], None], delay_ms: int = 0) -> None:
        self.waiting.append((name, action, delay_ms))

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for _, action, _ in waiting:
            action()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


def _fill(log: Log, batches: int) -> None:
    for _ in range(batches):
        log.append_as_leader(numbered(3, log.log_end_offset))


# Rolling


def test_segments_roll_by_size(path: Path) -> None:
    with open_log(path) as log:
        _fill(log, 40)
        assert len(log.segments) > 3
        assert all(segment.size <= 2000 for segment in log.segments)
        assert [type(segment) for segment in log.segments][-2:] == [SealedSegment, ActiveSegment]
        assert log.producer_snapshot_offsets == log.segments.base_offsets[1:]


def test_a_segment_that_begins_past_the_log_end_takes_no_offset_below_it(path: Path) -> None:
    with open_log(path) as log:
        log.append_as_leader([record(0)])
        log.roll(5)
        batch = encode_records([record(number) for number in range(10)])
        assert log.append_as_leader(batch).first_offset == 5
        assert [one.offset for one in all_records(log)] == [0, *range(5, 15)]


def test_segments_roll_by_time(path: Path) -> None:
    config = LogConfig(segment_ms=1000)
    with open_log(path, config) as log:
        for time in (0, 1000, 1001, 1500, 2002, 2001, 3500):
            log.append_as_leader([Record(b"v", b"k", (), NOW_MS + time)])
        assert log.segments.base_offsets == (0, 2, 4, 6)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_segment_that_a_truncation_opens_again_is_as_old_as_it_was(path: Path, restarts: bool) -> None:
    """Its age counts where its first batch has no timestamp. After a restart it is as old as that."""
    clock = Clock()
    config = LogConfig(segment_ms=1000, index_interval_bytes=200, segment_index_bytes=8192)
    timeless = [Record(b"value", b"key", (), -1)]
    log = open_log(path, config, now_ms=clock)
    log.append_as_leader(timeless)
    log.append_as_leader(timeless)
    log.roll()
    if restarts:
        log.close()
        log = open_log(path, config, now_ms=clock)
    clock.now_ms += 600
    log.append_as_leader(timeless)
    log.truncate_to(1)
    assert len(log.segments) == 1
    clock.now_ms += 300
    log.append_as_leader(timeless)
    assert len(log.segments) == 1
    clock.now_ms += 200
    log.append_as_leader(timeless)
    assert len(log.segments) == 2
    log.truncate_to(0)
    clock.now_ms += 900
    log.append_as_leader(timeless)
    log.append_as_leader(timeless)
    assert len(log.segments) == 1, "an empty segment begins anew"
    log.close()


def test_jitter_makes_segments_roll_earlier(path: Path) -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=900)
    rolls = set()
    for seed in range(5):
        with open_log(path.with_name(f"orders-{seed}"), config, seed=seed) as log:
            for time in range(1100):
                log.append_as_leader([Record(b"v", b"k", (), NOW_MS + time)])
            rolls.add(log.segments.base_offsets[1])
    assert len(rolls) > 1
    assert all(100 < roll <= 1001 for roll in rolls)


def test_segments_roll_when_an_index_is_full(path: Path) -> None:
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=67)
    with open_log(path, config) as log:
        _fill(log, 40)
        entries = [segment.time_index.entries for segment in log.segments]
        assert len(log.segments) > 5
        assert max(entries) <= 5
        assert len(all_records(log)) == 120


def test_an_append_with_more_entries_than_an_index_has_left_begins_a_segment(path: Path) -> None:
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=120)
    eight = encode_records(numbered(1)) * 8
    with open_log(path, config) as log:
        for _ in range(5):
            log.append_as_leader(eight)
        assert log.segments.base_offsets == (0, 16, 32)
        assert len(all_records(log)) == 40


def test_segments_roll_when_offsets_grow_too_far(path: Path) -> None:
    with open_log(path) as log:
        log.append_as_follower(encode_records([record(0)], base_offset=0))
        log.append_as_follower(encode_records([record(1)], base_offset=(1 << 31) + 5))
        assert log.segments.base_offsets == (0, (1 << 31) + 5)
        assert len(all_records(log)) == 2


def test_rolling_by_hand(path: Path) -> None:
    with open_log(path) as log:
        _fill(log, 2)
        log.roll()
        log.roll()  # nothing in it yet: replaced by itself
        log.roll(20)
        assert log.segments.base_offsets == (0, 6, 20)
        with pytest.raises(LogError):
            log.append_as_follower(encode_records(numbered(1), base_offset=10))
        assert log.log_end_offset == 6
        assert log.append_as_leader([record(0)]).first_offset == 20
        assert [one.offset for one in all_records(log)] == [*range(6), 20]


# Truncation


@pytest.mark.parametrize("target", range(0, 121, 7))
def test_truncation_leaves_what_was_never_appended(path: Path, target: int) -> None:
    other = path.with_name("expected-0")
    with open_log(path) as log, open_log(other) as expected:
        for batch in range(40):
            sent = (1, 3 * batch, *numbered(3, 3 * batch))
            send(log, *sent, transactional=False)
            if 3 * batch + 3 <= target:
                send(expected, *sent, transactional=False)
        log.update_high_watermark(60)
        assert log.truncate_to(target) is (target < 120)
        assert log.log_end_offset == target
        assert log.high_watermark == min(60, target)
        assert log.recovery_point <= target
        kept = all_records(expected)
        assert all_records(log) == kept
        assert [s.size for s in log.segments if s.size] == [s.size for s in expected.segments if s.size]
        if kept:
            state = log.active_producers[1]
            assert (state.last_sequence, state.last_data_offset) == (len(kept) - 1, len(kept) - 1)
        else:
            assert not log.active_producers
        assert log.append_as_leader([record(999)]).first_offset == target
    for clean in (True, False):
        with open_log(path, clean=clean) as log:
            assert all_records(log)[:-1] == kept
            assert log.log_end_offset == target + 1


def test_truncation_takes_epochs_and_transactions_back(path: Path) -> None:
    with open_log(path) as log:
        for producer in range(10):
            log.append_as_leader([record(producer)])
            send(log, producer, 0, record(producer))
            abort(log, producer)
        for epoch in range(1, 5):
            log.append_as_leader([record(epoch)], leader_epoch=epoch)
        log.update_high_watermark(log.log_end_offset)
        log.truncate_to(32)
        assert [entry.epoch for entry in log.epoch_entries] == [0, 1, 2]
        log.truncate_to(16)
        assert [entry.epoch for entry in log.epoch_entries] == [0]
        assert len(log.aborted_transactions(0, 100)) == 5
        assert log.last_stable_offset == 16
        log.truncate_to(14)
        assert log.last_stable_offset == 13, "the transaction is open again"


def test_a_follower_truncates_where_it_diverges(tmp_path: Path) -> None:
    with open_log(tmp_path / "a-0") as leader, open_log(tmp_path / "b-0") as follower:
        for epoch in (0, 1):
            leader.append_as_leader(numbered(6), leader_epoch=epoch)
        follower.append_as_follower(bytes(leader.read(0).data))
        follower.append_as_leader(numbered(4), leader_epoch=1)  # it led, and lost its place
        leader.append_as_leader(numbered(5), leader_epoch=3)
        assert follower.latest_epoch == 1
        told = leader.end_offset_for(1)
        assert told == (1, 12)
        follower.truncate_to(min(told.end_offset, follower.log_end_offset))
        follower.append_as_follower(bytes(leader.read(12).data), leader_epoch=3)
        assert all_records(follower) == all_records(leader)
        assert follower.epoch_entries == leader.epoch_entries


def test_batches_of_a_later_leader_are_dropped(path: Path) -> None:
    batches = [encode_records([record(i)], base_offset=i, leader_epoch=i // 2) for i in range(6)]
    with open_log(path) as log:
        info = log.append_as_follower(b"".join(batches), leader_epoch=1)
        assert (info.first_offset, info.last_offset, log.log_end_offset) == (0, 3, 4)
        assert log.append_as_follower(b"".join(batches[4:]), leader_epoch=1).last_offset == -1
        log.append_as_follower(b"".join(batches[4:]) + batches[5][:30], leader_epoch=2)
        assert log.log_end_offset == 6
        with pytest.raises(InvalidInputError, match="below the next offset"):
            log.append_as_follower(batches[5], leader_epoch=2)


def test_starting_anew(path: Path) -> None:
    with open_log(path) as log:
        _fill(log, 40)
        log.truncate_fully_and_start_at(500)
        assert log.offsets[:1] == (500,)
        assert (log.log_end_offset, log.high_watermark, log.segments.base_offsets) == (500, 500, (500,))
        assert not log.epoch_entries
        _fill(log, 1)
        log.truncate_fully_and_start_at(500, 480)  # the segment's own base
        assert (log.log_start_offset, log.log_end_offset) == (480, 500)
        assert log.truncate_to(490)
        assert (log.log_start_offset, log.log_end_offset) == (490, 490)
        with pytest.raises(InvalidInputError):
            log.truncate_to(-1)
        with pytest.raises(InvalidInputError):
            log.truncate_fully_and_start_at(5, 6)
        _fill(log, 2)
    assert {int(name[:20]) for name in contents(path) if name[0] == "0"} == {490, 496}
    with open_log(path) as log:
        assert [one.offset for one in all_records(log)] == list(range(490, 496))


# Deletion


def test_old_segments_are_deleted_and_the_log_start_moves(path: Path) -> None:
    later = Later()
    with open_log(path, scheduler=later) as log:
        _fill(log, 40)
        first, second, third, *_ = log.segments
        with pytest.raises(OffsetOutOfRangeError):
            log.delete_segments([first])
        log.update_high_watermark(third.base_offset)
        with pytest.raises(InvalidInputError):
            log.delete_segments([second])
        with pytest.raises(InvalidInputError):
            log.delete_segments(log.segments)
        held = log.view
        assert log.delete_segments([first, second]) == 2
        assert log.log_start_offset == third.base_offset
        assert log.producer_snapshot_offsets[0] == third.base_offset
        names = [name for name in contents(path) if name.endswith(".deleted")]
        assert len(names) == 7, "two segments of three files, and a snapshot"
        assert held.segments.first.read(0, 1) is not None, "who has them in view reads on"
        assert {delay for name, _, delay in later.waiting if name == "delete-file"} == {60_000}
        later.run()
        assert not [name for name in contents(path) if name.endswith(".deleted")]
        assert [one.offset for one in all_records(log)] == list(range(third.base_offset, 120))
        assert log.recovery_point >= third.base_offset


def test_deleting_records_raises_the_start_of_epochs_too(path: Path) -> None:
    with open_log(path) as log:
        for epoch in (0, 2, 4):
            log.append_as_leader(numbered(3), leader_epoch=epoch)
        log.update_high_watermark(9)
        assert log.maybe_increment_log_start_offset(4)
        assert not log.maybe_increment_log_start_offset(4)
        assert log.delete_records(4) == log.delete_records(3) == 4
        assert [(e.epoch, e.start_offset) for e in log.epoch_entries] == [(2, 4), (4, 6)]
    with open_log(path, log_start_offset=4) as log:
        assert log.log_start_offset == 4


def test_segments_are_replaced(path: Path) -> None:
    config = dataclasses.replace(SMALL, cleanup_policy=("compact",))
    with open_log(path, config) as log:
        _fill(log, 80)
        old = list(log.segments)[1:4]
        held = log.view
        cleaned = ActiveSegment.create(
            log.directory, old[0].base_offset, config, clock=Clock(), transient=Transient.CLEANED
        )
        data = bytes(old[2].buffer())
        cleaned.append(data, scan_batches(data).require())
        log.replace_segments([cleaned.seal()], old)
        assert len(log.segments) == len(held.segments) - 2
        dropped = range(old[0].base_offset, old[2].base_offset)
        assert [one.offset for one in all_records(log)] == [o for o in range(240) if o not in dropped]
        assert old[0].base_offset in log.producer_snapshot_offsets
        assert old[1].base_offset not in log.producer_snapshot_offsets
        with pytest.raises(InvalidInputError):
            log.replace_segments([], old)
        with pytest.raises(InvalidInputError):
            log.replace_segments([], [log.segments.last])
    assert not [name for name in contents(path) if not name.endswith(("t", "x", "g"))]
    with open_log(path, config) as log:
        assert log.log_end_offset == 240


# Flushing and the end


def test_the_recovery_point_follows_flushes(path: Path) -> None:
    later = Later()
    with open_log(path, scheduler=later) as log:
        _fill(log, 20)
        assert log.recovery_point == 0
        later.run()
        assert log.recovery_point == log.segments.last.base_offset
        log.flush()
        assert log.recovery_point == 60
        _fill(log, 1)
        log.flush(active=False)
        assert log.recovery_point == 63
        log.truncate_to(30)
        assert log.recovery_point == 30
    with open_log(path) as log:
        assert log.recovery_point == 30
    with open_log(path, clean=False, recovery_point=10) as log:
        assert log.recovery_point == 10


def test_a_log_flushes_after_so_many_messages(path: Path) -> None:
    with open_log(path, dataclasses.replace(SMALL, flush_messages=10)) as log:
        points = []
        for _ in range(8):
            _fill(log, 1)
            points.append(log.recovery_point)
        assert points == [0, 0, 0, 12, 12, 12, 12, 24]


def test_closing_leaves_trimmed_indexes_and_a_snapshot(path: Path) -> None:
    with open_log(path) as log:
        _fill(log, 40)
    assert f"{120:020}.snapshot" in contents(path)
    before = data_files(path)
    assert all(len(data) < 200 for name, data in before.items() if name.endswith("index"))
    Log.open(path, SMALL, clean=False, now_ms=Clock()).close()
    assert data_files(path) == before, "recovery finds nothing to put right"


def test_the_directory_is_renamed_and_deleted_under_its_readers(path: Path) -> None:
    log = open_log(path)
    _fill(log, 40)
    sealed = open_log(path.with_name("other-0"))
    sealed.close()
    log.rename(f"orders-0.{'a' * 32}-future")
    assert not path.exists()
    assert log.read_record(0) is not None, "opened after the rename"
    _fill(log, 20)
    assert len(all_records(log)) == 180
    log.rename("orders-0")
    fetched = log.read(7)
    with pytest.raises(InvalidInputError):
        log.rename("no partition")
    with pytest.raises(InvalidInputError):
        log.rename("../orders-0")
    log.rename(f"orders-0.{'b' * 32}-delete")
    log.delete()
    assert [entry.name for entry in path.parent.iterdir()] == ["other-0"]
    assert len(fetched.batches()), "what was read stays"
    with pytest.raises(LogClosedError):
        log.read(0)


def test_a_directory_marked_for_deletion_is_opened_without_recovery(path: Path) -> None:
    with open_log(path) as log:
        _fill(log, 10)
    marked = path.rename(path.with_name(f"orders-0.{'c' * 32}-delete"))
    for file in marked.glob("*.log"):
        file.write_bytes(b"garbage")
    log = Log.open(marked, SMALL, clean=False)
    log.delete()
    assert not marked.exists()


def test_config_changes_at_run_time(path: Path) -> None:
    with open_log(path, LogConfig()) as log:
        _fill(log, 20)
        assert log.update_config(SMALL) == LogConfig()
        _fill(log, 20)
        assert len(log.segments) > 2
