"""Compaction: a log cleaned from its start, by Kafka's Cleaner and by ours, one thread each.

    clean    ten versions a key: nine records of ten go. Uncompressed, LZ4, and batches of one record
    keep     no key comes twice: everything is read twice and copied
    memory   20 million keys and a map of 64 MB: what is held in memory while that takes many rounds

Keys are random numbers of 8 bytes, values 100 random bytes, as in the measurements of Kafka's engine that the
bar was set by. Each repetition works on a copy whose `.log` files are links; making and opening it is not
timed. The sizes of the cleaned logs are compared (compressed ones may differ a little: so do compressors).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.harness import KAFKA, Bench, DifferentAnswersError
from benchmarks.log_data import FIRST_TIMESTAMP, PER_BATCH, LogDirectory
from benchmarks.report import Row
from benchmarks.turns import by_turns_on, peer
from tidelog.cleanup.cleaner import LocalPasses, clean_log
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.config import LogConfig
from tidelog.log import Log
from tidelog.types import Codec

__all__ = ["CLEAN_AT_MS", "rows", "write_log"]

CLEAN_AT_MS = 1_800_000_000_000

_MAP_BYTES = 128 << 20
_SEGMENT_BYTES = 64 << 20
_VERSIONS = 10
_CHUNK = 150_000
_SEED = 7


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    codec: Codec
    per_batch: int
    versions: int
    bar: float
    records: tuple[int, int]


_CASES = (
    _Case("clean/none-150", Codec.NONE, PER_BATCH, _VERSIONS, 6.0, (1_000_000, 5_000_000)),
    _Case("clean/lz4-150", Codec.LZ4, PER_BATCH, _VERSIONS, 5.0, (1_000_000, 5_000_000)),
    _Case("clean/none-1", Codec.NONE, 1, _VERSIONS, 3.0, (300_000, 1_000_000)),
    _Case("keep/none-150", Codec.NONE, PER_BATCH, 1, 5.0, (600_000, 3_000_000)),
)


def rows(bench: Bench) -> Iterator[Row]:
    """The group's rows, in order."""
    for case in _CASES:
        if bench.selected(f"compaction/{case.name}"):
            yield _clean(bench, case)
    yield from _memory(bench)


def write_log(
    path: Path,
    records: int,
    keys: npt.NDArray[np.int64] | None,
    *,
    codec: Codec = Codec.NONE,
    per_batch: int = PER_BATCH,
    value_bytes: int = 100,
) -> LogDirectory:
    """A log closed cleanly, its last segment empty. `keys` tells each record's; None: all are different."""
    settings = {
        "segment.bytes": str(_SEGMENT_BYTES),
        "cleanup.policy": "compact",
        "file.delete.delay.ms": "0",
    }
    value = np.random.default_rng(_SEED).bytes(value_bytes)
    with Log.open(path, LogConfig.from_properties(settings), clean=True) as log:
        for start in range(0, records, _CHUNK):
            count = min(_CHUNK, records - start)
            numbers = np.arange(start, start + count) if keys is None else keys[start : start + count]
            columns = {
                "key": _fixed(numbers.astype(">i8").tobytes(), 8, count),
                "value": _fixed(value * count, value_bytes, count),
                "timestamp": pa.array(np.arange(start, start + count) + FIRST_TIMESTAMP),
            }
            log.append_as_leader(
                pa.RecordBatch.from_pydict(columns),
                codec=codec,
                max_batch_records=per_batch,
                max_batch_bytes=1 << 20,
            )
        log.roll()
        return LogDirectory(path, log.log_end_offset, settings)


def _fixed(data: bytes, size: int, count: int) -> pa.Array:
    column = pa.Array.from_buffers(pa.binary(size), count, [None, pa.py_buffer(data)])
    return column.cast(pa.binary())


def _clean(bench: Bench, case: _Case) -> Row:
    row = f"compaction/{case.name}"
    count = bench.effort.scale(*case.records)
    keys = None
    if case.versions > 1:
        keys = np.random.default_rng(_SEED).integers(0, count // case.versions, count)
    bench.say(f"writing {count:,} records to be cleaned")
    source = bench.scratch / f"{case.name.replace('/', '.')}-0"
    made = write_log(source, count, keys, codec=case.codec, per_batch=case.per_batch)
    amount = sum(log.stat().st_size for log in source.glob("*.log")) / 1e6
    copy = bench.scratch / "copy" / source.name
    request = {
        "source": str(source),
        "copy": str(copy.with_name("theirs") / source.name),
        "log_end": made.log_end,
        "config": made.config,
        "map_bytes": _MAP_BYTES,
        "clean_at_ms": CLEAN_AT_MS,
    }
    passes = LocalPasses(OffsetMap(_MAP_BYTES))
    sizes: list[int] = []

    def work(log: Log) -> None:
        clean_log(log, passes, first_dirty_offset=0, upper_bound=log.log_end_offset, now_ms=CLEAN_AT_MS)
        sizes.append(log.size)

    with peer(bench, "LogCleans", **request) as kafka:
        times = by_turns_on(bench, kafka, lambda: _copied(made, copy), work)
    if abs(sizes[-1] - kafka.witness) > (kafka.witness // 20 if case.codec else 0):
        raise DifferentAnswersError(f"{row}: Kafka leaves {kafka.witness} bytes, tidelog {sizes[-1]}")
    shutil.rmtree(source)
    ours, theirs = amount / times.seconds, amount / times.kafka_seconds
    return Row(row, "MB/s", ours, KAFKA, theirs, case.bar, spread=times.spread)


@contextmanager
def _copied(made: LogDirectory, copy: Path) -> Iterator[Log]:
    """The log opened on a copy."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    for file in made.path.iterdir():
        (os.link if file.suffix == ".log" else shutil.copy)(file, copy / file.name)
    config = LogConfig.from_properties(made.config)
    with Log.open(copy, config, clean=True, recovery_point=made.log_end) as log:
        yield log
    shutil.rmtree(copy)


def _memory(bench: Bench) -> Iterator[Row]:
    keys = bench.effort.scale(2_000_000, 20_000_000)
    row = f"compaction/memory/{keys // 1_000_000}M"
    if not bench.selected(row):
        return
    map_mb = bench.effort.scale(8, 64)
    bench.say(f"writing {keys:,} keys")
    source = bench.scratch / "memory-0"
    made = write_log(source, keys, None, value_bytes=16)
    command = [sys.executable, "-m", "benchmarks.compaction_memory", str(source), str(map_mb << 20)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    shutil.rmtree(source)
    peak, rounds = (int(word) for word in done.stdout.split())
    bench.say(f"{made.log_end:,} keys took {rounds} rounds")
    yield Row.against_a_bar(row, "MB", peak / (1 << 20), map_mb + 64.0, lower_is_better=True)
