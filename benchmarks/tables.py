"""`--only tables`: an export to a Delta and to an Iceberg table, beside that to Parquet files, and beside
Spark's Kafka connector, which writes Parquet from a broker on the same directory.

All of ours write the same Parquet files; a table's commit comes on top. `avro_values` decodes values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.oracle.broker import STOCK_JVM
from tests.oracle.oracle import Oracle
from tests.spark.connector import connector_jars

from benchmarks import avro_values
from benchmarks.harness import Bench
from benchmarks.report import Row
from benchmarks.spark import CONNECTOR, Topics, connector_export
from benchmarks.spark_runs import SETTINGS, Run, Spark, run_jobs, take_turns

__all__ = ["rows"]

BAR = 0.9
CONNECTOR_BAR = 7.0
FORMATS = ("delta", "iceberg")


def rows(bench: Bench) -> Iterator[Row]:
    """The group's rows, in order."""
    yield from avro_values.rows(bench)
    data = Topics(bench)
    yield from _against_parquet(bench, data)
    yield from _against_the_connector(bench, data)


def _against_parquet(bench: Bench, data: Topics) -> Iterator[Row]:
    wanted = [name for name in FORMATS if bench.selected(f"tables/{name}")]
    if not wanted:
        return
    jobs = [_job(bench, data, name) for name in ("parquet", *wanted)]
    plain, *tables = run_jobs(bench, SETTINGS, jobs)
    for name, run in zip(wanted, tables, strict=True):
        speed, peer = (plain.rows / each.seconds / 1e6 for each in (run, plain))
        yield Row(f"tables/{name}", "M rows/s", speed, "the export to Parquet", peer, BAR)


def _against_the_connector(bench: Bench, data: Topics) -> Iterator[Row]:
    wanted = [name for name in FORMATS if bench.selected(f"tables/{name}-connector")]
    if not wanted:
        return
    root = data.four
    settings = SETTINGS | {"spark.jars": connector_jars()}
    with (
        Oracle.obtain().broker(root, adopt=True, jvm=STOCK_JVM) as broker,
        Spark(bench, settings) as ours,
        Spark(bench, settings, broker.process.pid) as theirs,
    ):
        tables = [Run(ours, _job(bench, data, name)) for name in wanted]
        peer = Run(theirs, connector_export(broker, bench.scratch))
        take_turns(bench, [*tables, peer])
    for name, run in zip(wanted, tables, strict=True):
        speed, slow = (run.rows / each.seconds / 1e6 for each in (run, peer))
        yield Row(f"tables/{name}-connector", "M rows/s", speed, CONNECTOR, slow, CONNECTOR_BAR)


def _job(bench: Bench, data: Topics, name: str) -> dict[str, Any]:
    target = str(bench.scratch / f"tables-{name}")
    return {"job": "export", "path": str(data.four), "target": target, "format": name}
