"""Very many small things through Spark: a million batches of one record, two thousand partitions."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import tidelog
import tidelog.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import Source

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

BATCHES = 1_000_000
KEYS = 50_000
AT_ONCE = 100_000
PARTITIONS = 2_000
NOW_MS = 1_800_000_000_000


def numbered(first: int, count: int) -> pa.RecordBatch:
    """Records whose values count up, with keys that come again."""
    numbers = pa.array(np.arange(first, first + count))
    return pa.record_batch(
        {
            "key": pc.cast(
                pc.cast(pa.array(np.arange(first, first + count) % KEYS), pa.string()), pa.binary()
            ),
            "value": pc.cast(pc.cast(numbers, pa.string()), pa.binary()),
            "timestamp": pa.array(
                np.full(count, NOW_MS - 1_000_000) + np.arange(count), pa.timestamp("ms", "UTC")
            ),
        }
    )


def numbers(table: pa.Table) -> np.ndarray[Any, Any]:
    return pc.cast(pc.cast(table["value"], pa.string()), pa.int64()).to_numpy()


@pytest.fixture(scope="module")
def many_batches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("batches")
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": 16 << 20,
        "message.timestamp.after.max.ms": 1 << 60,
    }
    with tidelog.open(root) as store:
        (partition,) = store.create_topic("events", config=config)
        for first in range(0, BATCHES, AT_ONCE):
            partition.append(numbered(first, AT_ONCE), max_batch_records=1)
        assert partition.log_end_offset == BATCHES
    return root


def test_a_million_batches_are_read(many_batches: Path, source: Source) -> None:
    frame = source(many_batches)
    found = frame.selectExpr(
        "count(*)", "count(distinct offset)", "sum(offset)", "max(offset)",
        "sum(case when cast(cast(value as string) as bigint) = offset then 0 else 1 end)",
    ).first()  # fmt: skip
    assert found is not None
    assert tuple(found) == (BATCHES, BATCHES, BATCHES * (BATCHES - 1) // 2, BATCHES - 1, 0)
    some = source(
        many_batches, startingOffsets='{"events":{"0":777777}}', endingOffsets='{"events":{"0":777800}}'
    )
    assert [row.offset for row in some.select("offset").collect()] == list(range(777777, 777800))


def test_a_million_batches_are_streamed(many_batches: Path, spark: SparkSession, tmp_path: Path) -> None:
    stream = spark.readStream.format("tidelog").option("startingOffsets", "earliest")
    frame = stream.option("maxOffsetsPerTrigger", 300_000).load(str(many_batches)).select("offset", "value")
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    assert query.awaitTermination(600)
    assert [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]] == [300_000] * 3 + [
        100_000
    ]
    found = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert np.array_equal(np.sort(found["offset"].to_numpy()), np.arange(BATCHES))
    assert np.array_equal(numbers(found), found["offset"].to_numpy())


def test_a_million_batches_are_exported(many_batches: Path, spark: SparkSession, tmp_path: Path) -> None:
    tidelog.spark.export(spark, many_batches, tmp_path / "out", include_headers=False)
    found = ds.dataset(tmp_path / "out", partitioning="hive").to_table(columns=["offset", "value"])
    assert np.array_equal(np.sort(found["offset"].to_numpy()), np.arange(BATCHES))
    assert np.array_equal(numbers(found), found["offset"].to_numpy())


def test_a_million_batches_are_compacted(many_batches: Path, spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "copy"
    shutil.copytree(many_batches, root)
    tidelog.spark.compact(spark, root, now_ms=NOW_MS)
    with tidelog.open(root, mode="r") as store:
        assert store["events"][0].log_end_offset == BATCHES
    found = tidelog.scan(root, "events", columns=["offset", "key", "value"]).read_all()
    assert np.array_equal(numbers(found), found["offset"].to_numpy())
    newest = found.group_by("key").aggregate([("offset", "max")])
    assert len(newest) == KEYS
    assert pc.min(newest["offset_max"]).as_py() == BATCHES - KEYS
    assert len(found) < BATCHES, "nothing was removed"


def test_two_thousand_partitions(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    rows = spark.range(0, 5 * PARTITIONS, 1, 8).selectExpr(
        f"cast(id % {PARTITIONS} as int) partition", "cast(id as string) value"
    )
    options = {"topic": "wide", "partitions": PARTITIONS}
    for _ in range(2):
        rows.write.format("tidelog").options(**options).mode("append").save(str(tmp_path / "root"))
    frame = source(tmp_path / "root")
    assert frame.rdd.getNumPartitions() < PARTITIONS / 10
    found = frame.select("partition", "offset", "value").toArrow()
    assert len(found) == 10 * PARTITIONS
    by_partition = found.group_by("partition").aggregate(
        [("offset", "min"), ("offset", "max"), ("offset", "count")]
    )
    assert len(by_partition) == PARTITIONS
    assert set(by_partition["offset_min"].to_pylist()) == {0}
    assert set(by_partition["offset_max"].to_pylist()) == {9}
    assert set(by_partition["offset_count"].to_pylist()) == {10}
    assert np.array_equal(numbers(found) % PARTITIONS, found["partition"].to_numpy())
    counted = frame.groupBy("topic").count().collect()
    assert [(row.topic, row["count"]) for row in counted] == [("wide", 10 * PARTITIONS)]
