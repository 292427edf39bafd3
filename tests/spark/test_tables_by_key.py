"""`export --by-key`: a table with the last record of each key, whatever the order and size of runs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import tidelog
from tests.golden import GOLDEN
from tests.spark.test_tables import Kind, data_files, kind, rows
from tidelog.errors import DataLossError, InvalidInputError, LogLockedError
from tidelog.records import Record
from tidelog.spark.exporting.by_key import buckets_of, last_by_key

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

__all__ = ["kind"]


def append(root: Path, partition: int, changes: list[tuple[bytes | None, bytes | None]]) -> None:
    with tidelog.open(root, background=False) as store:
        if "events" not in store.topics:
            store.create_topic("events", 2)
        store.topic("events")[partition].append([Record(value, key=key) for key, value in changes])


def last_values(root: Path) -> dict[tuple[int, bytes], bytes]:
    """By a loop over the topic."""
    found: dict[tuple[int, bytes], bytes | None] = {}
    for row in tidelog.scan(root, topics=["events"]).read_all().to_pylist():
        found[row["partition"], row["key"]] = row["value"]
    return {place: value for place, value in found.items() if value is not None}


def values(kind: Kind) -> dict[tuple[int, bytes], bytes]:
    there = kind.read().to_pylist()
    found = {(row["partition"], row["key"]): row["value"] for row in there}
    assert len(found) == len(there), "a key has one row"
    return found


def test_runs_of_any_size_leave_the_last_value_of_each_key(spark: SparkSession, kind: Kind) -> None:
    dice, log = random.Random(7), kind.directory / "log"
    for run in range(4):
        for partition in range(2):
            changes: list[tuple[bytes | None, bytes | None]] = []
            for _ in range(dice.choice([0, 3, 60])):
                key = b"key-%d" % dice.randint(0, 20 + 20 * run)
                changes.append((key, None if dice.random() < 0.3 else b"%d %d" % (run, dice.randint(0, 99))))
            append(log, partition, changes or [(b"x", b"%d" % run)])
        kind.export(spark, log, by_key=True, buckets=4)
        assert values(kind) == last_values(log), run
    assert kind.export(spark, log, by_key=True).count() == 0
    assert kind.open().buckets == 4
    found = rows(kind.polars().collect().to_arrow())
    assert {(row["partition"], row["key"]): row["value"] for row in found} == last_values(log)
    assert not list((kind.location / "_tidelog/runs").iterdir()), "nothing is left beside the table"


def test_golden_topics_by_key(spark: SparkSession, kind: Kind) -> None:
    """Transactions that were aborted never show."""
    topics = ["golden-compact", "golden-txncompact"]
    kind.export(spark, GOLDEN / "clean", topics=topics, by_key=True)
    there = kind.read().to_pylist()
    read = spark.read.format("tidelog").option("kafka.isolation.level", "read_committed")
    frame = read.option("subscribe", ",".join(topics)).load(str(GOLDEN / "clean")).toArrow().to_pylist()
    last = {(row["topic"], row["key"]): row for row in sorted(frame, key=lambda row: row["offset"])}
    assert {(row["topic"], row["key"]): (row["offset"], row["value"]) for row in there} == {
        place: (row["offset"], row["value"]) for place, row in last.items() if row["value"] is not None
    }
    assert len(there) > 0


def test_only_files_with_older_rows_are_rewritten(spark: SparkSession, kind: Kind) -> None:
    log = kind.directory / "log"
    append(log, 0, [(b"key-%d" % n, b"0") for n in range(50)])
    kind.export(spark, log, by_key=True, buckets=4)
    before = {file.name for file in kind.open().files()}
    assert len(before) == 4
    append(log, 0, [(b"key-7", b"1")])
    kind.export(spark, log, by_key=True)
    after = {file.name for file in kind.open().files()}
    assert len(before - after) == 1
    append(log, 0, [(b"new", b"2")])
    kind.export(spark, log, by_key=True)
    assert after < {file.name for file in kind.open().files()}, "a new key rewrites nothing"
    append(log, 0, [(b"key-%d" % n, None) for n in range(50)])
    kind.export(spark, log, by_key=True)
    assert values(kind) == {(0, b"new"): b"2"}


def test_json_values_and_new_fields(spark: SparkSession, kind: Kind) -> None:
    log = kind.directory / "log"
    append(log, 0, [(b"a", b'{"id":1}'), (b"b", b'{"id":2}'), (b"c", b"broken")])
    kind.export(spark, log, by_key=True, value_format="json", buckets=1)
    append(log, 0, [(b"b", b'{"id":3,"new":"x"}')])
    kind.export(spark, log, by_key=True, value_format="json", evolve=True)
    found = {row["key"]: row for row in kind.read().to_pylist()}
    assert found[b"a"]["value"] == {"id": 1, "new": None}
    assert found[b"b"]["value"] == {"id": 3, "new": "x"}
    assert found[b"c"]["value_invalid"] == b"broken", "what does not decode is no tombstone"


def test_what_is_refused(spark: SparkSession, kind: Kind) -> None:
    log = kind.directory / "log"
    append(log, 0, [(b"a", b"1")])
    with pytest.raises(InvalidInputError, match="has committed records only"):
        kind.export(spark, log, by_key=True, isolation="read_uncommitted")
    with pytest.raises(InvalidInputError, match="is partitioned by topic, partition and bucket"):
        kind.export(spark, log, by_key=True, partition_by=["topic"])
    kind.export(spark, log, by_key=True)
    with pytest.raises(InvalidInputError, match="has the last record of each key: export with --by-key"):
        kind.export(spark, log)
    append(log, 0, [(b"b", b"2"), (None, b"3")])
    with pytest.raises(InvalidInputError, match="the record at offset 2 of events-0 has no key"):
        kind.export(spark, log, by_key=True)
    with tidelog.open(log, background=False) as store:
        store.delete_topic("events")
    append(log, 0, [(b"a", b"4")])
    with pytest.raises(DataLossError, match="was deleted and created anew"):
        kind.export(spark, log, by_key=True)
    with pytest.raises(InvalidInputError, match="has rows of the old one by key: export to another table"):
        kind.export(spark, log, by_key=True, fail_on_data_loss=False)
    assert values(kind) == {(0, b"a"): b"1"}


def test_files_that_others_have_rewritten_are_not_replaced(spark: SparkSession, kind: Kind) -> None:
    log = kind.directory / "log"
    append(log, 0, [(b"a", b"1"), (b"b", b"1")])
    kind.export(spark, log, by_key=True, buckets=1)
    mine = kind.open()
    (file,) = mine.files()
    before = mine.done({})
    append(log, 0, [(b"a", b"2")])
    kind.export(spark, log, by_key=True)
    with pytest.raises(LogLockedError, match=r"another writer has changed files of .*; nothing was added"):
        kind.open().append("data/x", [], before, before, [file.name])
    assert values(kind) == {(0, b"a"): b"2", (0, b"b"): b"1"}
    assert len(data_files(kind)) == 2


def test_the_last_of_each_key_is_found_by_offset() -> None:
    table = pa.table({"key": [b"a", b"b", b"a", b"b"], "offset": [5, 9, 7, 2]})
    found = last_by_key(table).to_pylist()
    assert sorted((row["key"], row["offset_max"]) for row in found) == [(b"a", 7), (b"b", 9)]


def test_keys_of_one_partition_spread_over_all_buckets() -> None:
    keys = pa.array([b"key-%d" % n for n in range(4000)])
    counts = [list(buckets_of(keys, 16)).count(bucket) for bucket in range(16)]
    assert min(counts) > 180
    from tidelog.manager.publishing.partitioner import hash_keys

    of_one = keys.filter(pa.array((hash_keys(keys) & 0x7FFFFFFF) % 16 == 3))
    assert len(set(buckets_of(of_one, 16).tolist())) == 16


def test_a_file_that_cannot_be_taken_out_of_a_delta_table_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """deltalake escapes a name with escapes once more, and removes nothing: a key would have two rows."""
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

    kind = Kind("delta", tmp_path)
    append(kind.directory / "log", 0, [(b"a", b"1")])
    kind.export(spark, kind.directory / "log", by_key=True, buckets=1)
    table = DeltaTable(kind.target)
    (row,) = pa.table(table.get_add_actions()).to_pylist()
    name = "by others%20.parquet"
    (kind.location / row["path"]).rename(kind.location / name)
    partition = {column: str(value) for column, value in row["partition"].items()}
    remove = RemoveAction(row["path"], True, 0, row["size_bytes"], partition)
    add = AddAction(name, row["size_bytes"], partition, 0, True, "{}")
    table.create_write_transaction([remove, add], "append", table.schema(), list(partition))
    append(kind.directory / "log", 0, [(b"a", b"2")])
    with pytest.raises(InvalidInputError, match=r"whose names have escapes, such as by.*others"):
        kind.export(spark, kind.directory / "log", by_key=True)
    assert kind.read()["value"].to_pylist() == [b"1"]
