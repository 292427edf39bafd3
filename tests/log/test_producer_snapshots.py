"""Snapshots of the state of producers: when one is due, and what is loaded again."""

from __future__ import annotations

from tests.log.producing import append, data
from tidelog.log.offsets import LogOffsetMetadata
from tidelog.log.producers.producers import ProducerStateManager


def snapshot_into(manager: ProducerStateManager, files: dict[int, bytes]) -> int:
    snapshot = manager.take_snapshot()
    assert snapshot is not None
    files[snapshot.offset] = snapshot.data
    manager.snapshot_written(snapshot.offset)
    return snapshot.offset


def test_a_snapshot_is_due_only_when_the_end_has_moved() -> None:
    manager = ProducerStateManager()
    assert manager.take_snapshot() is None
    append(manager, data(0))
    assert manager.take_snapshot() == manager.take_snapshot()
    manager.snapshot_written(1)
    assert manager.take_snapshot() is None
    manager.update_map_end_offset(2)
    assert manager.take_snapshot() is not None


def test_reload_skips_corrupt_snapshots_and_names_them() -> None:
    manager = ProducerStateManager()
    files: dict[int, bytes] = {}
    for i in range(3):
        append(manager, data(i, sequence=i))
        snapshot_into(manager, files)
    files[3] = files[3][:-1]
    files[2] = b"\0\1" + files[2][2:6] + b"\0\0\0\7" + files[2][10:]
    fresh = ProducerStateManager(snapshot_offsets=files)
    assert sorted(fresh.truncate_and_reload(0, 3, 2000, files.__getitem__)) == [2, 3]
    assert fresh.map_end_offset == 1
    assert fresh.producers[1].last_sequence == 0
    assert fresh.snapshot_offsets == (1,)


def test_reload_drops_expired_producers_but_not_open_transactions() -> None:
    manager = ProducerStateManager()
    files: dict[int, bytes] = {}
    append(manager, data(0))
    append(manager, data(1, pid=2, txn=True))
    snapshot_into(manager, files)
    fresh = ProducerStateManager(snapshot_offsets=files, producer_id_expiration_ms=10)
    assert fresh.truncate_and_reload(0, 5, 9999, files.__getitem__) == []
    assert sorted(fresh.producers) == [2]
    assert fresh.first_unstable_offset == LogOffsetMetadata(1)


def test_reload_without_a_snapshot_starts_empty_at_the_log_start() -> None:
    manager = ProducerStateManager(snapshot_offsets=[4, 50])
    append(manager, data(0, txn=True))
    assert manager.truncate_and_reload(7, 20, 0, {}.__getitem__) == [4, 50]
    assert manager.map_end_offset == 7
    assert manager.is_empty
    assert manager.first_unstable_offset is None


def test_reload_keeps_a_state_that_ends_there_already() -> None:
    manager = ProducerStateManager()
    append(manager, data(0))
    assert manager.truncate_and_reload(0, 1, 1 << 60, {}.__getitem__) == []
    assert sorted(manager.producers) == [1]


def test_snapshots_of_deleted_segments_are_forgotten() -> None:
    manager = ProducerStateManager(snapshot_offsets=[30, 10, 20, 40])
    assert manager.oldest_snapshot_offset == 10
    assert manager.latest_snapshot_offset == 40
    assert manager.remove_snapshot(20)
    assert not manager.remove_snapshot(20)
    assert manager.delete_snapshots_before(30) == [10]
    assert manager.remove_stray_snapshots([35, 10]) == [30]
    assert manager.snapshot_offsets == (40,)
