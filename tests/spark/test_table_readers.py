"""Tables as others read them: delta-spark, Iceberg's Spark runtime, and DuckDB; rows equal the topic's.

The Spark readers run in a process of their own, on the newest PySpark that each supports. Packages and jars
are kept beside Kafka's jars.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from deltalake import DeltaTable

import tidelog
from tests.golden import GOLDEN
from tests.spark.connector import copy_jars, pyspark_of, run_script
from tests.spark.test_tables import Kind
from tests.spark.test_tables_by_key import append, last_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT_S = 600.0
TOPICS = ["golden-none", "golden-txn", "golden-zstd"]
PYSPARK = {"delta": "4.2.1", "iceberg": "4.1.4"}
JARS = {
    "delta": ("io.delta:delta-spark_4.2_2.13:4.4.0", "io.delta:delta-storage:4.4.0"),
    "iceberg": (
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        "org.xerial:sqlite-jdbc:3.50.3.0",
    ),
}
READ = """
import json, sys
from pyspark.sql import SparkSession

settings, table, how = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
builder = SparkSession.builder.master("local[2]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
frame = spark.read.format("delta").load(table) if how == "delta" else spark.table(table)
found = frame.selectExpr("topic", "partition", "offset", "hex(key)", "hex(value)", "unix_millis(timestamp)")
late = frame.where("timestamp > timestamp '2020-01-01 00:00:00'").count()
print(json.dumps({"rows": sorted([list(row) for row in found.collect()]), "late": late}))
"""

Rows = list[tuple[Any, ...]]


def settings(kind: Kind) -> dict[str, str]:
    found = {
        "spark.jars": copy_jars(f"spark-{kind.format}-jars", JARS[kind.format]),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    if not kind.is_iceberg:
        return found | {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "2",
        }
    catalog = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        ".uri": f"jdbc:sqlite:{kind.directory}/catalog.db",
        ".warehouse": f"file://{kind.directory}/lake",
    }
    return found | {f"spark.sql.catalog.test{name}": value for name, value in catalog.items()}


def by_spark(kind: Kind) -> tuple[Rows, int]:
    """What the format's own reader for Spark answers, and how many rows it finds by time."""
    path = os.pathsep.join([str(pyspark_of(PYSPARK[kind.format])), *sys.path])
    asked = (READ, json.dumps(settings(kind)), kind.target, kind.format)
    told = run_script(*asked, environment={"PYTHONPATH": path}, limit_s=LIMIT_S)
    return [tuple(row) for row in told["rows"]], told["late"]


def told(row: dict[str, Any]) -> tuple[Any, ...]:
    key, value = (None if row[name] is None else row[name].hex().upper() for name in ("key", "value"))
    at = None if row["timestamp"] is None else round(row["timestamp"].timestamp() * 1000)
    return row["topic"], row["partition"], row["offset"], key, value, at


def of_topics(path: Path, topics: list[str]) -> Rows:
    scan = tidelog.scan(path, topics=topics, isolation="read_committed")
    return sorted(told(row) for row in scan.read_all().to_pylist())


@pytest.mark.slow
@pytest.mark.timeout(2 * LIMIT_S)
@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_sparks_own_readers_find_every_row(spark: SparkSession, name: str, tmp_path: Path) -> None:
    whole, changed = Kind(name, tmp_path / "whole"), Kind(name, tmp_path / "changed")
    whole.directory.mkdir()
    changed.directory.mkdir()
    for topics in (TOPICS[:1], TOPICS):
        whole.export(spark, GOLDEN / "clean", topics=topics)
    wanted = of_topics(GOLDEN / "clean", TOPICS)
    rows, late = by_spark(whole)
    assert rows == wanted
    assert late == sum(row[-1] is not None and row[-1] > 1_577_836_800_000 for row in wanted)
    log = tmp_path / "log"
    for run in range(2):
        append(log, 0, [(b"k%d" % n, None if n % 5 == run else b"%d" % run) for n in range(run, 20)])
        changed.export(spark, log, by_key=True, buckets=2)
    tidelog.spark.merge_files(spark, changed.target, format=name, table_options=changed.options)
    rows, _ = by_spark(changed)
    assert {(row[1], bytes.fromhex(row[3])): bytes.fromhex(row[4]) for row in rows} == last_values(log)
    assert len(rows) == len(last_values(log))


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_duckdb_finds_every_row(spark: SparkSession, name: str, tmp_path: Path) -> None:
    """Through Arrow: DuckDB's extensions for tables are not on every machine."""
    kind = Kind(name, tmp_path)
    kind.export(spark, GOLDEN / "clean", topics=TOPICS)
    if kind.is_iceberg:
        session = kind.iceberg().scan().to_duckdb("events")
    else:
        session = duckdb.connect()
        session.register("events", DeltaTable(kind.target).to_pyarrow_dataset())
    columns = 'topic, "partition", "offset", hex(key), hex(value), epoch_ms(timestamp)'
    found = session.execute(f"select {columns} from events").fetchall()
    assert sorted(found) == of_topics(GOLDEN / "clean", TOPICS)
