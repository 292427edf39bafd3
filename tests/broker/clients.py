"""What tests do with librdkafka's clients again and again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka

from tests.waiting import PATIENCE_S

__all__ = ["consumed", "transact", "values_of"]


def consumed(consumer: Any, count: int) -> Iterator[Any]:
    deadline = time.monotonic() + PATIENCE_S
    while count and time.monotonic() < deadline:
        for message in consumer.consume(count, 0.5):
            assert message.error() is None
            count -= 1
            yield message


def values_of(where: str, group: str, topic: str, count: int, **config: Any) -> list[bytes]:
    """What a member of a group reads from the beginning, or from where the group has committed."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": where, "group.id": group, "auto.offset.reset": "earliest", **config}
    )
    consumer.subscribe([topic])
    try:
        values = [message.value() for message in consumed(consumer, count)]
        consumer.commit(asynchronous=False)
        return values
    finally:
        consumer.close()


def transact(producer: Any, topic: str, *transactions: tuple[bytes, bool]) -> None:
    """Transactions of one value each; each says whether it commits."""
    for value, commits in transactions:
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(PATIENCE_S)
        (producer.commit_transaction if commits else producer.abort_transaction)(PATIENCE_S)
