"""Handlers without sockets: what each API answers."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.broker.asking import NOW, ask, batch, broker_on, request
from tidelog.broker.context import Broker, Client
from tidelog.broker.handlers.registry import HANDLERS
from tidelog.broker.settings import Settings
from tidelog.records import Record
from tidelog.records.record import encode_records


def produce(version: int, topic: str, records: bytes | None, *, acks: int = -1, **more: Any) -> Any:
    part = {"index": 0, "records": records}
    return request(
        "Produce",
        version,
        acks=acks,
        timeout=1000,
        topic_data=[{"name": topic, "partition_data": [part], **more}],
    )


def fetch(version: int, topic: Any, offset: int = 0, **more: Any) -> Any:
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    return request(
        "Fetch",
        version,
        max_wait=0,
        min_bytes=1,
        topics=[{"topic": topic, "topic_id": topic, "partitions": [part]}],
        **more,
    )


def test_what_is_produced_is_fetched_byte_for_byte(store: tidelog.Store) -> None:
    store.create_topic("t")
    broker = broker_on(store)
    sent = batch(b"a", b"b")
    answer = ask(broker, produce(9, "t", sent)).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (0, 0, 0)
    assert ask(broker, produce(9, "t", sent)).responses[0].partition_responses[0].base_offset == 2
    found = ask(broker, fetch(12, "t")).responses[0].partitions[0]
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (0, 4, 4)
    assert bytes(found.records[21 : len(sent)]) == sent[21:]  # but for the offset and the leader's epoch
    assert len(found.records) == 2 * len(sent)


def test_topics_are_named_by_id_in_late_versions(store: tidelog.Store) -> None:
    topic_id = store.create_topic("t").topic_id
    broker = broker_on(store)
    answer = ask(broker, produce(13, "", batch(b"a"), topic_id=topic_id))
    assert answer.responses[0].topic_id == topic_id
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert ask(broker, fetch(13, topic_id)).responses[0].partitions[0].high_watermark == 1
    stranger = uuid.uuid4()
    assert ask(broker, fetch(13, stranger)).responses[0].partitions[0].error_code == 100
    refused = ask(broker, produce(13, "", batch(b"a"), topic_id=stranger))
    assert refused.responses[0].partition_responses[0].error_code == 100


@pytest.mark.parametrize(
    ("records", "acks", "topic", "code"),
    [
        (batch(b"a"), 2, "t", 21),
        (batch(b"a"), -1, "nobody", 3),
        (None, -1, "t", 87),
        (batch(b"a") * 2, -1, "t", 87),
        (batch(b"a")[:-1], -1, "t", 87),
        (batch(b"a")[:16] + b"\1" + batch(b"a")[17:], -1, "t", 87),
        (batch(b"a")[:-1] + b"x", -1, "t", 2),
        (batch(bytes(2 << 20)), -1, "t", 10),
        (batch(b"a"), -1, "__consumer_offsets", 17),
    ],
)
def test_produce_refuses_as_kafka_does(
    store: tidelog.Store, records: bytes, acks: int, topic: str, code: int
) -> None:
    store.create_topic("t")
    store.create_topic("__consumer_offsets")
    answer = ask(broker_on(store), produce(9, topic, records, acks=acks)).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert all(partition.log_end_offset == 0 for partition in store.partitions)


def test_produce_is_advertised_from_version_0_on_as_kafka_does(store: tidelog.Store) -> None:
    """Without it, librdkafka 2.0 takes the broker for one that knows no gzip, snappy and lz4."""
    broker = broker_on(store)
    broker.served = frozenset({0})
    (one,) = ask(broker, request("ApiVersions", 3)).api_keys
    assert (one.min_version, one.max_version) == (0, 13)


def test_no_more_replicas_are_asked_for_than_there_are(store: tidelog.Store) -> None:
    store.create_topic("t", config={"min.insync.replicas": 2})
    answer = ask(broker_on(store), produce(9, "t", batch(b"a"))).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 0)


def test_refused_records_are_told_one_by_one(store: tidelog.Store) -> None:
    store.create_topic("t", config={"cleanup.policy": "compact", "message.timestamp.after.max.ms": 1})
    broker, late = broker_on(store), 1 << 43
    for records, code, told in [
        ([Record(b"a", b"k"), Record(b"b"), Record(b"c", b"k"), Record(b"d")], 87, [1, 3]),
        ([Record(b"a", b"k"), Record(b"b"), Record(b"c", b"k", timestamp=late)], 32, [1, 2]),
    ]:
        sent = produce(9, "t", bytes(encode_records(records)))
        answer = ask(broker, sent).responses[0].partition_responses[0]
        assert (answer.error_code, answer.log_start_offset) == (code, 0)
        assert [one.batch_index for one in answer.record_errors] == told


def test_an_epoch_in_which_nothing_was_written_is_known(store: tidelog.Store) -> None:
    """A stock broker counts epochs up whenever it starts; consumers ask for the one that they heard of."""
    store.create_topic("t")
    broker = broker_on(store)
    ask(broker, produce(9, "t", batch(b"a", b"b")))
    store.partition("t").leader_epoch = 6
    part = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": 6}
    asked = request("ListOffsets", 8, replica_id=-1, topics=[{"name": "t", "partitions": [part]}])
    latest = ask(broker, asked).topics[0].partitions[0]
    assert (latest.offset, latest.leader_epoch) == (2, 6)

    def end_of(epoch: int) -> tuple[int, int]:
        part = {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": 6}
        topics = [{"topic": "t", "partitions": [part]}]
        answer = ask(broker, request("OffsetForLeaderEpoch", 4, replica_id=-1, topics=topics))
        found = answer.topics[0].partitions[0]
        return found.leader_epoch, found.end_offset

    assert [end_of(epoch) for epoch in (0, 4, 6, 7)] == [(0, 2), (0, 2), (6, 2), (-1, -1)]
    part = {"partition": 0, "fetch_offset": 2, "last_fetched_epoch": 6, "partition_max_bytes": 1 << 20}
    fetched = ask(broker, request("Fetch", 12, topics=[{"topic": "t", "partitions": [part]}]))
    assert fetched.responses[0].partitions[0].error_code == 0


def test_acks_of_zero_has_no_answer(store: tidelog.Store) -> None:
    store.create_topic("t")
    assert ask(broker_on(store), produce(9, "t", batch(b"a"), acks=0)) is None
    assert store.partition("t").log_end_offset == 1


def test_fetch_outside_of_the_log(store: tidelog.Store) -> None:
    store.create_topic("t")
    broker = broker_on(store)
    assert ask(broker, fetch(12, "t", 5)).responses[0].partitions[0].error_code == 1
    assert ask(broker, fetch(12, "u")).responses[0].partitions[0].error_code == 3


def test_a_response_is_filled_over_partitions_and_never_empty(store: tidelog.Store) -> None:
    store.create_topic("t", 3)
    broker = broker_on(store)
    for partition in store.partitions:
        partition.append(batch(bytes(5000)))
    asked = [{"partition": n, "fetch_offset": 0, "partition_max_bytes": 6000} for n in range(3)]

    def sizes(max_bytes: int) -> list[int]:
        message = request(
            "Fetch",
            12,
            max_wait=0,
            min_bytes=1,
            max_bytes=max_bytes,
            topics=[{"topic": "t", "partitions": asked}],
        )
        return [len(part.records) for part in ask(broker, message).responses[0].partitions]

    whole = sizes(1 << 20)[0]
    assert sizes(1 << 20) == [whole] * 3
    assert sizes(10) == [whole, 0, 0]
    assert sizes(2 * whole)[:2] == [whole, whole]


def test_metadata_creates_what_is_asked_for(broker: Broker, store: tidelog.Store) -> None:
    answer = ask(broker, request("Metadata", 12, topics=[{"name": "new"}], allow_auto_topic_creation=True))
    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in answer.topics] == [
        ("new", 0, 1)
    ]
    assert answer.topics[0].topic_id == store["new"].topic_id
    assert (answer.controller_id, answer.brokers[0].node_id) == (1, 1)
    for refused, code in (({"name": "a b"}, 17), ({"name": "no"}, 3)):
        message = request("Metadata", 12, topics=[refused], allow_auto_topic_creation=code == 17)
        assert ask(broker, message).topics[0].error_code == code
    broker.settings = Settings.from_properties({"auto.create.topics.enable": "false"})
    message = request("Metadata", 12, topics=[{"name": "other"}], allow_auto_topic_creation=True)
    assert ask(broker, message).topics[0].error_code == 3
    assert [topic.name for topic in ask(broker, request("Metadata", 0, topics=())).topics] == ["new"]


def test_offsets_by_time_and_the_ends(store: tidelog.Store) -> None:
    store.create_topic("t")
    broker = broker_on(store)
    store.partition("t").append(batch(b"a", b"b", b"c"))
    store.partition("t").delete_records(1)

    def found(timestamp: int, version: int = 7) -> tuple[int, int]:
        part = {"partition_index": 0, "timestamp": timestamp}
        message = request("ListOffsets", version, replica_id=-1, topics=[{"name": "t", "partitions": [part]}])
        answer = ask(broker, message).topics[0].partitions[0]
        return answer.offset, answer.error_code

    assert [found(t) for t in (-1, -2, -3)] == [(3, 0), (1, 0), (2, 0)]
    assert [found(t) for t in (NOW, NOW + 2, NOW + 3)] == [(1, 0), (2, 0), (-1, 0)]
    assert found(-3, 6)[1] == 35


def test_topics_are_created_grown_configured_and_deleted(broker: Broker, store: tidelog.Store) -> None:
    def create(name: str, count: int = 2, factor: int = 1, validate_only: bool = False, **config: str) -> Any:
        configs = [{"name": key.replace("_", "."), "value": value} for key, value in config.items()]
        topic = {"name": name, "num_partitions": count, "replication_factor": factor, "configs": configs}
        message = request("CreateTopics", 7, topics=[topic], timeout=1000, validate_only=validate_only)
        return ask(broker, message).topics[0]

    made = create("t", retention_ms="5000")
    assert (made.error_code, made.num_partitions, made.topic_id) == (0, 2, store["t"].topic_id)
    assert {one.name: one.value for one in made.configs}["retention.ms"] == "5000"
    assert create("u", validate_only=True).error_code == 0
    assert "u" not in store
    codes = [
        create("t").error_code,
        create("a b").error_code,
        create("v", factor=3).error_code,
        create("v", count=0).error_code,
        create("v", retention_ms="soon").error_code,
        create("v", nonsense="1").error_code,
    ]
    assert codes == [36, 17, 38, 37, 40, 40]
    grown = request("CreatePartitions", 3, topics=[{"name": "t", "count": 5}], timeout=1000)
    assert ask(broker, grown).results[0].error_code == 0
    assert ask(broker, grown).results[0].error_code == 37
    assert len(store["t"]) == 5

    def alter(name: str, operation: int, value: str | None) -> int:
        config = {"name": name, "config_operation": operation, "value": value}
        resource = {"resource_type": 2, "resource_name": "t", "configs": [config]}
        code: int = (
            ask(broker, request("IncrementalAlterConfigs", 1, resources=[resource])).responses[0].error_code
        )
        return code

    assert alter("cleanup.policy", 2, "compact") == 0
    assert store["t"].config["cleanup.policy"] == "delete,compact"
    assert alter("cleanup.policy", 3, "delete") == alter("retention.ms", 1, None) == 0
    assert dict(store["t"].config) == {"cleanup.policy": "compact"}
    assert alter("retention.ms", 0, "x") == alter("nonsense", 0, "1") == 40
    asked = {
        "resource_type": 2,
        "resource_name": "t",
        "configuration_keys": ["cleanup.policy", "segment.bytes"],
    }
    described = ask(broker, request("DescribeConfigs", 4, resources=[asked], include_synonyms=True)).results[
        0
    ]
    assert [(one.name, one.value, one.config_source) for one in described.configs] == [
        ("segment.bytes", "1073741824", 5),
        ("cleanup.policy", "compact", 1),
    ]
    delete = request("DeleteTopics", 6, topics=[{"topic_id": store["t"].topic_id}], timeout=1000)
    assert ask(broker, delete).responses[0].name == "t"
    assert ask(broker, delete).responses[0].error_code == 100
    assert "t" not in store


def test_what_has_a_configuration_is_listed(broker: Broker, store: tidelog.Store) -> None:
    store.create_topic("t")
    broker.refresh()

    def listed(version: int, *kinds: int) -> list[tuple[str, int]]:
        answer = ask(broker, request("ListConfigResources", version, resource_types=kinds))
        return [(one.resource_name, one.resource_type) for one in answer.config_resources]

    assert listed(1) == [("t", 2), ("1", 4), ("1", 8)]
    assert listed(1, 2) == [("t", 2)]
    assert listed(0) == []


def test_partitions_move_to_another_disk(tmp_path: Path) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    with tidelog.open(roots, background=False) as two:
        partition = two.create_topic("t")[0]
        partition.append(batch(b"a"))
        broker = broker_on(two)
        target = next(root for root in two.roots if root is not partition.root)

        def move(path: str, topic: str = "t") -> int:
            wanted = {"path": path, "topics": [{"name": topic, "partitions": [0]}]}
            answer = ask(broker, request("AlterReplicaLogDirs", 2, dirs=[wanted]))
            code: int = answer.results[0].partitions[0].error_code
            return code

        assert [move("/nowhere"), move(target.path, "u"), move(target.path)] == [57, 3, 0]
        assert partition.root is target
        assert ask(broker, fetch(12, "t")).responses[0].partitions[0].high_watermark == 1


def test_leader_epochs_end_somewhere(broker: Broker, store: tidelog.Store) -> None:
    partition = store.create_topic("t")[0]
    broker.refresh()
    partition.append(batch(b"a", b"b"))
    partition.append(batch(b"c"), leader_epoch=3)

    def end(epoch: int, current: int = -1) -> tuple[int, int, int]:
        part = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
        message = request("OffsetForLeaderEpoch", 4, topics=[{"topic": "t", "partitions": [part]}])
        answer = ask(broker, message).topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    assert [end(0), end(2), end(3), end(9)] == [(0, 0, 2), (0, 0, 2), (0, 3, 3), (0, -1, -1)]
    assert [end(0, 2)[0], end(0, 4)[0], end(0, 3)[0]] == [74, 75, 0]


def test_partitions_are_described_page_by_page(broker: Broker, store: tidelog.Store) -> None:
    for name in "abc":
        store.create_topic(name, 3)
    broker.refresh()
    seen, cursor = [], None
    for _ in range(9):
        message = request("DescribeTopicPartitions", 0, topics=(), response_partition_limit=4, cursor=cursor)
        answer = ask(broker, message)
        seen += [(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions]
        if answer.next_cursor is None:
            break
        cursor = {
            "topic_name": answer.next_cursor.topic_name,
            "partition_index": answer.next_cursor.partition_index,
        }
    assert seen == [(name, number) for name in "abc" for number in range(3)]


def test_records_are_deleted_and_disks_described(broker: Broker, store: tidelog.Store) -> None:
    store.create_topic("t")
    broker.refresh()
    store.partition("t").append(batch(b"a", b"b", b"c"))

    def delete(offset: int) -> tuple[int, int]:
        part = {"partition_index": 0, "offset": offset}
        message = request("DeleteRecords", 2, topics=[{"name": "t", "partitions": [part]}], timeout=1000)
        answer = ask(broker, message).topics[0].partitions[0]
        return answer.low_watermark, answer.error_code

    assert [delete(2), delete(7), delete(-1)] == [(2, 0), (-1, 1), (3, 0)]
    (root,) = ask(broker, request("DescribeLogDirs", 4, topics=None)).results
    assert root.log_dir == store.roots[0].path
    assert root.topics[0].partitions[0].partition_size == store.partition("t").log.size
    assert root.total_bytes > root.usable_bytes > 0


def test_a_cluster_of_one_elects_and_reassigns_nothing(store: tidelog.Store) -> None:
    store.create_topic("t", 1)
    broker = broker_on(store)
    here = broker.catalog.node_id
    wanted = [{"topic": "t", "partitions": [0, 7]}]
    (elected,) = ask(broker, request("ElectLeaders", 2, topic_partitions=wanted)).replica_election_results
    assert [(one.partition_id, int(one.error_code)) for one in elected.partition_result] == [(0, 84), (7, 3)]
    assert ask(broker, request("ElectLeaders", 2, topic_partitions=None)).replica_election_results == ()
    moves = [[here], [here, here + 1], None]
    codes = []
    for replicas in moves:
        topics = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": replicas}]}]
        (topic,) = ask(broker, request("AlterPartitionReassignments", 1, topics=topics)).responses
        codes.append(int(topic.partitions[0].error_code))
    assert codes == [0, 39, 85]
    assert ask(broker, request("ListPartitionReassignments", 0, topics=None)).topics == ()


def test_a_fetch_does_not_miss_what_is_appended_before_it_begins_to_wait(store: tidelog.Store) -> None:
    store.create_topic("t", 1)
    broker = broker_on(store)
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "t", "partitions": [part]}]
    waits = request("Fetch", 12, max_wait=60_000, min_bytes=1, topics=topics)

    async def run() -> Any:
        answer = HANDLERS["Fetch"](waits, broker, Client())
        assert inspect.isawaitable(answer)
        done = HANDLERS["Produce"](produce(9, "t", batch(b"v")), broker, Client())
        if inspect.isawaitable(done):
            await done
        return await asyncio.wait_for(answer, 10)

    (topic,) = asyncio.run(run())["responses"]
    assert topic["partitions"][0]["high_watermark"] == 1


@pytest.mark.parametrize(("version", "code"), [(12, 3), (13, 100)])
def test_a_fetch_that_waits_is_told_at_once_that_its_topic_is_deleted(
    store: tidelog.Store, version: int, code: int
) -> None:
    topic = store.create_topic("t", 1)
    broker = broker_on(store)
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "t", "topic_id": topic.topic_id, "partitions": [part]}]
    waits = request("Fetch", version, max_wait=60_000, min_bytes=1, topics=topics)
    delete = request("DeleteTopics", 6, topics=[{"name": "t"}], timeout=1000)

    async def run() -> Any:
        answer = HANDLERS["Fetch"](waits, broker, Client())
        assert inspect.isawaitable(answer)
        waiting = asyncio.ensure_future(answer)
        await asyncio.sleep(0)
        assert len(broker.watchers) == 1
        deleted = HANDLERS["DeleteTopics"](delete, broker, Client())
        assert inspect.isawaitable(deleted)
        await deleted
        return await asyncio.wait_for(waiting, 10)

    (answered,) = asyncio.run(run())["responses"]
    assert answered["partitions"][0]["error_code"] == code
