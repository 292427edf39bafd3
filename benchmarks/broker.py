"""One broker beside a stock one: the same client programs of Kafka's, on the same machine.

Records have 100 bytes. Each broker has a process of its own, with its default settings; the stock one has the
heap of `kafka-server-start.sh`. Start-up is the time to the first acknowledged record, of programs that have
been started before: Python's modules are compiled, as pip does when it installs them. Latency is that of the
steady state: the first seconds are those of a Java client that is not compiled yet.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from tests.oracle.broker import STOCK_JVM
from tests.oracle.oracle import Oracle

from benchmarks.harness import KAFKA, Bench
from benchmarks.report import Row

__all__ = ["rows"]

START_BAR, MEMORY_BAR = 8.0, 5.0
RECORD_BYTES = 100
_TOOLS = "org.apache.kafka.tools"
_CLIENT_JVM = ("-Xms256m", "-Xmx512m")
_RATE = re.compile(r"([0-9.]+) records/sec")
_P99 = re.compile(r"([0-9]+) ms 99th")
_LIMIT_S = 300.0
_PATIENCE_S = 60.0
_LATENCY_RATE = 5000


def rows(bench: Bench) -> Iterator[Row]:
    """The group's rows, in order."""
    if not bench.selected("broker"):
        return
    ours, theirs = _measure(bench, stock=False), _measure(bench, stock=True)
    peer = f"a stock broker, {KAFKA}"
    for name, unit, bar in (("produce", "records/s", 1.0), ("consume", "records/s", 1.0)):
        yield Row(f"broker/{name}", unit, ours[name], peer, theirs[name], bar)
    for name, unit, bar in (
        ("p99 at 5,000/s", "ms", 1.0),
        ("start", "s", START_BAR),
        ("memory", "MiB", MEMORY_BAR),
    ):
        yield Row(f"broker/{name}", unit, ours[name], peer, theirs[name], bar, lower_is_better=True)


def _measure(bench: Bench, *, stock: bool) -> dict[str, float]:
    records = bench.effort.scale(300_000, 3_000_000)
    root = bench.scratch / ("broker-stock" if stock else "broker-ours")
    if not stock:
        with _ours(bench.scratch / "broker-before") as (where, _):
            _first_record(where, "first")
    begin = time.monotonic()
    with _stock(root) if stock else _ours(root) as (where, pid):
        _first_record(where, "first")
        found = {"start": time.monotonic() - begin}
        _first_record(where, "perf")
        _first_record(where, "slow")
        produced = _produce(bench, where, "perf", records, -1)
        found["produce"] = float(_RATE.findall(produced)[-1])
        found["consume"] = _consume(bench, where, records)
        paced = _produce(bench, where, "slow", _LATENCY_RATE * 15, _LATENCY_RATE, _LATENCY_RATE * 5)
        found["p99 at 5,000/s"] = max(1.0, float(_P99.findall(paced)[-1]))
        found["memory"] = _resident_mib(pid)
    return found


@contextmanager
def _ours(root: Path) -> Iterator[tuple[str, int]]:
    command = [str(Path(sys.executable).with_name("tidelog")), "serve", "--json", "--listen", "127.0.0.1:0"]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(root.parent / "bytecode")
    with subprocess.Popen([*command, str(root)], env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            where = process.stdout.readline().split('"')[3]
            yield where, process.pid
        finally:
            process.terminate()


@contextmanager
def _stock(root: Path) -> Iterator[tuple[str, int]]:
    config = {"auto.create.topics.enable": "true"}
    with Oracle.obtain().broker(root, jvm=STOCK_JVM, config=config) as broker:
        yield broker.address, broker.process.pid


def _first_record(where: str, topic: str) -> None:
    """A record that is acknowledged, in a topic that comes to be by that."""
    producer = Producer({"bootstrap.servers": where})
    producer.produce(topic, b"v")
    if producer.flush(_PATIENCE_S):
        raise RuntimeError(f"{where} takes no records")


def _produce(bench: Bench, where: str, topic: str, records: int, rate: int, warmup: int = 0) -> str:
    """What Kafka's tool says; the last line is without the records of the warm-up, if there are any."""
    words = ["--topic", topic, "--num-records", str(records), "--record-size", str(RECORD_BYTES)]
    words += ["--throughput", str(rate), "--bootstrap-server", where, "--command-property", "acks=all"]
    words += ["--warmup-records", str(warmup)] if warmup else []
    return _run(bench, "ProducerPerformance", words)


def _consume(bench: Bench, where: str, records: int) -> float:
    words = ["--topic", "perf", "--num-records", str(records), "--bootstrap-server", where]
    said = _run(bench, "ConsumerPerformance", words)
    head, values = (line.split(", ") for line in said.strip().splitlines()[-2:])
    return float(values[head.index("fetch.nMsg.sec")])


def _run(bench: Bench, tool: str, words: list[str]) -> str:
    command = bench.programs.command(f"{_TOOLS}.{tool}", words, _CLIENT_JVM)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{tool} failed: {done.stderr[-2000:]}{done.stdout[-2000:]}")
    return done.stdout


def _resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (kib,) = re.findall(r"VmRSS:\s+([0-9]+)", status)
    return int(kib) / 1024
