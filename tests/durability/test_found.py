"""Ways to lose acknowledged records, or to see deleted ones again, that random lives have found."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

import pytest

from tests.durability.stores import CONFIG, ROOTS, recovered
from tests.log.logs import abort, send
from tests.waiting import PATIENCE_S
from tidelog.errors import LogOfflineError
from tidelog.manager import Partition, Store
from tidelog.manager.metadata.files import home_of_metadata
from tidelog.manager.metadata.registry import Registry
from tidelog.records import Record
from tidelog.storage import FileSystem
from tidelog.storage.names import Transient
from tidelog.testing.crash import CrashFileSystem
from tidelog.testing.faults import FaultyFileSystem, Rule, fail_on

SMALL = {"internal.segment.bytes": 500, "retention.bytes": 1000}


def opened(fs: FileSystem) -> Store:
    return recovered(ROOTS, config=CONFIG, fs=fs, background=False)


def filled(store: Store, batches: int = 20) -> Partition:
    partition = store.create_topic("t", 1, SMALL)[0]
    for number in range(batches):
        partition.append([Record(b"%d" % number * 20)] * 5, sync=True)
    return partition


def test_deleted_segments_stay_away_once_the_log_start_is_theirs() -> None:
    fs = CrashFileSystem()
    store = opened(fs)
    partition = filled(store)
    assert store.apply_retention()
    start = partition.log_start_offset
    assert start == partition.log.segments.base_offsets[0] > 0
    store.checkpoint()
    assert opened(fs.crash(kept="synced")).partition("t").log_start_offset == start


def test_a_log_start_moves_with_its_partition() -> None:
    fs = CrashFileSystem()
    store = opened(fs)
    partition = filled(store)
    partition.delete_records(37)
    store.checkpoint()
    before = fs.steps
    assert partition.root is not None
    store.move_partition("t", 0, next(root for root in ROOTS if root != partition.root.path))
    for step in range(before, fs.steps + 1, 2):
        assert opened(fs.crash(step, kept="synced")).partition("t").log_start_offset == 37, step


def test_a_move_is_registered_when_it_returns() -> None:
    fs = CrashFileSystem()
    store = opened(fs)
    partition = filled(store, 1)
    assert partition.root is not None
    store.move_partition("t", 0, next(root for root in ROOTS if root != partition.root.path))
    after = fs.crash(kept="synced")
    registry = Registry(after, home_of_metadata(after, list(ROOTS)), partition.root.identity.node_id, int)
    assert registry.image.topics["t"].partitions[0].directories == (partition.root.identity.directory_id,)


def test_a_copy_without_its_first_segment_is_begun_anew() -> None:
    fs = CrashFileSystem()
    store = opened(fs)
    partition = filled(store)
    before = fs.steps
    assert partition.root is not None
    target = next(root for root in ROOTS if root != partition.root.path)
    store.move_partition("t", 0, target)
    for step in range(before, fs.steps):
        after = fs.crash(step, kept="all")
        copies = [entry.name for entry in after.list(target) if entry.name.endswith("-future")]
        logs = [
            f"{target}/{name}/{entry.name}"
            for name in copies
            for entry in after.list(f"{target}/{name}")
            if entry.name.endswith(".log")
        ]
        if len(logs) < 3:
            continue
        after.unlink(min(logs))
        with opened(after) as resumed:
            resumed.resume_moves()
            assert [record.offset for record in resumed.partition("t").records()] == list(range(100))
        return
    raise AssertionError("there was no copy of three segments")


def test_a_truncation_that_was_cut_short_keeps_what_is_known_of_aborted_transactions() -> None:
    fs = CrashFileSystem()
    store = opened(fs)
    partition = store.create_topic("t", 1)[0]
    log = partition.log
    send(log, 1, 0, Record(b"aborted"))
    partition.append([Record(b"kept")])
    abort(log, 1)
    log.roll()
    partition.append([Record(b"later")], sync=True)
    store.checkpoint()
    before = fs.steps
    store.truncate_partition("t", 0, 1)
    for step in range(before, fs.steps):
        for seed in range(4):
            after = opened(fs.crash(step, seed=seed)).partition("t").log
            if after.log_end_offset > 2:
                assert after.aborted_transactions(0, 2), f"step {step}, seed {seed}"


@pytest.mark.parametrize("at", range(1, 10))
def test_segments_may_be_deleted_while_they_are_flushed(at: int) -> None:
    fs = FaultyFileSystem(CrashFileSystem(), lambda call: None)
    store = opened(fs)
    partition = store.create_topic("t", 1, SMALL)[0]
    for number in range(20):
        partition.append([Record(b"%d" % number * 20)] * 5)
    main, left = threading.get_ident(), at
    deleting = threading.Thread(target=store.apply_retention)

    def interrupt(operation: str) -> None:
        nonlocal left
        if operation == "open" and threading.get_ident() == main:
            left -= 1
            if left == 0:
                deleting.start()
                deleting.join(0.05)

    fs.interrupt = interrupt
    partition.flush()
    fs.interrupt = None
    deleting.join(PATIENCE_S)
    assert partition.is_online
    assert partition.log_start_offset > 0
    partition.flush()


class HookedLock:
    """A lock before which something happens, once."""

    def __init__(self, lock: threading.RLock, before: Callable[[], object]) -> None:
        self.lock = lock
        self.before: Callable[[], object] | None = before

    def __enter__(self) -> None:
        before, self.before = self.before, None
        if before is not None:
            before()
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def test_a_file_to_sync_is_looked_up_under_the_name_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(CrashFileSystem())
    partition = store.create_topic("t", 1)[0]
    partition.append([Record(b"not synced")])
    partition.log.roll()
    segment = partition.log.segments.first
    assert not segment.is_synced
    directory = partition.log.directory
    lock = HookedLock(directory.lock, lambda: segment.rename_to(Transient.DELETED))
    monkeypatch.setattr(directory, "lock", lock)
    segment.flush()
    assert segment.is_synced
    assert lock.before is None


@pytest.mark.parametrize("kind", ["offset_index", "time_index"])
def test_an_index_to_sync_is_looked_up_under_the_name_that_it_has(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(CrashFileSystem())
    partition = store.create_topic("t", 1)[0]
    partition.append([Record(b"not synced")])
    partition.log.roll()
    segment = partition.log.segments.first
    directory = partition.log.directory
    lock = HookedLock(directory.lock, lambda: segment.rename_to(Transient.DELETED))
    monkeypatch.setattr(directory, "lock", lock)
    getattr(segment, kind).flush()
    assert lock.before is None


def killed(store: Store) -> None:
    """The process is killed: nothing is closed."""
    for partition in store.partitions:
        partition.go_offline(RuntimeError("killed"))


def test_names_that_a_killed_process_made_are_synced_by_the_next() -> None:
    fs = CrashFileSystem()
    store = opened(fs)
    end = filled(store, 1).log_end_offset
    store.close()
    store = opened(fs)
    store.partition("t").log.roll()  # files whose names are only in the system's memory
    killed(store)
    store = opened(fs)
    store.partition("t").append([Record(b"acknowledged")], sync=True)
    after = opened(fs.crash(kept="synced")).partition("t")
    record = after.read_record(end)
    assert record is not None
    assert record.value == b"acknowledged"


def failing_sync(*, full: bool) -> Rule:
    """A log's sync fails; on a `full` disk no file can be made from then on."""
    failing = fail_on("sync", "*.log", errno.ENOSPC if full else errno.EIO, times=1)
    creating = fail_on("create", "*", errno.ENOSPC)
    return lambda call: failing(call) or (creating(call) if full else None)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("closes", [False, True])
def test_recovery_after_a_failed_sync_writes_again_what_only_the_system_has(closes: bool, full: bool) -> None:
    crashing = CrashFileSystem()
    fs = FaultyFileSystem(crashing, lambda call: None)
    store = opened(fs)
    partition = store.create_topic("t", 1)[0]
    lost = [Record(b"%d" % number * 9000) for number in range(3)]  # pages that nothing is written to later
    partition.append(lost)
    fs.rule = failing_sync(full=full)
    with pytest.raises(LogOfflineError):
        partition.flush()
    if closes:
        store.close()
    else:
        killed(store)
    fs.rule = lambda call: None
    store = opened(fs)
    partition = store.partition("t")
    assert partition.log_end_offset == 3
    partition.append([Record(b"acknowledged")], sync=True)
    after = opened(crashing.crash(kept="synced")).partition("t")
    assert [record.value for record in after.records()] == [*(one.value for one in lost), b"acknowledged"]


def test_segments_whose_bytes_are_all_lost_are_recovered() -> None:
    fs = CrashFileSystem()
    store = opened(fs)
    partition = store.create_topic("t", 1)[0]
    partition.append([Record(b"before")])
    partition.log.roll()
    send(partition.log, 1, 0, Record(b"of a transaction"))
    partition.log.roll()
    partition.log.directory.sync()
    assert partition.root is not None
    after = fs.crash(kept="all")
    for entry in after.list(partition.log.path):
        if entry.name.endswith(".log"):
            after.open(f"{partition.log.path}/{entry.name}", writable=True).truncate(0)
    log = opened(after).partition("t").log
    assert log.last_stable_offset == log.log_end_offset
    assert not log.active_producers


def test_a_transaction_below_a_log_start_that_a_crash_takes_back_is_open_still() -> None:
    fs = CrashFileSystem()
    store = opened(fs)
    partition = store.create_topic("t", 1)[0]
    send(partition.log, 1, 0, Record(b"undecided"), Record(b"undecided"))
    for _ in range(10):
        partition.append([Record(b"kept")], sync=True)
    partition.delete_records(5)
    partition.log.truncate_to(8)
    after = opened(fs.crash(kept="synced")).partition("t")
    assert after.log_start_offset == 0
    assert after.log.last_stable_offset == 0
