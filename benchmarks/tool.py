"""The command line tool: how fast it starts, and how it shows a segment and a root beside Kafka's own tool.

Processes are measured whole, start included: by the clock, or with --cpu-time by what they and their
children spent on the CPU.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.dump_log import DUMP_LOG, as_the_script
from benchmarks.harness import KAFKA, Bench
from benchmarks.report import Row
from tidelog.log import Log

__all__ = ["rows"]

STARTUP_BAR_S = 0.3
DUMP_BAR = 10.0
DUMP_SMALL_BAR = 8.0
SMALL_RECORDS = 90_000  # 10 MB
LIST_BAR_S = 5.0
PARTITIONS = 2_000

_COMMAND = Path(sys.executable).with_name("tidelog")
_OURS, _THEIRS = 5, 2  # repetitions; Kafka's tool takes its time


def rows(bench: Bench) -> Iterator[Row]:
    """The group's rows, in order."""
    if bench.selected("tool/startup"):
        seconds = _best(bench, [str(_COMMAND), "--help"], _OURS)
        yield Row.against_a_bar("tool/startup", "s", seconds, STARTUP_BAR_S, lower_is_better=True)
    if bench.selected("tool/dump-deep/10MB"):
        yield from _dump_small(bench)
    for codec in ("none", "zstd"):
        if bench.selected(f"tool/dump-deep/{codec}-150"):
            records = bench.effort.scale(2_000_000, 8_000_000)
            yield _dump(bench, f"{codec}-150", codec, records, DUMP_BAR if codec == "none" else None)
    if bench.selected(f"tool/ls/{PARTITIONS}"):
        yield _list(bench)


def _dump(bench: Bench, what: str, codec: str, records: int, bar: float | None) -> Row:
    """All records of a segment as lines, by us and by kafka-dump-log, in turns.

    Of compressed ones both spend much of their time in the same C library; that row has no bar.
    """
    log = _dumped(bench, what, codec, records)
    java = bench.programs.command(DUMP_LOG, ["--deep-iteration", "--files", str(log)])
    best, theirs = _dump_by_turns(bench, log, java)
    name = f"tool/dump-deep/{what}"
    return Row(name, "records/s", records / best, f"kafka-dump-log, {KAFKA}", records / theirs, bar)


def _dump_small(bench: Bench) -> Iterator[Row]:
    """A small segment, where starting is most of it: the JVM as the script starts it, and a bare one."""
    log = _dumped(bench, "10MB", "none", SMALL_RECORDS)
    args = ["--deep-iteration", "--files", str(log)]
    for name, peer, java, bar in (
        ("10MB", "JVM of kafka-dump-log.sh", as_the_script(bench, args), DUMP_SMALL_BAR),
        ("10MB-bare", "JVM without options", bench.programs.command(DUMP_LOG, args), None),
    ):
        best, theirs = _dump_by_turns(bench, log, java)
        yield Row(f"tool/dump-deep/{name}", "s", best, peer, theirs, bar, lower_is_better=True)


def _dumped(bench: Bench, what: str, codec: str, records: int) -> Path:
    """A segment to be dumped."""
    log = bench.scratch / f"dump-{what}" / f"{0:020}.log"
    log.parent.mkdir()
    _make(bench, log, codec, records)
    return log


def _dump_by_turns(bench: Bench, log: Path, java: Sequence[str]) -> tuple[float, float]:
    """The best seconds of ours, and of theirs."""
    ours = [str(_COMMAND), "dump", "--deep", str(log)]
    turns = [(_best(bench, ours, _OURS), _seconds(bench, java)) for _ in range(_THEIRS)]
    best, theirs = (min(side) for side in zip(*turns, strict=True))
    return best, theirs


def _list(bench: Bench) -> Row:
    """A root of many partitions."""
    batches, root = bench.scratch / "listed.log", bench.scratch / "listed"
    _make(bench, batches, "lz4", 1_500)
    root.mkdir()
    with Log.open(root / "orders-0") as log:
        log.append_as_follower(batches.read_bytes())
    for number in range(1, PARTITIONS):
        shutil.copytree(root / "orders-0", root / f"orders-{number}")
    seconds = _best(bench, [str(_COMMAND), "ls", "--json", str(root)], _OURS)
    return Row.against_a_bar(f"tool/ls/{PARTITIONS}", "s", seconds, LIST_BAR_S, lower_is_better=True)


def _make(bench: Bench, log: Path, codec: str, records: int) -> None:
    request = {"file": str(log), "codec": codec, "records": records, "per_batch": 150, "value_bytes": 100}
    bench.kafka("MakeLogs", logs=[request])


def _best(bench: Bench, command: Sequence[str], repetitions: int) -> float:
    """Seconds of the best run of a command."""
    return min(_seconds(bench, command) for _ in range(repetitions))


def _seconds(bench: Bench, command: Sequence[str]) -> float:
    start = _children_s() if bench.effort.cpu_time else time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=600)
    return (_children_s() if bench.effort.cpu_time else time.perf_counter()) - start


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
