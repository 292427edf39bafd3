"""A store's work by the clock: flushes, checkpoints, retention, metrics."""

from __future__ import annotations

import threading
from pathlib import Path

import tidelog
from tests.log.logs import Clock
from tests.manager.stores import SMALL, some
from tests.waiting import wait_until
from tidelog.manager import BrokerConfig
from tidelog.records import Record
from tidelog.storage import LOCAL, read_file, read_offset_checkpoint
from tidelog.types import TopicPartition


def test_by_the_clock(clock: Clock, tmp_path: Path) -> None:
    config = BrokerConfig.from_properties(
        {
            "log.retention.check.interval.ms": 10_000,
            "log.flush.offset.checkpoint.interval.ms": 5000,
            "log.initial.task.delay.ms": 0,
            "producer.id.expiration.ms": 20_000,
            "producer.id.expiration.check.interval.ms": 1000,
        }
    )
    with tidelog.open(tmp_path, config=config, now_ms=clock, background=False) as store:
        store.create_topic(
            "t", 1, SMALL | {"retention.ms": 60_000, "flush.ms": 3000, "file.delete.delay.ms": 500}
        )
        partition = store.partition("t")
        for _ in range(8):
            partition.append([Record(bytes(50), timestamp=clock.now_ms) for _ in range(5)])
        partition.append(
            [Record(b"p", timestamp=clock.now_ms)], producer_id=5, producer_epoch=0, base_sequence=0
        )
        store.run_due_tasks()
        assert partition.log.recovery_point == 40, "what was rolled is flushed"
        clock.now_ms += 4000
        store.run_due_tasks()
        assert partition.log.recovery_point == 41, "flush.ms"
        clock.now_ms += 2000
        store.run_due_tasks()
        points = read_offset_checkpoint(LOCAL, tmp_path / "recovery-point-offset-checkpoint")
        assert points == {TopicPartition("t", 0): 41}
        assert list(partition.log.active_producers) == [5]
        clock.now_ms += 20_000
        store.run_due_tasks()
        assert not partition.log.active_producers
        clock.now_ms += 60_000
        store.run_due_tasks()
        assert partition.log_start_offset == 41
        assert list((tmp_path / "t-0").glob("*.deleted"))
        clock.now_ms += 1000
        store.run_due_tasks()
        assert not list((tmp_path / "t-0").glob("*.deleted"))


def test_the_background_thread_runs_and_stops(tmp_path: Path) -> None:
    config = BrokerConfig.from_properties(
        {"log.initial.task.delay.ms": 0, "replica.high.watermark.checkpoint.interval.ms": 1}
    )
    with tidelog.open(tmp_path, config=config) as store:
        store.create_topic("t").partitions[0].append(some(3))
        path = tmp_path / "replication-offset-checkpoint"
        wait_until(lambda: path.exists() and b"t 0 3" in read_file(LOCAL, path))
        assert any(thread.name == "tidelog-background" for thread in threading.enumerate())
    assert not any(thread.name.startswith("tidelog") for thread in threading.enumerate())


def test_flushing_by_count_and_metrics(tmp_path: Path) -> None:
    with tidelog.open(tmp_path, background=False) as store:
        store.create_topic("every", config={"flush.messages": 1})
        store.create_topic("never")
        for name in ("every", "never"):
            store.partition(name).append(some(7))
        found = store.metrics()
        every, never = (found.partitions[TopicPartition(name, 0)] for name in ("every", "never"))
        assert (every.recovery_point, never.recovery_point, found.unflushed_records) == (7, 0, 7)
        assert (never.log_end_offset, never.segments, never.high_watermark) == (7, 1, 7)
        store.flush()
        found = store.metrics()
        assert found.unflushed_records == 0
        assert found.partitions[TopicPartition("never", 0)].flushes.count == 1
