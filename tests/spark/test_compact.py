"""Compaction, retention and trimming on Spark leave what the local commands leave, file by file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidelog
import tidelog.spark
from tidelog.errors import InvalidInputError, UncleanShutdownError
from tidelog.manager.upkeep.compacting import Compaction, compact_at_rest
from tidelog.records import Record
from tidelog.storage import LOCAL
from tidelog.storage.lock import RootLock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = 1_700_000_000_000
COMPACTED = {"cleanup.policy": "compact", "internal.segment.bytes": 4000, "retention.ms": -1}


def make_root(root: Path) -> None:
    """Two compacted topics and one that is not, with tombstones and an aborted transaction's records."""
    with tidelog.open(root) as store:
        store.create_topic("a", 3, COMPACTED)
        store.create_topic("b", 1, COMPACTED)
        store.create_topic("plain", 1, {"internal.segment.bytes": 4000, "retention.ms": -1})
        for partition in store.partitions:
            for start in range(0, 900, 30):
                partition.append(
                    [
                        Record(
                            None if n % 31 == 0 else f"{n}".encode() * 4,
                            f"k{n % 97}".encode(),
                            timestamp=NOW - 10_000 + n,
                        )
                        for n in range(start, start + 30)
                    ]
                )
        store.partition("b").append([Record(b"mine", b"p")], producer_id=7, producer_epoch=0, base_sequence=0)


def files(root: Path) -> dict[str, bytes]:
    """What matters of a root: its logs, indexes and checkpoints."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex") or path.name.endswith("checkpoint")
        if path.is_file() and path.name != "bootstrap.checkpoint"
    }


def same_files(one: Path, two: Path) -> bool:
    ours, theirs = files(one), files(two)
    wanted = (".log", ".index", ".timeindex", "cleaner-offset-checkpoint", "start-offset-checkpoint")
    assert [name for name in ours if name.endswith(wanted)] == [
        name for name in theirs if name.endswith(wanted)
    ]
    for name, data in theirs.items():
        if name.endswith("checkpoint"):
            assert sorted(ours[name].split(b"\n")) == sorted(data.split(b"\n")), name
        elif name.endswith(wanted):
            assert ours[name] == data, name
    return True


@pytest.mark.parametrize("most", [None, 9000])
def test_compaction_leaves_what_the_local_command_leaves(
    most: int | None, spark: SparkSession, tmp_path: Path
) -> None:
    """Partitions whole, and in parts."""
    make_root(tmp_path / "local")
    shutil.copytree(tmp_path / "local", tmp_path / "spark")
    names = tuple(path.name for path in (tmp_path / "local").iterdir() if path.is_dir())
    request = Compaction(LOCAL, str(tmp_path / "local"), names, NOW)
    local = {done.partition: done for done in compact_at_rest(request)}
    planned = tidelog.spark.compact(spark, tmp_path / "spark", now_ms=NOW, dry_run=True).toArrow().to_pylist()
    told: list[tuple[int, int]] = []
    frame = tidelog.spark.compact(
        spark,
        tmp_path / "spark",
        now_ms=NOW,
        max_bytes_per_task=most,
        report=lambda *now: told.append(now),
    )
    found = frame.toArrow().to_pylist()
    assert told[-1][0] == told[-1][1] == max(total for _, total in told)
    assert {(row["topic"], row["partition"]) for row in found} == {("a", 0), ("a", 1), ("a", 2), ("b", 0)}
    assert len(planned) == 4
    by_name = {(name.topic, name.partition): done for name, done in local.items()}
    for row in found:
        done = by_name[row["topic"], row["partition"]]
        assert done.report is not None
        assert row["end_offset"] == done.end_offset
        assert (row["segments"], row["bytes"]) == (done.segments, done.size_bytes)
        assert row["records_read"] == done.report.records_read
        assert row["records_kept"] == done.report.stats.records_kept
    assert same_files(tmp_path / "spark", tmp_path / "local")
    assert not list((tmp_path / ".tidelog-staging-spark").iterdir())
    again = tidelog.spark.compact(spark, tmp_path / "spark", now_ms=NOW)
    assert sum(row["records_read"] for row in again.toArrow().to_pylist()) <= 4
    with tidelog.open(tmp_path / "spark") as store:
        assert not store.offline_partitions
        assert len(store.partition("plain").log.segments) > 5


def test_a_dry_run_counts_what_is_rolled_first(spark: SparkSession, tmp_path: Path) -> None:
    """All of it is in the active segment, which a real run rolls."""
    with tidelog.open(tmp_path / "root") as store:
        store.create_topic("t", 1, {"cleanup.policy": "compact"})
        store.partition("t").append([Record(b"v", b"k", timestamp=NOW)] * 9)
    (planned,) = tidelog.spark.compact(spark, tmp_path / "root", dry_run=True).toArrow().to_pylist()
    (done,) = tidelog.spark.compact(spark, tmp_path / "root").toArrow().to_pylist()
    for name in ("first_dirty_offset", "end_offset", "segments_before", "bytes_before"):
        assert planned[name] == done[name], name
    assert done["end_offset"] == 9


def test_a_dry_run_only_looks(spark: SparkSession, tmp_path: Path) -> None:
    """Not even an unclean log is recovered, nor the root waited for that somebody holds."""
    make_root(tmp_path / "root")
    (tmp_path / "root" / ".kafka_cleanshutdown").unlink()
    lock = RootLock(tmp_path / "root")
    before = {path: path.read_bytes() for path in (tmp_path / "root").rglob("*") if path.is_file()}
    try:
        planned = tidelog.spark.compact(spark, tmp_path / "root", topics=["a"], now_ms=NOW, dry_run=True)
        assert planned.count() == 3
        with pytest.raises(InvalidInputError, match="plain is not compacted"):
            tidelog.spark.compact(spark, tmp_path / "root", topics=["plain"], dry_run=True)
        with pytest.raises(InvalidInputError, match="no topic nobody"):
            tidelog.spark.compact(spark, tmp_path / "root", topics=["nobody"], dry_run=True)
    finally:
        lock.release()
    after = {path: path.read_bytes() for path in (tmp_path / "root").rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize("most", [None, 1])
def test_segments_that_stay_between_some_that_change_stay(
    most: int | None, spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    config = COMPACTED | {"min.cleanable.dirty.ratio": 0}
    with tidelog.open(root) as store:
        store.create_topic("t", 1, config)
        partition = store.partition("t")
        for keys in (("a", "x"), ("b", "c"), ("a", "d"), ("e", "f"), ("d", "g")):
            partition.append([Record(b"v" * 1500, key.encode(), timestamp=NOW) for key in keys])
            partition.log.roll()
    shutil.copytree(root, tmp_path / "local")
    list(compact_at_rest(Compaction(LOCAL, str(tmp_path / "local"), ("t-0",), NOW)))
    tidelog.spark.compact(spark, root, now_ms=NOW, max_bytes_per_task=most)
    assert same_files(root, tmp_path / "local")
    with tidelog.open(root) as store:
        assert sorted(record.key for record in store.partition("t")) == [key.encode() for key in "abcdefgx"]


def test_a_topic_that_is_not_compacted_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    make_root(tmp_path / "root")
    before = files(tmp_path / "root")
    with pytest.raises(InvalidInputError, match="plain is not compacted"):
        tidelog.spark.compact(spark, tmp_path / "root", topics=["plain"])
    assert files(tmp_path / "root") == before


def make_old(root: Path) -> None:
    with tidelog.open(root) as store:
        store.create_topic("old", 3, {"internal.segment.bytes": 2000, "retention.bytes": 5000})
        store.create_topic("kept", 1, {"internal.segment.bytes": 2000, "retention.ms": -1})
        for partition in store.partitions:
            for start in range(0, 200, 10):
                partition.append(
                    [Record(b"v" * 40, b"k", timestamp=1000 * n) for n in range(start, start + 10)]
                )


def test_retention_leaves_what_the_local_command_leaves(spark: SparkSession, tmp_path: Path) -> None:
    make_old(tmp_path / "local")
    shutil.copytree(tmp_path / "local", tmp_path / "spark")
    with tidelog.open(tmp_path / "local") as store:
        local = dict(store.apply_retention())
    before = files(tmp_path / "spark")
    planned = tidelog.spark.retention(spark, tmp_path / "spark", dry_run=True).toArrow().to_pylist()
    assert files(tmp_path / "spark") == before
    found = tidelog.spark.retention(spark, tmp_path / "spark").toArrow().to_pylist()
    assert [(row["topic"], row["partition"], row["base_offset"]) for row in found] == [
        (name.topic, name.partition, one.base_offset)
        for name, plan in sorted(local.items())
        for one in plan.deletions
    ]
    assert len(planned) == len(found) > 10
    assert {row["topic"] for row in found} == {"old"}
    assert same_files(tmp_path / "spark", tmp_path / "local")


def test_trimming_leaves_what_the_local_command_leaves(spark: SparkSession, tmp_path: Path) -> None:
    from tidelog.manager.upkeep.trimming import trim

    make_old(tmp_path / "local")
    shutil.copytree(tmp_path / "local", tmp_path / "spark")
    with tidelog.open(tmp_path / "local") as store:
        for partition in store.topic("kept"):
            trim(partition, 77)  # its first record that is not older
    before = files(tmp_path / "spark")
    options = {"topics": ["kept"], "before_ms": 77_000}
    planned = tidelog.spark.trim(spark, tmp_path / "spark", dry_run=True, **options).toArrow().to_pylist()
    assert files(tmp_path / "spark") == before
    found = tidelog.spark.trim(spark, tmp_path / "spark", **options).toArrow().to_pylist()
    assert found == planned
    assert [(row["topic"], row["new_log_start_offset"]) for row in found] == [("kept", 77)]
    assert same_files(tmp_path / "spark", tmp_path / "local")
    with pytest.raises(InvalidInputError, match="no topic 'gone'"):
        tidelog.spark.trim(spark, tmp_path / "spark", topics=["gone"], before_offset=1)
    with pytest.raises(InvalidInputError, match="either before_offset or before_ms"):
        tidelog.spark.trim(spark, tmp_path / "spark")


def test_trimming_goes_by_what_recovery_leaves(spark: SparkSession, tmp_path: Path) -> None:
    """A root that was not closed cleanly is refused; recovery first takes a broken last batch away."""
    make_old(tmp_path / "root")
    (tmp_path / "root" / ".kafka_cleanshutdown").unlink()
    (tmp_path / "root" / "recovery-point-offset-checkpoint").unlink()
    last = max((tmp_path / "root" / "old-1").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-1] + b"?")
    before = last.read_bytes()
    with pytest.raises(UncleanShutdownError, match="tidelog recover"):
        tidelog.spark.trim(spark, tmp_path / "root", before_ms=1 << 50)
    assert last.read_bytes() == before
    tidelog.open(tmp_path / "root", recover=True).close()
    found = tidelog.spark.trim(spark, tmp_path / "root", before_ms=1 << 50).toArrow().to_pylist()
    assert {(row["topic"], row["partition"]): row["new_log_start_offset"] for row in found} == {
        ("kept", 0): 200,
        ("old", 0): 200,
        ("old", 1): 190,
        ("old", 2): 200,
    }
