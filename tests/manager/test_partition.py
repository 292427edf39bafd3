"""A partition as Python sees it: iterating, offsets by time, topics and partitions by name."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

import tidelog
from tests.golden import GOLDEN, golden_partition
from tests.waiting import PATIENCE_S
from tidelog.errors import InvalidInputError
from tidelog.records import Record
from tidelog.types import FetchIsolation

NOW = 1_700_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tidelog.Store]:
    with tidelog.open(tmp_path, background=False) as store:
        store.create_topic("t", 2, {"internal.segment.bytes": 400})
        for first in range(0, 60, 5):
            records = [Record(b"v%d" % n, timestamp=NOW + 1000 * n) for n in range(first, first + 5)]
            store["t"][1].append(records)
        yield store


def test_records_come_one_by_one(store: tidelog.Store) -> None:
    partition = store["t"][1]
    assert [record.value for record in partition] == [b"v%d" % n for n in range(60)]
    assert [record.offset for record in partition.records(13, 28)] == list(range(13, 28))
    assert [record.offset for record in partition.records(58, 100)] == [58, 59]
    partition.delete_records(33)
    assert next(iter(partition)).offset == 33
    assert list(store["t"][0]) == []


def test_offsets_by_time(store: tidelog.Store) -> None:
    partition = store["t"][1]
    moment = datetime.fromtimestamp(NOW / 1000, UTC) + timedelta(seconds=20.5)
    assert partition.offset_for(moment) == 21
    assert partition.offset_for(moment.astimezone(timezone(timedelta(hours=5)))) == 21
    assert partition.offset_for(NOW + 21_000) == 21
    assert partition.offset_for(0) == 0
    assert partition.offset_for(datetime(1969, 1, 1, tzinfo=UTC)) == 0
    assert partition.offset_for(moment + timedelta(days=1)) == 60
    with pytest.raises(InvalidInputError, match="has no time zone"):
        partition.offset_for(datetime(2026, 11, 15))


def test_names_that_are_not_there(store: tidelog.Store) -> None:
    assert "t" in store
    assert "u" not in store
    with pytest.raises(InvalidInputError, match="there is no topic 'u'"):
        store["u"]
    with pytest.raises(InvalidInputError, match="no partition 7 here, but"):
        store["t"][7]


@pytest.mark.parametrize("name", ["golden-txn-0", "golden-trimmed-0", "golden-compact-0"])
def test_what_kafka_wrote_comes_as_a_consumer_sees_it(tmp_path: Path, name: str) -> None:
    root = shutil.copytree(GOLDEN / "clean", tmp_path / "root")
    with tidelog.open(root, background=False) as store:
        partition = store[name.rpartition("-")[0]][0]
        lines = [line for line in golden_partition(name).records() if not line.get("control")]
        offsets = [line["offset"] for line in lines if line["offset"] >= partition.log_start_offset]
        assert [record.offset for record in partition] == offsets
        committed = [one.offset for one in partition.records(isolation=FetchIsolation.TXN_COMMITTED)]
        scanned = tidelog.scan(root / name, isolation="read_committed", columns=["offset"]).read_all()
        assert committed == scanned.column(0).to_pylist()


def test_waiting_for_records(store: tidelog.Store) -> None:
    partition = store["t"][0]
    assert not partition.wait(0, 0.01)
    appending = threading.Timer(0.05, lambda: partition.append([Record(b"v")]))
    appending.start()
    assert partition.wait(0, PATIENCE_S)
    appending.join()
    assert partition.wait(0, 0)
    assert not partition.wait(1, 0)


def test_listeners_hear_of_appends_until_they_do_not_want_to(store: tidelog.Store) -> None:
    partition, heard = store["t"][0], []
    end = partition.listen(lambda one: heard.append(one.log_end_offset))
    partition.append([Record(b"v")])
    partition.append([Record(b"v"), Record(b"v")])
    end()
    partition.append([Record(b"v")])
    assert heard == [1, 3]
