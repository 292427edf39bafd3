"""Calls of a store that are interrupted by something else wherever they sync or rename files."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.durability.interrupting import interrupted
from tests.durability.stores import CONFIG, recovered
from tidelog.manager import Partition, Store
from tidelog.records import Record
from tidelog.storage import FileSystem
from tidelog.testing.crash import CrashFileSystem
from tidelog.testing.faults import FaultyFileSystem

ROOTS = ("/a", "/b")
RECORDS = 4


def opened(fs: FileSystem) -> Store:
    return recovered(ROOTS, config=CONFIG, fs=fs, background=False)


def append(store: Store) -> None:
    store.partition("t").append([Record(b"meanwhile")], sync=True)


def truncate(store: Store) -> None:
    store.truncate_partition("t", 0, 2)


def values(partition: Partition) -> list[bytes | None]:
    return [record.value for record in partition.records()]


KEPT: list[bytes | None] = [b"%d" % number for number in range(RECORDS)]


def moved(other: Callable[[Store], None], step: int) -> tuple[CrashFileSystem, Partition, bool]:
    """A partition that has moved, and whether the other thing was done at this step of it."""
    crashing = CrashFileSystem()
    fs = FaultyFileSystem(crashing, lambda call: None)
    store = opened(fs)
    partition = store.create_topic("t", 1)[0]
    for value in KEPT:
        partition.append([Record(value)])
    assert partition.root is not None
    target = next(root for root in ROOTS if root != partition.root.path)
    done = False

    def come_between() -> None:
        nonlocal done
        other(store)
        done = True

    with interrupted(fs, step, come_between, ("rename", "sync")):
        store.move_partition("t", 0, target)
    assert partition.root.path == target
    return crashing, partition, done


@pytest.mark.parametrize(("other", "left"), [(append, [*KEPT, b"meanwhile"]), (truncate, KEPT[:2])])
def test_what_is_done_while_a_move_changes_the_disk_is_done_to_the_moved_log(
    other: Callable[[Store], None], left: list[bytes | None]
) -> None:
    for step in itertools.count(1):
        fs, partition, was_interrupted = moved(other, step)
        if not was_interrupted:
            assert step > 5
            return
        assert values(partition) == left, step
        assert values(opened(fs.crash(kept="synced")).partition("t")) == left, step
