"""Writing on a real cluster: write, ingest and compact on two workers, an executor killed on the way."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tidelog
from tests.spark.conftest import SETTINGS
from tests.spark.test_cluster import Cluster, cluster, worker_python
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
    settings = SETTINGS | {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    environment = os.environ | {
        "PYSPARK_PYTHON": str(cluster.python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    driver = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, cluster.master, json.dumps(settings), str(tmp_path)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert driver.stdout is not None
        assert driver.stdout.readline().strip() == "writing", driver.stderr.read() if driver.stderr else ""
        killed = kill_one_that_stages(cluster, tmp_path / ".tidelog-staging-root")
        said, errors = driver.communicate(timeout=1200)
        assert driver.returncode == 0, errors[-4000:]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert killed not in cluster.executors()
    assert json.loads(said.splitlines()[-1]) == {"ingested": 300, "compacted": 3}
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


def kill_one_that_stages(cluster: Cluster, staging: Path) -> int:
    """Kill an executor while tasks are staging, and say which."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        executors = cluster.executors()
        if len(executors) > 1 and any(staging.glob("write-*/task-*")):
            os.kill(executors[0], signal.SIGKILL)
            return executors[0]
        time.sleep(0.05)
    raise AssertionError("no task has staged anything")
