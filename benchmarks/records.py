"""Records: decode to Arrow, scan of batch headers, encode from Arrow, memory of a decode.

Data: `.log` files that Kafka wrote, 100 B JSON values without keys, 150 records a batch (16.5 KB) or one. The
file is open on both sides before the clock starts, as a log keeps its segments open: Kafka reads it through
FileRecords, as its own log does, we through a mapping. The page cache is warm, every CRC is checked. The rows
named "opening" time the opening as well, of a file that is read in windows, as a scan reads it.

Kafka's plain iteration over a batch is what the bars are about; its streaming iteration is for information.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import aiokafka_peer, ours
from benchmarks.harness import KAFKA, Bench
from benchmarks.report import Row
from benchmarks.turns import Turns, by_turns, peer

__all__ = ["rows"]

PER_BATCH = 150
CODECS = ("none", "lz4", "snappy", "zstd", "gzip")

DECODE_BARS = {
    "none-150": 5.0,
    "none-1": 8.0,
    "lz4-150": 2.5,
    "snappy-150": 1.8,
    "zstd-150": 1.8,
    "gzip-150": 1.8,
}
SCAN_BARS = {"none-150": 2.5, "none-1": 2.5}
OPENING_BAR = 4.0
ENCODE_BARS = {"none": 2.0}
MEMORY_BAR = 0.9
"""Eight times the file in no more memory; a tenth is the allocator's noise."""


def rows(bench: Bench) -> Iterator[Row]:
    """The group's rows, in order."""
    logs = _make_logs(bench)
    for name, bar in DECODE_BARS.items():
        yield from _decode(bench, name, logs[name], bar)
    for name, bar in SCAN_BARS.items():
        yield from _scan(bench, name, logs[name], bar)
    yield from _opening(bench, "decode", ours.decode_file, logs["none-150"])
    yield from _opening(bench, "scan", ours.scan_file, logs["none-150"])
    for codec in CODECS:
        yield from _encode(bench, codec, logs["none-150"])
    yield from _memory(bench, logs["none-150"])


def _make_logs(bench: Bench) -> dict[str, Path]:
    bench.say("writing the data")
    batched = bench.effort.scale(300_000, 1_200_000)
    single = bench.effort.scale(100_000, 400_000)
    wanted = {f"{codec}-{PER_BATCH}": (codec, batched, PER_BATCH) for codec in CODECS}
    wanted["none-1"] = ("none", single, 1)
    logs = {name: bench.scratch / f"{name}.log" for name in wanted}
    requests = [
        {
            "file": str(logs[name]),
            "codec": codec,
            "records": records,
            "per_batch": per_batch,
            "value_bytes": 100,
        }
        for name, (codec, records, per_batch) in wanted.items()
    ]
    bench.kafka("MakeLogs", logs=requests)
    return logs


def _decode(bench: Bench, name: str, log: Path, bar: float) -> Iterator[Row]:
    row = f"records/decode/{name}"
    if not bench.selected(row):
        return
    with peer(bench, "Records", task="decode", file=str(log)) as kafka, ours.mapped(log) as data:
        millions = ours.decode(data) / 1e6
        times = by_turns(bench, kafka, lambda: ours.decode(data))
    speed = millions / times.seconds
    yield _row(row, "M records/s", millions, times, bar)
    compressed = not name.startswith("none")
    if bench.effort.quick and compressed:
        return
    if compressed:
        streaming = millions / bench.kafka_seconds("Records", task="decode-streaming", file=str(log))
        yield Row(row, "M records/s", speed, f"{KAFKA} streaming", streaming)
    if aiokafka_peer.AVAILABLE:
        theirs = millions / bench.best(aiokafka_peer.decode(log))
        yield Row(row, "M records/s", speed, aiokafka_peer.name(), theirs)


def _scan(bench: Bench, name: str, log: Path, bar: float) -> Iterator[Row]:
    row = f"records/scan/{name}"
    if not bench.selected(row):
        return
    megabytes = log.stat().st_size / 1e6
    with peer(bench, "Records", task="scan", file=str(log)) as kafka, ours.mapped(log) as data:
        times = by_turns(bench, kafka, lambda: ours.scan(data))
    yield _row(row, "MB/s", megabytes, times, bar)


def _opening(bench: Bench, task: str, work: Callable[[Path], int], log: Path) -> Iterator[Row]:
    """A file that is read once, in windows as all readers but the log's own do: opening and reading count."""
    row = f"records/{task}-opening/none-{PER_BATCH}"
    if not bench.selected(row):
        return
    megabytes = log.stat().st_size / 1e6
    with peer(bench, "Records", task=f"{task}-opening", file=str(log)) as kafka:
        times = by_turns(bench, kafka, lambda: work(log))
    yield _row(row, "MB/s", megabytes, times, OPENING_BAR)


def _row(name: str, unit: str, amount: float, times: Turns, bar: float | None) -> Row:
    return Row(
        name, unit, amount / times.seconds, KAFKA, amount / times.kafka_seconds, bar, spread=times.spread
    )


def _encode(bench: Bench, codec: str, log: Path) -> Iterator[Row]:
    row = f"records/encode/{codec}-{PER_BATCH}"
    if not bench.selected(row) or (bench.effort.quick and codec not in ENCODE_BARS):
        return
    records = ours.load(log)
    millions = len(records) / 1e6
    with peer(bench, "Records", task="encode", file=str(log), codec=codec, per_batch=PER_BATCH) as kafka:
        times = by_turns(bench, kafka, ours.encode(records, codec, PER_BATCH))
    yield _row(row, "M records/s", millions, times, ENCODE_BARS.get(codec))
    if codec == "none" and aiokafka_peer.AVAILABLE:
        values = records["value"].to_pylist()
        theirs = millions / bench.best(aiokafka_peer.encode(values, PER_BATCH))
        yield Row(row, "M records/s", millions / times.seconds, aiokafka_peer.name(), theirs)


def _memory(bench: Bench, log: Path) -> Iterator[Row]:
    row = "records/decode-memory"
    if not bench.selected(row):
        return
    small, large = (bench.scratch / f"memory-{copies}.log" for copies in (1, 8))
    megabytes = bench.effort.scale(64, 128)
    _repeat(log, small, megabytes)
    _repeat(log, large, 8 * megabytes)
    peaks = {path: _peak(path, log_of_one_batch(bench, log)) for path in (small, large)}
    yield Row(
        row,
        "MB over baseline",
        peaks[large] / 1e6,
        "itself at 1/8 size",
        peaks[small] / 1e6,
        MEMORY_BAR,
        lower_is_better=True,
    )


def log_of_one_batch(bench: Bench, log: Path) -> Path:
    """The first batch of a file, for a decode that only warms up."""
    path = bench.scratch / "one.log"
    with log.open("rb") as file:
        head = file.read(12)
        path.write_bytes(head + file.read(int.from_bytes(head[8:])))
    return path


def _repeat(log: Path, target: Path, megabytes: int) -> None:
    """The file's bytes over and over: batches do not know where they are, and decoding does not mind."""
    data = log.read_bytes()
    with target.open("wb") as file:
        while file.tell() < megabytes << 20:
            file.write(data)


def _peak(log: Path, warm_up: Path) -> int:
    command = [sys.executable, "-m", "benchmarks.memory", str(log), str(warm_up)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout)
