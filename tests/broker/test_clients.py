"""Real clients against a broker of this process: produce, consume by assignment, look at topics."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.clients import consumed, transact, values_of
from tests.waiting import PATIENCE_S
from tidelog.testing.brokers import TestBroker, start_broker

COUNT = 500


def test_librdkafka_produces_and_consumes(kafka_broker: TestBroker) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    failed: list[Any] = []
    for n in range(COUNT):
        producer.produce("t", b"v%d" % n, b"k", on_delivery=lambda error, _: error and failed.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert not failed
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": "g"}
    )
    partition = confluent_kafka.TopicPartition("t", 0, 0)
    consumer.assign([partition])
    assert [message.value() for message in consumed(consumer, COUNT)] == [b"v%d" % n for n in range(COUNT)]
    assert consumer.get_watermark_offsets(partition, PATIENCE_S) == (0, COUNT)
    consumer.close()


def test_librdkafka_creates_and_deletes_topics(kafka_broker: TestBroker) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for made in admin.create_topics([NewTopic("orders", 3, config={"retention.ms": "-1"})]).values():
        made.result(PATIENCE_S)
    assert len(admin.list_topics(timeout=PATIENCE_S).topics["orders"].partitions) == 3
    assert (kafka_broker.root / "orders-2").is_dir()
    for deleted in admin.delete_topics(["orders"]).values():
        deleted.result(PATIENCE_S)
    assert "orders" not in admin.list_topics(timeout=PATIENCE_S).topics


def test_aiokafka_produces_and_consumes(kafka_broker: TestBroker) -> None:
    async def run() -> list[bytes]:
        where = kafka_broker.bootstrap_servers
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=where) as producer:
            for n in range(COUNT):
                await producer.send("t", b"v%d" % n, partition=0)
            await producer.flush()
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=where, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([aiokafka.TopicPartition("t", 0)])
            return [(await consumer.getone()).value for _ in range(COUNT)]
        finally:
            await consumer.stop()

    values = asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert values == [b"v%d" % n for n in range(COUNT)]


def test_kafka_python_produces_and_consumes(kafka_broker: TestBroker) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers, enable_idempotence=False)
    for n in range(COUNT):
        producer.send("t", b"v%d" % n)
    producer.flush(PATIENCE_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=kafka_broker.bootstrap_servers, auto_offset_reset="earliest"
    )
    consumer.assign([kafka.TopicPartition("t", 0)])
    values = [next(consumer).value for _ in range(COUNT)]
    consumer.close()
    assert values == [b"v%d" % n for n in range(COUNT)]


def test_a_consumer_that_waits_is_woken_by_an_append(kafka_broker: TestBroker) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "linger.ms": 0})
    producer.produce("t", b"first")
    assert producer.flush(PATIENCE_S) == 0
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka_broker.bootstrap_servers,
            "group.id": "g",
            "fetch.wait.max.ms": 200_000,  # longer than anyone waits below
            "socket.timeout.ms": 250_000,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 1)])
    assert consumer.poll(1.0) is None
    producer.produce("t", b"second")
    producer.flush(PATIENCE_S)
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.value() == b"second"
    consumer.close()


def test_a_group_goes_on_after_a_restart(tmp_path: Path) -> None:
    with start_broker(tmp_path) as broker:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True}
        )
        for n in range(20):
            producer.produce("t", b"v%d" % n)
        assert producer.flush(PATIENCE_S) == 0
        first = values_of(broker.bootstrap_servers, "g", "t", 20)
        assert first == [b"v%d" % n for n in range(20)]
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with start_broker(tmp_path) as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("t", b"new")
        assert producer.flush(PATIENCE_S) == 0
        assert values_of(broker.bootstrap_servers, "g", "t", 1) == [b"new"]


def test_transactions_commit_abort_and_fence(kafka_broker: TestBroker) -> None:
    where = kafka_broker.bootstrap_servers
    producer = confluent_kafka.Producer({"bootstrap.servers": where, "transactional.id": "mine"})
    producer.init_transactions(PATIENCE_S)
    transact(producer, "t", (b"a", True), (b"b", False), (b"c", True))
    assert values_of(where, "g", "t", 2, **{"isolation.level": "read_committed"}) == [b"a", b"c"]
    assert values_of(where, "h", "t", 3, **{"isolation.level": "read_uncommitted"}) == [b"a", b"b", b"c"]
    newer = confluent_kafka.Producer({"bootstrap.servers": where, "transactional.id": "mine"})
    newer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("t", b"d")
    with pytest.raises(confluent_kafka.KafkaException) as fenced:
        producer.commit_transaction(PATIENCE_S)
    assert fenced.value.args[0].fatal()


def test_offsets_are_committed_with_a_transaction(kafka_broker: TestBroker) -> None:
    where = kafka_broker.bootstrap_servers
    consumer = confluent_kafka.Consumer({"bootstrap.servers": where, "group.id": "g"})
    producer = confluent_kafka.Producer({"bootstrap.servers": where, "transactional.id": "mine"})
    producer.init_transactions(PATIENCE_S)
    for offset, commits in ((5, True), (9, False)):
        producer.begin_transaction()
        producer.produce("t", b"v")
        producer.send_offsets_to_transaction(
            [confluent_kafka.TopicPartition("t", 0, offset)], consumer.consumer_group_metadata(), PATIENCE_S
        )
        if commits:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)
    (committed,) = consumer.committed([confluent_kafka.TopicPartition("t", 0)], PATIENCE_S)
    assert committed.offset == 5
    consumer.close()
