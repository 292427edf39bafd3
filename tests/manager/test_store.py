"""A store over several roots: topics, configs, placement, moves, trouble, background work, orderly stops."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tidelog.errors import (
    ConfigError,
    InvalidInputError,
    LogClosedError,
    LogError,
    LogLockedError,
    LogOfflineError,
)
from tidelog.manager import BrokerConfig, Partition, Store
from tidelog.manager.events import Event, LoadFinished, LoadProgress, LoadStarted, LogFailed, LogStrayed
from tidelog.manager.metadata.files import METADATA_DIRECTORY, read_bootstrap
from tidelog.manager.metadata.records import PartitionRecord
from tidelog.records import Record
from tidelog.storage import LOCAL, read_file, read_offset_checkpoint
from tidelog.storage.metadata import format_id, read_meta_properties
from tidelog.testing.faults import FaultyFileSystem, fail_on, read_only
from tidelog.types import TopicPartition

SMALL = {"internal.segment.bytes": 400, "segment.index.bytes": 600, "file.delete.delay.ms": 0}


def values(store: Store, topic: str, number: int = 0) -> list[bytes]:
    """All values of a partition; a read gives what one segment has."""
    partition = store.partition(topic, number)
    found: list[bytes] = []
    offset = partition.log_start_offset
    while offset < partition.log_end_offset:
        batch = partition.read_arrow(offset, 1 << 24, columns=("offset", "value"))
        found += batch.column(1).to_pylist()
        offset = batch.column(0)[-1].as_py() + 1
    return found


def some(count: int, prefix: str = "v") -> list[Record]:
    return [Record(f"{prefix}{i}".encode(), b"key", timestamp=1_700_000_000_000 + i) for i in range(count)]


def fill(partition: Partition, count: int) -> None:
    """Append so many records, five at a time: enough to roll small segments."""
    records = some(count)
    for start in range(0, count, 5):
        partition.append(records[start : start + 5])


# ---- opening and closing


def test_what_is_written_is_there_after_a_restart(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("orders", 2, {"retention.ms": -1})
        store.partition("orders", 1).append(some(100))
        assert store.partition("orders", 1).log.high_watermark == 100
    root = tmp_path / "data"
    assert (root / ".kafka_cleanshutdown").exists()
    points = read_offset_checkpoint(LOCAL, root / "recovery-point-offset-checkpoint")
    assert points == {TopicPartition("orders", 0): 0, TopicPartition("orders", 1): 100}
    assert read_offset_checkpoint(LOCAL, root / "replication-offset-checkpoint") == points
    assert read_offset_checkpoint(LOCAL, root / "log-start-offset-checkpoint") == {}
    events: list[Event] = []
    with tidelog.open(root, on_event=events.append) as store:
        assert not (root / ".kafka_cleanshutdown").exists()
        assert values(store, "orders", 1) == [one.value for one in some(100)]
        assert store.topic("orders").config == {"retention.ms": "-1"}
        assert len(store.topic("orders")) == 2
    assert [type(event) for event in events] == [LoadStarted, LoadProgress, LoadProgress, LoadFinished]
    assert isinstance(events[0], LoadStarted)
    assert events[0].clean


def test_a_crash_is_told_and_progress_counts_what_is_recovered(tmp_path: Path) -> None:
    store = tidelog.open(tmp_path, background=False)
    store.create_topic("t", 3, SMALL)
    for partition in store:
        fill(partition, 40)
    segments = sum(len(partition.log.segments) for partition in store)
    size = store.metrics().size_bytes
    for partition in store:
        partition.log.close_handlers()
    for root in store.roots:
        root.release()
    events: list[Any] = []
    with tidelog.open(tmp_path, on_event=events.append) as again:
        assert [len(values(again, "t", number)) for number in range(3)] == [40] * 3
        load = again.metrics().loads[str(tmp_path)]
    assert (load.clean, load.failed, load.segments, load.size_bytes) == (False, 0, segments, size)
    started, *progress, finished = events
    assert finished == load
    assert (started.clean, started.logs, started.segments, started.size_bytes) == (False, 3, segments, size)
    assert len(progress) == segments + 3, "of each segment and each log"
    assert sorted({one.segments_done for one in progress}) == list(range(1, segments + 1))
    assert [one.bytes_done for one in progress] == sorted(one.bytes_done for one in progress)
    last = progress[-1]
    assert (last.logs_done, last.segments_done, last.bytes_done, last.left_ms) == (3, segments, size, 0)
    assert progress[-1].left_ms == 0


def test_another_process_and_another_store_are_refused(tmp_path: Path) -> None:
    with tidelog.open(tmp_path):
        with pytest.raises(LogLockedError, match="already open in this process"):
            tidelog.open(tmp_path)
        code = f"import tidelog; tidelog.open({str(tmp_path)!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert f"process {os.getpid()}" in done.stderr
    tidelog.open(tmp_path).close()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = tidelog.open(tmp_path)
    topic = store.create_topic("t")
    store.close()
    store.close()
    with pytest.raises(LogClosedError):
        store.create_topic("u")
    with pytest.raises(LogOfflineError, match="closed"):
        topic.partitions[0].append(some(1))
    with pytest.raises(InvalidInputError, match="root directory"):
        tidelog.open([])
    with pytest.raises(FileNotFoundError):
        tidelog.open(tmp_path / "missing", create=False)


def test_server_properties_say_where_and_how(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        f"node.id=7\nlog.dirs={tmp_path}/x,{tmp_path}/y\nlog.retention.hours=3\nnum.partitions=4\n"
    )
    with tidelog.open(config=path) as store:
        assert [root.path for root in store.roots] == [f"{tmp_path}/x", f"{tmp_path}/y"]
        topic = store.create_topic("t", config={"segment.ms": 5000})
        assert len(topic) == 4
        log = store.partition("t").log
        assert (log.config.retention_ms, log.config.segment_ms) == (3 * 3_600_000, 5000)
    assert read_meta_properties(LOCAL, tmp_path / "x" / "meta.properties").node_id == 7
    (record,) = [one for one in read_bootstrap(LOCAL, tmp_path / "x") if isinstance(one, PartitionRecord)][:1]
    assert (record.leader, record.replicas) == (7, (7,))
    with pytest.raises(InvalidInputError, match=r"node\.id=7, not 8"):
        tidelog.open([tmp_path / "x"], config=BrokerConfig(node_id=8))


# ---- topics


def test_bad_topics_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        for name in ("", "a b", "x" * 250, "..", "__cluster_metadata"):
            with pytest.raises(InvalidInputError):
                store.create_topic(name)
        with pytest.raises(ConfigError, match=r"unknown topic config 'retention\.days'"):
            store.create_topic("t", config={"retention.days": 3})
        with pytest.raises(ConfigError, match=r"segment\.ms"):
            store.create_topic("t", config={"segment.ms": "soon"})
        with pytest.raises(InvalidInputError, match="partition at least"):
            store.create_topic("t", 0)
        store.create_topic("t")
        with pytest.raises(InvalidInputError, match="already"):
            store.create_topic("t")
        with pytest.raises(InvalidInputError, match="no topic"):
            store.partition("u")
        with pytest.raises(InvalidInputError, match="no partition 1"):
            store.partition("t", 1)
        assert sorted(store.topics) == ["t"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["t-0"]


def test_configs_are_altered_and_kept(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_topic("t", config={"retention.ms": 5000, "preallocate": False})
        store.alter_config("t", {"retention.ms": None, "segment.ms": 9000})
        assert store.partition("t").log.config.segment_ms == 9000
        with pytest.raises(ConfigError):
            store.alter_config("t", {"segment.ms": -9})
        assert store.topic("t").config == {"preallocate": "false", "segment.ms": "9000"}
    with tidelog.open(tmp_path) as store:
        assert store.topic("t").config == {"preallocate": "false", "segment.ms": "9000"}
        config = store.partition("t").log.config
        assert (config.segment_ms, config.retention_ms) == (9000, 7 * 86_400_000)


def test_a_deleted_topic_is_gone_and_can_come_again(tmp_path: Path) -> None:
    with tidelog.open(tmp_path, background=False) as store:
        first = store.create_topic("t", 2)
        old = store.partition("t")
        old.append(some(3))
        store.delete_topic("t")
        assert store.topics == {}
        with pytest.raises(LogOfflineError):
            old.append(some(1))
        gone = [path.name for path in tmp_path.iterdir() if path.is_dir()]
        assert len(gone) == 2
        assert all(name.endswith("-delete") for name in gone)
        second = store.create_topic("t")
        assert second.topic_id != first.topic_id
        assert values(store, "t") == []
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["t-0"]
    assert read_offset_checkpoint(LOCAL, tmp_path / "recovery-point-offset-checkpoint") == {
        TopicPartition("t", 0): 0
    }


def test_partitions_are_added_and_go_where_there_are_fewest(tmp_path: Path) -> None:
    roots = [tmp_path / name for name in "abc"]
    with tidelog.open(roots) as store:
        store.create_topic("t", 4)
        store.create_partitions("t", 7)
        with pytest.raises(InvalidInputError, match="7 partitions already"):
            store.create_partitions("t", 7)
    assert sorted(len(list(root.glob("t-*"))) for root in roots) == [2, 2, 3]
    with tidelog.open(roots) as store:
        assert len(store.topic("t")) == 7
        store.create_topic("u", 2)
        assert sorted(len(list(root.glob("?-*"))) for root in roots) == [3, 3, 3]


# ---- what is found


def test_unregistered_directories_are_set_aside_or_adopted(tmp_path: Path) -> None:
    with tidelog.Log.open(tmp_path / "found-1") as log:
        log.append_as_leader(some(5))
    with tidelog.open(tmp_path) as store:  # nobody has said what belongs here
        assert values(store, "found", 1) == [one.value for one in some(5)]
        topic_id = store.topic("found").topic_id
    assert f"topic_id: {format_id(topic_id)}" in (tmp_path / "found-1" / "partition.metadata").read_text()
    with tidelog.Log.open(tmp_path / "stranger-0"):
        pass
    events: list[Event] = []
    with tidelog.open(tmp_path, on_event=events.append) as store:
        assert sorted(store.topics) == ["found"]
    (strayed,) = [event for event in events if isinstance(event, LogStrayed)]
    assert strayed.partition == TopicPartition("stranger", 0)
    (aside,) = tmp_path.glob("stranger-0.*-stray")
    assert strayed.path == str(aside)
    with tidelog.Log.open(tmp_path / "wanted-0"):
        pass
    with tidelog.open(tmp_path, adopt=True) as store:
        assert sorted(store.topics) == ["found", "wanted"]


def test_an_older_topic_of_the_same_name_is_set_aside(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_topic("t").partitions[0].append(some(2))
    (tmp_path / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {format_id(uuid.uuid4())}")
    with tidelog.open(tmp_path) as store:
        assert values(store, "t") == []
    assert len(list(tmp_path.glob("t-0.*-stray"))) == 1


def test_foreign_directories_are_passed_over_and_reported(tmp_path: Path) -> None:
    tidelog.open(tmp_path).close()
    for name in ("lost+found", "backup", "t-x"):
        (tmp_path / name).mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "replication-offset-checkpoint").write_text("garbage")
    with tidelog.open(tmp_path) as store:
        skipped = {Path(one.path).name: one.reason for one in store.skipped}
    assert sorted(skipped) == ["backup", "lost+found", "replication-offset-checkpoint", "t-x"]
    assert "move it elsewhere" in skipped["lost+found"]
    assert (tmp_path / "notes.txt").read_text() == "hello"


def test_a_partition_in_two_roots_waits_for_somebody_to_decide(tmp_path: Path) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        root.mkdir()
        with tidelog.Log.open(root / "t-0") as log:
            log.append_as_leader(some(2))
    with pytest.raises(LogError, match="move all but one away"):
        tidelog.open(roots)
    shutil.move(roots[1] / "t-0", tmp_path / "aside")
    with tidelog.open(roots) as store:
        assert len(values(store, "t")) == 2
    # Registered in the one, a copy turns up in the other: what a move leaves that was cut short.
    shutil.copytree(roots[0] / "t-0", roots[1] / "t-0")
    with tidelog.open(roots) as store:
        assert Path(store.partition("t").log.path) == roots[0] / "t-0"
    assert len(list(roots[1].glob("t-0.*-stray"))) == 1


def test_a_bad_log_does_not_stop_the_others(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_topic("t", 3)
        for partition in store:
            partition.append(some(3))
    (tmp_path / "t-1" / "leader-epoch-checkpoint").write_text("nonsense")
    events: list[Event] = []
    with tidelog.open(tmp_path, on_event=events.append) as store:
        assert list(store.offline_partitions) == [TopicPartition("t", 1)]
        assert values(store, "t", 2) == [one.value for one in some(3)]
        assert store.metrics().offline_partitions
    assert [event.path for event in events if isinstance(event, LogFailed)] == [str(tmp_path / "t-1")]
    assert not (tmp_path / ".kafka_cleanshutdown").exists(), "not all is in order"
    points = read_offset_checkpoint(LOCAL, tmp_path / "recovery-point-offset-checkpoint")
    assert points[TopicPartition("t", 1)] == 3, "what is known of it is kept"


def test_a_config_of_another_version_does_not_stop_a_log(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        topic = store.create_topic("t", config={"segment.ms": 7000})
        topic.config = {**topic.config, "future.key": "x"}
    with tidelog.open(tmp_path) as store:
        assert store.topic("t").config == {"segment.ms": "7000", "future.key": "x"}
        assert store.partition("t").log.config.segment_ms == 7000
        assert any("future.key" in one.reason for one in store.skipped)


# ---- moves


def test_a_partition_moves_while_it_is_used(tmp_path: Path) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    with tidelog.open(roots) as store:
        store.create_topic("t", 1, SMALL | {"internal.segment.bytes": 4000})
        partition = store.partition("t")
        fill(partition, 300)
        partition.delete_records(57)
        stop = threading.Event()
        written: list[bytes] = []
        failures: list[BaseException] = []

        def write() -> None:
            try:
                while not stop.is_set():
                    value = f"w{len(written)}".encode()
                    partition.append([Record(value)])
                    written.append(value)
                    partition.read_arrow(partition.log_start_offset)
                    stop.wait(0.001)
            except BaseException as error:
                failures.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        for target in (roots[1], roots[0], roots[1]):
            store.move_partition("t", 0, target)
            assert Path(partition.log.path) == target / "t-0"
        stop.set()
        writer.join()
        assert not failures
        assert values(store, "t") == [one.value for one in some(300)][57:] + written
        assert partition.log_start_offset == 57
        with pytest.raises(InvalidInputError, match="is no root"):
            store.move_partition("t", 0, tmp_path / "c")
        end = partition.log_end_offset
    assert not (roots[0] / "t-0").exists()
    with tidelog.open(roots) as store:
        assert Path(store.partition("t").log.path) == roots[1] / "t-0"
        assert (store.partition("t").log_start_offset, store.partition("t").log_end_offset) == (57, end)


def test_a_move_that_fails_is_undone(tmp_path: Path) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    fs = FaultyFileSystem(LOCAL, lambda call: None)
    with tidelog.open(roots, fs=fs, background=False) as store:
        store.create_topic("t", 1)
        store.partition("t").append(some(10))
        fs.rule = fail_on("pwrite", "*.log", errno.ENOSPC)
        with pytest.raises((OSError, LogOfflineError)):
            store.move_partition("t", 0, roots[1])
        fs.rule = lambda call: None
        store.partition("t").append(some(5))
        assert len(values(store, "t")) == 15
        assert [path.name for path in roots[1].iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("common", [0, 60, 150])
def test_a_move_that_was_cut_short_goes_on_where_it_was(tmp_path: Path, common: int) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    with tidelog.open(roots) as store:
        store.create_topic("t", 1, SMALL)
        fill(store.partition("t"), 200)
        topic_id = store.partition("t").topic_id
        source = store.partition("t").log
        # What a crash leaves: 150 records, of which only `common` are still the source's.
        future = roots[1] / f"t-0.{uuid.uuid4().hex}-future"
        with tidelog.Log.open(future, source.config, topic_id=topic_id) as copy:
            while copy.log_end_offset < common:
                copy.append_as_follower(source.read(copy.log_end_offset, 300).data)
            while copy.log_end_offset < 150:
                copy.append_as_leader([Record(b"lost")] * 5)
    written: list[int] = []

    def rule(call: Any) -> None:
        if call.operation == "pwrite" and "-future" in call.path and call.path.endswith(".log"):
            written.append(call.size)

    with tidelog.open(roots, fs=FaultyFileSystem(LOCAL, rule), background=False) as store:
        assert store.unfinished_moves == {TopicPartition("t", 0): str(roots[1])}
        whole = store.partition("t").log.size
        store.resume_moves()
        assert store.unfinished_moves == {}
        assert Path(store.partition("t").log.path) == roots[1] / "t-0"
        assert values(store, "t") == [one.value for one in some(200)]
        assert sum(written) <= whole * (200 - common) // 200 + 300
    with tidelog.open(roots) as store:
        assert values(store, "t") == [one.value for one in some(200)]


def test_a_log_that_ends_behind_its_last_record_moves(tmp_path: Path) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    with tidelog.open(roots) as store:
        store.create_topic("t", 1)
        store.partition("t").append(some(10))
        store.partition("t").log.roll(5000)  # as a crash leaves it that takes the end of a segment
    with tidelog.open(roots) as store:
        partition = store.partition("t")
        assert partition.log_end_offset == 5000
        store.move_partition("t", 0, roots[1])
        assert partition.log_end_offset == 5000
        assert partition.append(some(1)).first_offset == 5000
    with tidelog.open(roots) as store:
        assert len(tidelog.scan(roots[1] / "t-0").read_all()) == 11


def test_a_copy_goes_with_its_topic(tmp_path: Path) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    with tidelog.open(roots) as store:
        topic = store.create_topic("t", 1)
        with tidelog.Log.open(roots[1] / f"t-0.{uuid.uuid4().hex}-future", topic_id=topic.topic_id):
            pass
        store.delete_topic("t")
        assert not store.unfinished_moves


# ---- trouble


def test_a_disk_that_fails_takes_its_root_offline_and_no_other(tmp_path: Path) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    fs = FaultyFileSystem(LOCAL, lambda call: None)
    store = tidelog.open(roots, fs=fs, background=False)
    store.create_topic("t", 2)
    for partition in store:
        partition.append(some(4))
    bad = store.partition("t", 0)
    assert bad.root is not None
    path = bad.root.path

    def rule(call: Any) -> Any:
        broken = call.path.startswith(path) and "checkpoint" in call.path
        return fail_on("*", "*", errno.EIO)(call) if broken else None

    fs.rule = rule
    store.checkpoint()
    assert "Input/output error" in store.offline_roots[path]
    with pytest.raises(LogOfflineError, match="Input/output error"):
        bad.append(some(1))
    assert len(values(store, "t", 1)) == 4
    with pytest.raises(InvalidInputError, match="offline"):
        store.move_partition("t", 1, path)
    store.close()
    good = roots[1] if path == str(roots[0]) else roots[0]
    assert (good / ".kafka_cleanshutdown").exists()
    assert not (Path(path) / ".kafka_cleanshutdown").exists()
    with tidelog.open(roots) as again:
        assert [len(values(again, "t", number)) for number in range(2)] == [4, 4]


def test_a_full_disk_refuses_appends_and_loses_nothing(tmp_path: Path) -> None:
    fs = FaultyFileSystem(LOCAL, lambda call: None)
    store = tidelog.open(tmp_path, fs=fs, background=False)
    store.create_topic("t")
    store.partition("t").append(some(4), sync=True)
    fs.rule = fail_on("pwrite", "*.log", errno.ENOSPC, written=30)
    with pytest.raises((OSError, LogOfflineError), match="No space left"):
        store.partition("t").append(some(100))
    fs.rule = lambda call: None
    store.close()
    with tidelog.open(tmp_path) as again:
        assert values(again, "t") == [one.value for one in some(4)]


def test_a_read_only_disk_is_a_clear_error(tmp_path: Path) -> None:
    tidelog.open(tmp_path).close()
    with pytest.raises(OSError, match="Read-only file system"):
        tidelog.open(tmp_path, fs=FaultyFileSystem(LOCAL, read_only()))
    first, second = tmp_path / "a", tmp_path / "b"

    def rule(call: Any) -> Any:
        return read_only()(call) if call.path.startswith(str(second)) else None

    second.mkdir()
    with tidelog.open([first, second], fs=FaultyFileSystem(LOCAL, rule), background=False) as store:
        assert "Read-only" in store.offline_roots[str(second)]
        store.create_topic("t", 2)
        assert all(partition.root is store.roots[0] for partition in store)


def test_a_file_that_vanished_is_reported_and_nothing_else_is_lost(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_topic("t", 2, SMALL)
        for partition in store:
            fill(partition, 40)
        bases = store.partition("t", 0).log.segments.base_offsets
    (tmp_path / "t-0" / f"{bases[1]:020}.log").unlink()
    with tidelog.open(tmp_path) as store:
        assert len(values(store, "t", 1)) == 40
        found = store.partition("t", 0)
        assert found.log_end_offset == 40
        kept = values(store, "t", 0)
        assert kept == [
            one.value for one in some(40) if not bases[1] <= int((one.value or b"")[1:]) < bases[2]
        ]


# ---- background work


class Clock:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.ms


def test_by_the_clock(tmp_path: Path) -> None:
    clock = Clock()
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
            partition.append([Record(bytes(50), timestamp=clock.ms) for _ in range(5)])
        partition.append([Record(b"p", timestamp=clock.ms)], producer_id=5, producer_epoch=0, base_sequence=0)
        store.run_due_tasks()
        assert partition.log.recovery_point == 40, "what was rolled is flushed"
        clock.ms += 4000
        store.run_due_tasks()
        assert partition.log.recovery_point == 41, "flush.ms"
        clock.ms += 2000
        store.run_due_tasks()
        points = read_offset_checkpoint(LOCAL, tmp_path / "recovery-point-offset-checkpoint")
        assert points == {TopicPartition("t", 0): 41}
        assert list(partition.log.active_producers) == [5]
        clock.ms += 20_000
        store.run_due_tasks()
        assert not partition.log.active_producers
        clock.ms += 60_000
        store.run_due_tasks()
        assert partition.log_start_offset == 41
        assert list((tmp_path / "t-0").glob("*.deleted"))
        clock.ms += 1000
        store.run_due_tasks()
        assert not list((tmp_path / "t-0").glob("*.deleted"))


def test_the_background_thread_runs_and_stops(tmp_path: Path) -> None:
    config = BrokerConfig.from_properties(
        {"log.initial.task.delay.ms": 0, "replica.high.watermark.checkpoint.interval.ms": 1}
    )
    with tidelog.open(tmp_path, config=config) as store:
        store.create_topic("t").partitions[0].append(some(3))
        path = tmp_path / "replication-offset-checkpoint"
        for _ in range(500):
            if path.exists() and b"t 0 3" in read_file(LOCAL, path):
                break
            threading.Event().wait(0.01)
        assert b"t 0 3" in read_file(LOCAL, path)
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


def test_the_metadata_log_is_never_opened_as_a_partition(tmp_path: Path) -> None:
    tidelog.open(tmp_path).close()
    directory = tmp_path / METADATA_DIRECTORY
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(b"")
    (directory / "quorum-state").write_text("{}")
    with tidelog.open(tmp_path, adopt=True) as store:
        assert store.topics == {}
        store.create_topic("t")
    assert sorted(path.name for path in directory.iterdir()) == [f"{0:020}.log", "quorum-state"]
