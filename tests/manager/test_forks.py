"""A forked child has its parent's handles in memory; it must not be able to use them."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.manager.stores import some, values
from tidelog import Log
from tidelog.errors import ForkedError, LogLockedError
from tidelog.storage.lock import RootLock
from tidelog.types import TopicPartition

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

SECONDS = 60


def in_child(work: Callable[[], Any]) -> Any:
    """What `work` answers in a forked child: JSON, or the name of the error's class."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        signal.alarm(SECONDS)  # a child that waits for ever dies, and the test fails
        try:
            try:
                answer = work()
            except BaseException as error:
                answer = type(error).__name__
            os.write(writing, json.dumps(answer, default=repr).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0
    return json.loads(answer)


def contents(root: Path) -> dict[str, bytes]:
    """The files by name; the lock is lost if this process opens and closes its file."""
    files = (path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


USES: dict[str, Callable[[tidelog.Store], Any]] = {
    "append": lambda store: store.partition("t").append(some(1)),
    "create": lambda store: store.create_topic("u"),
    "delete": lambda store: store.delete_topic("t"),
    "config": lambda store: store.alter_config("t", {"retention.ms": 1}),
    "truncate": lambda store: store.truncate_partition("t", 0, 0),
    "flush": lambda store: store.flush(),
    "checkpoint": lambda store: store.checkpoint(),
    "retention": lambda store: store.apply_retention(),
    "clean": lambda store: store.clean(TopicPartition("t", 0)),
    "tasks": lambda store: store.run_due_tasks(),
    "topics": lambda store: list(store.topics),
    "iterate": lambda store: list(store),
    "metrics": lambda store: store.metrics(),
    "with": lambda store: store.__enter__().partition("t"),
}
PARTITION_USES: dict[str, Callable[[Any], Any]] = {
    "append": lambda partition: partition.append(some(1), sync=True),
    "flush": lambda partition: partition.flush(),
    "read": lambda partition: partition.read(0),
    "records": lambda partition: list(partition),
    "trim": lambda partition: partition.delete_records(1),
    "end": lambda partition: partition.log_end_offset,
    "log": lambda partition: partition.log,
}
LOG_USES: dict[str, Callable[[Any], Any]] = {
    "append": lambda log: log.append_as_leader(some(1)),
    "flush": lambda log: log.flush(),
    "read": lambda log: log.read(0),
    "roll": lambda log: log.roll(),
    "truncate": lambda log: log.truncate_to(0),
    "delete": lambda log: log.delete(),
    "rename": lambda log: log.rename("t-1"),
}


@pytest.mark.parametrize("background", [False, True])
def test_nothing_of_a_store_can_be_used(tmp_path: Path, background: bool) -> None:
    root = tmp_path / "r"
    with tidelog.open(root, background=background) as store:
        topic = store.create_topic("t")
        partition = topic[0]
        partition.append(some(3), sync=True)
        log, append = partition.log, partition.append
        before = contents(root)
        calls = [
            *((use, store) for use in USES.values()),
            *((use, partition) for use in PARTITION_USES.values()),
            *((use, topic[0]) for use in PARTITION_USES.values()),
            *((use, log) for use in LOG_USES.values()),
            (lambda _: append(some(1)), store),
        ]
        for use, handle in calls:
            assert in_child(lambda use=use, handle=handle: use(handle)) == "ForkedError"
        assert contents(root) == before
        partition.append(some(2), sync=True)
        assert len(values(store, "t")) == 5


def test_a_child_ends_without_a_trace(tmp_path: Path) -> None:
    root = tmp_path / "r"
    store = tidelog.open(root)
    partition = store.create_topic("t")[0]
    partition.append(some(3), sync=True)
    before = contents(root)

    def leave() -> str:
        with store:
            pass
        store.close()
        holder = [store]
        holder.clear()
        gc.collect()
        return repr(store)

    assert "another process" in in_child(leave)
    assert contents(root) == before
    with pytest.raises(LogLockedError):
        RootLock(root)
    assert in_child(lambda: RootLock(root)) == "LogLockedError"
    partition.append(some(1))
    store.close()
    assert (root / ".kafka_cleanshutdown").exists()


def test_a_child_may_open_the_root_when_its_parent_has_closed_it(tmp_path: Path) -> None:
    root = tmp_path / "r"
    with tidelog.open(root, background=False) as store:
        store.create_topic("t")[0].append(some(3))
    ready, go = os.pipe()

    def use() -> int:
        os.read(ready, 1)
        with tidelog.open(root, background=False) as mine:
            mine.partition("t").append(some(2), sync=True)
            return mine.partition("t").log_end_offset

    os.write(go, b"x")
    assert in_child(use) == 5
    with tidelog.open(root, background=False) as store:
        assert in_child(lambda: tidelog.open(root)) == "LogLockedError"
        assert len(values(store, "t")) == 5
        other = tmp_path / "other"
        assert in_child(lambda: tidelog.open(other, background=False).close()) is None


def test_a_child_does_not_wait_for_locks_of_threads_that_it_lacks(tmp_path: Path) -> None:
    root = tmp_path / "r"
    with tidelog.open(root, background=False) as store:
        partition = store.create_topic("t")[0]
        held, let_go = threading.Event(), threading.Event()

        def hold() -> None:
            with partition.gate, store._lock, partition.log._state.lock:
                held.set()
                let_go.wait(SECONDS)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(SECONDS)
        try:
            for use in (lambda: partition.append(some(1)), store.flush, lambda: store.create_topic("x")):
                assert in_child(use) == "ForkedError"
            assert in_child(store.close) is None
        finally:
            let_go.set()
            thread.join()


def test_a_log_alone_and_a_lock(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0") as log, RootLock(tmp_path) as lock:
        log.append_as_leader(some(3))
        before = contents(tmp_path)
        for use in LOG_USES.values():
            assert in_child(lambda use=use: use(log)) == "ForkedError"
        assert in_child(log.close) is None
        assert in_child(lock.ensure) == "ForkedError"
        assert in_child(lock.release) is None
        assert contents(tmp_path) == before
        assert in_child(lambda: RootLock(tmp_path)) == "LogLockedError"


def _append(store: tidelog.Store) -> str:
    try:
        store.partition("t").append(some(1))
    except ForkedError as error:
        return str(error)
    return "appended"


def test_processes_of_multiprocessing(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "r", background=False) as store:
        store.create_topic("t")
        context = multiprocessing.get_context("fork")
        process = context.Process(target=_append, args=(store,))
        process.start()
        process.join(SECONDS)
        assert process.exitcode == 0
        assert values(store, "t") == []
        assert "tidelog.scan" in in_child(lambda: _append(store))
