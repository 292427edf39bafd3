"""Log: append, read and look up, open, scan. Kafka's side is its own UnifiedLog, in process, one thread.

    append   to a new log that has one record; the data waits in memory, making and deleting the log are not
             timed, and nothing is synced (the first append of a leader epoch is)
    read     one question after the other on an open log in a warm page cache, the same ones on both sides
    open     a directory that was closed cleanly; closing it again is not timed
    scan     a directory at rest to Arrow, on two threads and on one

Each answer is compared with Kafka's before its time counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import tidelog
from benchmarks import sqlite_peer
from benchmarks.harness import KAFKA, Bench, agree
from benchmarks.log_appends import appends
from benchmarks.log_data import PER_BATCH, LogData, LogDirectory
from benchmarks.report import Row
from benchmarks.turns import by_turns, peer
from tidelog.config import LogConfig
from tidelog.index import OffsetIndex
from tidelog.log.log import Log
from tidelog.storage import LOCAL, Directory

__all__ = ["rows"]

BY_OFFSET_BAR = 2.0
BY_OFFSET_BAR_SQLITE = 1.0
BY_TIMESTAMP_BAR = 3.0
BULK_BAR_MILLIONS = 10.0
OPEN_BAR = 1.0
OPEN_MEMORY_BAR_MB = 200.0
SCAN_THREADS = 2
SCAN_BAR = 1.75


def rows(bench: Bench) -> Iterator[Row]:
    """The group's rows, in order."""
    data = LogData(bench)
    yield from appends(bench, data)
    yield from _by_offset(bench, data)
    yield from _by_timestamp(bench, data)
    yield from _bulk(bench, data)
    yield from _open(bench, data)
    yield from _open_memory(bench, data)
    yield from _scan(bench, data)


# Read


@contextmanager
def _opened(directory: LogDirectory) -> Iterator[Log]:
    config = LogConfig.from_properties(directory.config)
    with Log.open(directory.path, config, clean=True, recovery_point=directory.log_end) as log:
        yield log


def _by_offset(bench: Bench, data: LogData) -> Iterator[Row]:
    row = "log/read/by-offset"
    if not bench.selected(row):
        return
    directory = data.lookups
    targets, offsets = data.offsets(directory, bench.effort.scale(20_000, 100_000))
    request = {"task": "by-offset", "targets": str(targets), **directory.request()}
    with peer(bench, "LogLookups", **request) as kafka, _opened(directory) as log:
        read = log.read_record
        found = [record for offset in offsets if (record := read(offset)) is not None]
        agree(row, kafka.witness, sum(r.offset + r.timestamp + len(r.value or b"") for r in found))
        del found

        def work() -> None:
            for offset in offsets:
                read(offset)

        times = by_turns(bench, kafka, work)
    micros, theirs = (seconds * 1e6 / len(offsets) for seconds in (times.seconds, times.kafka_seconds))
    yield Row(row, "us", micros, KAFKA, theirs, BY_OFFSET_BAR, lower_is_better=True, spread=times.spread)
    database = bench.scratch / "log.sqlite"
    sqlite_peer.copy_log(directory.path, database)
    with sqlite_peer.opened(database) as connection:
        theirs = bench.best(sqlite_peer.read_by_offset(connection, offsets)) * 1e6 / len(offsets)
    yield Row(row, "us", micros, sqlite_peer.name(), theirs, BY_OFFSET_BAR_SQLITE, lower_is_better=True)


def _by_timestamp(bench: Bench, data: LogData) -> Iterator[Row]:
    row = "log/read/by-timestamp"
    if not bench.selected(row):
        return
    directory = data.lookups
    targets, timestamps = data.timestamps(directory, bench.effort.scale(20_000, 100_000))
    request = {"task": "by-timestamp", "targets": str(targets), **directory.request()}
    with peer(bench, "LogLookups", **request) as kafka, _opened(directory) as log:
        look_up = log.offset_for_timestamp
        agree(row, kafka.witness, sum(found.offset for t in timestamps if (found := look_up(t)) is not None))

        def work() -> None:
            for timestamp in timestamps:
                look_up(timestamp)

        times = by_turns(bench, kafka, work)
    micros, theirs = (seconds * 1e6 / len(timestamps) for seconds in (times.seconds, times.kafka_seconds))
    yield Row(row, "us", micros, KAFKA, theirs, BY_TIMESTAMP_BAR, lower_is_better=True, spread=times.spread)


def _bulk(bench: Bench, data: LogData) -> Iterator[Row]:
    row = "log/index/bulk"
    if not bench.selected(row):
        return
    path, targets, offsets = data.index(bench.effort.scale(500_000, 2_000_000))
    kafka = bench.kafka_timing("LogLookups", task="index", targets=str(targets), file=str(path))
    index = OffsetIndex(Directory(path.parent, LOCAL), 0)
    agree(row, kafka.witness, int(index.lookup_many(offsets)[1].sum()))
    speed = len(offsets) / bench.best(lambda: index.lookup_many(offsets)) / 1e6
    index.close()
    yield Row.against_a_bar(row, "M look-ups/s", speed, BULK_BAR_MILLIONS, lower_is_better=False)
    yield Row(row, "M look-ups/s", speed, KAFKA, len(offsets) / kafka.seconds / 1e6)


# Open


def _open(bench: Bench, data: LogData) -> Iterator[Row]:
    row = "log/open/2000"
    if not bench.selected(row):
        return
    directory = data.segments(2000, PER_BATCH)
    kafka = bench.kafka_timing("LogOpens", **directory.request())

    @contextmanager
    def nothing_open() -> Iterator[list[Log]]:
        opened: list[Log] = []
        yield opened
        agree(row, kafka.witness, opened[0].log_end_offset)
        opened[0].close()

    def work(opened: list[Log]) -> None:
        opened.append(Log.open(directory.path, clean=True, recovery_point=directory.log_end))

    millis = bench.best_on(nothing_open, work) * 1e3
    yield Row(row, "ms", millis, KAFKA, kafka.seconds * 1e3, OPEN_BAR, lower_is_better=True)


def _open_memory(bench: Bench, data: LogData) -> Iterator[Row]:
    row = "log/open/20000-memory"
    if not bench.selected(row):
        return
    directory = data.segments(20_000, 1)
    command = [sys.executable, "-m", "benchmarks.log_memory", str(directory.path), str(directory.log_end)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    megabytes = int(done.stdout) / 1e6
    yield Row.against_a_bar(row, "MB", megabytes, OPEN_MEMORY_BAR_MB, lower_is_better=True)


# Scan


def _scan(bench: Bench, data: LogData) -> Iterator[Row]:
    row = "log/scan/threads"
    if not bench.selected(row):
        return
    directory = data.compressed
    amount = sum(log.stat().st_size for log in directory.path.glob("*.log")) / 1e6

    def scan(threads: int) -> Callable[[], None]:
        def work() -> None:
            read = 0
            for batch in tidelog.scan(directory.path, threads=threads):
                read += batch.num_rows
                del batch  # or it would live beside the next one
            agree(row, directory.log_end, read)

        return work

    one, two = (amount / bench.best_elapsed(scan(threads)) for threads in (1, SCAN_THREADS))
    bar = SCAN_BAR if len(os.sched_getaffinity(0)) >= SCAN_THREADS else None
    yield Row(row, "MB/s", two, "itself on one thread", one, bar)
