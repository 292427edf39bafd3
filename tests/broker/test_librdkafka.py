"""librdkafka: both group protocols, rebalances, seek by time, fenced producers and the admin client."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.waiting import PATIENCE_S
from tidelog.testing.brokers import TestBroker

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def admin_of(broker: TestBroker, *topics: NewTopic) -> Any:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    if topics:
        for made in admin.create_topics(list(topics)).values():
            made.result(PATIENCE_S)
    return admin


def produce(broker: TestBroker, topic: str, count: int, partitions: int = 1, **more: Any) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for n in range(count):
        producer.produce(topic, b"%d" % n, partition=n % partitions, **more)
    assert producer.flush(PATIENCE_S) == 0


def member(broker: TestBroker, group: str, protocol: str, **config: Any) -> Any:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            **config,
        }
    )


def poll_until(consumers: list[Any], done: Any) -> list[Any]:
    """Have members poll until something is so; what they read."""
    seen: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while not done(seen):
        assert time.monotonic() < deadline, f"{len(seen)} messages"
        for consumer in consumers:
            seen += [message for message in consumer.consume(500, 0.1) if message.error() is None]
    return seen


@pytest.mark.slow
@PROTOCOLS
def test_members_share_partitions_and_take_over(kafka_broker: TestBroker, protocol: str) -> None:
    admin_of(kafka_broker, NewTopic("t", 4))
    produce(kafka_broker, "t", 400, 4)
    first, second = (member(kafka_broker, "g", protocol) for _ in range(2))
    first.subscribe(["t"])
    seen = poll_until([first], lambda found: len(found) == 400)
    first.commit(asynchronous=False)
    second.subscribe(["t"])
    both = [first, second]
    seen += poll_until(both, lambda _: sorted(len(each.assignment()) for each in both) == [2, 2])
    produce(kafka_broker, "t", 40, 4)
    seen += poll_until(both, lambda found: len(found) == 40)
    first.close()
    seen += poll_until([second], lambda _: len(second.assignment()) == 4)
    produce(kafka_broker, "t", 4, 4)
    seen += poll_until([second], lambda found: len(found) == 4)
    second.close()
    assert sorted((each.partition(), each.offset()) for each in seen) == [
        (partition, offset) for partition in range(4) for offset in range(111)
    ]


@PROTOCOLS
def test_topics_by_pattern(kafka_broker: TestBroker, protocol: str) -> None:
    admin_of(kafka_broker, NewTopic("in.a", 1), NewTopic("in.b", 2), NewTopic("out", 1))
    consumer = member(kafka_broker, "g", protocol, **{"topic.metadata.refresh.interval.ms": 500})
    consumer.subscribe(["^in\\..*"])
    poll_until([consumer], lambda _: len(consumer.assignment()) == 3)
    assert {each.topic for each in consumer.assignment()} == {"in.a", "in.b"}
    consumer.close()


def test_seek_by_time(kafka_broker: TestBroker) -> None:
    admin_of(kafka_broker, NewTopic("t", 1))
    for second in range(10):
        produce(kafka_broker, "t", 10, timestamp=1_700_000_000_000 + second * 1000)
    consumer = member(kafka_broker, "g", "classic")
    asked = [1_700_000_004_500, 1_700_000_000_000, 1_800_000_000_000]
    found = [consumer.offsets_for_times([TopicPartition("t", 0, at)], PATIENCE_S)[0].offset for at in asked]
    assert found == [50, 0, confluent_kafka.OFFSET_END]
    consumer.assign([TopicPartition("t", 0, 50)])
    assert poll_until([consumer], lambda seen: len(seen) >= 50)[0].timestamp()[1] == 1_700_000_005_000
    consumer.close()


def test_a_transaction_is_read_once_it_is_committed_and_a_zombie_is_fenced(kafka_broker: TestBroker) -> None:
    where = kafka_broker.bootstrap_servers
    consumer = member(kafka_broker, "g", "consumer", **{"isolation.level": "read_committed"})
    zombie = confluent_kafka.Producer({"bootstrap.servers": where, "transactional.id": "x"})
    zombie.init_transactions(PATIENCE_S)
    zombie.begin_transaction()
    zombie.produce("t", b"lost")
    zombie.flush(PATIENCE_S)
    admin = admin_of(kafka_broker)
    ends = {}
    for level in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED):
        asked = {TopicPartition("t", 0): OffsetSpec.latest()}
        for listed in admin.list_offsets(asked, isolation_level=level).values():
            ends[level] = listed.result(PATIENCE_S).offset
    assert list(ends.values()) == [1, 0]
    heir = confluent_kafka.Producer({"bootstrap.servers": where, "transactional.id": "x"})
    heir.init_transactions(PATIENCE_S)
    heir.begin_transaction()
    heir.produce("t", b"kept")
    heir.commit_transaction(PATIENCE_S)
    zombie.produce("t", b"late")
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(PATIENCE_S)
    assert fenced.value.args[0].fatal()
    consumer.subscribe(["t"])
    (only,) = poll_until([consumer], bool)
    assert only.value() == b"kept"
    consumer.close()


def test_admin_of_topics_and_records(kafka_broker: TestBroker) -> None:
    admin = admin_of(kafka_broker, NewTopic("t", 1, config={"retention.ms": "3600000"}))
    with pytest.raises(KafkaException, match="already exists"):
        admin_of(kafka_broker, NewTopic("t", 1))
    resource = ConfigResource(ResourceType.TOPIC, "t")
    resource.add_incremental_config(
        ConfigEntry("segment.bytes", "2000000", incremental_operation=AlterConfigOpType.SET)
    )
    resource.add_incremental_config(
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)
    )
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(PATIENCE_S)
    (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "t")]).values()
    config = described.result(PATIENCE_S)
    assert config["segment.bytes"].value == "2000000"
    assert config["retention.ms"].value == "604800000"
    for grown in admin.create_partitions([NewPartitions("t", 3)]).values():
        grown.result(PATIENCE_S)
    produce(kafka_broker, "t", 30, 3)
    (deleted,) = admin.delete_records([TopicPartition("t", 1, 4)]).values()
    assert deleted.result(PATIENCE_S).low_watermark == 4
    specs = {TopicPartition("t", 1): OffsetSpec.earliest(), TopicPartition("t", 2): OffsetSpec.latest()}
    listed = {asked.partition: one.result(PATIENCE_S) for asked, one in admin.list_offsets(specs).items()}
    assert (listed[1].offset, listed[2].offset) == (4, 10)
    (newest,) = admin.list_offsets({TopicPartition("t", 0): OffsetSpec.max_timestamp()}).values()
    assert newest.result(PATIENCE_S).timestamp > 0


@PROTOCOLS
def test_admin_of_groups(kafka_broker: TestBroker, protocol: str) -> None:
    admin = admin_of(kafka_broker, NewTopic("t", 2))
    produce(kafka_broker, "t", 20, 2)
    consumer = member(kafka_broker, "g", protocol)
    consumer.subscribe(["t"])
    poll_until([consumer], lambda found: len(found) == 20)
    consumer.commit(asynchronous=False)
    listed = admin.list_consumer_groups().result(PATIENCE_S)
    assert [(each.group_id, each.type.name.lower()) for each in listed.valid] == [("g", protocol)]
    (described,) = admin.describe_consumer_groups(["g"]).values()
    group = described.result(PATIENCE_S)
    assert (group.state.name, len(group.members)) == ("STABLE", 1)
    assert {each.partition for each in group.members[0].assignment.topic_partitions} == {0, 1}
    (busy,) = admin.delete_consumer_groups(["g"]).values()
    with pytest.raises(KafkaException, match=r"NON_EMPTY|not empty"):
        busy.result(PATIENCE_S)
    consumer.close()
    moved = ConsumerGroupTopicPartitions("g", [TopicPartition("t", 0, 3)])
    (altered,) = admin.alter_consumer_group_offsets([moved]).values()
    altered.result(PATIENCE_S)
    (found,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")]).values()
    offsets = {each.partition: each.offset for each in found.result(PATIENCE_S).topic_partitions}
    assert offsets == {0: 3, 1: 10}
    (gone,) = admin.delete_consumer_groups(["g"]).values()
    gone.result(PATIENCE_S)
    assert not admin.list_consumer_groups().result(PATIENCE_S).valid
