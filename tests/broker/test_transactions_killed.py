"""A broker that is killed under transactions: what was acknowledged is there, once, and nothing by half."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.ports import free_port
from tests.waiting import PATIENCE_S, wait_until
from tidelog.testing.brokers import start_broker

ROUNDS = 3


class Writer(threading.Thread):
    """Transactions of one record for each partition and one offset; it goes on whatever happens."""

    def __init__(self, where: str) -> None:
        super().__init__(daemon=True)
        self.config = {
            "bootstrap.servers": where,
            "transactional.id": "mine",
            "transaction.timeout.ms": 10_000,
            "metadata.recovery.strategy": "none",  # or librdkafka keeps a handle that it has given up
            "log_level": 0,
        }
        self.group = confluent_kafka.Consumer(
            {"bootstrap.servers": where, "group.id": "g", "log_level": 0}
        ).consumer_group_metadata()
        self.acknowledged: list[int] = []
        self.aborted: list[int] = []
        self.stopped = threading.Event()
        self.number = 0

    def run(self) -> None:
        while not self.stopped.is_set():
            producer = confluent_kafka.Producer(self.config)
            try:
                producer.init_transactions(PATIENCE_S)
                while not self.stopped.is_set():
                    self.transact(producer)
            except confluent_kafka.KafkaException:
                time.sleep(0.05)

    def transact(self, producer: Any) -> None:
        self.number += 1
        number, commits = self.number, self.number % 5 != 0
        producer.begin_transaction()
        for partition in range(2):
            producer.produce("t", b"%d" % number, partition=partition)
        producer.send_offsets_to_transaction([TopicPartition("t", 0, number)], self.group, PATIENCE_S)
        if commits:
            producer.commit_transaction(PATIENCE_S)
            self.acknowledged.append(number)
        else:
            producer.abort_transaction(PATIENCE_S)
            self.aborted.append(number)


def committed_values(where: str) -> list[list[int]]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": where,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: list[list[int]] = [[], []]
    consumer.assign([TopicPartition("t", number, 0) for number in range(2)])
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(ended) < 2 and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None and message.error() is not None:
            ended.add(message.partition())
        elif message is not None:
            found[message.partition()].append(int(message.value()))
    consumer.close()
    return found


def wait_for_more(writer: Writer) -> None:
    seen = len(writer.acknowledged)
    wait_until(lambda: len(writer.acknowledged) >= seen + 5, "five more transactions")


@pytest.mark.slow
def test_transactions_survive_kills(tmp_path: Path) -> None:
    port, chance = free_port(), random.Random(7)
    where, writer = f"127.0.0.1:{port}", None
    for number in range(ROUNDS):
        with start_broker(tmp_path, subprocess=True, port=port) as broker:
            if number == 0:
                client = AdminClient({"bootstrap.servers": where, "log_level": 0})
                for made in client.create_topics([NewTopic("t", 2, 1)]).values():
                    made.result(PATIENCE_S)
                writer = Writer(where)
                writer.start()
            assert writer is not None
            wait_for_more(writer)
            time.sleep(chance.random())
            assert broker.process is not None
            broker.process.kill()
    assert writer is not None
    with start_broker(tmp_path, subprocess=True, port=port) as broker:
        wait_for_more(writer)
        writer.stopped.set()
        writer.join(PATIENCE_S)
        last = {writer.acknowledged[-1]}  # its markers may come later than its acknowledgement
        wait_until(lambda: all(last <= set(values) for values in committed_values(where)), "the last one")
        first, second = committed_values(where)
        assert first == second
        assert max(Counter(first).values()) == 1
        assert set(writer.acknowledged) <= set(first)
        assert not set(writer.aborted) & set(first)
        client = AdminClient({"bootstrap.servers": where, "log_level": 0})
        asked = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")])
        (offset,) = asked["g"].result(PATIENCE_S).topic_partitions
        assert offset.offset == max(first)
