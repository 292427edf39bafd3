"""Spark: a topic read and exported, against Spark's own Kafka connector and a broker on the same directory.

The topic is written by tidelog, 100 B JSON values, 150 records a batch, in four partitions; a stock broker
then boots on that directory and serves it to the connector, while our source reads the files. Both run in
Spark, local[2], by turns: what the broker's process takes of the two cores is part of its way.

    all columns     to the `noop` sink
    count           ours under a schema of one column, the connector's as it is
    export          the connector through Spark's Parquet writer, ours through the export job; zstd both
    one partition   the bytes of the four in one: a single partition spreads over all cores
    memory          driver and workers (Python), exporting ten times as much
"""

from __future__ import annotations

import itertools
import shutil
import uuid
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.golden import GOLDEN
from tests.oracle.broker import STOCK_JVM, Broker
from tests.oracle.oracle import Oracle
from tests.spark.connector import connector_jars

from benchmarks import ours, spark_scale
from benchmarks.harness import Bench
from benchmarks.report import Row
from benchmarks.spark_runs import SETTINGS, Run, Spark, run_jobs, take_turns
from tidelog.config import LogConfig
from tidelog.log.log import Log

__all__ = ["CONNECTOR", "Topics", "connector_export", "rows"]

CONNECTOR = "spark-sql-kafka 4.2 and a broker"
BARS = {"spark/read/all-columns": 2.5, "spark/read/count": 6.0, "spark/export": 8.0}
ONE_PARTITION_BAR = 0.9
MEMORY_BAR = 0.9
"""Ten times the data in no more memory; a tenth is the allocator's noise."""

PARTITIONS = 4
PER_BATCH = 150


def rows(bench: Bench) -> Iterator[Row]:
    """The group's rows, in order."""
    data = Topics(bench)
    yield from _against_the_connector(bench, data)
    yield from _one_partition(bench, data)
    yield from _memory(bench, data)
    yield from spark_scale.rows(bench)


class Topics:
    """Roots that hold a topic each, made where a row needs them."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    @cached_property
    def megabytes(self) -> int:
        """Bytes of a topic."""
        return self._bench.effort.scale(200, 2000)

    @cached_property
    def events(self) -> list[pa.RecordBatch]:
        """Records that Kafka made, to be appended over and over."""
        path = self._bench.scratch / "spark.log"
        request = {"file": str(path), "codec": "none", "records": 300_000, "per_batch": PER_BATCH}
        self._bench.kafka("MakeLogs", logs=[request | {"value_bytes": 100}])
        events: list[pa.RecordBatch] = ours.load(path).to_batches(max_chunksize=200 * PER_BATCH)
        path.unlink()
        return events

    @cached_property
    def four(self) -> Path:
        """A topic of four partitions."""
        return self.make("four", PARTITIONS, self.megabytes)

    def make(self, name: str, partitions: int, megabytes: int) -> Path:
        """A root with a topic of so many partitions and megabytes."""
        self._bench.say(f"writing {megabytes:,} MB in {partitions} partitions")
        root = self._bench.scratch / f"spark-{name}"
        root.mkdir()
        topic_id = uuid.uuid4()
        for partition in range(partitions):
            with Log.open(root / f"events-{partition}", LogConfig(), clean=True, topic_id=topic_id) as log:
                for piece in itertools.cycle(self.events):
                    if log.size >= megabytes * 1_000_000 // partitions:
                        break
                    log.append_as_leader(piece, max_batch_records=PER_BATCH)
        for file in ("meta.properties", ".kafka_cleanshutdown"):
            shutil.copy(GOLDEN / "clean" / file, root)
        return root


def _against_the_connector(bench: Bench, data: Topics) -> Iterator[Row]:
    wanted = [row for row in BARS if bench.selected(row)]
    if not wanted:
        return
    root = data.four
    settings = SETTINGS | {"spark.jars": connector_jars()}
    bench.say("running Spark on the files and on a broker, by turns")
    with (
        Oracle.obtain().broker(root, adopt=True, jvm=STOCK_JVM) as broker,
        Spark(bench, settings) as ours,
        Spark(bench, settings, broker.process.pid) as theirs,
    ):
        counting = Run(ours, _our_job("spark/read/count", root, bench.scratch))
        counting.warm()
        pairs = [
            (
                Run(ours, _our_job(name, root, bench.scratch)),
                Run(theirs, _their_job(name, broker, bench.scratch)),
            )
            for name in wanted
        ]
        take_turns(bench, [run for pair in pairs for run in pair])
    for name, runs in zip(wanted, pairs, strict=True):
        speed, peer = (counting.rows / run.seconds / 1e6 for run in runs)
        yield Row(name, "M rows/s", speed, CONNECTOR, peer, BARS[name])


def _our_job(name: str, root: Path, scratch: Path) -> dict[str, Any]:
    if name == "spark/export":
        return {"job": "export", "path": str(root), "target": str(scratch / "spark-exported")}
    job = {"job": "noop", "format": "tidelog", "options": {"path": str(root), "subscribe": "events"}}
    return job | {"job": "count", "schema": "offset bigint"} if name == "spark/read/count" else job


def connector_export(broker: Broker, scratch: Path) -> dict[str, Any]:
    """The connector's job that writes the topic as Parquet."""
    return _their_job("spark/export", broker, scratch)


def _their_job(name: str, broker: Broker, scratch: Path) -> dict[str, Any]:
    kinds = {"spark/read/all-columns": "noop", "spark/read/count": "count", "spark/export": "write-parquet"}
    options = {
        "kafka.bootstrap.servers": broker.address,
        "subscribe": "events",
        "startingOffsets": "earliest",
    }
    job = {"job": kinds[name], "format": "kafka", "options": options}
    return job | {"target": str(scratch / "spark-written")}


def _one_partition(bench: Bench, data: Topics) -> Iterator[Row]:
    row = "spark/read/one-partition"
    if not bench.selected(row):
        return
    one = data.make("one", 1, data.megabytes)
    jobs = [_our_job("spark/read/all-columns", root, bench.scratch) for root in (one, data.four)]
    speed, peer = (data.megabytes / run.seconds for run in run_jobs(bench, SETTINGS, jobs))
    yield Row(row, "MB/s", speed, "itself in four partitions", peer, ONE_PARTITION_BAR)


def _memory(bench: Bench, data: Topics) -> Iterator[Row]:
    row = "spark/memory"
    if not bench.selected(row):
        return
    small = data.megabytes // bench.effort.scale(1, 2)
    roots = {
        name: data.make(name, PARTITIONS, size) for name, size in (("small", small), ("large", 10 * small))
    }
    peaks = {}
    for name, root in roots.items():
        job = _our_job("spark/export", root, bench.scratch) | {"watch": True}
        once = name == "large"  # a short run is easily looked at beside its peak
        (run,) = run_jobs(bench, SETTINGS, [job], once=once)
        peaks[name] = run.peak / 1e6
    yield Row(
        row, "MB", peaks["large"], "itself at 1/10 size", peaks["small"], MEMORY_BAR, lower_is_better=True
    )
