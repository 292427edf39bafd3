"""Which APIs this broker serves, in which versions: those of a Kafka 4.3 broker.

An API that is not in the table, or a version outside of its range, is answered as Kafka answers it
(`wire.requests`). `MESSAGES` are the names of kio's schemas.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["APIS", "Api", "api_named"]


class Api(NamedTuple):
    """One API and its versions."""

    key: int
    name: str
    lowest: int
    highest: int


_TABLE = """
0 Produce 3 13              1 Fetch 4 18                 2 ListOffsets 1 11        3 Metadata 0 13
8 OffsetCommit 2 10         9 OffsetFetch 1 10           10 FindCoordinator 0 6    11 JoinGroup 0 9
12 Heartbeat 0 4            13 LeaveGroup 0 5            14 SyncGroup 0 5          15 DescribeGroups 0 6
16 ListGroups 0 5           17 SaslHandshake 0 1         18 ApiVersions 0 4        19 CreateTopics 2 7
20 DeleteTopics 1 6         21 DeleteRecords 0 2         22 InitProducerId 0 5
23 OffsetForLeaderEpoch 2 4 24 AddPartitionsToTxn 0 5    25 AddOffsetsToTxn 0 4    26 EndTxn 0 5
27 WriteTxnMarkers 1 2      28 TxnOffsetCommit 0 5       32 DescribeConfigs 1 4    33 AlterConfigs 0 2
34 AlterReplicaLogDirs 1 2  35 DescribeLogDirs 1 5       36 SaslAuthenticate 0 2   37 CreatePartitions 0 3
42 DeleteGroups 0 2         43 ElectLeaders 0 2          44 IncrementalAlterConfigs 0 1
45 AlterPartitionReassignments 0 1  46 ListPartitionReassignments 0 0
47 OffsetDelete 0 0         60 DescribeCluster 0 2
61 DescribeProducers 0 0    65 DescribeTransactions 0 0  66 ListTransactions 0 2
68 ConsumerGroupHeartbeat 0 1  69 ConsumerGroupDescribe 0 1  74 ListConfigResources 0 1
75 DescribeTopicPartitions 0 0
"""


def _read_table(text: str) -> dict[int, Api]:
    words = iter(text.split())
    rows = [Api(int(key), next(words), int(next(words)), int(next(words))) for key in words]
    return {row.key: row for row in rows}


APIS = _read_table(_TABLE)
"""The APIs by their key."""

_BY_NAME = {api.name: api for api in APIS.values()}


def api_named(name: str) -> Api:
    """The API of that name."""
    return _BY_NAME[name]
