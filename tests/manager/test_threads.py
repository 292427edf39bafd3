"""Threads that work on one store at the same time: none takes a root offline, and the last state stays."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidelog
from tests.manager.stores import SMALL, fill, some, values
from tests.waiting import PATIENCE_S
from tidelog.errors import TidelogError
from tidelog.manager import Store
from tidelog.storage import LocalFileSystem, atomic_write, read_file, read_offset_checkpoint
from tidelog.storage.local import LOCAL
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from _typeshed import StrPath

SECONDS = 1.5


def at_once(works: Sequence[Callable[[], object]], seconds: float = SECONDS) -> None:
    """Do each again and again in a thread of its own; what one raises is raised here."""
    end, errors = time.monotonic() + seconds, []

    def run(work: Callable[[], object]) -> None:
        try:
            while time.monotonic() < end and not errors:
                work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    if errors:
        raise errors[0]


@pytest.mark.parametrize("mixed", [False, True])
def test_many_threads_change_a_store(tmp_path: Path, mixed: bool) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    with tidelog.open(roots, background=False) as store:
        store.create_topic("t", 4, config=SMALL | {"cleanup.policy": "compact"})

        def truncate(number: int) -> None:
            partition = store.partition("t", number)
            for one in some(3):  # each a batch: truncation takes whole ones
                partition.append([one])
            store.truncate_partition("t", number, partition.log_end_offset - 1)

        def move(number: int) -> None:
            partition = store.partition("t", number)
            partition.append(some(1))
            here = partition.root
            assert here is not None
            store.move_partition("t", number, next(root for root in roots if str(root) != here.path))

        def come_and_go(name: str) -> None:
            fill(store.create_topic(name, 2, config=SMALL)[0], 10)
            mover = threading.Thread(target=lambda: _quietly(lambda: store.move_partition(name, 0, roots[1])))
            mover.start()
            store.delete_topic(name)
            mover.join()

        works = [lambda: truncate(0), lambda: truncate(1), lambda: move(2), store.checkpoint]
        if mixed:
            works += [lambda: move(3), lambda: move(3), store.checkpoint, store.clean, store.apply_retention]
            works += [lambda: come_and_go("x"), lambda: come_and_go("y"), store.flush]
        at_once(works)
        assert not store.offline_roots
        assert not store.offline_partitions
        ends = {one.topic_partition: one.log_end_offset for one in store.partitions}
    for root in roots:
        assert (root / ".kafka_cleanshutdown").exists()
        assert not list(root.glob("*.tmp"))
    with tidelog.open(roots, background=False) as store:
        assert {one.topic_partition: one.log_end_offset for one in store.partitions} == ends


def _quietly(work: Callable[[], object]) -> None:
    with suppress(TidelogError, OSError):
        work()


class Slow(LocalFileSystem):
    """Renames of a checkpoint wait until they may, once they are to be held back."""

    def __init__(self) -> None:
        self.name = ""
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def rename(self, source: StrPath, target: StrPath) -> None:
        if self.name and str(target).endswith(self.name) and not self.begun.is_set():
            self.begun.set()
            assert self.go_on.wait(PATIENCE_S)
        super().rename(source, target)


@pytest.mark.parametrize(
    "name",
    ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"],
)
def test_a_slow_writer_does_not_bring_back_an_older_state(tmp_path: Path, name: str) -> None:
    slow = Slow()
    with tidelog.open(tmp_path / "r", background=False, fs=slow) as store:
        partition = store.create_topic("t")[0]
        partition.append(some(5), sync=True)
        partition.delete_records(2)
        slow.name = name
        first = threading.Thread(target=store.checkpoint)
        first.start()
        assert slow.begun.wait(PATIENCE_S)
        partition.append(some(5), sync=True)
        partition.delete_records(7)
        second = threading.Thread(target=store.checkpoint)
        second.start()
        second.join(0.2)
        slow.go_on.set()
        first.join(PATIENCE_S)
        second.join(PATIENCE_S)
        found = read_offset_checkpoint(LOCAL, tmp_path / "r" / name)
        assert found == {TopicPartition("t", 0): 7 if name.startswith("log-start") else 10}
        assert values(store, "t")


def test_threads_that_replace_one_file_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "small"
    works = [lambda byte=byte: atomic_write(LOCAL, path, byte * 9000) for byte in (b"a", b"b", b"c", b"d")]
    at_once(works, 0.5)
    found = read_file(LOCAL, path)
    assert len(found) == 9000
    assert len(set(found)) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["small"]


def test_a_failing_disk_does_not_make_threads_wait_for_each_other(tmp_path: Path) -> None:
    class Failing(LocalFileSystem):
        fails = False

        def rename(self, source: StrPath, target: StrPath) -> None:
            if self.fails and str(target).endswith("-checkpoint"):
                raise OSError(5, "the disk is gone", str(target))
            super().rename(source, target)

    fs = Failing()
    store: Store
    with tidelog.open(tmp_path / "r", background=False, fs=fs) as store:
        store.create_topic("t", 4)
        for number in range(4):
            store.partition("t", number).append(some(10))
        fs.fails = True
        at_once([lambda n=n: _quietly(lambda: store.truncate_partition("t", n, 2)) for n in range(4)], 0.3)
        assert list(store.offline_roots) == [str(tmp_path / "r")]
