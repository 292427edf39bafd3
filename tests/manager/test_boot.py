"""A stock broker takes what a store leaves: records, offsets and configs, on our root and on its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

import tidelog
from tests.manager.damage import make_unclean
from tests.manager.test_recovery import NAMES, stored
from tests.manager.test_recovery import expected as golden_records
from tidelog.manager.upkeep.recovery import recover_root
from tidelog.records import Record
from tidelog.storage import LOCAL

if TYPE_CHECKING:
    from tests.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NOW = 1_700_000_000_000
QUIET = {"log_level": 0}


def consumed(
    address: str, topic: str, partition: int, count: int
) -> list[tuple[int, bytes | None, bytes | None, int]]:
    """The records of a partition as a client gets them, `count` at most."""
    consumer = Consumer(
        QUIET
        | {
            "bootstrap.servers": address,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None:
            assert message.error() is None, message.error()
            found.append((message.offset(), message.key(), message.value(), message.timestamp()[1]))
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
    consumer.close()
    assert (low, high) == (found[0][0] if found else low, low + count)
    return found


def topic_config(address: str, topic: str) -> dict[str, str]:
    admin = AdminClient(QUIET | {"bootstrap.servers": address})
    (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
    return {key: entry.value for key, entry in future.result(timeout=60).items()}


def records(topic: str, partition: int, count: int) -> list[Record]:
    name = f"{topic}-{partition}-"
    return [
        Record(f"{name}{i}".encode() * 5, f"{name}{i % 7}".encode(), timestamp=NOW + i) for i in range(count)
    ]


def expected(topic: str, partition: int, count: int) -> list[tuple[int, bytes | None, bytes | None, int]]:
    made = records(topic, partition, count)
    return [(offset, one.key, one.value, one.timestamp or 0) for offset, one in enumerate(made)]


CONFIG = {"retention.ms": "-1", "segment.bytes": "1048576", "index.interval.bytes": "100"}


def fill(store: tidelog.Store, topic: str, count: int) -> None:
    for partition in store.topic(topic):
        batch = records(topic, partition.topic_partition.partition, count)
        for start in range(0, count, 50):
            partition.append(batch[start : start + 50])


def test_on_a_root_that_no_broker_has_seen(oracle: Oracle, tmp_path: Path) -> None:
    root = tmp_path / "data"
    with tidelog.open(root) as store:
        store.create_topic("orders", 2, CONFIG)
        store.create_topic("idle", 1, {"cleanup.policy": "compact", "retention.ms": "-1"})
        fill(store, "orders", 300)
        # A producer with an id of its own: the broker must not give that id to somebody else.
        store.partition("orders", 1).append(
            records("orders", 9, 1), producer_id=0, producer_epoch=0, base_sequence=0
        )
    with oracle.broker(root) as broker:
        assert consumed(broker.address, "orders", 0, 300) == expected("orders", 0, 300)
        assert consumed(broker.address, "orders", 1, 301)[:300] == expected("orders", 1, 300)
        config = topic_config(broker.address, "orders")
        assert {key: config[key] for key in CONFIG} == CONFIG
        assert topic_config(broker.address, "idle")["cleanup.policy"] == "compact"
        producer = Producer(QUIET | {"bootstrap.servers": broker.address, "enable.idempotence": True})
        producer.produce("orders", b"by the broker", b"key", partition=1, timestamp=NOW)
        assert producer.flush(60) == 0
        assert consumed(broker.address, "orders", 1, 302)[-1][2] == b"by the broker"
    assert not list(root.glob("*-stray"))
    with tidelog.open(root) as store:
        assert store.partition("orders", 1).read_record(301).value == b"by the broker"
        assert store.topic("orders").config == CONFIG
        assert not store.skipped
        assert not store.offline_partitions


def test_on_a_root_that_a_broker_made(oracle: Oracle, tmp_path: Path) -> None:
    root = tmp_path / "data"
    with oracle.broker(root) as broker:
        admin = AdminClient(QUIET | {"bootstrap.servers": broker.address})
        (made,) = admin.create_topics([NewTopic("theirs", 1, 1, config={"retention.ms": "-1"})]).values()
        made.result(timeout=60)
        producer = Producer(QUIET | {"bootstrap.servers": broker.address})
        for one in records("theirs", 0, 100):
            producer.produce("theirs", one.value, one.key, partition=0, timestamp=one.timestamp)
        assert producer.flush(60) == 0
    with tidelog.open(root) as store:
        assert store.partition("theirs").log_end_offset == 100
        store.partition("theirs").append(records("theirs", 0, 200)[100:])
        store.create_topic("ours", 2, CONFIG)
        fill(store, "ours", 120)
        store.alter_config("theirs", {"segment.bytes": 2 << 20})
    with oracle.broker(root) as broker:
        assert consumed(broker.address, "theirs", 0, 200) == expected("theirs", 0, 200)
        for partition in range(2):
            assert consumed(broker.address, "ours", partition, 120) == expected("ours", partition, 120)
        config = topic_config(broker.address, "ours")
        assert {key: config[key] for key in CONFIG} == CONFIG
        assert topic_config(broker.address, "theirs")["segment.bytes"] == str(2 << 20)
    assert not list(root.glob("*-stray"))
    with tidelog.open(root) as store:
        store.delete_topic("theirs")
        assert "theirs" not in store.topics
    with oracle.broker(root) as broker:
        assert (
            "theirs"
            not in AdminClient(QUIET | {"bootstrap.servers": broker.address}).list_topics(timeout=30).topics
        )
        assert consumed(broker.address, "ours", 1, 120) == expected("ours", 1, 120)


def watermarks(address: str, topic: str, partition: int) -> tuple[int, int]:
    settings = {"bootstrap.servers": address, "group.id": "asker", "isolation.level": "read_uncommitted"}
    consumer = Consumer(QUIET | settings)
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
    consumer.close()
    return low, high


@pytest.mark.parametrize("by", ["store", "command"])
def test_on_a_root_that_we_recovered_after_a_kill(oracle: Oracle, tmp_path: Path, by: str) -> None:
    root = make_unclean(tmp_path / "root")
    if by == "store":
        with tidelog.open(root, recover=True) as store:
            assert not store.offline_partitions
            ends = {
                str(one.topic_partition): (one.log_start_offset, one.log_end_offset)
                for one in store.partitions
            }
    else:
        done = recover_root(LOCAL, str(root))
        assert not [one.error for one in done if one.error]
        ends = {str(one.partition): (one.log_start_offset, one.log_end_offset) for one in done}
    assert {name: stored(root / name) for name in NAMES} == {name: golden_records(name) for name in NAMES}
    with oracle.broker(root, config={"log.cleaner.enable": "false"}) as broker:
        for name in NAMES:
            topic, _, number = name.rpartition("-")
            assert watermarks(broker.address, topic, int(number)) == ends[name]
        plain = consumed(broker.address, "golden-none", 0, 1560)
        assert plain == [
            (offset, key, value, timestamp)
            for offset, timestamp, key, value in golden_records("golden-none-0")
        ]
    assert not list(root.glob("*-stray"))
    for name in NAMES:
        assert stored(root / name) == golden_records(name), "the broker changed nothing"
