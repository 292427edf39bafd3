"""What an open store does by itself: deletes nothing, unless that is asked for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import tidelog
from tests.waiting import wait_until
from tidelog.manager import BrokerConfig, Store
from tidelog.records import Record

HURRY = BrokerConfig.from_properties(
    {
        "log.initial.task.delay.ms": 0,
        "log.retention.check.interval.ms": 1,
        "log.cleaner.backoff.ms": 1,
        "log.segment.delete.delay.ms": 0,
        "log.cleaner.min.cleanable.ratio": 0,
    }
)
GONE = "gone-0.0123456789abcdef0123456789abcdef-delete"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Month-old records, under the default retention of a week; a compacted topic; a deleted one."""
    root = tmp_path / "r"
    with tidelog.open(root, background=False) as store:
        old = int(time.time() * 1000) - 30 * 86_400_000
        for name, config in {"old": {}, "users": {"cleanup.policy": "compact"}}.items():
            partition = store.create_topic(name, config=config)[0]
            for number in range(20):
                partition.append([Record(b"%d" % number, b"key", timestamp=old)])
                partition.log.roll()
    (root / GONE).mkdir()
    (root / GONE / "00000000000000000000.log").write_bytes(b"")
    return root


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.name.endswith(".log")}


@pytest.mark.parametrize("wait_s", [0, 0.3])
def test_nothing_is_deleted_unless_asked(root: Path, wait_s: float) -> None:
    before = files(root)
    with tidelog.open(root, config=HURRY) as store:
        time.sleep(wait_s)
        assert [store.partition(name).log_start_offset for name in ("old", "users")] == [0, 0]
        assert len(list(store.partition("users"))) == 20
    assert files(root) == before


def test_retention_and_compaction_run_when_asked(root: Path) -> None:
    with tidelog.open(root, config=HURRY, background=True) as store:
        wait_until(lambda: store.partition("old").log_start_offset == 20)
        wait_until(lambda: len(list(store.partition("users"))) < 20)
        wait_until(lambda: not (root / GONE).exists())


def test_without_a_thread_the_caller_asks(root: Path) -> None:
    before = files(root)
    with tidelog.open(root, config=HURRY, background=False):
        pass
    assert files(root) == before
    store: Store
    with tidelog.open(root, config=HURRY, background=False) as store:
        time.sleep(0.01)
        store.run_due_tasks()
        assert store.partition("old").log_start_offset == 20
        assert not (root / GONE).exists()


def test_what_a_call_asked_for_is_finished(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "r", config=HURRY) as store:
        store.create_topic("t")[0].append([Record(b"v")])
        store.delete_topic("t")
        wait_until(lambda: not list((tmp_path / "r").glob("t-0*")))
        partition = store.create_topic("u", config={"flush.ms": 1})[0]
        partition.append([Record(b"v")])
        wait_until(lambda: partition.log.recovery_point == 1)
