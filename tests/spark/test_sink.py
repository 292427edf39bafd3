"""Batch writes: what goes in comes out, where Kafka would have put it; bad input leaves nothing."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tests.spark.conftest import Source, rows
from tests.waiting import wait_until
from tidelog.records import Record
from tidelog.storage.lock import RootLock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def save(df: DataFrame, root: Path, mode: str = "append", **options: Any) -> None:
    writer = df.write.format("tidelog").mode(mode)
    for name, value in options.items():
        writer = writer.option(name.replace("__", "."), value)
    writer.save(str(root))


def numbers(spark: SparkSession, count: int, tasks: int = 2, start: int = 0) -> DataFrame:
    df = spark.range(start, start + count, 1, tasks)
    return df.selectExpr("cast(concat('k', id) as binary) key", "cast(id as string) value")


def values(source: Source, root: Path, **options: Any) -> list[tuple[int, int, str]]:
    found = rows(source(root, **options))
    return [(row["partition"], row["offset"], row["value"].decode()) for row in found]


def nothing_is_staged(root: Path) -> bool:
    """Whether no file is; a task that was still running when its job failed sweeps behind itself."""
    staging = root.parent / f".tidelog-staging-{root.name}"
    wait_until(lambda: not any(path.is_file() for path in staging.rglob("*")), "sweeping")
    return True


def test_every_row_is_written_once_and_in_order(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    root = tmp_path / "root"
    save(numbers(spark, 1000), root, topic="t", partitions=3)
    save(numbers(spark, 500, start=1000), root, topic="t")
    found = values(source, root)
    assert sorted(int(value) for _, _, value in found) == list(range(1500))
    for partition in range(3):
        mine = [(offset, int(value)) for number, offset, value in found if number == partition]
        assert [offset for offset, _ in mine] == list(range(len(mine)))
        # The tasks' rows follow each other, each task's in its order.
        assert [value for _, value in mine] == sorted(value for _, value in mine)
    assert nothing_is_staged(root)
    assert (root / ".kafka_cleanshutdown").exists()


def test_keys_go_where_kafkas_producer_puts_them(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    # From Kafka's own tests of Utils.murmur2.
    known = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}
    df = spark.createDataFrame([(key, key) for key in known], "key string, value string")
    save(df, tmp_path / "root", topic="t", partitions=7)
    for partition, _, value in values(source, tmp_path / "root"):
        assert partition == (known[value] & 0x7FFFFFFF) % 7


def test_columns_choose_topic_partition_time_and_headers(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    schema = (
        "topic string, partition int, key binary, value binary, timestamp timestamp, offset bigint, "
        "headers array<struct<key:string,value:binary>>"
    )
    when = datetime(2024, 5, 6, 7, 8, 9, 123_000, UTC)
    written = [
        ("a", 1, b"k", b"one", when, 99, [("h", b"v"), ("h", None)]),
        ("a", None, None, None, None, 99, None),
        ("b", 0, None, b"two", when, 99, []),
    ]
    before = datetime.now(UTC)
    save(spark.createDataFrame(written, schema), tmp_path / "root", partitions=2)
    found = rows(source(tmp_path / "root", includeHeaders="true"))
    one, two = found[[row["value"] for row in found].index(b"one")], found[-1]
    assert (one["topic"], one["partition"], one["key"], one["timestamp"]) == ("a", 1, b"k", when)
    assert one["headers"] == [{"key": "h", "value": b"v"}, {"key": "h", "value": None}]
    assert (two["topic"], two["partition"], two["value"], two["offset"]) == ("b", 0, b"two", 0)
    tombstone = next(row for row in found if row["value"] is None)
    assert before.replace(microsecond=0) <= tombstone["timestamp"] <= datetime.now(UTC)


def test_the_option_topic_goes_before_the_column(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    save(numbers(spark, 3).selectExpr("*", "'column' topic"), tmp_path / "root", topic="option")
    assert {row["topic"] for row in rows(source(tmp_path / "root"))} == {"option"}


def test_rows_without_a_key_are_spread_the_same_way_again(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    df = numbers(spark, 100, tasks=3).select("value")
    for name in ("one", "two"):
        save(df, tmp_path / name, topic="t", partitions=4)
    assert values(source, tmp_path / "one") == values(source, tmp_path / "two")
    counts = [sum(number == p for number, _, _ in values(source, tmp_path / "one")) for p in range(4)]
    assert max(counts) - min(counts) <= 3


def test_topics_are_made_with_kafkas_keys(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "root"
    save(numbers(spark, 10), root, topic="t", partitions=2, cleanup__policy="compact", segment__bytes=2 << 20)
    with tidelog.open(root) as store:
        assert len(store.topic("t")) == 2
        assert store.topic("t").config == {"cleanup.policy": "compact", "segment.bytes": str(2 << 20)}


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_as_asked(
    spark: SparkSession, source: Source, tmp_path: Path, codec: str
) -> None:
    save(numbers(spark, 300), tmp_path / "root", topic="t", kafka__compression__type=codec)
    assert len(values(source, tmp_path / "root")) == 300
    found = rows(source(tmp_path / "root", includeBatchFacts="true"))
    assert {row["codec"] for row in found} == {codec}


def test_overwrite_raises_the_log_start_of_its_topics_only(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    save(numbers(spark, 20), root, topic="mine", partitions=2)
    save(numbers(spark, 5), root, topic="other")
    before = {row["partition"]: row["offset"] for row in rows(source(root, subscribe="mine"))}
    save(numbers(spark, 4, start=100), root, "overwrite", topic="mine")
    found = rows(source(root, subscribe="mine"))
    assert sorted(row["value"] for row in found) == [b"100", b"101", b"102", b"103"]
    assert all(row["offset"] > before[row["partition"]] for row in found)
    assert len(values(source, root, subscribe="other")) == 5
    with tidelog.open(root) as store:
        for partition in store.topic("mine"):
            assert partition.log_start_offset == before[partition.topic_partition.partition] + 1


def test_a_write_under_the_same_id_adds_nothing(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for _ in range(2):
        save(numbers(spark, 10), root, topic="t", writeId="monday")
    assert len(values(source, root)) == 10
    save(numbers(spark, 10), root, topic="t", writeId="tuesday")
    assert len(values(source, root)) == 20
    assert nothing_is_staged(root)


def test_it_appends_behind_what_others_wrote_in_the_same_epoch(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "root"
    with tidelog.open(root) as store:
        store.create_topic("t")
        store.partition("t").append([Record(b"first")], leader_epoch=5)
    save(numbers(spark, 3, tasks=1), root, topic="t")
    with tidelog.open(root) as store:
        log = store.partition("t").log
        assert log.log_end_offset == 4
        last = log.read_record(3)
        assert last is not None
        assert last.value == b"2"
        assert log.latest_epoch == 5


# ---- bad input


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (["'../../etc' topic", "'v' value"], {}, ["../../etc", "characters other than"]),
        (["'..' topic", "'v' value"], {}, ["'..'"]),
        (["'a b' topic", "'v' value"], {}, ["'a b'"]),
        (["cast(null as string) topic", "'v' value"], {}, ["without a topic"]),
        (["'__cluster_metadata' topic", "'v' value"], {}, ["__cluster_metadata"]),
        (["7 partition", "'v' value"], {"topic": "t", "partitions": 2}, ["'t' has 2 partitions", "7"]),
        (["-1 partition", "'v' value"], {"topic": "t", "partitions": 2}, ["'t' has 2 partitions", "-1"]),
        (["null value"], {"topic": "t"}, ["'value'", "void"]),
        (["'v' val"], {"topic": "t"}, ["'value' is missing"]),
        (["'v' value"], {}, ["name a topic"]),
        (["1 value"], {"topic": "t"}, ["'value'", "int"]),
        (["'v' value"], {"topic": "t", "retention.m": 1}, ["retention.m", "retention.ms"]),
        (["'v' value"], {"topic": "t", "retention.ms": "x"}, ["retention.ms"]),
        (["repeat('v', 3000) value"], {"topic": "t", "max.message.bytes": 2000}, ["topic t", "2000"]),
        (["'v' value"], {"topic": "t", "cleanup.policy": "compact"}, ["topic t", "without a key"]),
        (
            ["'v' value", "timestamp'2999-01-01' timestamp"],
            {"topic": "t"},
            ["topic t", "message.timestamp.after.max.ms"],
        ),
    ],
)
def test_bad_input_is_refused_and_leaves_nothing(
    spark: SparkSession, tmp_path: Path, columns: list[str], options: dict[str, Any], words: list[str]
) -> None:
    root = tmp_path / "root"
    good = {"topic": "good"}
    save(numbers(spark, 4), root, **good)
    before = sorted(path.name for path in root.iterdir())
    writer = spark.range(4).selectExpr(*columns).write.format("tidelog").mode("append")
    with pytest.raises(Exception, match=r"(?s)tidelog\.errors") as caught:
        writer.options(**options).save(str(root))
    for word in words:
        assert word in str(caught.value)
    assert sorted(path.name for path in root.iterdir()) == before
    assert nothing_is_staged(root)


def test_partitions_are_what_topics_are_made_with(spark: SparkSession, tmp_path: Path) -> None:
    save(numbers(spark, 4), tmp_path / "root", topic="t", partitions=2)
    save(numbers(spark, 4), tmp_path / "root", topic="t", partitions=3)
    save(numbers(spark, 4), tmp_path / "root", topic="u", partitions=3)
    with tidelog.open(tmp_path / "root") as store:
        assert [len(store.topic(name)) for name in ("t", "u")] == [2, 3]
        assert sum(partition.log_end_offset for partition in store.topic("t")) == 8


def test_a_root_that_this_application_holds_is_refused_with_the_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    with tidelog.open(tmp_path / "root"), pytest.raises(Exception, match="this very application"):
        save(numbers(spark, 4), tmp_path / "root", topic="t")


def test_a_root_held_by_another_process_is_waited_for_then_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    code = "import sys\nfrom tidelog.storage.lock import RootLock\nlock = RootLock(sys.argv[1])\n"
    code += "print('held', flush=True)\nsys.stdin.read()\n"
    command = [sys.executable, "-c", code, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(Exception, match=f"in use by process {holder.pid}"):
            save(numbers(spark, 4), root, topic="t", lockTimeout="300ms")
        assert holder.stdin is not None
        holder.stdin.close()
        holder.wait()
        save(numbers(spark, 4), root, topic="t")
    RootLock(root).release()
