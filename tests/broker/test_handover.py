"""A directory goes from this broker to a stock one and back: groups, offsets and transactions go with it."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.oracle import Oracle
from tests.waiting import PATIENCE_S
from tidelog.testing.brokers import start_broker

GROUPS = {"old": "classic", "new": "consumer"}


@functools.cache
def admin(where: str) -> Any:
    """One for each broker; librdkafka does not like to lose one with answers under way."""
    return AdminClient({"bootstrap.servers": where, "log_level": 0})


def produce(where: str, *values: str, **config: Any) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": where, "enable.idempotence": True, **config})
    for number, value in enumerate(values):
        producer.produce("t", value.encode(), partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0


def read(where: str, group: str, count: int) -> set[bytes]:
    """What the group reads next; it commits that."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": where,
            "group.id": group,
            "group.protocol": GROUPS[group],
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["t"])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += [message.value() for message in consumer.consume(count - len(found), 0.5)]
    consumer.commit(asynchronous=False)
    consumer.close()
    return set(found)


def committed(where: str, group: str) -> dict[int, int]:
    client = admin(where)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            asked = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
            found = asked[group].result(PATIENCE_S)
            return {each.partition: each.offset for each in found.topic_partitions}
        except confluent_kafka.KafkaException as error:  # a stock broker takes a moment to load
            if "load in progress" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def transact(where: str, name: str, value: str, *, commits: bool = True) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": where, "transactional.id": name})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("t", value.encode(), partition=0)
    source = confluent_kafka.Consumer({"bootstrap.servers": where, "group.id": "of transactions"})
    offset = TopicPartition("t", 1, int(value.removeprefix("tx")))
    producer.send_offsets_to_transaction([offset], source.consumer_group_metadata(), PATIENCE_S)
    source.close()
    if commits:
        producer.commit_transaction(PATIENCE_S)
    else:
        producer.abort_transaction(PATIENCE_S)


def life(where: str, number: int) -> None:
    """Records, commits and transactions of one broker's turn; what came before it is as it was left."""
    produce(where, *(f"{number}-{each}" for each in range(4)))
    transact(where, "mine", f"tx{number}")
    transact(where, f"other{number}", f"tx{number + 100}", commits=False)
    for group in GROUPS:
        assert read(where, group, 5) == {f"{number}-{each}".encode() for each in range(4)} | {
            f"tx{number}".encode()
        }
        assert sum(committed(where, group).values()) >= 5 * (number + 1)
    assert committed(where, "of transactions") == {1: number}


@pytest.mark.slow
def test_groups_and_transactions_go_from_broker_to_broker(tmp_path: Path, oracle: Oracle) -> None:
    root = tmp_path / "root"
    with start_broker(root) as ours:
        where = ours.bootstrap_servers
        client = admin(where)
        for made in client.create_topics([NewTopic("t", 2, 1)]).values():
            made.result(PATIENCE_S)
        life(where, 0)
        before = {group: committed(where, group) for group in (*GROUPS, "of transactions")}
    with oracle.broker(root) as stock:
        where = stock.address
        assert {group: committed(where, group) for group in before} == before
        client = admin(where)
        listed = {each.group_id: each.type.name for each in client.list_consumer_groups().result().valid}
        assert {name: listed[name] for name in GROUPS} == {"old": "CLASSIC", "new": "CONSUMER"}
        life(where, 1)
        before = {group: committed(where, group) for group in before}
    with start_broker(root) as ours:
        where = ours.bootstrap_servers
        assert {group: committed(where, group) for group in before} == before
        life(where, 2)
        before = {group: committed(where, group) for group in before}
    with oracle.broker(root) as stock:
        assert {group: committed(stock.address, group) for group in before} == before
        life(stock.address, 3)
