"""Spark Connect: the source is found, and the jobs run, through a server in a process of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.golden import GOLDEN
from tests.spark.connector import run_script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SCRIPT = """
import json, os, sys
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
import tidelog.spark

root, lake = sys.argv[1:]
spark = SparkSession.builder.remote("local[1]").config("spark.driver.host", "127.0.0.1").getOrCreate()
assert "connect" in type(spark).__module__, type(spark)
source = spark.read.format("tidelog").option("subscribe", "golden-zstd")
rows = source.load(root).orderBy("offset").toArrow()
pruned = source.schema("offset bigint").load(root).count()
told = []
exported = tidelog.spark.export(
    spark, root, lake, topics="golden-zstd", report=lambda *done: told.append(done)
).collect()
found = tidelog.spark.verify(spark, root).where("kind = 'damage'").collect()
rebuilt = tidelog.spark.reindex(spark, root, piece_bytes=2000).collect()
profiled = tidelog.spark.profile(spark, root, topics="golden-zstd").toArrow()
again = spark.read.parquet(lake).count()
spark.stop()
print(json.dumps({
    "rows": rows.num_rows,
    "last": rows.column("offset")[-1].as_py(),
    "pruned": pruned,
    "exported": sum(row.records for row in exported),
    "parquet": again,
    "damage": len(found),
    "rebuilt": [row.indexes for row in rebuilt],
    "profiled": sum(profiled.column("records").to_pylist()),
}))
"""


def test_source_and_jobs_through_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    root = shutil.copytree(GOLDEN / "clean", tmp_path / "root")
    index = next(iter(sorted((root / "golden-zstd-0").glob("*.timeindex"))))
    before = index.read_bytes()
    index.unlink()
    found = run_script(SCRIPT, str(root), str(tmp_path / "lake"), limit_s=500)
    rows = found["rows"]
    assert rows > 0
    assert [found[name] for name in ("pruned", "exported", "parquet", "profiled")] == [rows] * 4
    assert found["last"] >= rows - 1
    assert (found["damage"], found["rebuilt"]) == (1, [[index.name]])
    assert index.read_bytes() == before
