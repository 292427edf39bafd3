"""`reconcile` on Spark: the same logs and the same report as in one process."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.test_salvage import logs
from tests.golden import GOLDEN
from tidelog.manager.reconciling.rooting import find_sources, run_job
from tidelog.spark.upkeep.reconciling import run_jobs
from tidelog.testing.builders import flip_bit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("golden-none-0", "golden-compact-0", "golden-txncompact-0")


def test_a_task_for_each_partition(spark: SparkSession, tmp_path: Path) -> None:
    roots = [tmp_path / name for name in ("a", "b")]
    for root in roots:
        for name in NAMES:
            shutil.copytree(GOLDEN / "clean" / name, root / name)
    flip_bit(sorted((roots[0] / NAMES[0]).glob("*.log"))[1], 300)
    found = find_sources([str(root) for root in roots])
    done = {}
    for kind in ("local", "spark"):
        (tmp_path / kind).mkdir()
        jobs = [replace(job, target=str(tmp_path / kind)) for job in found.jobs]
        done[kind] = [run_job(job) for job in jobs] if kind == "local" else run_jobs(spark, jobs)
    assert done["spark"] == done["local"]
    for name in NAMES:
        assert logs(tmp_path / "spark" / name) == logs(GOLDEN / "clean" / name)
