"""Partitions that move between roots, while they are used and through crashes."""

from __future__ import annotations

import errno
import shutil
import threading
import uuid
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.manager.stores import SMALL, fill, some, values
from tests.waiting import wait_until
from tidelog.errors import (
    InvalidInputError,
    LogClosedError,
    LogOfflineError,
)
from tidelog.manager.store.moves import _copy, _cut_to_common
from tidelog.records import Record
from tidelog.storage import LOCAL
from tidelog.testing.faults import Call, FaultyFileSystem, fail_on
from tidelog.types import TopicPartition


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
        with pytest.raises(InvalidInputError, match="is not a root"):
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
    with tidelog.open(roots, recover=True) as store:
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
    with tidelog.open(roots, recover=True) as store:
        assert values(store, "t") == [one.value for one in some(200)]


@pytest.mark.parametrize("appended", [0, 10, 200])
def test_what_is_truncated_while_a_partition_moves_stays_away(tmp_path: Path, appended: int) -> None:
    """By then the copy has it; with what is appended since, the log may even be longer than the copy."""
    roots = [tmp_path / "a", tmp_path / "b"]
    fs = FaultyFileSystem(LOCAL, lambda call: None)
    with tidelog.open(roots, fs=fs, background=False) as store:
        store.create_topic("t", 1, SMALL)
        partition = store.partition("t")
        fill(partition, 200)
        later = some(appended, "later")

        def truncate(call: Call) -> None:
            if call.operation == "sync" and fnmatch(call.path, "*-future/*.log"):
                fs.rule = lambda call: None
                store.truncate_partition("t", 0, 100)
                for one in later:
                    partition.append([one])

        fs.rule = truncate
        store.move_partition("t", 0, roots[1])
        wanted = [one.value for one in (*some(100), *later)]
        assert Path(partition.log.path) == roots[1] / "t-0"
        assert values(store, "t") == wanted
    with tidelog.open(roots) as store:
        assert values(store, "t") == wanted


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


def test_a_copy_with_which_nothing_is_common_is_begun_anew(tmp_path: Path) -> None:
    """The source was truncated, has grown and was trimmed, to an offset inside of its new batch."""
    with tidelog.Log.open(tmp_path / "a-0") as source, tidelog.Log.open(tmp_path / "b-0") as future:
        for value in (b"kept", b"truncated"):
            source.append_as_leader([Record(value)])
        _copy(source, future, bool)
        source.truncate_to(1)
        source.append_as_leader([Record(b"new")] * 3)
        source.update_high_watermark(4)
        source.delete_records(2)
        assert future.log_end_offset == source.log_start_offset == 2
        _cut_to_common(source, future)
        _copy(source, future, bool)
        assert future.log_end_offset == 4
        assert bytes(future.read(2, 1 << 20).data) == bytes(source.read(2, 1 << 20).data)


def test_an_old_copy_is_not_taken_for_the_partition_that_has_moved(tmp_path: Path) -> None:
    """A crash just after a move counts leaves the source; its root is opened alone, then both are read."""
    roots = [tmp_path / "a", tmp_path / "b"]
    with tidelog.open(roots) as store:
        store.create_topic("t", 1)
        fill(store.partition("t"), 10)
    shutil.copytree(roots[0] / "t-0", tmp_path / "old")
    with tidelog.open(roots) as store:
        store.move_partition("t", 0, roots[1])
        fill(store.partition("t"), 20)
    shutil.copytree(tmp_path / "old", roots[0] / "t-0")
    with tidelog.open(roots[0]) as store:
        assert "may be an old copy" in store.offline_partitions[TopicPartition("t", 0)]
        with pytest.raises(LogOfflineError, match="Name all of the broker"):
            store.partition("t").append(some(1))
    for order in (roots, roots[::-1]):
        with tidelog.open(order, mode="r") as reading:
            assert reading.partition("t").log_end_offset == 30
            assert [one.path for one in reading.skipped] == [str(roots[0] / "t-0")]
        with tidelog.open(order) as store:
            assert store.partition("t").log_end_offset == 30
    shutil.rmtree(roots[1])
    with tidelog.open(roots[0], adopt=True) as store:
        assert store.partition("t").log_end_offset == 10
    with tidelog.open(roots[0]) as store:
        assert store.partition("t").is_online, "the metadata names its root now"


def test_closing_waits_for_a_move_which_gives_up(tmp_path: Path) -> None:
    """Nothing is changed in the roots once they are let go, and each is closed cleanly."""
    roots = [tmp_path / "a", tmp_path / "b"]
    with tidelog.open(roots[0], background=False) as made:
        made.create_topic("t", 1)[0].append([Record(b"v")] * 10)
    fs = FaultyFileSystem(LOCAL, lambda call: None)
    store = tidelog.open(roots, fs=fs, background=False)
    closer, begun = threading.Thread(target=store.close), threading.Event()
    mover = threading.current_thread()

    def close_meanwhile(operation: str) -> None:
        if operation == "pwrite" and threading.current_thread() is mover and not begun.is_set():
            begun.set()
            closer.start()
            wait_until(lambda: store._closed)

    fs.interrupt = close_meanwhile
    with pytest.raises(LogClosedError, match="the store was closed"):
        store.move_partition("t", 0, roots[1])
    closer.join()
    with tidelog.open(roots, background=False) as store:
        assert Path(store.partition("t").path).parent == roots[0]
        assert store.partition("t").log_end_offset == 10
    assert not list(roots[1].glob("t-0*"))
