"""One partition compacted by the tasks of a real cluster, an executor killed on the way."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tidelog
from tests.spark.test_cluster import Cluster, cluster, last_line, worker_python
from tests.spark.test_compact import NOW, same_files
from tidelog.manager.upkeep.compacting import Compaction, compact_at_rest
from tidelog.records import Record
from tidelog.storage import LOCAL

__all__ = ["cluster", "worker_python"]

CONFIG = {"cleanup.policy": "compact", "internal.segment.bytes": 20_000, "retention.ms": -1}
SCRIPT = """
import json, sys
import tidelog.spark
master, settings, root, now = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4])
spark = tidelog.spark.session(master, config=settings)
spark.sparkContext.setLogLevel("OFF")
rows = tidelog.spark.compact(spark, root, now_ms=now, max_bytes_per_task=20_000).collect()
print(json.dumps([row.asDict() for row in rows]), flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_partition_is_compacted_by_a_cluster_though_an_executor_dies(
    cluster: Cluster, tmp_path: Path
) -> None:
    with tidelog.open(tmp_path / "local") as store:
        store.create_topic("t", 1, CONFIG)
        for start in range(0, 60_000, 200):
            records = [
                Record(b"%d" % n * 8, b"%d" % (n * 7919 % 5000), timestamp=NOW)
                for n in range(start, start + 200)
            ]
            store.partition("t").append(records)
    shutil.copytree(tmp_path / "local", tmp_path / "root")
    (local,) = compact_at_rest(Compaction(LOCAL, str(tmp_path / "local"), ("t-0",), NOW))
    assert local.segments_before > 100
    root, staging = tmp_path / "root", tmp_path / ".tidelog-staging-root"
    with cluster.driver(SCRIPT, root, NOW) as driver:
        killed = cluster.kill_one_that_stages(driver, staging, "compact@*/t-0/*")
        (row,) = last_line(driver)
    assert killed not in cluster.executors()
    assert (row["segments"], row["bytes"]) == (local.segments, local.size_bytes)
    assert same_files(root, tmp_path / "local")
    assert not list(staging.iterdir())
