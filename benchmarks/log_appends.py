"""Appends to one log, and to many of a store in turn. Kafka's side is its own UnifiedLog, on one thread.

    ready       batches of 150 records or one, of no producer or of an idempotent one, plain or LZ4
    partition   the same plain batches through a store's partition, against the log alone
    store       one batch to each of many partitions in turn

The data waits in memory. Making a log with one record in it and deleting it are not timed; nothing is synced.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

import tidelog
from benchmarks import ours
from benchmarks.harness import KAFKA, Bench, agree
from benchmarks.log_data import FIRST_TIMESTAMP, PER_BATCH, LogData, grouped, ready_batches
from benchmarks.report import Row
from tidelog.log.log import Log
from tidelog.manager.store.partition import Partition
from tidelog.records.record import Record

__all__ = ["appends"]

MANY = 64
"""Batches a call."""

PARTITION_BAR = 1 / 1.3
STORE_BAR = 1.0
_TURNS = 9


@dataclass(frozen=True, slots=True)
class _Ready:
    """Ready batches to be appended, and what is wanted: one a call, and many a call."""

    name: str
    source: str
    per_batch: int
    unit: str
    bar: float
    bar_many: float | None = None


_READY = (
    _Ready("ready", "batched", PER_BATCH, "MB/s", 1.0, 1.5),
    _Ready("producer", "batched_by_producer", PER_BATCH, "MB/s", 1.0),
    _Ready("lz4", "batched_lz4", PER_BATCH, "MB/s", 1.0),
    _Ready("producer-lz4", "batched_lz4_by_producer", PER_BATCH, "MB/s", 1.0),
    _Ready("one-record", "single", 1, "k batches/s", 1.0, 2.0),
    _Ready("one-record-producer", "single_by_producer", 1, "k batches/s", 1.0),
)


def appends(bench: Bench, data: LogData) -> Iterator[Row]:
    """The rows of appends, in order."""
    work = _Appends(bench, data)
    for ready in _READY:
        yield from work.ready(ready)
    yield from work.arrow()
    yield from _partition(bench, data)
    yield from _store(bench, data)


@dataclass(frozen=True, slots=True)
class _Appends:
    bench: Bench
    data: LogData

    def ready(self, ready: _Ready) -> Iterator[Row]:
        """One batch a call and many, both against Kafka's one: it takes no more from a client."""
        ways = {f"{ready.name}-1": (1, ready.bar)}
        if ready.bar_many is not None:
            ways[f"{ready.name}-many"] = (MANY, ready.bar_many)
        wanted = {way: each for way, each in ways.items() if self.bench.selected(f"log/append/{way}")}
        if not wanted:
            return
        path: Path = getattr(self.data, ready.source)
        batches = ready_batches(path)
        log_end = len(batches) * ready.per_batch
        amount = path.stat().st_size / 1e6 if ready.unit == "MB/s" else len(batches) / 1e3
        kafka = amount / self._kafka("ready", path, log_end)
        for way, (count, bar) in wanted.items():
            seconds = self._ours(grouped(batches, count), log_end)
            peer = KAFKA if count == 1 else f"{KAFKA}, one a call"
            yield Row(f"log/append/{way}", ready.unit, amount / seconds, peer, kafka, bar)

    def arrow(self) -> Iterator[Row]:
        """Records that are no batches yet."""
        row = "log/append/arrow"
        if not self.bench.selected(row):
            return
        records = ours.load(self.data.batched)
        calls = records.to_batches(max_chunksize=MANY * PER_BATCH)
        seconds = self._ours(calls, len(records), max_batch_records=PER_BATCH)
        kafka = self._kafka("encode", self.data.batched, len(records), per_batch=PER_BATCH)
        millions = len(records) / 1e6
        yield Row(row, "M records/s", millions / seconds, f"{KAFKA}, one a call", millions / kafka, 1.5)

    def _kafka(self, task: str, path: Path, log_end: int, **request: object) -> float:
        directory = str(self.bench.scratch / "kafka-0")
        request |= {"task": task, "file": str(path), "dir": directory, "config": {}}
        timing = self.bench.kafka_timing("LogAppends", first_timestamp=FIRST_TIMESTAMP - 1, **request)
        agree(f"append {task}", timing.witness, log_end + 1)
        return timing.seconds

    def _ours(self, calls: list[bytes] | list[pa.RecordBatch], log_end: int, **options: Any) -> float:
        def work(log: Log) -> None:
            append: Callable[..., object] = log.append_as_leader
            if options:
                append = partial(append, **options)
            for records in calls:
                append(records)

        @contextmanager
        def fresh() -> Iterator[Log]:
            log = _begun(self.bench.scratch / "tidelog-0")
            yield log
            agree("append", log.log_end_offset, log_end + 1)
            log.delete()

        return self.bench.best_on(fresh, work)


def _begun(path: Path) -> Log:
    """A new log with one record."""
    log = Log.open(path)
    log.append_as_leader([Record(b"", timestamp=FIRST_TIMESTAMP - 1)])
    return log


@contextmanager
def _partitions(bench: Bench, count: int) -> Iterator[list[Partition]]:
    """The partitions of a topic in a new store, each with one record."""
    root = bench.scratch / "store"
    with tidelog.open(root, background=False) as store:
        topic = store.create_topic("turns", partitions=count)
        for partition in topic:
            partition.append([Record(b"", timestamp=FIRST_TIMESTAMP - 1)])
        yield list(topic)
    shutil.rmtree(root)


def _partition(bench: Bench, data: LogData) -> Iterator[Row]:
    """A partition against its log, in turns, so that whatever slows the machine slows both."""
    row = "log/append/partition-1"
    if not bench.selected(row):
        return
    batches = ready_batches(data.single)[: bench.effort.scale(10_000, 50_000)]

    def seconds(append: Callable[[bytes], object]) -> float:
        begin = time.process_time()
        for batch in batches:
            append(batch)
        return time.process_time() - begin

    times: list[tuple[float, float]] = []
    log = _begun(bench.scratch / "alone-0")
    with _partitions(bench, 1) as (partition,):
        for _ in range(_TURNS):
            times.append((seconds(log.append_as_leader), seconds(partition.append)))
        agree(row, log.log_end_offset, partition.log_end_offset)
    log.delete()
    alone, whole = (median(taken) * 1e6 / len(batches) for taken in zip(*times, strict=True))
    yield Row(row, "us", whole, "Log.append_as_leader", alone, PARTITION_BAR, lower_is_better=True)


def _store(bench: Bench, data: LogData) -> Iterator[Row]:
    """One batch to each of many partitions in turn, again and again."""
    count = bench.effort.scale(200, 1000)
    row = f"log/append/store-{count}"
    if not bench.selected(row):
        return
    path, directory = str(data.single), str(bench.scratch / "kafka")
    kafka = bench.kafka_timing(
        "LogAppends",
        task="turns",
        file=path,
        dir=directory,
        config={},
        logs=count,
        first_timestamp=FIRST_TIMESTAMP - 1,
    )
    batches = ready_batches(data.single)
    with _partitions(bench, count) as partitions:

        def work() -> None:
            for number, batch in enumerate(batches):
                partitions[number % count].append(batch)

        ends = sum(partition.log_end_offset for partition in partitions)
        work()
        agree(row, kafka.witness, sum(partition.log_end_offset for partition in partitions) - ends)
        seconds = bench.best(work)
    thousands = len(batches) / 1e3
    yield Row(row, "k batches/s", thousands / seconds, KAFKA, thousands / kafka.seconds, STORE_BAR)
