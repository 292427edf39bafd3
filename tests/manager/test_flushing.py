"""A store vouches for what is on the disk, and says of which partitions it cannot."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

import tidelog
from tests.manager.stores import some, values
from tidelog.errors import FlushError, LogClosedError, LogOfflineError
from tidelog.layout.roots import Checkpoint
from tidelog.manager import Partition, Store
from tidelog.records import Record
from tidelog.storage import LOCAL
from tidelog.testing.crash import CrashFileSystem
from tidelog.testing.faults import Call, Fault, FaultyFileSystem
from tidelog.types import TopicPartition

CLEAN = ".kafka_cleanshutdown"


class Disk:
    """Fails the syncs of one partition's files while it is told to."""

    def __init__(self) -> None:
        self.failing = ""
        self.fs = FaultyFileSystem(LOCAL, self._rule)

    def _rule(self, call: Call) -> Fault | None:
        failing = bool(self.failing) and f"/{self.failing}" in call.path
        return Fault(errno.EIO) if failing and call.operation in ("sync", "flush", "sync_directory") else None


def _filled(root: Path, disk: Disk) -> tuple[Store, list[Partition]]:
    store = tidelog.open(root, fs=disk.fs, background=False)
    partitions = [store.create_topic(name)[0] for name in ("a", "b", "c")]
    for partition in partitions:
        partition.append(some(5))
    return store, partitions


def test_a_flush_names_the_partitions_it_could_not_flush_and_flushes_the_others(tmp_path: Path) -> None:
    disk = Disk()
    store, partitions = _filled(tmp_path / "root", disk)
    disk.failing = "b-0"
    with pytest.raises(FlushError, match=r"1 partitions could not be flushed.*b-0") as first:
        store.flush()
    assert set(first.value.partitions) == {TopicPartition("b", 0)}
    assert [one.log.recovery_point for one in partitions] == [5, 0, 5]
    disk.failing = ""  # what a kernel does: the next sync succeeds
    for _ in range(2):
        with pytest.raises(FlushError, match="b-0"):
            store.flush()
    with pytest.raises(LogOfflineError):
        partitions[1].append(some(1), sync=True)
    assert values(store, "b") == [b"v0", b"v1", b"v2", b"v3", b"v4"], "it can still be read"
    assert list(store.offline_partitions) == [TopicPartition("b", 0)]
    store.checkpoint()
    partitions[0].append(some(1), sync=True)
    store.close()
    assert not (tmp_path / "root" / CLEAN).exists(), "nobody vouches for it"
    points = (tmp_path / "root" / "recovery-point-offset-checkpoint").read_text()
    assert "b 0 5" not in points
    with pytest.raises(LogClosedError):
        store.flush()


@pytest.mark.parametrize("stage", ["flush", "append", "close", "background"])
def test_a_failed_sync_keeps_the_clean_mark_away(tmp_path: Path, stage: str) -> None:
    disk = Disk()
    store, partitions = _filled(tmp_path / "root", disk)
    disk.failing = "c-0"
    if stage == "flush":
        with pytest.raises(FlushError):
            store.flush()
    elif stage == "append":
        with pytest.raises(LogOfflineError):
            partitions[2].append(some(1), sync=True)
    elif stage == "background":
        partitions[2].log.roll()
        store.run_due_tasks()
        assert list(store.offline_partitions) == [TopicPartition("c", 0)]
    if stage != "close":
        disk.failing = ""
    store.close()
    assert not (tmp_path / "root" / CLEAN).exists()


def test_a_partition_that_was_never_loaded_has_nothing_to_flush(tmp_path: Path) -> None:
    disk = Disk()
    store, _ = _filled(tmp_path / "root", disk)
    store.close()
    (tmp_path / "root" / "b-0" / "leader-epoch-checkpoint").write_text("garbage")
    with tidelog.open(tmp_path / "root", background=False) as store:
        assert TopicPartition("b", 0) in store.offline_partitions
        store.flush()


@pytest.mark.parametrize("kept", ["synced", "some", "all"])
@pytest.mark.parametrize("target", [0, 2, 5])
def test_what_is_synced_after_a_truncation_survives(kept: str, target: int) -> None:
    fs = CrashFileSystem()
    store = tidelog.open("/a", fs=fs, background=False)
    partition = store.create_topic("t")[0]
    for number in range(3):
        partition.append([Record(b"old%d" % number)] * 2, sync=True)
    partition.log.roll()
    store.checkpoint()
    store.truncate_partition("t", 0, target)
    assert partition.log.recovery_point == target
    assert store.roots[0].checkpoints[Checkpoint.RECOVERY_POINTS][partition.topic_partition] == target
    partition.log.roll()
    partition.append([Record(b"new")] * 2, sync=True)
    store.run_due_tasks()
    expected = [one.value for one in partition]
    assert expected[-2:] == [b"new", b"new"]
    for stop in (False, True):
        if stop:
            store.close()
        with tidelog.open("/a", fs=fs.crash(kept=kept, seed=target), background=False, recover=True) as after:
            assert [one.value for one in after.partition("t")] == expected


def test_a_log_start_that_a_truncation_lowers_does_not_remove_what_is_appended_next() -> None:
    """A root whose checkpoint says that the log starts above its end removes the log when it is opened."""
    fs = CrashFileSystem()
    store = tidelog.open("/a", fs=fs, background=False)
    partition = store.create_topic("t")[0]
    for number in range(10):
        partition.append([Record(b"old%d" % number)])
    partition.delete_records(8)
    store.checkpoint()
    store.truncate_partition("t", 0, 3)
    partition.append([Record(b"new")], sync=True)
    with tidelog.open("/a", fs=fs.crash(kept="synced"), background=False, recover=True) as after:
        assert [(one.offset, one.value) for one in after.partition("t")] == [(3, b"new")]
