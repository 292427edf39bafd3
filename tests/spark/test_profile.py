"""`profile`: the counts are those of Kafka's own records, wherever splits begin."""

from __future__ import annotations

import base64
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import tidelog.spark
from tests.golden import GOLDEN, GoldenPartition, golden_partition
from tests.scanning import expected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("golden-none-0", "golden-outoforder-0", "golden-txn-0", "golden-trimmed-0")
HOUR_MS = 3_600_000


def profiled(spark: SparkSession, **keywords: Any) -> dict[tuple[str, datetime], dict[str, Any]]:
    topics = [name[:-2] for name in NAMES]
    rows = tidelog.spark.profile(spark, GOLDEN / "clean", topics=topics, **keywords).toArrow().to_pylist()
    return {(row["topic"], row["hour"]): row | {"codecs": dict(row["codecs"])} for row in rows}


def counted(golden: GoldenPartition) -> dict[tuple[str, datetime], dict[str, Any]]:
    """The same from Kafka's records, the simple way."""
    before: int | None = None
    hours: dict[int, dict[str, Any]] = {}
    for record in golden.records():
        if record["control"]:
            continue
        time = record["timestamp"]
        step = 0 if before is None else before - time
        before = time
        if record["offset"] < golden.log_start:
            continue
        key, value = (base64.b64decode(record[name] or "") for name in ("key", "value"))
        row = hours.setdefault(time // HOUR_MS, {"records": 0, "bytes": 0, "null_keys": 0, "keys": set()})
        row["records"] += 1
        row["bytes"] += len(key) + len(value)
        row["null_keys"] += record["key"] is None
        row["keys"] |= {key} if record["key"] is not None else set()
        row["out_of_order"] = row.get("out_of_order", 0) + (step > 0)
        row["largest_step_back_ms"] = max(row.get("largest_step_back_ms", 0), step, 0)
        row["largest_bytes"] = max(row.get("largest_bytes", 0), len(key) + len(value))
    topic = golden.name[:-2]
    return {(topic, datetime.fromtimestamp(hour * 3600, UTC)): row for hour, row in hours.items()}


def test_counts_are_those_of_kafkas_records(spark: SparkSession) -> None:
    found = profiled(spark)
    wanted = {place: row for name in NAMES for place, row in counted(golden_partition(name)).items()}
    assert found.keys() == wanted.keys()
    for place, row in wanted.items():
        keys = row.pop("keys")
        assert {name: found[place][name] for name in row} == row, place
        assert found[place]["distinct_keys"] == len(keys)
    golden = golden_partition("golden-none-0")
    batches = Counter(record["base_offset"] for record in expected.records(golden))
    mine = [row for (topic, _), row in found.items() if topic == "golden-none"]
    assert sum(row["batches"] for row in mine) == len(batches)
    assert sum(row["batch_bytes"] for row in mine) == sum(log.stat().st_size for log in golden.logs())
    assert {codec for row in mine for codec in row["codecs"]} == {"none"}


def test_where_splits_begin_changes_nothing(spark: SparkSession) -> None:
    assert profiled(spark, max_bytes_per_split=9_000) == profiled(spark)
