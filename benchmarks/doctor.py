"""Doctor and rewrite: what a stock broker's disk takes to be examined, and to have records erased.

    examine   `tidelog doctor` of a sound root, every header and checksum, against Kafka's recovery of it: its
              UnifiedLog, one log after the other, from offset 0 on, without indexes
    rewrite   the records of some keys erased from a topic that a stock broker wrote, with the originals kept,
              against a program that consumes the topic through confluent-kafka and produces all others to
              another topic of the broker
    memory    of both, in a process of their own: over what it had before

The log ends are compared, and the records that are left.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.oracle.broker import STOCK_JVM
from tests.oracle.oracle import Oracle

import tidelog
from benchmarks.harness import KAFKA, Bench, agree, best_seconds_on
from benchmarks.log_data import LogData
from benchmarks.report import Row
from tidelog.doctor import PartitionVerdict, examine
from tidelog.manager import BrokerConfig
from tidelog.rewriting.edits import Edits
from tidelog.rewriting.rewrite import Rewriting, rewrite_root, threads
from tidelog.scanning.filters import RecordFilter
from tidelog.storage import LOCAL

__all__ = ["erase_some", "examine_root", "rows"]

EXAMINE_BAR, REWRITE_BAR = 4.0, 3.0
MEMORY_BAR_MB = 256.0
_SETTINGS = {"log.retention.ms": -1}
_LOGS = 10
_USERS = 1000
_ERASED = 10
_PATIENCE_S = 120.0
_CONSUMED = 10_000


def rows(bench: Bench) -> Iterator[Row]:
    """The group's rows, in order."""
    yield from _examine(bench)
    yield from _rewrite(bench)


# Doctor


def examine_root(root: Path) -> int:
    """The sum of the log ends that doctor foretells."""
    now_ms = time.time_ns() // 1_000_000
    config = BrokerConfig.from_properties(_SETTINGS)
    found = examine(LOCAL, [str(root)], config=config, now_ms=now_ms)
    return sum(one.log_end_offset or 0 for one in found if isinstance(one, PartitionVerdict))


def _examine(bench: Bench) -> Iterator[Row]:
    row, memory = "doctor/examine", "doctor/examine/memory"
    if not bench.selected(row):
        return
    root = bench.scratch / "doctor"
    megabytes = bench.effort.scale(60, 1024)
    bench.say(f"writing {_LOGS} logs of {megabytes} MiB")
    source = str(LogData(bench).batched)
    logs = [{"dir": str(root / f"log.{n}-0"), "file": source, "megabytes": megabytes} for n in range(_LOGS)]
    bench.kafka("LogMake", logs=[one | {"config": {}} for one in logs])
    config = BrokerConfig.from_properties(_SETTINGS)
    with tidelog.open(root, config=config, adopt=True, recover=True, background=False):
        pass
    amount = sum(path.stat().st_size for path in root.rglob("*.log")) / 1e6
    ours = examine_root(root)
    seconds = bench.best(lambda: examine_root(root))
    peak = _peak("examine", root)
    kafka = bench.kafka_timing("LogLoads", root=str(root), config={}, clean=False)
    agree(row, kafka.witness, ours)
    yield Row(row, "MB/s", amount / seconds, f"recovery of {KAFKA}", amount / kafka.seconds, EXAMINE_BAR)
    yield Row.against_a_bar(memory, "MB", peak, MEMORY_BAR_MB, lower_is_better=True)
    shutil.rmtree(root)


# Rewrite


def erase_some(root: Path, topic: str) -> int:
    """Erase the records of some keys; how many."""
    keys = RecordFilter.keys_of(b"user-%d" % number for number in range(_ERASED))
    edits = Edits(RecordFilter(keys=keys), erase=True)
    done = rewrite_root(Rewriting(LOCAL, str(root), (f"{topic}-0",), edits), threads(LOCAL, 2))
    return done.partitions[0].stats.records_erased


def _rewrite(bench: Bench) -> Iterator[Row]:
    row, memory = "doctor/rewrite", "doctor/rewrite/memory"
    if not bench.selected(row):
        return
    root, count = bench.scratch / "rewrite", bench.effort.scale(200_000, 2_000_000)
    with Oracle.obtain().broker(root, jvm=STOCK_JVM) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        for made in admin.create_topics([NewTopic(name, 1, 1) for name in ("source", "target")]).values():
            made.result(_PATIENCE_S)
        _produce(broker.address, count)
        start = time.perf_counter()
        left = _reproduce(broker.address, count)
        theirs = count / (time.perf_counter() - start)

    @contextmanager
    def copied() -> Iterator[Path]:
        copy = bench.scratch / "rewritten"
        shutil.copytree(root, copy)
        yield copy
        shutil.rmtree(copy)

    def work(copy: Path) -> None:
        agree(row, count - left, erase_some(copy, "source"))

    # the peer waits for a broker, so both go by the clock on the wall, whatever is asked for
    seconds = best_seconds_on(copied, work, bench.effort.measure_s, time.perf_counter)
    with copied() as copy:
        peak = _peak("rewrite", copy)
    yield Row(row, "records/s", count / seconds, "consume and produce, confluent-kafka", theirs, REWRITE_BAR)
    yield Row.against_a_bar(memory, "MB", peak, MEMORY_BAR_MB, lower_is_better=True)


def _producer(where: str) -> Producer:
    more = {"linger.ms": 20, "queue.buffering.max.messages": 1_000_000, "log_level": 0}
    return Producer({"bootstrap.servers": where, **more})


def _produce(where: str, count: int) -> None:
    producer = _producer(where)
    value = b"v" * 100
    for number in range(count):
        producer.produce("source", value, key=b"user-%d" % (number % _USERS), partition=0)
        if number % _CONSUMED == 0:
            producer.poll(0)
            producer.flush(_PATIENCE_S)
    if producer.flush(_PATIENCE_S):
        raise RuntimeError(f"{where} takes no records")


def _reproduce(where: str, count: int) -> int:
    """Copy the topic without the records of some keys; how many are left."""
    gone = {b"user-%d" % number for number in range(_ERASED)}
    consumer = Consumer({"bootstrap.servers": where, "group.id": "copy", "enable.auto.commit": False})
    consumer.assign([TopicPartition("source", 0, OFFSET_BEGINNING)])
    producer = _producer(where)
    left = read = 0
    while read < count:
        messages = consumer.consume(_CONSUMED, 1.0)
        for message in messages:
            if message.key() not in gone:
                left += 1
                producer.produce("target", message.value(), key=message.key(), partition=0)
        read += len(messages)
        producer.poll(0)
    if producer.flush(_PATIENCE_S):
        raise RuntimeError(f"{where} takes no records")
    consumer.close()
    return left


def _peak(task: str, root: Path) -> float:
    """The memory of a task in a process of its own, in MB."""
    command = [sys.executable, "-m", "benchmarks.doctor_memory", task, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout) / 1e6
