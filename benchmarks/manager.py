"""Manager: recovery after a crash, loading many logs. Kafka's side loads them as its LogManager does.

    recover   one log from offset 0 on, without indexes and snapshots: every batch is checked, all is rebuilt
    load      a root of many logs that was closed cleanly: our whole `open`, metadata included, against
              Kafka's checkpoints and logs alone

Both on one thread. Taking the indexes away and closing the logs are not timed. The log ends are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tidelog
from benchmarks.harness import KAFKA, Bench, agree
from benchmarks.log_data import PER_BATCH, LogData, write_segments
from benchmarks.report import Row
from tidelog.config import LogConfig
from tidelog.log import Log
from tidelog.manager import BrokerConfig, Store
from tidelog.records.record import Record, encode_records

__all__ = ["rows"]

RECOVER_BAR = 4.0
LOAD_BAR = 1.0

_SEGMENT_BYTES = 64 << 20
_SEGMENTS = 10
_REBUILT = (".index", ".timeindex", ".txnindex", ".snapshot")


def rows(bench: Bench) -> Iterator[Row]:
    """The group's rows, in order."""
    data = LogData(bench)
    yield from _recover(bench, data, PER_BATCH)
    yield from _recover(bench, data, 1)
    yield from _load(bench)


def _recover(bench: Bench, data: LogData, per_batch: int) -> Iterator[Row]:
    row = f"manager/recover/{per_batch}"
    if not bench.selected(row):
        return
    root = bench.scratch / f"recover-{per_batch}"
    root.mkdir()
    directory = root / "crashed-0"
    settings = {"segment.bytes": str(_SEGMENT_BYTES)}
    megabytes = bench.effort.scale(128, 512) if per_batch > 1 else bench.effort.scale(64, 192)
    source = data.batched if per_batch > 1 else data.single
    request = {"dir": str(directory), "file": str(source), "megabytes": megabytes, "config": settings}
    bench.kafka("LogMake", logs=[request])
    amount = sum(log.stat().st_size for log in directory.glob("*.log")) / 1e6
    kafka = bench.kafka_timing("LogLoads", root=str(root), config=settings, clean=False)
    config = LogConfig.from_properties(settings)

    @contextmanager
    def crashed() -> Iterator[list[Log]]:
        for file in directory.iterdir():
            if file.suffix in _REBUILT:
                file.unlink()
        opened: list[Log] = []
        yield opened
        agree(row, kafka.witness, opened[0].log_end_offset)
        opened[0].close()

    def work(opened: list[Log]) -> None:
        opened.append(Log.open(directory, config))

    seconds = bench.best_on(crashed, work)
    yield Row(row, "MB/s", amount / seconds, KAFKA, amount / kafka.seconds, RECOVER_BAR)


def _load(bench: Bench) -> Iterator[Row]:
    count = bench.effort.scale(200, 1000)
    row = f"manager/load/{count}x{_SEGMENTS}"
    if not bench.selected(row):
        return
    root = bench.scratch / "load"
    bench.say(f"writing {count:,} logs of {_SEGMENTS} segments")
    config = _make_root(root, count)
    kafka = bench.kafka_timing("LogLoads", root=str(root), config={}, clean=True)

    @contextmanager
    def closed() -> Iterator[list[Store]]:
        opened: list[Store] = []
        yield opened
        agree(row, kafka.witness, sum(partition.log_end_offset for partition in opened[0].partitions))
        opened[0].close()

    def work(opened: list[Store]) -> None:
        opened.append(tidelog.open(root, config=config, background=False))

    millis = bench.best_on(closed, work) * 1e3
    yield Row(row, "ms", millis, KAFKA, kafka.seconds * 1e3, LOAD_BAR, lower_is_better=True)


def _make_root(root: Path, count: int) -> BrokerConfig:
    """A root of so many one-partition topics, closed cleanly."""
    config = BrokerConfig.from_properties({"num.recovery.threads.per.data.dir": 1, "log.retention.ms": -1})
    root.mkdir()
    batch = encode_records([Record(b"a value", b"a key", timestamp=1_700_000_000_000)])
    ends = []
    for number in range(count):
        directory = root / f"topic.{number}-0"
        directory.mkdir()
        ends.append(f"topic.{number} 0 {write_segments(directory, batch, _SEGMENTS)}")
    points = "\n".join(["0", str(count), *ends])
    (root / "recovery-point-offset-checkpoint").write_text(f"{points}\n")
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    tidelog.open(root, config=config, background=False).close()  # which registers what is there
    return config
