"""`report`: the facts of a large root from its headers, beside a scan of the same headers; and memory.

The peer walks the headers by the same windows in as many threads and counts nothing. A header scan reads
every byte of files that others may write: it maps none of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.harness import Bench
from benchmarks.log_data import ready_batches
from benchmarks.memory import watched_peak
from benchmarks.report import Row
from tidelog.config import LogConfig
from tidelog.log import Log
from tidelog.records.windows import read_windows
from tidelog.report.facts import gather
from tidelog.report.page import page
from tidelog.storage import LOCAL
from tidelog.storage.reading import FileReader
from tidelog.types import TimestampType

__all__ = ["rows"]

SCAN_BAR = 0.8
GROWTH_BAR_BYTES = 32 << 20
MEMORY_BAR_BYTES = 256 << 20
PAGE_BAR_BYTES = 5_000_000


def rows(bench: Bench) -> Iterator[Row]:
    """The group's rows, in order."""
    if bench.selected("report/facts") or bench.selected("report/memory"):
        root = _large(bench, gigabytes=bench.effort.scale(1, 10))
        logs = sorted(root.glob("*/*.log"))
        size = sum(log.stat().st_size for log in logs)
        if bench.selected("report/facts"):
            ours = bench.best_elapsed(lambda: gather(root, threads=2))
            theirs = bench.best_elapsed(lambda: _scan_headers(logs, threads=2))
            yield Row("report/facts", "bytes/s", size / ours, "a header scan", size / theirs, SCAN_BAR)
        if bench.selected("report/memory"):
            gather(root / "orders-0", threads=2)
            quarter = watched_peak(lambda: gather(root / "orders-0", threads=2))
            peak = watched_peak(lambda: gather(root, threads=2))
            grown = max(peak - quarter, 1)
            yield Row.against_a_bar("report/growth", "bytes", grown, GROWTH_BAR_BYTES, lower_is_better=True)
            yield Row.against_a_bar("report/memory", "bytes", peak, MEMORY_BAR_BYTES, lower_is_better=True)
    if bench.selected("report/page/1000"):
        facts = gather(_many(bench))
        yield Row.against_a_bar(
            "report/page/1000", "bytes", len(page(facts)), PAGE_BAR_BYTES, lower_is_better=True
        )


def _scan_headers(logs: list[Path], threads: int) -> None:
    def scan(log: Path) -> int:
        file = FileReader.open(LOCAL, log)
        return sum(len(window.table) for window in read_windows(file, 0, file.size))

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(scan, logs))


def _large(bench: Bench, gigabytes: int) -> Path:
    """A root of four partitions; the files of three are links to those of the first.

    Records have the time of their append: with the same times again and again, time indexes would be empty.
    """
    batches, root = bench.scratch / "facts.log", bench.scratch / "facts"
    request = {
        "file": str(batches),
        "codec": "none",
        "records": 15_000,
        "per_batch": 150,
        "value_bytes": 1000,
    }
    bench.kafka("MakeLogs", logs=[request])
    ready = ready_batches(batches)
    root.mkdir()
    with Log.open(root / "orders-0", LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)) as log:
        while log.size < (gigabytes << 30) // 4:
            for batch in ready:
                log.append_as_leader(batch)
    _link(root / "orders-0", [root / f"orders-{number}" for number in range(1, 4)])
    return root


def _many(bench: Bench) -> Path:
    """A thousand partitions of ten segments."""
    root = bench.scratch / "many"
    root.mkdir()
    with Log.open(root / "orders-0") as log:
        for _ in range(9):
            for batch in _some(bench):
                log.append_as_leader(batch)
            log.roll()
    _link(root / "orders-0", [root / f"orders-{number}" for number in range(1, 1000)])
    return root


def _some(bench: Bench) -> list[bytes]:
    file = bench.scratch / "some.log"
    if not file.exists():
        request = {"file": str(file), "codec": "lz4", "records": 600, "per_batch": 150, "value_bytes": 100}
        bench.kafka("MakeLogs", logs=[request])
    return ready_batches(file)


def _link(source: Path, targets: list[Path]) -> None:
    for target in targets:
        target.mkdir()
        for file in source.iterdir():
            (target / file.name).hardlink_to(file)
