"""What is on the disk when a call returns: all that it has changed, compared with what a power cut leaves.

`settled` says it in one word: what a cut that keeps only what was synced would leave is what is there.
"""

from __future__ import annotations

import errno
import itertools
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.durability.interrupting import interrupted
from tests.durability.stores import CONFIG, recovered
from tests.log.logs import abort, commit, send
from tidelog.errors import LogOfflineError
from tidelog.layout.roots import Checkpoint, hold_root, read_checkpoint
from tidelog.log import Log
from tidelog.manager import Partition, Store
from tidelog.records import Record
from tidelog.storage import LOCAL, Directory, FileSystem, atomic_write, read_file
from tidelog.storage.atomic import atomic_create
from tidelog.testing.crash import CrashFileSystem
from tidelog.testing.faults import FaultyFileSystem, fail_on
from tidelog.types import TopicPartition

ROOTS = ("/a", "/b")
SMALL = {"internal.segment.bytes": 500, "retention.bytes": 1000}
MARK = ".kafka_cleanshutdown"


def opened(fs: FileSystem) -> Store:
    return recovered(ROOTS, config=CONFIG, fs=fs, background=False)


def tree(fs: FileSystem, path: str) -> dict[str, Any]:
    """Everything under a directory, but for what is on its way out."""
    return {
        entry.name: tree(fs, f"{path}/{entry.name}")
        if entry.is_directory
        else read_file(fs, f"{path}/{entry.name}")
        for entry in fs.list(path)
        if not entry.name.endswith((".deleted", ".tmp", "-delete"))
    }


def settled(fs: CrashFileSystem, path: str) -> None:
    """All names and bytes under a directory are on the disk."""
    assert tree(fs.crash(kept="synced"), path) == tree(fs.crash(kept="all"), path)


def where(partition: Partition) -> str:
    return str(partition.log.path)


def busy(store: Store, name: str = "t") -> Partition:
    """A partition of several segments, with transactions, of which the last segment has none synced."""
    partition = store.create_topic(name, 1, SMALL)[0]
    log = partition.log
    for number in range(6):
        send(log, 1, number, Record(b"%d" % number * 30, b"key"), leader_epoch=number // 2)
        (commit if number % 2 else abort)(log, 1, leader_epoch=number // 2)
        partition.append([Record(b"plain" * 20, b"key")] * 2, leader_epoch=number // 2)
    assert len(log.segments) > 2
    return partition


@pytest.fixture
def fs() -> CrashFileSystem:
    return CrashFileSystem()


def test_a_flush_brings_everything_to_the_disk(fs: CrashFileSystem) -> None:
    partition = busy(opened(fs))
    partition.flush()
    settled(fs, where(partition))
    partition.append([Record(b"more")], sync=True)
    settled(fs, where(partition))
    abort_another(partition)
    partition.flush()
    settled(fs, where(partition))


def test_a_reader_of_batches_is_appended_and_synced(fs: CrashFileSystem) -> None:
    partition = opened(fs).create_topic("t")[0]
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b"one", b"two"], pa.binary())})
    partition.append(pa.RecordBatchReader.from_batches(batch.schema, [batch] * 3), sync=True)
    settled(fs, where(partition))


def abort_another(partition: Partition) -> None:
    send(partition.log, 9, 0, Record(b"aborted"), leader_epoch=5)
    abort(partition.log, 9, leader_epoch=5)


def test_a_flush_after_every_kind_of_change(fs: CrashFileSystem) -> None:
    store = opened(fs)
    partition = busy(store)
    for change in (
        lambda: partition.log.roll(),
        lambda: partition.append([Record(b"x" * 90)] * 3),
        lambda: abort_another(partition),
        lambda: partition.delete_records(7),
        lambda: store.apply_retention(),
        lambda: store.run_due_tasks(),
        lambda: partition.log.take_producer_snapshot(),
        lambda: partition.log.assign_epoch_start_offset(9, partition.log_end_offset),
    ):
        change()
        partition.flush()
        settled(fs, where(partition))


def test_a_flush_is_not_told_off_by_a_roll_s_delayed_flush(fs: CrashFileSystem) -> None:
    store = opened(fs)
    partition = store.create_topic("t")[0]
    partition.append([Record(b"old")] * 20, sync=True)
    partition.log.roll()
    store.truncate_partition("t", 0, 0)
    store.run_due_tasks()
    assert partition.log.recovery_point <= partition.log_end_offset
    for _ in range(3):
        partition.append([Record(b"new")] * 5, sync=True)
        settled(fs, where(partition))


def test_a_truncation_is_on_the_disk_when_it_returns(fs: CrashFileSystem) -> None:
    store = opened(fs)
    partition = busy(store)
    partition.flush()
    store.checkpoint()
    for offset in range(partition.log_end_offset - 1, -1, -5):
        store.truncate_partition("t", 0, offset)
        settled(fs, "/a" if where(partition).startswith("/a") else "/b")
        assert partition.log.recovery_point <= offset


def test_a_truncation_below_the_first_segment_is_on_the_disk_when_it_returns(fs: CrashFileSystem) -> None:
    store = opened(fs)
    partition = busy(store)
    partition.flush()
    assert store.apply_retention()
    before = fs.steps
    partition.log.truncate_fully_and_start_at(3)
    settled(fs, where(partition))
    assert set(partition.log.segments.base_offsets) == {3}
    for step, seed in itertools.product(range(before, fs.steps + 1), range(8)):
        names = tree(fs.crash(step, seed=seed), where(partition))
        bases = {int(name[:20]) for name in names if name.endswith(".log")}
        assert 3 not in bases or bases == {3}, "a new segment inside of old ones"


def test_closing_brings_everything_to_the_disk(fs: CrashFileSystem) -> None:
    store = opened(fs)
    busy(store, "t")
    busy(store, "u").append([Record(b"last")])
    store.close()
    for root in ROOTS:
        settled(fs, root)
        assert MARK in tree(fs.crash(kept="synced"), root)
    with opened(fs) as again:
        again.partition("u").append([Record(b"more")])
    for root in ROOTS:
        settled(fs, root)


def test_closing_writes_the_clean_mark_last(fs: CrashFileSystem) -> None:
    store = opened(fs)
    partition = busy(store)
    end, before = partition.log_end_offset, fs.steps
    store.close()
    for step in range(before, fs.steps + 1):
        after = fs.crash(step, kept="synced")
        if MARK in tree(after, "/a") and MARK in tree(after, "/b"):
            assert opened(after).partition("t").log_end_offset == end
            points = [read_file(after, f"{root}/recovery-point-offset-checkpoint") for root in ROOTS]
            assert any(f"t 0 {end}".encode() in one for one in points)


def test_opening_takes_the_clean_mark_away_first(fs: CrashFileSystem) -> None:
    opened(fs).close()
    before = fs.steps
    store = opened(fs)
    assert not any(fs.exists(f"{root}/{MARK}") for root in ROOTS)
    busy(store)
    assert not any(MARK in tree(fs.crash(kept="synced"), root) for root in ROOTS)
    first = next(
        step for step in range(before, fs.steps) if not fs.crash(step, kept="all").exists(f"/a/{MARK}")
    )
    assert tree(fs.crash(first - 1, kept="all"), "/a") == tree(fs.crash(before, kept="all"), "/a")


def test_new_roots_topics_and_partitions_have_names_on_the_disk(fs: CrashFileSystem) -> None:
    store = opened(fs)
    assert {"a", "b"} <= {entry.name for entry in fs.crash(kept="synced").list("/")}
    store.create_topic("t", 2)
    after = fs.crash(kept="synced")
    assert {"t-0", "t-1"} <= {entry.name for root in ROOTS for entry in after.list(root)}
    with opened(after) as again:
        assert "t" in again.topics


def test_a_topic_that_was_deleted_stays_away(fs: CrashFileSystem) -> None:
    store = opened(fs)
    busy(store)
    store.flush()
    store.delete_topic("t")
    for seed in range(10):
        assert "t" not in opened(fs.crash(seed=seed)).topics


def test_a_move_is_on_the_disk_when_it_returns(fs: CrashFileSystem) -> None:
    store = opened(fs)
    partition = busy(store)
    assert partition.root is not None
    target = "/b" if partition.root.path == "/a" else "/a"
    store.move_partition("t", 0, target)
    settled(fs, where(partition))
    for root in ROOTS:
        settled(fs, root)
    with opened(fs.crash(kept="synced")) as again:
        assert again.partition("t").log.path.startswith(target)
        assert [one.value for one in again.partition("t")] == [one.value for one in partition]


def test_what_a_killed_process_left_is_not_taken_for_synced(fs: CrashFileSystem) -> None:
    end = 0
    for _ in range(3):
        store = opened(fs)  # the one before was killed: its bytes are in the system's memory only
        partition = store.partition("t") if "t" in store.topics else store.create_topic("t", 1, SMALL)[0]
        assert partition.log_end_offset == end
        partition.append([Record(b"v" * 30)] * 10)
        end = partition.log_end_offset
    store = opened(fs)
    store.checkpoint()
    partition = store.partition("t")
    synced = fs.crash(kept="synced")
    assert partition.log.recovery_point <= opened(synced).partition("t").log_end_offset
    partition.flush()
    settled(fs, where(partition))


def test_recovery_points_tell_of_what_is_on_the_disk(fs: CrashFileSystem) -> None:
    store = opened(fs)
    partition = store.create_topic("t", 1, SMALL)[0]
    for _ in range(10):
        partition.append([Record(b"v" * 30)] * 3)
        store.checkpoint()
        after = fs.crash(kept="synced")
        assert opened(after).partition("t").log_end_offset >= partition.log.recovery_point
        partition.flush()
        assert partition.log.recovery_point == partition.log_end_offset


def test_no_recovery_point_is_written_down_above_what_is_on_the_disk(fs: CrashFileSystem) -> None:
    store = opened(fs)
    partition = store.create_topic("t", 1)[0]
    partition.append([Record(b"synced")], sync=True)
    partition.append([Record(b"not synced")])
    partition.log.roll()  # its flush is yet to come
    partition.append([Record(b"not synced either")])
    store.checkpoint()
    assert partition.root is not None
    points = read_checkpoint(fs, partition.root.path, Checkpoint.RECOVERY_POINTS)
    assert points == {TopicPartition("t", 0): 1}


# ---- a partition's directory


def test_a_directory_knows_whether_its_names_are_on_the_disk(fs: CrashFileSystem) -> None:
    fs.make_directory("/d")
    fs.sync_directory("/")
    directory = Directory("/d", fs)
    for change in (
        lambda: directory.open("a", create=True).close(),
        lambda: directory.rename("a", "b"),
        lambda: directory.unlink("b"),
    ):
        change()
        assert not directory.is_synced
        directory.sync()
        assert directory.is_synced
        settled(fs, "/d")


def test_a_renamed_log_has_its_name_on_the_disk(fs: CrashFileSystem) -> None:
    fs.make_directory("/r")
    fs.sync_directory("/")
    with Log.open("/r/t-0", fs=fs) as log:
        log.flush()
        log.rename("t-0.0123456789abcdef0123456789abcdef-future")
        (found,) = fs.crash(kept="synced").list("/r")
        assert found.name.endswith("-future")


def test_after_a_failed_sync_no_other_succeeds() -> None:
    inner = CrashFileSystem()
    inner.make_directory("/d")
    fs = FaultyFileSystem(inner, fail_on("sync", "a", errno.EIO, times=1))
    directory = Directory("/d", fs)
    file = directory.open("a", create=True)
    other = directory.open("b", create=True)
    with pytest.raises(OSError, match="Input/output"):
        directory.sync_file(file)
    for again in (
        lambda: directory.sync_file(file),
        lambda: directory.sync_file(other),
        directory.sync,
        lambda: directory.replace("c", b""),
    ):
        with pytest.raises(OSError, match="earlier sync failed"):
            again()


def test_a_log_whose_disk_failed_half_way_acknowledges_nothing() -> None:
    inner = CrashFileSystem()
    inner.make_directory("/r")
    fs = FaultyFileSystem(inner, lambda call: None)
    with Log.open("/r/t-0", fs=fs) as log:
        log.append_as_leader([Record(b"value")] * 3)
        log.flush()
        fs.rule = fail_on("truncate", "*.log", errno.EIO, times=1)
        with pytest.raises(LogOfflineError):
            log.truncate_to(0)
        for _ in range(2):
            with pytest.raises(LogOfflineError):
                log.flush()
        with pytest.raises(LogOfflineError):
            log.close()


# ---- files that are replaced


def test_a_replaced_file_is_the_new_one_alone(fs: CrashFileSystem) -> None:
    fs.make_directory("/d")
    left = fs.open("/d/f.tmp", create=True)
    left.pwrite(b"what a crash has left there", 0)
    atomic_write(fs, "/d/f", b"new")
    assert read_file(fs, "/d/f") == b"new"


def test_a_created_file_is_on_the_disk(fs: CrashFileSystem) -> None:
    fs.make_directory("/d")
    fs.sync_directory("/")
    atomic_create(fs, "/d/f", b"new")
    settled(fs, "/d")
    atomic_write(fs, "/d/f", b"newer")
    settled(fs, "/d")


def test_writers_of_one_file_take_turns(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for _ in range(60):
                atomic_write(LOCAL, tmp_path / "f", b"%d" % number * 50)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(set((tmp_path / "f").read_bytes())) == 1


@pytest.mark.parametrize("step", range(1, 7))
def test_checkpoints_of_two_threads_are_both_written(step: int) -> None:
    fs = FaultyFileSystem(CrashFileSystem(), lambda call: None)
    one, other = TopicPartition("t", 0), TopicPartition("t", 1)
    with hold_root("/a", fs, create=True) as root:
        with interrupted(fs, step, lambda: root.add_to_checkpoint(Checkpoint.LOG_STARTS, {other: 2})):
            root.add_to_checkpoint(Checkpoint.LOG_STARTS, {one: 1})
        assert read_checkpoint(fs, "/a", Checkpoint.LOG_STARTS) == {one: 1, other: 2}
        assert root.checkpoints[Checkpoint.LOG_STARTS] == {one: 1, other: 2}


@pytest.mark.parametrize("first", ["flush", "truncate"])
@pytest.mark.parametrize("step", range(1, 13))
def test_a_flush_and_a_truncation_take_turns(first: str, step: int) -> None:
    """Whichever comes between the other's steps: what is acknowledged after both survives a power cut."""
    disk = CrashFileSystem()
    fs = FaultyFileSystem(disk, lambda call: None)
    partition = busy(opened(fs))
    log = partition.log
    target = log.segments.last.base_offset - 3
    acts = {"flush": partition.flush, "truncate": lambda: log.truncate_to(target)}
    second = "truncate" if first == "flush" else "flush"
    with interrupted(fs, step, acts[second]):
        acts[first]()
    assert log.log_end_offset == target
    assert log.recovery_point <= target
    partition.append([Record(b"after both")], sync=True)
    assert log.recovery_point == target + 1
    settled(disk, where(partition))


def test_a_lock_file_that_is_removed_is_held_again_under_its_name(tmp_path: Path) -> None:
    with recovered(tmp_path / "r", background=False) as store:
        store.create_topic("t")
        (tmp_path / "r" / ".lock").unlink()
        store.checkpoint()
        assert (tmp_path / "r" / ".lock").exists()
