"""What must be true of a disk that a power cut has left.

1. The store opens, and no root and no partition is offline. A root with a clean mark opens without recovery.
2. Each partition has what `model` says: nothing that was acknowledged is lost, nothing that was truncated or
   deleted is back, every record is one that was appended at its offset.
3. The log ends behind the last record that was acknowledged, without a hole before it that nobody made.
4. The aborted transactions are those whose markers are there, and the last stable offset follows from them.
5. Neither the clean mark nor a recovery point lies: without them, recovery finds the same.
6. Moves that were cut short can be finished; the store can be appended to, closed and opened again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from tests.durability.life import Life, live
from tests.durability.model import Found, History
from tests.durability.stores import CONFIG, NOW, ROOTS, read_all, recovered
from tidelog.manager import Partition, Store
from tidelog.records import Record
from tidelog.testing.crash import CrashFileSystem

__all__ = ["check", "cut", "open_after"]

_MARK = ".kafka_cleanshutdown"
_POINTS = "recovery-point-offset-checkpoint"
_LATER = NOW + 10**9
_COMPARED, _GONE_ON, _OPENED_AGAIN = 8, 2, 8
"""In which of the states the dearer things are looked at, too: one in so many."""


def open_after(fs: CrashFileSystem) -> Store:
    """The store as it is found after a cut."""
    return recovered(ROOTS, config=CONFIG, fs=fs, now_ms=lambda: _LATER, background=False, create=True)


def cut(seed: int, states: int, actions: int = 40, faults: str = "") -> None:
    """Live a life, cut it at so many steps, and check what is left."""
    life = live(seed, actions, faults)
    assert not life.fs.blind_stores, "a store to a mapping without disk space for it"
    dice = random.Random(seed)
    steps = life.fs.steps
    for number in range(states):
        step = dice.randint(0, steps)
        kept = dice.choices(["some", "synced", "all"], [7, 2, 1])[0]
        try:
            check(life, step, life.fs.crash(step, seed=number, kept=kept), number)
        except Exception as error:
            told = f"life {seed} {faults}, cut at step {step} of {steps}, state {number} ({kept})"
            raise AssertionError(told) from error


def check(life: Life, step: int, fs: CrashFileSystem, number: int = 0) -> None:
    """What must be true of `fs`, which a cut of `life` at `step` has left."""
    marked = {root for root in ROOTS if fs.exists(f"{root}/{_MARK}")}
    compared = fs.crash(kept="all") if marked or number % _COMPARED == 0 else None
    store = open_after(fs)
    assert not store.offline_partitions
    assert not store.offline_roots
    there = {(p.topic_id, p.topic_partition.partition): p for p in store.partitions}
    found = {}
    for name, history in life.histories.items():
        where = life.names[name]
        if name in there:
            assert step < history.deleted, f"{where} was deleted and is back"
            found[name] = _check_partition(there[name], history, step)
        else:
            assert step < history.registered or step >= history.deleting, f"{where} is lost"
    if compared is not None:
        _compare(compared, store)
    if store.unfinished_moves:
        store.resume_moves()
        assert not store.unfinished_moves
        for name in found:
            _check_partition(there[name], life.histories[name], step)
    if number % _GONE_ON:
        return
    for partition in there.values():
        end = partition.log_end_offset
        partition.append([Record(b"after", b"after")], sync=True)
        assert _value_at(partition, end) == b"after"
    store.close()
    assert all(fs.exists(f"{root}/{_MARK}") for root in ROOTS)
    if number % _OPENED_AGAIN == 0:
        with open_after(fs) as again:
            assert not again.offline_partitions
            for partition in again.partitions:
                assert _value_at(partition, partition.log_end_offset - 1) == b"after"


def _compare(fs: CrashFileSystem, store: Store) -> None:
    """What the store has is what recovery finds that trusts nothing."""
    for root in ROOTS:
        for name in (_MARK, _POINTS):
            if fs.exists(f"{root}/{name}"):
                fs.unlink(f"{root}/{name}")
    other = open_after(fs)
    for partition in store.partitions:
        name = partition.topic_partition
        twin = other.partition(name.topic, name.partition)
        mine, theirs = read_all(partition), read_all(twin)
        assert mine == theirs, (
            f"{name}: {_difference(mine, theirs)} was trusted and recovery finds it different"
        )
        assert partition.log_end_offset == twin.log_end_offset, name
    other.close()


def _difference(one: dict[int, Found], two: dict[int, Found]) -> Iterable[int]:
    return sorted(offset for offset in one.keys() | two.keys() if one.get(offset) != two.get(offset))


def _check_partition(partition: Partition, history: History, step: int) -> dict[int, Found]:
    where = str(partition.topic_partition)
    found = read_all(partition)
    history.check(found, step, where)
    if history.deleting <= step:
        return found
    must = [
        entry.offset
        for listed in history.entries.values()
        for entry in listed
        if entry.must_be_there(step) and entry.offset in found
    ]
    end = max(must, default=-1) + 1
    assert partition.log_end_offset >= end, f"{where} ends at {partition.log_end_offset}, not at {end}"
    _check_transactions(partition, history, found, step)
    return found


def _check_transactions(partition: Partition, history: History, found: dict[int, Found], step: int) -> None:
    aborted, unstable = history.transactions(found)
    log, start, end = partition.log, partition.log_start_offset, partition.log_end_offset
    noted = {(txn.producer_id, txn.last_offset) for txn in log.aborted_transactions(start, end)}
    where = str(partition.topic_partition)
    assert aborted <= noted, f"{where}: aborted transactions {aborted - noted} are not noted"
    if step < history.cleaned and start == 0:
        assert noted == aborted, f"{where}: {noted - aborted} were not aborted"
        stable = end if unstable is None else unstable
        assert log.last_stable_offset == stable, f"{where}: stable to {log.last_stable_offset}, not {stable}"


def _value_at(partition: Partition, offset: int) -> bytes | None:
    record = partition.read_record(offset)
    assert record is not None
    return record.value
