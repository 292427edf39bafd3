"""Spark writes: rows into a root, against Spark's own Kafka connector writing into a broker.

ingest     Parquet files of keys and 100 B values into four partitions: `tidelog.spark.ingest` into a root,
           where they are on the disk when it returns; the connector's write into a stock broker, which
           leaves them to the page cache; both from the same Spark, local[2]; the broker's CPU is part of
           its way
sink       the same rows through `df.write.format("tidelog")`: each one goes through the JVM to Python
sink-limit  the sink against a sink in Python that does nothing with the same Arrow batches, in the same Spark
           and by turns: no sink in Python can be faster. If nine tenths of its speed are below the bar of
           `sink`, that bar is out of reach, and the verdict of `sink` is LIMIT
commit     publishing full segments that tasks have staged: four times the bytes in as many batches. What
           the commit takes is to follow the batches, not the bytes
compact    four partitions on local[2], against the local command's one thread; elapsed time in any case
compact-one  the same with one partition of as many bytes, whose passes are done by eight tasks each
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.oracle.broker import STOCK_JVM
from tests.oracle.oracle import Oracle
from tests.spark.connector import connector_jars

import tidelog
from benchmarks import spark_scale
from benchmarks.harness import Bench, best_seconds_on
from benchmarks.report import Row
from benchmarks.spark import CONNECTOR
from benchmarks.spark_runs import SETTINGS, run_jobs
from tidelog.config import LogConfig
from tidelog.manager.publishing.committing import Write, publish
from tidelog.manager.publishing.staging import PieceFacts, TaskStaging
from tidelog.manager.upkeep.compacting import Compaction, compact_at_rest
from tidelog.records.builder import DEFAULT_BATCH_BYTES, encode_batches
from tidelog.storage import LOCAL
from tidelog.types import TopicPartition

__all__ = ["rows"]

INGEST_BAR = 3.0
SINK_BAR = 2.7
_HANDED_OVER = 0.9
"""Encoding, writing and syncing rows takes a tenth of a sink's time at the very least."""
COMMIT_BAR = 0.5
"""Four times the bytes may take twice as long: looking for what to sync, the kernel walks by all pages."""
COMPACT_BAR = 1.5
COMPACT_ONE_BAR = 1.2
"""A map of keys has to be merged between the passes, by one task; a round is three jobs."""

_PARTITIONS = 4
_VALUE_BYTES = 100
_NOW = 1_750_000_000_000
_KEYS = 50_000
_PARTS = 8


def rows(bench: Bench) -> Iterator[Row]:
    """The group's rows, in order."""
    yield from _ingest(bench)
    yield from spark_scale.write_rows(bench)
    yield from _commit(bench)
    megabytes = bench.effort.scale(50, 500)
    yield from _compact(bench, "spark-write/compact", _PARTITIONS, megabytes, COMPACT_BAR)
    yield from _compact(bench, "spark-write/compact-one", 1, _PARTITIONS * megabytes, COMPACT_ONE_BAR)


# ---- the sink, and one that does nothing


def _sinks(bench: Bench, count: int, source: Path) -> tuple[float, float]:
    """Millions of rows a second: through our sink, and through one that does nothing."""
    read = {"job": "write", "format": "parquet", "options": {"path": str(source)}}
    root = bench.scratch / "write" / "limit"
    options = {"path": str(root), "topic": "events", "partitions": str(_PARTITIONS)}
    jobs = [read | {"to": "tidelog", "to_options": options}, read | {"to": "nothing", "to_options": {}}]
    bench.say(f"writing {count:,} rows into a root, and to a sink that does nothing")
    ours, nothing = run_jobs(bench, SETTINGS, jobs)
    shutil.rmtree(root.parent)
    return count / ours.seconds / 1e6, count / nothing.seconds / 1e6


# ---- ingest


def _ingest(bench: Bench) -> Iterator[Row]:
    ingest, sink, limit = (f"spark-write/{name}" for name in ("ingest", "sink", "sink-limit"))
    if not any(bench.selected(name) for name in (ingest, sink, limit)):
        return
    count = bench.effort.scale(3_000_000, 10_000_000)
    source = _parquet(bench, count)
    if bench.selected(sink) or bench.selected(limit):
        through_ours, through_nothing = _sinks(bench, count, source)
        yield Row(limit, "M rows/s", through_ours, "a sink that does nothing", through_nothing)
    if bench.selected(ingest):
        ingested = _ingested(bench, count, source)
    if bench.selected(ingest) or bench.selected(sink):
        theirs = _through_the_connector(bench, count, source)
    if bench.selected(ingest):
        yield Row(ingest, "M rows/s", ingested, CONNECTOR, theirs, INGEST_BAR)
    if bench.selected(sink):
        at_most = _HANDED_OVER * through_nothing / theirs
        yield Row(sink, "M rows/s", through_ours, CONNECTOR, theirs, SINK_BAR, limit=at_most)


def _ingested(bench: Bench, count: int, source: Path) -> float:
    root = bench.scratch / "write" / "ingest"
    options = {"path": str(root), "topic": "events", "partitions": str(_PARTITIONS)}
    read = {"job": "ingest", "format": "parquet", "options": {"path": str(source)}}
    bench.say(f"ingesting {count:,} rows into a root")
    (run,) = run_jobs(bench, SETTINGS, [read | {"to_options": options}])
    shutil.rmtree(root.parent)
    return count / run.seconds / 1e6


def _through_the_connector(bench: Bench, count: int, source: Path) -> float:
    settings = SETTINGS | {"spark.jars": connector_jars()}
    read = {"job": "write", "format": "parquet", "options": {"path": str(source)}}
    broker_root = bench.scratch / "write-broker"
    with tidelog.open(broker_root) as store:
        store.create_topic("events", _PARTITIONS)
    bench.say(f"writing {count:,} rows into a broker")
    with Oracle.obtain().broker(broker_root, jvm=STOCK_JVM) as broker:
        options = {"kafka.bootstrap.servers": broker.address, "topic": "events"}
        job = read | {"to": "kafka", "to_options": options}
        (theirs,) = run_jobs(bench, settings, [job], broker.process.pid)
    shutil.rmtree(broker_root)
    return count / theirs.seconds / 1e6


def _parquet(bench: Bench, count: int) -> Path:
    """Files of keys and values."""
    directory = bench.scratch / "write-source"
    directory.mkdir()
    dice = np.random.default_rng(7)
    for number in range(8):
        size = count // 8
        keys = dice.integers(0, 1 << 62, size).astype("S20")
        values = dice.integers(0, 256, (size, _VALUE_BYTES), dtype=np.uint8).view(f"S{_VALUE_BYTES}").ravel()
        table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
        pq.write_table(table, directory / f"{number}.parquet")
    return directory


# ---- commit


def _commit(bench: Bench) -> Iterator[Row]:
    name = "spark-write/commit"
    if not bench.selected(name):
        return
    batches = bench.effort.scale(1_000, 4_000)
    small, large = (
        bench.best_on(partial(_staged, bench, batches, size), _publish)
        for size in (DEFAULT_BATCH_BYTES, 4 * DEFAULT_BATCH_BYTES)
    )
    yield Row(
        name, "ms", large * 1000, "a quarter of the bytes", small * 1000, COMMIT_BAR, lower_is_better=True
    )


@contextmanager
def _staged(bench: Bench, batches: int, batch_bytes: int) -> Iterator[tuple[tidelog.Store, Write]]:
    """A store, and so many batches of one partition staged: eight full segments, a few are copied."""
    config = {"segment.bytes": str((batches // 8 - 16) * batch_bytes)}
    base = Path(tempfile.mkdtemp(dir=bench.scratch))
    (base / "staging").mkdir()
    task = TaskStaging(str(base / "staging"), "task")
    task.expect("t", 1)
    values = pa.array([bytes(batch_bytes - 200)] * 64, pa.binary())
    for _ in range(batches // 64):
        encoded = encode_batches(pa.table({"value": values}), max_batch_bytes=batch_bytes)
        facts = PieceFacts(0, 0)
        task.add(TopicPartition("t", 0), encoded, facts, LogConfig.from_properties(config))
    task.finish()
    with tidelog.open(base / "root", background=False) as store:
        store.create_topic("t", 1, config)
        yield store, Write(str(base / "staging"), ("task",))
    shutil.rmtree(base)


def _publish(given: tuple[tidelog.Store, Write]) -> None:
    publish(*given)


# ---- compact


def _compact(bench: Bench, name: str, partitions: int, megabytes: int, bar: float) -> Iterator[Row]:
    if not bench.selected(name):
        return
    root = bench.scratch / "compact-source"
    bench.say(f"writing {partitions} partitions of {megabytes} MB")
    _keyed(root, partitions, megabytes)

    @contextmanager
    def copied() -> Iterator[Path]:
        copy = bench.scratch / f"compact-{uuid.uuid4().hex}"
        shutil.copytree(root, copy)
        os.sync()  # else the first sync that counts waits for all of the copy
        yield copy
        shutil.rmtree(copy)

    def local(copy: Path) -> None:
        names = tuple(path.name for path in copy.iterdir() if path.is_dir())
        for done in compact_at_rest(Compaction(LOCAL, str(copy), names, _NOW)):
            if done.error is not None:
                raise RuntimeError(done.error)

    total = partitions * megabytes
    one = best_seconds_on(copied, local, bench.effort.measure_s, time.perf_counter)
    job = {"job": "compact", "path": str(root), "now_ms": _NOW}
    job |= {"target": str(bench.scratch / "compact-target")}
    if partitions == 1:
        job["max_bytes_per_task"] = megabytes * 1_000_000 // _PARTS
    (run,) = run_jobs(bench, SETTINGS, [job])
    shutil.rmtree(root)
    yield Row(name, "MB/s", total / run.seconds, "one thread", total / one, bar)


def _keyed(root: Path, partitions: int, megabytes: int) -> None:
    """Partitions with many versions of each key."""
    dice = np.random.default_rng(7)
    config = {"cleanup.policy": "compact", "segment.bytes": str(64 << 20), "retention.ms": "-1"}
    with tidelog.open(root) as store:
        store.create_topic("events", partitions, config)
        for partition in store.partitions:
            while partition.log.size < megabytes * 1_000_000:
                keys = dice.integers(0, _KEYS, 20_000).astype("S20")
                values = dice.integers(0, 256, (20_000, 100), dtype=np.uint8).view("S100").ravel()
                times = pa.array(np.full(20_000, _NOW - 1_000_000))
                partition.append(
                    pa.table(
                        {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}
                    ).append_column("timestamp", times)
                )
