"""Stock brokers boot on what was rewritten, and groups and producers go on where they were."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.command import run
from tests.rewriting.rewritten import records
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.oracle import Oracle
    from tests.oracle.broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.timeout(600)]

TOPIC = "visits"
RECORDS = 400
COMMITTED = 150


def produce(broker: Broker, numbers: range, transaction: str | None = None) -> None:
    settings = {"bootstrap.servers": broker.address, "enable.idempotence": True, "batch.num.messages": 20}
    producer = Producer(settings | ({"transactional.id": transaction} if transaction else {}))
    if transaction:
        producer.init_transactions(60)
        producer.begin_transaction()
    for number in numbers:
        producer.produce(TOPIC, b"page %d" % number, key=b"user-%d" % (number % 10), partition=0)
    assert producer.flush(60) == 0
    if transaction:
        producer.commit_transaction(60)


def consumer(broker: Broker) -> Consumer:
    found = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "readers",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    found.assign([TopicPartition(TOPIC, 0)])
    return found


def test_a_group_goes_on_at_its_offset_and_a_producer_at_the_end(oracle: Oracle, tmp_path: Path) -> None:
    root = tmp_path / "root"
    with oracle.broker(root) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        topic = NewTopic(TOPIC, 1, 1, config={"segment.bytes": "1048576", "retention.ms": "-1"})
        admin.create_topics([topic])[TOPIC].result(60)
        produce(broker, range(RECORDS - 100))
        produce(broker, range(RECORDS - 100, RECORDS), "shop")
        reader = consumer(broker)
        reader.commit(offsets=[TopicPartition(TOPIC, 0, COMMITTED)], asynchronous=False)
        reader.close()
    before = records(root, f"{TOPIC}-0", ["offset", "key", "value", "control"]).to_pylist()
    end = before[-1]["offset"] + 1
    told = run("rewrite", root / TOPIC, "--erase", "--key", "user-3", "--key", "user-9")
    assert told.code == 0, told.err
    assert run("rewrite", root / TOPIC, "--redact", "value", "--with", "-", "--key", "user-5").code == 0
    assert run("rewrite", root / TOPIC, "--compression", "zstd", "--level", "3").code == 0
    assert run("doctor", root, "--quiet").code == 0
    expected = [
        (one["offset"], one["key"], b"-" if one["key"] == b"user-5" else one["value"])
        for one in before
        if not one["control"] and one["key"] not in (b"user-3", b"user-9") and one["offset"] >= COMMITTED
    ]
    with oracle.broker(root) as broker:
        produce(broker, range(2), "shop")
        reader = consumer(broker)
        found: list[tuple[int, bytes, bytes]] = []

        def read() -> bool:
            for one in reader.consume(500, 1.0):
                assert one.error() is None
                found.append((one.offset(), one.key(), one.value()))
            return len(found) >= len(expected) + 2

        wait_until(read, "reading to the end")
        reader.close()
    assert found[: len(expected)] == expected
    assert [one[0] for one in found[len(expected) :]] == [end, end + 1]
    undone = run("fix", root, "--undo")
    assert undone.code == 1
    assert "has changed since" in undone.err
    assert run("doctor", root, "--quiet").code == 0
