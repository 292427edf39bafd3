"""Compaction in a store: by the clock, on demand and in the background, and what goes wrong with it."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.log.logs import Clock
from tests.manager.compacted import (
    CLEANED,
    COMPACT,
    Opener,
    both,
    checkpointed,
    fill,
    offsets_of,
    records_of,
)
from tests.segment.crafting import batch
from tests.waiting import wait_until
from tidelog.manager.store.events import Event, LogCleaned, LogUncleanable
from tidelog.records import Record
from tidelog.records.batches import scan_batches
from tidelog.storage import LOCAL, write_offset_checkpoint
from tidelog.testing.faults import Fault, FaultyFileSystem, fail_on
from tidelog.types import TopicPartition

# By the clock


def test_dirty_logs_are_cleaned_and_how_far_is_written_down(
    open_store: Opener, clock: Clock, events: list[Event], tmp_path: Path
) -> None:
    with open_store() as store:
        store.create_topic("users", partitions=2, config=COMPACT)
        store.create_topic("events", config={"retention.ms": -1})
        for partition in store.partitions:
            fill(partition)
        clock.now_ms += 1000
        store.run_due_tasks()
        for number in range(2):
            assert offsets_of(store.partition("users", number)) == [*range(290, 300)]
        assert offsets_of(store.partition("events")) == [*range(300)]
        assert both(tmp_path) == {"users-0": 300, "users-1": 300}
        cleaned = [event for event in events if isinstance(event, LogCleaned)]
        assert sorted(str(event.partition) for event in cleaned) == ["users-0", "users-1"]
        numbers = store.metrics().cleaning
        assert (numbers.logs_cleaned, numbers.last_turn_ms) == (2, clock.now_ms)
        assert 0 < numbers.bytes_written < numbers.bytes_read
        assert numbers.recopy_ratio < 0.2
        assert numbers.seconds >= numbers.longest_seconds > 0
        assert numbers.uncleanable == {}
        # a log that is not dirty enough waits
        fill(store.partition("users", 0), 5, keys=5, roll_every=5)
        clock.now_ms += 15_000
        store.run_due_tasks()
        assert store.metrics().cleaning.logs_cleaned == 2
        assert 0 < store.metrics().cleaning.max_dirty_ratio < 0.5
        fill(store.partition("users", 0), 50, roll_every=50)
        clock.now_ms += 15_000
        store.run_due_tasks()
        assert offsets_of(store.partition("users", 0)) == [*range(345, 355)]
        assert both(tmp_path) == {"users-0": 355, "users-1": 300}


def test_after_a_restart_it_goes_on_at_the_checkpoint(open_store: Opener, tmp_path: Path) -> None:
    with open_store() as store:
        store.create_topic("users", config=COMPACT)
        fill(store.partition("users"))
        assert store.clean()[TopicPartition("users", 0)].first_dirty_offset == 0
        fill(store.partition("users"))
    with open_store() as store:
        report = store.clean()[TopicPartition("users", 0)]
        assert (report.first_dirty_offset, report.end_offset) == (300, 600)
        assert offsets_of(store.partition("users")) == [*range(590, 600)]


def test_dirt_does_not_wait_longer_than_the_largest_lag(open_store: Opener, clock: Clock) -> None:
    with open_store() as store:
        config = COMPACT | {"min.cleanable.dirty.ratio": 1, "max.compaction.lag.ms": 5000}
        store.create_topic("users", config=config)
        fill(store.partition("users"))
        clock.now_ms += 4000
        store.run_due_tasks()
        assert len(records_of(store.partition("users"))) == 300
        clock.now_ms += 20_000
        store.run_due_tasks()
        assert len(records_of(store.partition("users"))) == 10
        assert store.metrics().cleaning.max_compaction_delay_ms == 0


def test_a_checkpoint_that_is_not_true_is_set_back(open_store: Opener, tmp_path: Path) -> None:
    with open_store() as store:
        store.create_topic("users", config=COMPACT)
        fill(store.partition("users"))
        root = store.partition("users").root
        assert root is not None
    gone = TopicPartition("gone", 0)
    write_offset_checkpoint(LOCAL, root.file(CLEANED), {TopicPartition("users", 0): 999, gone: 5})
    with open_store() as store:
        partition = store.partition("users")
        assert store.clean()[partition.topic_partition].first_dirty_offset == 0
        assert both(tmp_path) == {"users-0": 300, "gone-0": 5}, "what is not here stays as it was"
        fill(partition)
        partition.delete_records(450)
        assert store.clean(partition.topic_partition)[partition.topic_partition].first_dirty_offset == 450


def test_old_segments_of_compacted_logs_go_with_their_policy(open_store: Opener, clock: Clock) -> None:
    with open_store() as store:
        store.create_topic("both", config=COMPACT | {"cleanup.policy": "compact,delete"})
        store.create_topic("compact", config=COMPACT)
        store.create_topic("delete", config=COMPACT | {"cleanup.policy": "delete"})
        for partition in store.partitions:
            fill(partition, keys=1000)
        store.run_due_tasks()
        clock.now_ms += 100_000
        store.run_due_tasks()
        assert [len(records_of(store.partition(name))) for name in ("both", "compact", "delete")] == [
            0,
            300,
            0,
        ]
        fill(store.partition("both"), keys=1000)
        clock.now_ms += 100_000
        assert store.apply_retention(TopicPartition("both", 0)), "on demand too"


def test_without_the_cleaner_nothing_is_compacted_but_retention_goes_on(
    open_store: Opener, clock: Clock
) -> None:
    with open_store(properties={"log.cleaner.enable": "false"}) as store:
        store.create_topic("both", config=COMPACT | {"cleanup.policy": "compact,delete"})
        store.create_topic("compact", config=COMPACT)
        for partition in store.partitions:
            fill(partition)
        clock.now_ms += 100_000
        store.run_due_tasks()
        assert [len(records_of(store.partition(name))) for name in ("both", "compact")] == [0, 300]


def test_one_log_whether_it_is_due_or_not(open_store: Opener) -> None:
    with open_store() as store:
        store.create_topic("users", config=COMPACT | {"min.cleanable.dirty.ratio": 1})
        fill(store.partition("users"), 350)
        assert store.clean() == {}
        (report,) = store.clean(TopicPartition("users", 0)).values()
        assert report.end_offset == 300, "not the active segment"
        assert offsets_of(store.partition("users")) == [*range(290, 350)]


# Trouble


def test_a_log_that_cannot_be_cleaned_is_marked_and_the_rest_goes_on(
    open_store: Opener, events: list[Event], clock: Clock
) -> None:
    with open_store() as store:
        store.create_topic("users", partitions=2, config=COMPACT)
        for partition in store.partitions:
            fill(partition)
        bad = store.partition("users", 0)
        segment = bad.log.segments.first
        table = scan_batches(segment.buffer()).require()
        damaged = Path(segment.path)
        sound = damaged.read_bytes()
        damaged.write_bytes(_flipped(sound, int(table.position[50]) + 70))
        clock.now_ms += 1000
        store.run_due_tasks()
        assert len(records_of(store.partition("users", 1))) == 10
        (told,) = [event for event in events if isinstance(event, LogUncleanable)]
        assert told.partition == bad.topic_partition
        assert str(damaged) in told.reason
        assert store.metrics().cleaning.uncleanable == {bad.topic_partition: told.reason}
        assert bad.is_online
        bad.append([Record(b"more", b"key")])
        clock.now_ms += 20_000
        store.run_due_tasks()
        assert sum(isinstance(event, LogUncleanable) for event in events) == 1, "it is left alone"
        damaged.write_bytes(sound)
        assert bad.topic_partition in store.clean(bad.topic_partition), "until somebody asks"
        assert store.metrics().cleaning.uncleanable == {}


def _flipped(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 0xFF
    return bytes(changed)


def test_a_full_disk_leaves_the_log_as_it_was(open_store: Opener, tmp_path: Path) -> None:
    fs = FaultyFileSystem(LOCAL, fail_on("pwrite", "*.log.cleaned", errno.ENOSPC))
    with open_store(fs=fs) as store:
        store.create_topic("users", config=COMPACT)
        partition = store.partition("users")
        fill(partition)
        assert store.clean() == {}
        assert list(store.metrics().cleaning.uncleanable) == [partition.topic_partition]
        assert offsets_of(partition) == [*range(300)]
        assert not list(Path(partition.log.path).glob("*.cleaned"))
    with open_store() as store:
        assert len(store.clean()) == 1


def test_a_checkpoint_that_cannot_be_written_takes_its_root_offline(
    open_store: Opener, tmp_path: Path
) -> None:
    failing = str(tmp_path / "a" / f"{CLEANED}.tmp")
    fs = FaultyFileSystem(LOCAL, lambda call: Fault(errno.EIO) if call.path.startswith(failing) else None)
    with open_store(fs=fs) as store:
        store.create_topic("users", partitions=2, config=COMPACT)
        for partition in store.partitions:
            fill(partition)
        places = {
            partition.root.path: partition for partition in store.partitions if partition.root is not None
        }
        store.clean()
        assert list(store.offline_roots) == [str(tmp_path / "a")]
        assert len(records_of(places[str(tmp_path / "b")])) == 10
        assert checkpointed(tmp_path / "b") == {str(places[str(tmp_path / "b")].topic_partition): 300}


def test_a_segment_that_reaches_too_far_is_split_and_cleaned(open_store: Opener) -> None:
    far = 2**31
    with open_store() as store:
        store.create_topic("old", config=COMPACT)
        path = Path(store.partition("old").log.path)
    data = b"".join(batch(offset) for offset in (0, 5, far + 7, far + 9))
    (path / f"{0:020}.log").write_bytes(data)
    with open_store() as store:
        log = store.partition("old").log
        log.roll()
        assert log.segments.first.has_overflow
        assert len(store.clean()) == 1
        assert [segment.base_offset for segment in log.segments] == [0, far + 7, far + 10]
        assert log.read_record(far + 9) is not None
        assert [log.read_record(offset) for offset in (0, 5, far + 7)] == [None] * 3


# In the background


def test_it_runs_in_the_background(open_store: Opener) -> None:
    with open_store(background=True, now_ms=None, properties={"log.cleaner.backoff.ms": 10}) as store:
        store.create_topic("users", config=COMPACT)
        fill(store.partition("users"))
        wait_until(lambda: len(records_of(store.partition("users"))) <= 110)


@pytest.mark.parametrize("seconds", [1.0, pytest.param(20.0, marks=pytest.mark.slow)])
def test_readers_and_writers_go_on_while_it_runs(open_store: Opener, seconds: float) -> None:
    """Each record says its offset, each key's number grows: a reader can tell whatever is wrong."""
    with open_store(background=True, now_ms=None, properties={"log.cleaner.backoff.ms": 1}) as store:
        store.create_topic("users", config=COMPACT | {"min.cleanable.dirty.ratio": 0.01})
        partition = store.partition("users")
        begin, faults = time.monotonic(), []

        def goes_on() -> bool:
            """For so long, and until it has run twice; a busy machine may take longer for that."""
            passed = time.monotonic() - begin
            return passed < seconds or (passed < 60 and store.metrics().cleaning.logs_cleaned < 2)

        def write() -> None:
            while goes_on():
                fill(partition, 50, keys=7, roll_every=25)

        def read() -> None:
            while goes_on():
                at, last = partition.log_start_offset, -1
                while at < partition.log_end_offset:
                    found = partition.read_arrow(at, columns=("offset", "key", "value")).to_pylist()
                    for row in found:
                        if row["value"] != b"%d" % row["offset"] or row["offset"] <= last:
                            faults.append(row)
                        last = row["offset"]
                    at = last + 1 if found and last >= at else partition.log_end_offset

        def guarded(task: Callable[[], None]) -> None:
            try:
                task()
            except BaseException as error:
                faults.append(error)

        threads = [threading.Thread(target=guarded, args=(task,)) for task in (write, read, read)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not faults
        assert store.metrics().cleaning.logs_cleaned > 1
        assert store.metrics().cleaning.uncleanable == {}
        end = partition.log_end_offset
        newest = {record.key: record.offset for record in records_of(partition)}
        assert sorted(newest.values()) == [*range(end - 7, end)]
    with open_store() as store:
        assert {record.key: record.offset for record in records_of(store.partition("users"))} == newest
