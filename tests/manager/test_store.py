"""A store: opening and closing, topics, and what is found in its roots."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.manager.stores import SMALL, fill, some, values
from tidelog.errors import (
    ConfigError,
    InvalidInputError,
    LogClosedError,
    LogError,
    LogLockedError,
    LogOfflineError,
)
from tidelog.layout.roots import check_claimable, look_at
from tidelog.manager import BrokerConfig
from tidelog.manager.metadata.files import METADATA_DIRECTORY, read_bootstrap
from tidelog.manager.store.events import Event, LoadFinished, LoadProgress, LoadStarted, LogFailed, LogStrayed
from tidelog.protocol.metadata_records import PartitionRecord
from tidelog.records import Record, encode_records
from tidelog.storage import LOCAL, read_offset_checkpoint
from tidelog.storage.metadata import format_id, read_meta_properties
from tidelog.types import TopicPartition

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
    for partition in store.partitions:
        fill(partition, 40)
    segments = sum(len(partition.log.segments) for partition in store.partitions)
    size = store.metrics().size_bytes
    for partition in store.partitions:
        partition.log.close_handlers()
    for root in store.roots:
        root.release()
    events: list[Any] = []
    with tidelog.open(tmp_path, recover=True, on_event=events.append) as again:
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
        with pytest.raises(InvalidInputError, match="at least one partition"):
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


def test_unregistered_directories_are_left_or_adopted(tmp_path: Path) -> None:
    with tidelog.Log.open(tmp_path / "found-1") as log:
        log.append_as_leader(some(5))
    with tidelog.open(tmp_path, recover=True) as store:  # nobody has said what belongs here
        assert values(store, "found", 1) == [one.value for one in some(5)]
        topic_id = store.topic("found").topic_id
    assert f"topic_id: {format_id(topic_id)}" in (tmp_path / "found-1" / "partition.metadata").read_text()
    with tidelog.Log.open(tmp_path / "stranger-0"):
        pass
    events: list[Event] = []
    with tidelog.open(tmp_path, on_event=events.append) as store:
        assert sorted(store.topics) == ["found"]
        assert [one.path for one in store.skipped] == [str(tmp_path / "stranger-0")]
        assert list(store.tidy()) == [str(tmp_path / "stranger-0")]
    (strayed,) = [event for event in events if isinstance(event, LogStrayed)]
    assert strayed.partition == TopicPartition("stranger", 0)
    (aside,) = tmp_path.glob("stranger-0.*-stray")
    assert strayed.path == str(aside)
    with tidelog.Log.open(tmp_path / "wanted-0"):
        pass
    with tidelog.open(tmp_path, adopt=True) as store:
        assert sorted(store.topics) == ["found", "wanted"]


def test_an_older_topic_of_the_same_name_is_left(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_topic("t").partitions[0].append(some(2))
    (tmp_path / "t-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {format_id(uuid.uuid4())}")
    with tidelog.open(tmp_path) as store:
        assert "is of topic" in store.offline_partitions[TopicPartition("t", 0)]
        assert [one.path for one in store.skipped] == [str(tmp_path / "t-0")]
    assert not list(tmp_path.glob("t-0.*-stray"))
    with tidelog.open(tmp_path, adopt=True, recover=True) as store:
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


@pytest.mark.parametrize("recover", [False, True])
def test_a_directory_that_has_a_partitions_name_by_chance_is_left(tmp_path: Path, recover: bool) -> None:
    (tmp_path / "jdk-17" / "bin").mkdir(parents=True)
    (tmp_path / "jdk-17" / "notes.deleted").write_text("precious")
    (tmp_path / "photos-2019").mkdir()
    (tmp_path / "photos-2019" / "a.jpg").write_text("picture")
    for adopt in (None, True, None):
        with tidelog.open(tmp_path, recover=recover, adopt=adopt) as store:
            assert not store.topics
            assert {Path(one.path).name for one in store.skipped} == {"jdk-17", "photos-2019"}
    assert sorted(one.name for one in (tmp_path / "jdk-17").iterdir()) == ["bin", "notes.deleted"]
    assert [one.name for one in (tmp_path / "photos-2019").iterdir()] == ["a.jpg"]
    with tidelog.open(tmp_path) as store:
        store.create_topic("mine")


def test_a_partition_in_two_roots_waits_for_somebody_to_decide(tmp_path: Path) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        root.mkdir()
        with tidelog.Log.open(root / "t-0") as log:
            log.append_as_leader(some(2))
    with pytest.raises(LogError, match="move all but one away"):
        tidelog.open(roots, recover=True)
    shutil.move(roots[1] / "t-0", tmp_path / "aside")
    with tidelog.open(roots, recover=True) as store:
        assert len(values(store, "t")) == 2
    # Registered in the one, a copy turns up in the other: what a move leaves that was cut short.
    shutil.copytree(roots[0] / "t-0", roots[1] / "t-0")
    with tidelog.open(roots) as store:
        assert Path(store.partition("t").log.path) == roots[0] / "t-0"
        assert [one.path for one in store.skipped] == [str(roots[1] / "t-0")]
        store.tidy()
    assert len(list(roots[1].glob("t-0.*-stray"))) == 1


def test_what_is_refused_keeps_the_clean_shutdown_file_of_an_older_broker(tmp_path: Path) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        root.mkdir()
        with tidelog.Log.open(root / "t-0") as log:
            log.append_as_leader(some(2))
        (root / ".kafka_cleanshutdown").write_bytes(b"")
    with pytest.raises(LogError, match="move all but one away"):
        tidelog.open(roots)
    assert [(root / ".kafka_cleanshutdown").read_bytes() for root in roots] == [b"", b""]


def test_a_bad_log_does_not_stop_the_others(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_topic("t", 3)
        for partition in store.partitions:
            partition.append(some(3))
    (tmp_path / "t-1" / "leader-epoch-checkpoint").write_text("nonsense")
    events: list[Event] = []
    with tidelog.open(tmp_path, on_event=events.append) as store:
        assert list(store.offline_partitions) == [TopicPartition("t", 1)]
        assert values(store, "t", 2) == [one.value for one in some(3)]
        assert store.metrics().offline_partitions
    assert [event.path for event in events if isinstance(event, LogFailed)] == [str(tmp_path / "t-1")]
    assert (tmp_path / ".kafka_cleanshutdown").exists(), "what was not loaded is as it was found"
    points = read_offset_checkpoint(LOCAL, tmp_path / "recovery-point-offset-checkpoint")
    assert points[TopicPartition("t", 1)] == 3, "what is known of it is kept"
    (tmp_path / "t-1" / "leader-epoch-checkpoint").unlink()
    with tidelog.open(tmp_path) as store:
        assert values(store, "t", 1) == [one.value for one in some(3)]


def test_a_log_that_cannot_be_recovered_leaves_its_root_unclean(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        store.create_topic("t")[0].append(some(3))
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("nonsense")
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with tidelog.open(tmp_path, recover=True) as store:
        assert list(store.offline_partitions) == [TopicPartition("t", 0)]
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_config_of_another_version_does_not_stop_a_log(tmp_path: Path) -> None:
    with tidelog.open(tmp_path) as store:
        topic = store.create_topic("t", config={"segment.ms": 7000})
        topic.config = {**topic.config, "future.key": "x"}
        topic[0].append(some(1))
    with tidelog.open(tmp_path) as store:
        assert store.topic("t").config == {"segment.ms": "7000", "future.key": "x"}
        assert store.partition("t").log.config.segment_ms == 7000
        assert any("future.key" in one.reason for one in store.skipped)


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


def test_a_store_is_a_mapping_of_topics(tmp_path: Path) -> None:
    with tidelog.open(tmp_path, background=False) as store:
        assert store  # though it is empty
        for name, count in (("orders", 2), ("events", 1)):
            store.create_topic(name, count)
        with tidelog.open(tmp_path, mode="r") as seen:
            for one in (store, seen):
                assert sorted(one) == sorted(one.keys()) == ["events", "orders"]
                assert len(one) == 2
                assert [name in one for name in ("orders", "nothing")] == [True, False]
                assert {name: len(topic) for name, topic in one.items()} == {"orders": 2, "events": 1}
                assert one.get("nothing") is None
                assert len(one.partitions) == 3
                for ask in (one.__getitem__, one.topic, one.partition):
                    with pytest.raises(LookupError, match="nothing"):
                        ask("nothing")
                assert one in {one}


def test_isolation_is_said_in_kafkas_words(tmp_path: Path) -> None:
    with tidelog.open(tmp_path, background=False) as store:
        partition = store.create_topic("t", 1)[0]
        partition.append([Record(b"kept")])
        open_txn = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        partition.append(encode_records([Record(b"undecided")], **open_txn))
        with tidelog.open(tmp_path, mode="r") as seen:
            for one in (partition, seen["t"][0]):
                assert [record.value for record in one.records()] == [b"kept", b"undecided"]
                assert [record.value for record in one.records(isolation="read_committed")] == [b"kept"]
                assert one.read_arrow(0, isolation="read_uncommitted").num_rows == 2
                assert one.read_arrow(0, isolation="read_committed").num_rows == 1
                with pytest.raises(InvalidInputError, match="read_uncommitted or read_committed, not 'all'"):
                    one.read(0, isolation="all")


def test_an_open_store_stays_locked_for_other_processes(tmp_path: Path) -> None:
    """Also after a look whether the root could be held: a lock goes with any of its descriptors."""
    root = str(tmp_path / "root")
    code = "import sys; from tidelog.storage.lock import holder_of; print(holder_of(sys.argv[1]))"
    with tidelog.open(root):
        for _ in range(2):
            told = subprocess.check_output([sys.executable, "-c", code, root], text=True)
            assert int(told) == os.getpid()
            check_claimable(LOCAL, look_at(LOCAL, root))
