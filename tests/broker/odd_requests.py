"""Requests that a broker refuses, or has to take a close look at: each with its API, version and fields.

`t` has two partitions and three records in the first, `g` a committed offset; nothing else is there.
"""

from __future__ import annotations

import uuid
from typing import Any

import google_crc32c

from tests.broker.asking import batch

__all__ = ["ODD", "PREPARING", "Odd"]

Odd = tuple[str, int, dict[str, Any]]

NO_ID, SOME_ID = uuid.UUID(int=0), uuid.UUID(int=0xABC)
FAR = 1 << 62


def topic(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": 1, "replication_factor": 1} | fields


def create(*topics: dict[str, Any]) -> Odd:
    return "CreateTopics", 7, {"topics": list(topics), "timeout": 30_000}


def configs(**values: str | None) -> list[dict[str, Any]]:
    return [{"name": name.replace("_", "."), "value": value} for name, value in values.items()]


def alter(name: str, *changes: tuple[str, int, str | None], kind: int = 2) -> Odd:
    made = [{"name": key, "config_operation": how, "value": value} for key, how, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": made}
    return "IncrementalAlterConfigs", 1, {"resources": [resource]}


def replace(name: str, **values: str | None) -> Odd:
    resource = {"resource_type": 2, "resource_name": name, "configs": configs(**values)}
    return "AlterConfigs", 2, {"resources": [resource]}


def produce(
    records: bytes | None, name: str = "t", number: int = 0, version: int = 12, acks: int = -1
) -> Odd:
    data = [{"name": name, "partition_data": [{"index": number, "records": records}]}]
    return "Produce", version, {"acks": acks, "timeout": 30_000, "topic_data": data}


def fetch(offset: int, name: str = "t", number: int = 0, epoch: int = -1, **fields: Any) -> Odd:
    part = {"partition": number, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    part |= {"current_leader_epoch": epoch, "last_fetched_epoch": fields.pop("last", -1)}
    wanted = {"topics": [{"topic": name, "partitions": [part]}], "max_wait": 0, "max_bytes": 1 << 20}
    return "Fetch", 12, {"session_epoch": -1, "replica_id": -1} | wanted | fields


def offsets(timestamp: int, name: str = "t", number: int = 0, epoch: int = -1, version: int = 8) -> Odd:
    part = {"partition_index": number, "timestamp": timestamp, "current_leader_epoch": epoch}
    return "ListOffsets", version, {"replica_id": -1, "topics": [{"name": name, "partitions": [part]}]}


def epochs(epoch: int, name: str = "t", number: int = 0, current: int = -1) -> Odd:
    part = {"partition": number, "leader_epoch": epoch, "current_leader_epoch": current}
    return "OffsetForLeaderEpoch", 4, {"replica_id": -1, "topics": [{"topic": name, "partitions": [part]}]}


def delete_records(offset: int, name: str = "t", number: int = 0) -> Odd:
    part = {"partition_index": number, "offset": offset}
    return "DeleteRecords", 2, {"topics": [{"name": name, "partitions": [part]}], "timeout": 30_000}


def join(group: str = "j", member: str = "", **fields: Any) -> Odd:
    said = {"session_timeout": 30_000, "rebalance_timeout": 30_000, "protocol_type": "consumer"}
    protocols = [{"name": "range", "metadata": b""}]
    return "JoinGroup", 9, {"group_id": group, "member_id": member, "protocols": protocols} | said | fields


def commit(name: str = "t", group: str = "g", number: int = 0, version: int = 9, **fields: Any) -> Odd:
    part = {"partition_index": number, "committed_offset": 1, "committed_metadata": fields.pop("note", "")}
    said = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
    return "OffsetCommit", version, said | {"topics": [{"name": name, "partitions": [part]}]} | fields


def beat(group: str, epoch: int, member: str = "m", **fields: Any) -> Odd:
    said = {"group_id": group, "member_id": member, "member_epoch": epoch}
    return "ConsumerGroupHeartbeat", 1, said | fields


def new_member(**fields: Any) -> dict[str, Any]:
    return {"rebalance_timeout": 30_000, "subscribed_topic_names": ["t"], "topic_partitions": []} | fields


def init(name: str | None, timeout: int = 60_000, producer: int = -1, epoch: int = -1) -> Odd:
    said = {"transactional_id": name, "transaction_timeout": timeout}
    return "InitProducerId", 5, said | {"producer_id": producer, "producer_epoch": epoch}


def partitions(name: str, count: int, *nodes: int) -> Odd:
    assigned = [{"broker_ids": [node]} for node in nodes] or None
    wanted = {"name": name, "count": count, "assignments": assigned}
    return "CreatePartitions", 3, {"topics": [wanted], "timeout": 30_000}


def marker(producer: int, epoch: int, *topics: str, number: int = 0) -> Odd:
    parts = [{"name": name, "partition_indexes": [number]} for name in topics]
    said = {"producer_id": producer, "producer_epoch": epoch, "transaction_result": True, "topics": parts}
    return "WriteTxnMarkers", 1, {"markers": [{**said, "coordinator_epoch": 0}]}


def fetched(group: str, name: str = "t", **fields: Any) -> Odd:
    wanted = {"group_id": group, "topics": [{"name": name, "partition_indexes": [0]}]}
    said = {"member_id": None, "member_epoch": -1}
    return "OffsetFetch", 9, {"groups": [wanted | said | fields]}


def commit_in(name: str, *topics: str, group: str = "g") -> Odd:
    part = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
    said = {"transactional_id": name, "group_id": group, "producer_id": 5, "producer_epoch": 0}
    parts = [{"name": topic, "partitions": [part]} for topic in topics]
    return "TxnOffsetCommit", 4, said | {"generation_id": -1, "member_id": "", "topics": parts}


def described(kind: int, name: str) -> Odd:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": ["retention.ms"]}
    return "DescribeConfigs", 4, {"resources": [resource]}


def _damaged(at: int) -> bytes:
    data = bytearray(batch(b"v"))
    data[at] ^= 1
    return bytes(data)


def _unsound(at: int) -> bytes:
    """A batch that is damaged where its records are, with a checksum that holds."""
    data = bytearray(batch(b"v"))
    data[at] ^= 1
    data[17:21] = google_crc32c.value(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


GOOD = batch(b"a", b"b", b"c")
_PARTS = [{"name": "t", "partitions": [0]}]
_COMMITTED = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
_UNKNOWN = {"transactional_id": "none", "producer_id": 7, "producer_epoch": 0}

PREPARING: list[Odd] = [
    create(topic("t", num_partitions=2)),
    produce(GOOD),
    ("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]}),
    commit(),
    ("FindCoordinator", 4, {"key_type": 1, "coordinator_keys": ["x"]}),
    init("x"),
]
"""Each is asked for until it is not refused; the first may have been done before that is told."""

ODD: dict[str, Odd] = {
    "a name with a space": create(topic("a b")),
    "no name": create(topic("")),
    "two dots": create(topic("..")),
    "a long name": create(topic("x" * 250)),
    "no partitions": create(topic("n", num_partitions=0)),
    "fewer than none": create(topic("n", num_partitions=-2)),
    "three replicas": create(topic("n", replication_factor=3)),
    "no replicas": create(topic("n", replication_factor=0)),
    "an unknown key": create(topic("n", configs=configs(no_such_key="1"))),
    "a value that is none": create(topic("n", configs=configs(retention_ms=None))),
    "a bad value": create(topic("n", configs=configs(retention_ms="long"))),
    "a value out of range": create(topic("n", configs=configs(segment_bytes="1"))),
    "a topic twice": create(topic("n"), topic("n")),
    "a topic that is there": create(topic("t")),
    "assigned and counted": create(topic("n", assignments=[{"partition_index": 0, "broker_ids": [1]}])),
    "assigned with a gap": create(
        topic(
            "n",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[{"partition_index": 1, "broker_ids": [1]}],
        )
    ),
    "assigned to nobody": create(
        topic(
            "n",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[{"partition_index": 0, "broker_ids": [9]}],
        )
    ),
    "delete what is not there": ("DeleteTopics", 6, {"topics": [{"name": "n"}], "timeout": 30_000}),
    "delete an unknown id": (
        "DeleteTopics",
        6,
        {"topics": [{"name": None, "topic_id": SOME_ID}], "timeout": 30_000},
    ),
    "delete by name and id": (
        "DeleteTopics",
        6,
        {"topics": [{"name": "t", "topic_id": SOME_ID}], "timeout": 30_000},
    ),
    "delete by neither": (
        "DeleteTopics",
        6,
        {"topics": [{"name": None, "topic_id": NO_ID}], "timeout": 30_000},
    ),
    "delete twice": ("DeleteTopics", 5, {"topic_names": ["t", "t"], "timeout": 30_000}),
    "remote storage": create(topic("n", configs=configs(remote_storage_enable="true"))),
    "fewer partitions": partitions("t", 1),
    "as many partitions": partitions("t", 2),
    "partitions of none": partitions("n", 3),
    "partitions elsewhere": partitions("t", 3, 9),
    "too many assigned": partitions("t", 3, 1, 1),
    "configs of no topic": described(2, "n"),
    "configs of a bad name": described(2, "a b"),
    "configs of another broker": described(4, "99"),
    "configs of no broker": described(4, "x"),
    "configs of nothing": described(77, "x"),
    "loggers of another broker": described(8, "99"),
    "loggers of no broker": described(8, ""),
    "configs of a topic without a name": described(2, ""),
    "alter a topic without a name": alter("", ("retention.ms", 0, "1")),
    "alter a bad name": alter("a b", ("retention.ms", 0, "1")),
    "replace with nothing": replace("t", retention_ms=None),
    "replace of no topic": replace("n", retention_ms="1"),
    "alter no topic": alter("n", ("retention.ms", 0, "1")),
    "alter an unknown key": alter("t", ("no.such.key", 0, "1")),
    "alter to a bad value": alter("t", ("retention.ms", 0, "x")),
    "alter twice": alter("t", ("retention.ms", 0, "1"), ("retention.ms", 0, "2")),
    "alter to none": alter("t", ("retention.ms", 0, None)),
    "append to a number": alter("t", ("retention.ms", 2, "1")),
    "offsets of no topic": offsets(-1, "n"),
    "offsets of no partition": offsets(-1, "t", 9),
    "offsets of an odd time": offsets(-99),
    "the largest timestamp, too old": offsets(-3, version=6),
    "offsets of a time to come": offsets(FAR),
    "offsets of a later epoch": offsets(-1, epoch=99),
    "epoch of no topic": epochs(0, "n"),
    "an epoch to come": epochs(99),
    "an epoch of a later leader": epochs(0, current=99),
    "no epoch": epochs(-1),
    "delete records of no topic": delete_records(1, "n"),
    "delete beyond the end": delete_records(99),
    "delete before the start": delete_records(-2),
    "delete records of the broker's": delete_records(0, "__consumer_offsets"),
    "produce to no topic": produce(GOOD, "n"),
    "produce to no partition": produce(GOOD, number=9),
    "produce with odd acks": produce(GOOD, acks=5),
    "produce no bytes": produce(b""),
    "produce two batches": produce(GOOD + GOOD),
    "produce half a batch": produce(GOOD[:-5]),
    "produce a bad checksum": produce(_damaged(-1)),
    "produce a bad count": produce(_damaged(60)),
    "produce records that are not sound": produce(_unsound(-1)),
    "produce more records than there are": produce(_unsound(60)),
    "produce an old format": produce(GOOD[:16] + b"\1" + GOOD[17:]),
    "produce to the broker's topic": produce(GOOD, "__consumer_offsets"),
    "produce a gap of a producer": produce(
        batch(b"v", producer_id=1 << 40, producer_epoch=0, base_sequence=7)
    ),
    "fetch of no topic": fetch(0, "n"),
    "fetch of no partition": fetch(0, number=9),
    "fetch beyond the end": fetch(99),
    "fetch before the start": fetch(-1),
    "fetch with a later epoch": fetch(0, epoch=99),
    "fetch after an epoch to come": fetch(0, last=99),
    "fetch of no session": fetch(0, session_id=5, session_epoch=3),
    "fetch of an unknown id": (
        "Fetch",
        16,
        {
            "max_bytes": 1 << 20,
            "session_epoch": -1,
            "max_wait": 0,
            "topics": [
                {
                    "topic_id": SOME_ID,
                    "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}],
                }
            ],
        },
    ),
    "metadata of no topic": ("Metadata", 12, {"topics": [{"name": "n", "topic_id": NO_ID}]}),
    "metadata of a bad name": ("Metadata", 12, {"topics": [{"name": "a b", "topic_id": NO_ID}]}),
    "metadata of an unknown id": ("Metadata", 12, {"topics": [{"name": None, "topic_id": SOME_ID}]}),
    "coordinator of an odd type": ("FindCoordinator", 4, {"key_type": 9, "coordinator_keys": ["g"]}),
    "coordinator of no group": ("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": [""]}),
    "join without a name": join(""),
    "join for a moment": join(session_timeout=1),
    "join without protocols": join(protocols=[]),
    "join as a stranger": join(member="x"),
    "join as nobody": join(),
    "sync of no group": (
        "SyncGroup",
        5,
        {
            "group_id": "n",
            "generation_id": 1,
            "member_id": "m",
            "protocol_type": "consumer",
            "protocol_name": "range",
        },
    ),
    "heartbeat of no group": ("Heartbeat", 4, {"group_id": "n", "generation_id": 1, "member_id": "m"}),
    "leave no group": ("LeaveGroup", 5, {"group_id": "n", "members": [{"member_id": "m"}]}),
    "commit for no topic": commit("n"),
    "commit for no partition": commit(number=9),
    "commit a long note": commit(note="x" * 5000),
    "commit as a stranger": commit(member_id="m", generation_id_or_member_epoch=3),
    "commit for no group": commit(group=""),
    "offsets of no group": ("OffsetFetch", 8, {"groups": [{"group_id": "n", "topics": None}]}),
    "offsets of a stranger": (
        "OffsetFetch",
        9,
        {"groups": [{"group_id": "g", "member_id": "m", "member_epoch": 3, "topics": None}]},
    ),
    "delete offsets of no group": (
        "OffsetDelete",
        0,
        {"group_id": "n", "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]},
    ),
    "delete offsets of no topic": (
        "OffsetDelete",
        0,
        {"group_id": "g", "topics": [{"name": "n", "partitions": [{"partition_index": 0}]}]},
    ),
    "delete no group": ("DeleteGroups", 2, {"groups_names": ["n"]}),
    "describe no group": ("DescribeGroups", 6, {"groups": ["n"]}),
    "describe no group, as long ago": ("DescribeGroups", 5, {"groups": ["n"]}),
    "list groups of an odd state": ("ListGroups", 5, {"states_filter": ["Odd"], "types_filter": []}),
    "list groups of an odd type": ("ListGroups", 5, {"states_filter": [], "types_filter": ["odd"]}),
    "beat without a group": beat("", 0, **new_member()),
    "beat as a stranger": beat("c", 5),
    "beat without topics": beat("c", 0, rebalance_timeout=30_000, topic_partitions=[]),
    "beat without a timeout": beat("c", 0, **new_member(rebalance_timeout=-1)),
    "beat with an odd assignor": beat("c", 0, **new_member(server_assignor="odd")),
    "beat with an odd pattern": beat("c", 0, **new_member(subscribed_topic_regex="(")),
    "beat with an empty name": beat("c", 0, **new_member(instance_id="")),
    "beat as one who left": beat("c", -1),
    "beat without a member": beat("c", 0, "", **new_member()),
    "describe no new group": ("ConsumerGroupDescribe", 1, {"group_ids": ["n"]}),
    "describe a new group without a name": ("ConsumerGroupDescribe", 1, {"group_ids": [""]}),
    "describe a classic group as a new one": ("ConsumerGroupDescribe", 1, {"group_ids": ["g"]}),
    "a producer without a name": init(""),
    "a producer that waits too long": init("x", 1 << 30),
    "a producer that waits not at all": init("x", 0),
    "a producer of somebody": init("y", producer=7, epoch=3),
    "an id without an epoch": init("y", producer=7, epoch=-1),
    "add offsets of nobody": ("AddOffsetsToTxn", 4, _UNKNOWN | {"group_id": "g"}),
    "commit offsets of nobody": (
        "TxnOffsetCommit",
        3,
        _UNKNOWN | {"group_id": "g", "generation_id": -1, "member_id": "", "topics": _COMMITTED},
    ),
    "end nobody's": ("EndTxn", 4, _UNKNOWN | {"committed": True}),
    "transactions of nobody": ("DescribeTransactions", 0, {"transactional_ids": ["none"]}),
    "transactions of no name": ("DescribeTransactions", 0, {"transactional_ids": [""]}),
    "transactions of an odd state": (
        "ListTransactions",
        1,
        {"state_filters": ["Odd"], "producer_id_filters": [], "duration_filter": -1},
    ),
    "producers of no topic": ("DescribeProducers", 0, {"topics": [{"name": "n", "partition_indexes": [0]}]}),
    "producers of no partition": (
        "DescribeProducers",
        0,
        {"topics": [{"name": "t", "partition_indexes": [9]}]},
    ),
    "move to nowhere": (
        "AlterReplicaLogDirs",
        2,
        {"dirs": [{"path": "/nowhere", "topics": [{"name": "t", "partitions": [0]}]}]},
    ),
    "elect leaders of none": (
        "ElectLeaders",
        2,
        {"election_type": 0, "topic_partitions": [{"topic": "n", "partitions": [0]}], "timeout": 30_000},
    ),
    "elect the leader there is": (
        "ElectLeaders",
        2,
        {"election_type": 0, "topic_partitions": [{"topic": "t", "partitions": [0]}], "timeout": 30_000},
    ),
    "reassign none": (
        "AlterPartitionReassignments",
        1,
        {
            "timeout": 30_000,
            "allow_replication_factor_change": True,
            "topics": [{"name": "n", "partitions": [{"partition_index": 0, "replicas": [1]}]}],
        },
    ),
    "reassign to nobody": (
        "AlterPartitionReassignments",
        1,
        {
            "timeout": 30_000,
            "allow_replication_factor_change": True,
            "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [9]}]}],
        },
    ),
    "cancel no reassignment": (
        "AlterPartitionReassignments",
        1,
        {
            "timeout": 30_000,
            "allow_replication_factor_change": True,
            "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": None}]}],
        },
    ),
    "cluster of controllers": ("DescribeCluster", 2, {"endpoint_type": 2}),
    "cluster of an odd type": ("DescribeCluster", 2, {"endpoint_type": 9}),
    "partitions of no topic": (
        "DescribeTopicPartitions",
        0,
        {"topics": [{"name": "n"}], "response_partition_limit": 10},
    ),
    "no partitions at all": (
        "DescribeTopicPartitions",
        0,
        {"topics": [{"name": "t"}], "response_partition_limit": 0},
    ),
    "a late handshake": ("SaslHandshake", 1, {"mechanism": "PLAIN"}),
    "a late token": ("SaslAuthenticate", 2, {"auth_bytes": b"x"}),
    "offsets of no group to a member": fetched("none", member_id="m", member_epoch=1),
    "offsets of a topic without a name": fetched("g", ""),
    "committed to no topic in no transaction": commit_in("x", "n"),
    "committed to some topics in no transaction": commit_in("x", "n", "t"),
    "committed to no topic in no group": commit_in("x", "n", group=""),
    "a marker of nobody": marker(-1, 0, "t"),
    "a marker of no epoch": marker(7, -1, "t"),
    "a marker for no topic": marker(7, 0, "n"),
    "a marker for no partition": marker(7, 0, "t", number=9),
    "a marker with no partitions": marker(7, 0),
}
