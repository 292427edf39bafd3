"""Groups and transactions from the disk: golden topics, records made here, and a stock broker that died."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tests.cli.command import run
from tests.golden import GOLDEN
from tidelog.errors import InvalidInputError
from tidelog.protocol.coordinator_records import (
    CoordinatorRecord,
    encode_group_record,
    encode_transaction_record,
)
from tidelog.records import Record
from tidelog.testing.builders import LogBuilder, flip_bit

if TYPE_CHECKING:
    from tests.oracle import Oracle

CLEAN = GOLDEN / "clean"
TOPIC_ID = uuid.UUID(int=7)


def test_the_golden_group() -> None:
    rows = tidelog.groups(CLEAN)
    found = {(row.topic, row.partition): (row.committed_offset, row.log_end_offset, row.lag) for row in rows}
    assert found == {
        ("golden-multi", 0): (240, 700, 460),
        ("golden-multi", 1): (240, None, None),
        ("golden-multi", 2): (70, None, None),
        ("golden-none", 0): (480, 1560, 1080),
    }
    assert {(row.group, row.kind, row.state) for row in rows} == {("golden-group", "classic", "Empty")}


def test_the_command() -> None:
    told = run("groups", CLEAN, "--group", "golden-group", "--json")
    assert [json.loads(line)["lag"] for line in told.lines] == [460, None, None, 1080]
    assert run("groups", CLEAN, "--group", "nobody").code == 2
    missing = run("groups", CLEAN / "golden-none-0")
    assert missing.code == 2
    assert "no partition of __consumer_offsets" in missing.err
    opened = run("transactions", CLEAN, "--json")
    (row,) = map(json.loads, opened.lines)
    assert (row["state"], row["producer_id"], row["first_offset"]) == ("open", 16, 1390)
    by_producer = run("transactions", CLEAN, "--aborted", "--producer", "14", "--json")
    spans = [(row["first_offset"], row["last_offset"]) for row in map(json.loads, by_producer.lines)]
    assert spans == [(190, 362), (702, 872)]


def test_times_are_dates_except_in_json() -> None:
    heading, row, *_ = run("groups", CLEAN).lines
    told = dict(zip(heading.split("\t"), row.split("\t"), strict=True))
    assert told["committed_at"] == "2026-11-15 08:44:30.107"
    assert json.loads(run("groups", CLEAN, "--json").lines[0])["committed_ms"] == 1794732270107
    heading, row = run("transactions", CLEAN).lines
    told = dict(zip(heading.split("\t"), row.split("\t"), strict=True))
    assert told["updated_at"] == "2026-11-15 08:44:24.667"


def commit(group: str, partition: int, offset: int | None) -> Record:
    value = None
    if offset is not None:
        value = {"offset": offset, "leaderEpoch": -1, "metadata": "m", "commitTimestamp": 5}
    names = {"group": group, "topic": "orders", "partition": partition}
    key, body = encode_group_record(CoordinatorRecord("OffsetCommit", names, value, 3 if value else -1))
    return Record(body, key, timestamp=5)


def record(kind: str, key: dict[str, Any], value: dict[str, Any] | None) -> Record:
    encode = encode_transaction_record if kind == "TransactionLog" else encode_group_record
    name, body = encode(CoordinatorRecord(kind, key, value))
    return Record(body, name, timestamp=5)


def committed(root: Path) -> dict[int | None, int | None]:
    return {row.partition: row.committed_offset for row in tidelog.groups(root) if row.topic == "orders"}


def in_transaction(builder: LogBuilder, records: list[Record], producer: int, sequence: int = 0) -> None:
    builder.log.append_as_leader(
        records,
        leader_epoch=0,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )


def test_the_last_record_wins_and_tombstones_delete(tmp_path: Path) -> None:
    with LogBuilder(tmp_path / "__consumer_offsets-0") as builder:
        builder.append([commit("g", n, 10) for n in range(4)])
        builder.append([commit("g", 0, 11), commit("g", 0, 9), commit("g", 1, None), commit("other", 0, 3)])
        builder.append([commit("g", 2, None), commit("g", 2, 4)])
    rows = [row for row in tidelog.groups(tmp_path) if row.group == "g"]
    assert {row.partition: row.committed_offset for row in rows} == {0: 9, 2: 4, 3: 10}
    assert rows[0].committed_ms == 5
    assert [row.group for row in tidelog.groups(tmp_path, "other")] == ["other"]


def test_transactional_commits_count_with_their_marker(tmp_path: Path) -> None:
    with LogBuilder(tmp_path / "__consumer_offsets-0") as builder:
        builder.append([commit("g", n, 1) for n in range(5)])
        in_transaction(builder, [commit("g", 0, 20), commit("g", 1, 20)], 1)
        in_transaction(builder, [commit("g", 2, 30)], 2)
        in_transaction(builder, [commit("g", 3, 40)], 3)
        builder.append([commit("g", 1, 50)])  # after the pending one: that one is older when it counts
        builder.end_transaction(1).end_transaction(2, commit=False)
        builder.append([commit("g", 4, 60)])  # past the last stable offset
    assert committed(tmp_path) == {0: 20, 1: 50, 2: 1, 3: 1, 4: 60}


def test_members_of_both_protocols(tmp_path: Path) -> None:
    numbers = b"\0\0\0\2" + b"\0\0\0\0" + b"\0\0\0\1"
    assignment = b"\0\1" + b"\0\0\0\1" + b"\0\6orders" + numbers + b"\xff\xff\xff\xff"
    classic = {
        "protocolType": "consumer",
        "generation": 3,
        "protocol": "range",
        "leader": "m",
        "currentStateTimestamp": 1,
        "members": [
            {
                "memberId": "m",
                "groupInstanceId": None,
                "clientId": "client",
                "clientHost": "/1.2.3.4",
                "rebalanceTimeout": 1,
                "sessionTimeout": 1,
                "subscription": b"",
                "assignment": assignment,
            }
        ],
    }
    member = {
        "instanceId": "static",
        "rackId": None,
        "clientId": "new",
        "clientHost": "/5.6.7.8",
        "subscribedTopicNames": ["orders"],
        "subscribedTopicRegex": None,
        "rebalanceTimeoutMs": 1,
        "serverAssignor": None,
        "classicMemberMetadata": None,
    }
    place = {"topicId": TOPIC_ID, "partitions": [1], "assignmentEpochs": None}
    current = {"memberEpoch": 4, "previousMemberEpoch": 3, "state": 0, "assignedPartitions": [place]}
    current["partitionsPendingRevocation"] = []
    ids = {"groupId": "c", "memberId": "n"}
    with LogBuilder(tmp_path / "disk1" / "__consumer_offsets-0") as builder:
        builder.append([record("GroupMetadata", {"group": "old"}, classic), commit("old", 0, 4)])
        builder.append(
            [
                record("ConsumerGroupMetadata", {"groupId": "c"}, {"epoch": 4, "metadataHash": 0}),
                record("ConsumerGroupMemberMetadata", ids, member),
                record("ConsumerGroupTargetAssignmentMetadata", {"groupId": "c"}, {"assignmentEpoch": 4}),
                record("ConsumerGroupCurrentMemberAssignment", ids, current),
                commit("c", 1, 2),
            ]
        )
    for number in range(2):
        with LogBuilder(tmp_path / "disk2" / f"orders-{number}") as builder:
            builder.records(10)
    metadata = f"version: 0\ntopic_id: {'AAAAAAAAAAAAAAAAAAAABw'}\n"
    (tmp_path / "disk2" / "orders-1" / "partition.metadata").write_text(metadata)
    rows = tidelog.groups([tmp_path / "disk1", tmp_path / "disk2"])
    shown = [
        (
            row.group,
            row.kind,
            row.state,
            row.partition,
            row.committed_offset,
            row.lag,
            row.member_id,
            row.host,
        )
        for row in rows
    ]
    assert shown == [
        ("c", "consumer", "Stable", 1, 2, 8, "n", "/5.6.7.8"),
        ("old", "classic", "Stable", 0, 4, 6, "m", "/1.2.3.4"),
        ("old", "classic", "Stable", 1, None, None, "m", "/1.2.3.4"),
    ]
    assert rows[0].instance_id == "static"


def state(producer: int, status: int, partitions: list[int]) -> dict[str, Any]:
    return {
        "producerId": producer,
        "previousProducerId": -1,
        "nextProducerId": -1,
        "producerEpoch": 0,
        "nextProducerEpoch": -1,
        "transactionTimeoutMs": 60000,
        "transactionStatus": status,
        "transactionPartitions": [{"topic": "orders", "partitionIds": partitions}] if partitions else None,
        "transactionLastUpdateTimestampMs": 9,
        "transactionStartTimestampMs": 8,
        "clientTransactionVersion": 0,
    }


def test_hanging_transactions(tmp_path: Path) -> None:
    with LogBuilder(tmp_path / "orders-0") as builder:
        builder.records(5).transaction(1, records=5, commit=None).transaction(2, records=5, commit=None)
        builder.transaction(3, records=5, commit=False)
    alone = tidelog.transactions(tmp_path)
    assert [(row.state, row.producer_id) for row in alone] == [("open", 1), ("open", 2), ("aborted", 3)]
    with LogBuilder(tmp_path / "__transaction_state-0") as builder:
        builder.append([record("TransactionLog", {"transactionalId": "a"}, state(1, 1, [0]))])
        builder.append([record("TransactionLog", {"transactionalId": "b"}, state(2, 4, []))])
        builder.append([record("TransactionLog", {"transactionalId": "gone"}, None)])
    rows = tidelog.transactions(tmp_path)
    assert [(row.state, row.transactional_id, row.producer_id, row.first_offset) for row in rows] == [
        ("Ongoing", "a", 1, None),
        ("CompleteCommit", "b", 2, None),
        ("open", "a", 1, 5),
        ("hanging", "b", 2, 10),
        ("aborted", None, 3, 15),
    ]
    assert len(tidelog.transactions(tmp_path, aborted=False)) == 4


def test_damage_costs_only_what_it_holds(tmp_path: Path) -> None:
    with LogBuilder(tmp_path / "__consumer_offsets-0") as builder:
        for number in range(3):
            builder.append([commit("g", number, 7)])
    log = tmp_path / "__consumer_offsets-0" / f"{0:020}.log"
    flip_bit(log, log.stat().st_size // 2)
    assert committed(tmp_path) == {0: 7, 2: 7}


def test_no_groups_here(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"__consumer_offsets under \S*golden-none-0: name all roots"):
        tidelog.groups([CLEAN / "golden-none-0"])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_groups_equal_kafkas_own_description(oracle: Oracle, tmp_path: Path) -> None:
    """Both protocols; the consumers are alive when the broker is killed."""
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    from tests.broker.test_kafka_tools import Tools

    root = tmp_path / "root"
    quiet = {"log_level": 0}
    with oracle.broker(root) as broker:
        servers = quiet | {"bootstrap.servers": broker.address}
        admin = AdminClient(servers)
        admin.create_topics([NewTopic("orders", 3, 1)])["orders"].result(60)
        producer = Producer(servers)
        for number in range(90):
            producer.produce("orders", b"v", partition=number % 3)
        producer.flush(60)
        consumers = []
        for protocol in ("classic", "consumer"):
            consumer = Consumer(
                servers
                | {"group.id": f"g-{protocol}", "group.protocol": protocol, "client.id": f"c-{protocol}"}
                | {"auto.offset.reset": "earliest", "enable.auto.commit": False}
            )
            consumer.subscribe(["orders"])
            seen, deadline = 0, time.monotonic() + 60
            while seen < 50 and time.monotonic() < deadline:
                message = consumer.poll(1.0)
                seen += message is not None and message.error() is None
            assert seen == 50
            consumer.commit(asynchronous=False)
            consumers.append(consumer)
        told = Tools(oracle, broker.address)(
            "consumer.group.ConsumerGroupCommand", "--describe", "--all-groups"
        )
        broker.kill()
    for consumer in consumers:
        consumer.close()
    described = sorted(line.split()[:9] for line in told.splitlines() if " orders " in line)
    assert len(described) == 6

    def text(value: object) -> str:
        return "-" if value is None else str(value)

    fields = ("group", "topic", "partition", "committed_offset", "log_end_offset", "lag", "member_id", "host")
    rows = tidelog.groups(root)
    found = [[*(text(getattr(row, name)) for name in fields), text(row.client_id)] for row in rows]
    assert sorted(found) == described
    assert {(row.group, row.kind, row.state) for row in rows} == {
        ("g-classic", "classic", "Stable"),
        ("g-consumer", "consumer", "Stable"),
    }
