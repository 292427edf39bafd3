"""Disks of a stock cluster with leader changes, reconciled and adopted: stock brokers serve the result, and a
consumer group goes on where it was.
"""

from __future__ import annotations

import shutil
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.command import run
from tests.golden import GOLDEN
from tests.reconciling.histories import stored
from tests.waiting import wait_until
from tidelog.testing.builders import cut_off, flip_bit

if TYPE_CHECKING:
    from tests.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.timeout(600)]

PATIENCE_S = 60.0
QUIET = {"log_level": 0}
REPLICATED = {
    "offsets.topic.replication.factor": 3,
    "default.replication.factor": 3,
    "min.insync.replicas": 1,
    "controlled.shutdown.max.retries": 1,
}


def produce(address: str, topic: str, numbers: range) -> set[bytes]:
    producer = Producer(QUIET | {"bootstrap.servers": address, "acks": "all", "linger.ms": 0})
    for n in numbers:
        producer.produce(topic, b"value-%d" % n, b"%d" % n, partition=n % 2)
        if n % 20 == 19:
            producer.flush(PATIENCE_S)
    assert producer.flush(PATIENCE_S) == 0
    return {b"value-%d" % n for n in numbers}


def consume(address: str, topic: str, limit: int | None = None, group: str = "readers") -> list[bytes]:
    """What a group's next member gets, at most so much; all that is left, without a limit. It commits.

    In the order of offsets within a partition, one partition after the other: which answers first is chance.
    """
    settings = {
        "bootstrap.servers": address,
        "group.id": group,
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(QUIET | settings | ({"auto.offset.reset": "earliest"} if limit else {}))
    found: list[tuple[int, bytes]] = []
    ended: set[int] = set()
    consumer.subscribe([topic])

    def step() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append((message.partition(), message.value()))
            ended.discard(message.partition())
            if len(found) == limit:
                return True
        elif message is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended.add(message.partition())
        return len(ended) == 2

    try:
        wait_until(step, "the records")
        if found:
            consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return [value for _, value in sorted(found, key=itemgetter(0))]


def fill(oracle: Oracle, disks: list[Path]) -> tuple[set[bytes], set[bytes]]:
    """A cluster whose leaders change and that is killed; what was written, and what a group read."""
    with oracle.cluster([[disk] for disk in disks], config=REPLICATED) as brokers:
        address = brokers[0].address
        admin = AdminClient(QUIET | {"bootstrap.servers": address})
        topic = NewTopic("orders", num_partitions=2, replication_factor=3, config={"retention.ms": "-1"})
        for future in admin.create_topics([topic], operation_timeout=30).values():
            future.result(timeout=PATIENCE_S)
        written = produce(address, "orders", range(200))
        read = set(consume(address, "orders", 120))
        brokers[2].stop()
        written |= produce(address, "orders", range(200, 400))
        for broker in brokers:
            broker.kill()
    return written, read


def test_a_group_goes_on_after_reconciling_and_adopting(oracle: Oracle, tmp_path: Path) -> None:
    disks = [tmp_path / f"disk-{number}" for number in range(3)]
    written, read = fill(oracle, disks)
    assert len(read) == 120
    for number, disk in enumerate(disks):
        for partition in (0, 1):
            for at, (log, position, size, _, _) in enumerate(list(stored(disk / f"orders-{partition}"))):
                is_last = log == max(log.parent.glob("*.log")) and position + size == log.stat().st_size
                if at % 3 == number and number < 2 and not is_last:
                    flip_bit(log, position + size - 1)
    cut_off(max((disks[0] / "orders-0").glob("*.log")), 30)
    merged, target = tmp_path / "merged", tmp_path / "target"
    done = run("reconcile", *disks, "--to", merged, "--json")
    assert done.code == 0, done.out + done.err
    assert run("doctor", merged, "--quiet").code == 0

    shutil.copytree(GOLDEN / "clean", target)
    adopted = run(
        "adopt", merged, "--topic", "orders", "--into", target, "--rename", "old-orders", "--groups", "--json"
    )
    assert adopted.code == 0, adopted.err
    assert run("doctor", target, "--quiet").code == 0
    with oracle.broker(merged) as broker:
        first = consume(broker.address, "orders")
        assert len(first) == len(set(first))
        assert set(first) == written - read
        assert set(consume(broker.address, "orders", 10**6, group="new")) == written
        more = produce(broker.address, "orders", range(400, 420))
        assert set(consume(broker.address, "orders")) == more
    with oracle.broker(target) as broker:
        assert consume(broker.address, "old-orders") == first
        more = produce(broker.address, "old-orders", range(400, 420))
        assert set(consume(broker.address, "old-orders")) == more
