"""`tidelog.open(path, mode="r")`: a store's answers, without a lock and without a write."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tidelog
from tests.golden import GOLDEN
from tidelog.errors import CorruptRecordError, InvalidInputError, OffsetOutOfRangeError
from tidelog.log.read.lookups import OffsetTarget
from tidelog.manager.store.readonly import ReadOnlyStore
from tidelog.records import Record, scan_batches
from tidelog.testing.builders import LogBuilder, flip_bit
from tidelog.types import FetchIsolation

FIRST_MS = 1_700_000_000_000


def picture(path: Path) -> dict[str, tuple[object, ...]]:
    """Everything under a path that a write would change."""
    return {
        str(file.relative_to(path)): (
            file.lstat().st_mtime_ns,
            file.lstat().st_ctime_ns,
            file.lstat().st_ino,
            file.read_bytes() if file.is_file() else None,
        )
        for file in [path, *path.rglob("*")]
    }


def fill(store: tidelog.Store, batches: int = 40) -> None:
    topic = store.create_topic("orders", 2, {"internal.segment.bytes": 20_000, "retention.ms": "-1"})
    for n in range(batches):
        records = [
            Record(b"value-%d" % (10 * n + i) + b"." * 100, b"key", timestamp=FIRST_MS + 10 * n + i)
            for i in range(10)
        ]
        topic[0].append(records)
        topic[1].append(records[:3])


def closed(path: Path) -> None:
    with tidelog.open(path, background=False) as store:
        fill(store)


def killed(path: Path) -> None:
    closed(path)
    (path / ".kafka_cleanshutdown").unlink()
    last = sorted((path / "orders-0").glob("*.log"))[-1]
    with last.open("ab") as file:
        file.write(b"\0\0\0\0\0\0\1\x90\0\0\1")  # a write that did not finish


def without_metadata(path: Path) -> None:
    closed(path)
    (path / "bootstrap.checkpoint").unlink()
    (path / "meta.properties").unlink(missing_ok=True)


def garbage_checkpoints(path: Path) -> None:
    closed(path)
    for name in ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint", "bootstrap.checkpoint"):
        (path / name).write_bytes(b"\xff garbage")
    (path / "orders-0" / "leader-epoch-checkpoint").write_bytes(b"x")
    (path / "orders-0" / "partition.metadata").write_bytes(b"\0")


def read_only_files(path: Path) -> None:
    closed(path)
    for file in path.rglob("*"):
        file.chmod(0o555 if file.is_dir() else 0o444)


def ask_everything(store: ReadOnlyStore) -> None:
    assert store.topics
    assert store.skipped is not None
    store.metrics()
    for partition in store.partitions:
        ends = partition.offsets
        assert ends.log_start <= ends.last_stable <= ends.log_end
        for isolation in FetchIsolation:
            partition.read_arrow(ends.log_start, isolation=isolation)
        partition.offset_for_timestamp(0)
        partition.offset_for_timestamp(OffsetTarget.MAX_TIMESTAMP)
        partition.read_record(ends.log_start) if ends.log_start < ends.log_end else None
        list(partition)


@pytest.mark.parametrize("make", [closed, killed, without_metadata, garbage_checkpoints, read_only_files])
def test_nothing_is_written_whatever_state_a_root_is_in(tmp_path: Path, make: Callable[[Path], None]) -> None:
    root = tmp_path / "root"
    make(root)
    before = picture(root)
    with tidelog.open(root, mode="r") as store:
        ask_everything(store)
        assert [record.value for record in store["orders"][0]] == [
            b"value-%d" % n + b"." * 100 for n in range(400)
        ]
    assert picture(root) == before


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_the_roots_of_brokers(tmp_path: Path, name: str) -> None:
    if not (GOLDEN / name).is_dir() or not any((GOLDEN / name).glob("*-0")):
        pytest.skip("no root")
    root = Path(shutil.copytree(GOLDEN / name, tmp_path / name))
    before = picture(root)
    ask_everything(tidelog.open(root, mode="r"))
    assert picture(root) == before


def test_answers_are_those_of_a_store_that_is_open_for_writing(tmp_path: Path) -> None:
    with tidelog.open(tmp_path, background=False) as store:
        fill(store)
        store["orders"][0].delete_records(35)
        store.checkpoint()
        with tidelog.open(tmp_path, mode="r") as seen:
            assert seen.topics.keys() == store.topics.keys()
            assert seen["orders"].topic_id == store["orders"].topic_id
            assert seen["orders"].config == store["orders"].config
            assert "orders" in seen
            assert "other" not in seen
            for ours, theirs in zip(seen.partitions, store.partitions, strict=True):
                assert ours.topic_partition == theirs.topic_partition
                assert ours.log_start_offset == theirs.log_start_offset
                assert ours.log_end_offset == theirs.log_end_offset
                assert ours.high_watermark == ours.last_stable_offset == theirs.log_end_offset
                assert list(ours) == list(theirs)
                assert list(ours.records(50, 120)) == list(theirs.records(50, 120))
                for offset in (ours.log_start_offset, 77, ours.log_end_offset - 1, ours.log_end_offset):
                    for size in (0, 10, 5_000, 1 << 20):
                        assert ours.read(offset, size).data == theirs.read(offset, size).data
                    assert ours.read_arrow(offset).equals(theirs.read_arrow(offset))
                for offset in (ours.log_start_offset, 99, ours.log_end_offset - 1):
                    record = theirs.read_record(offset)
                    assert record is not None
                    assert ours.read_record(offset) == replace(
                        record, topic="orders", partition=ours.topic_partition.partition
                    )
                for time_ms in (0, FIRST_MS + 33, FIRST_MS + 39, FIRST_MS + 10_000, *OffsetTarget):
                    assert ours.offset_for_timestamp(time_ms) == theirs.offset_for_timestamp(time_ms)
                moment = datetime.fromtimestamp((FIRST_MS + 240) / 1000, UTC)
                assert ours.offset_for(moment) == theirs.offset_for(moment)
                with pytest.raises(OffsetOutOfRangeError):
                    ours.read(ours.log_end_offset + 1)
            partition = seen["orders"][0]
            end = partition.log_end_offset
            store["orders"][0].append([Record(b"later")])
            assert partition.read_arrow(end, columns=["value"]).to_pylist() == [{"value": b"later"}]


def test_transactions(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    LogBuilder(path).records(10).transaction(7, records=5).transaction(
        7, records=3, commit=False
    ).transaction(8, records=2, commit=None).close()
    partition = tidelog.open(tmp_path, mode="r")["t"][0]
    offsets = [*range(15), *range(16, 19)]
    assert partition.last_stable_offset == 20
    assert [record.offset for record in partition] == [*offsets, 20, 21]
    committed = partition.records(isolation=FetchIsolation.TXN_COMMITTED)
    assert [record.offset for record in committed] == list(range(15))
    seen = partition.read_arrow(0, isolation=FetchIsolation.TXN_COMMITTED, columns=["offset"])
    assert seen.column(0).to_pylist() == list(range(15))


def test_what_is_sound_comes_before_damage(tmp_path: Path) -> None:
    path = LogBuilder(tmp_path / "t-0").records(50).close()
    log = path / f"{0:020}.log"
    third = scan_batches(log.read_bytes()).table.position[2]
    flip_bit(log, int(third) + 8, 7)  # its length
    partition = tidelog.open(tmp_path, mode="r")["t"][0]
    found = iter(partition)
    assert [next(found).offset for _ in range(partition.log_end_offset)] == list(
        range(partition.log_end_offset)
    )
    with pytest.raises(CorruptRecordError):
        next(found)
    with pytest.raises(CorruptRecordError):
        partition.read(partition.log_end_offset)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReadOnlyStore]:
    closed(tmp_path)
    with tidelog.open(tmp_path, mode="r") as store:
        yield store


@pytest.mark.parametrize(
    "name",
    [
        "create_topic",
        "create_partitions",
        "delete_topic",
        "alter_config",
        "move_partition",
        "truncate_partition",
        "flush",
        "checkpoint",
        "apply_retention",
        "clean",
        "run_due_tasks",
        "resume_moves",
    ],
)
def test_writing_is_refused(store: ReadOnlyStore, name: str) -> None:
    with pytest.raises(InvalidInputError, match="mode='r'"):
        getattr(store, name)("orders")
    partition = store["orders"][0]
    for write in (partition.append, partition.delete_records, partition.flush):
        with pytest.raises(InvalidInputError, match="mode='r'"):
            write(1)


def test_what_is_no_root(tmp_path: Path) -> None:
    closed(tmp_path / "root")
    for path, why in (
        (tmp_path / "nowhere", "does not exist"),
        (tmp_path / "root" / "meta.properties", "is not a directory"),
        (tmp_path / "root" / "orders-0", "is a partition"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            tidelog.open(path, mode="r")
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(InvalidInputError, match="mode is 'r'"):
        tidelog.open(tmp_path / "root", **{"mode": "x"})


def test_a_partition_in_two_roots_is_read_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        LogBuilder(tmp_path / name / "t-0").records(5).close()
    (tmp_path / "b" / "u-0.abababababababababababababababab-stray").mkdir()
    store = tidelog.open([tmp_path / "a", tmp_path / "b"], mode="r")
    assert [len(list(partition)) for partition in store.partitions] == [5]
    assert sorted(Path(one.path).name for one in store.skipped) == [
        "t-0",
        "u-0.abababababababababababababababab-stray",
    ]
