"""Writing on a real cluster: write, ingest and compact on two workers, an executor killed on the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tidelog
from tests.spark.test_cluster import Cluster, cluster, expect_line, last_line, worker_python
from tests.spark.test_ingest import write_parquet
from tidelog.manager import Partition

__all__ = ["cluster", "worker_python"]

SCRIPT = """
import json, sys
import tidelog.spark
master, settings, base = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
spark = tidelog.spark.session(master, config=settings)
spark.sparkContext.setLogLevel("OFF")
print("writing", flush=True)

def slowly(batches):
    import time
    for batch in batches:
        time.sleep(0.5)
        yield batch

spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "200")
rows = spark.range(0, 12000, 1, 12).selectExpr("cast(id % 300 as string) key", "cast(id as string) value")
rows = rows.mapInArrow(slowly, "key string, value string")
writer = rows.write.format("tidelog").mode("append").option("topic", "t").option("partitions", 3)
writer.option("cleanup.policy", "compact").option("retention.ms", -1).save(base + "/root")
print("written", flush=True)
files = tidelog.spark.FileSource("parquet", base + "/in")
columns = tidelog.spark.Columns(key="cast(id as string)")
ingested = tidelog.spark.ingest(spark, files, base + "/root", topic="u", columns=columns).collect()
compacted = tidelog.spark.compact(spark, base + "/root", topics=["t"]).collect()
print(json.dumps({"ingested": sum(row.records for row in ingested), "compacted": len(compacted)}), flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_cluster_writes_ingests_and_compacts_though_an_executor_dies(
    cluster: Cluster,
    tmp_path: Path,
) -> None:
    for start in (0, 100, 200):
        write_parquet(tmp_path / "in" / f"{start}.parquet", start, 100)
    with cluster.driver(SCRIPT, tmp_path) as driver:
        expect_line(driver, "writing")
        killed = cluster.kill_one_that_stages(driver, tmp_path / ".tidelog-staging-root", "write-*/task-*")
        assert last_line(driver) == {"ingested": 300, "compacted": 3}
    assert killed not in cluster.executors()
    with tidelog.open(tmp_path / "root") as store:
        ends = [partition.log_end_offset for partition in store.topic("t")]
        assert sum(ends) == 12000
        left = [int(value) for one in store.topic("t") for value in values_of(one)]
        assert sorted(left) == list(range(11700, 12000))  # the last value of each key
        ingested = [json.loads(value)["id"] for one in store.topic("u") for value in values_of(one)]
        assert sorted(ingested) == list(range(300))
    assert not list((tmp_path / ".tidelog-staging-root").iterdir())


def values_of(partition: Partition) -> list[bytes]:
    found: list[bytes] = partition.read_arrow(0, 1 << 24, columns=("value",)).column(0).to_pylist()
    return found
