"""`--only tables`: an export to a Delta and to an Iceberg table, beside that to Parquet files.

All three write the same Parquet files; a table's commit comes on top.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness import Bench
from benchmarks.report import Row
from benchmarks.spark import Topics
from benchmarks.spark_runs import SETTINGS, run_jobs

__all__ = ["rows"]

BAR = 0.9
FORMATS = ("delta", "iceberg")


def rows(bench: Bench) -> Iterator[Row]:
    """The group's rows, in order."""
    wanted = [name for name in FORMATS if bench.selected(f"tables/{name}")]
    if not wanted:
        return
    root = Topics(bench).four
    jobs = [
        {
            "job": "export",
            "path": str(root),
            "target": str(bench.scratch / f"tables-{name}"),
            "format": name,
        }
        for name in ("parquet", *wanted)
    ]
    plain, *tables = run_jobs(bench, SETTINGS, jobs)
    for name, run in zip(wanted, tables, strict=True):
        speed, peer = (plain.rows / each.seconds / 1e6 for each in (run, plain))
        yield Row(f"tables/{name}", "M rows/s", speed, "the export to Parquet", peer, BAR)
