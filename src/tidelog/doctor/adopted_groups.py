"""Committed offsets of an adopted topic, from one cluster's `__consumer_offsets` to another's.

A commit is written as a coordinator writes it, into the partition that the group's name belongs to. Its time
is the present: a broker deletes old commits of groups without members. A target without the topic gets it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.log import AppendOrigin
from tidelog.log.log import clock_ms
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.coordinators.groups import GROUPS_TOPIC, read_groups
from tidelog.manager.coordinators.partitioning import partition_for
from tidelog.manager.store.opener import open_store
from tidelog.protocol.coordinator_records import CoordinatorRecord, encode_group_record
from tidelog.records import Record
from tidelog.scanning.partitions import list_partitions
from tidelog.storage import FileSystem

__all__ = ["GroupCommit", "find_commits", "write_commits"]

_CONFIG = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": 100 << 20}
_VERSION = 3


@dataclass(frozen=True, slots=True)
class GroupCommit:
    """An offset that a group has committed."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str

    def record(self, now_ms: int) -> Record:
        """The record that says so."""
        key, value = encode_group_record(
            CoordinatorRecord(
                "OffsetCommit",
                {"group": self.group, "topic": self.topic, "partition": self.partition},
                {
                    "offset": self.offset,
                    "leaderEpoch": self.leader_epoch,
                    "metadata": self.metadata,
                    "commitTimestamp": now_ms,
                },
                _VERSION,
            )
        )
        return Record(value, key, timestamp=now_ms)


def find_commits(roots: Sequence[str], topic: str, name: str) -> list[GroupCommit]:
    """What groups have committed for a topic under some roots, under the name that it gets.

    Where several disks have a copy of the same partition, the newest commit counts.
    """
    newest: dict[tuple[str, int], tuple[int, GroupCommit]] = {}
    copies = [one for root in roots for one in list_partitions(root)]
    copies = [one for one in copies if one.topic_partition.topic == GROUPS_TOPIC]
    for group in (group for one in copies for group in read_groups(one, {})):
        for place, commit in group.commits.items():
            key = group.group_id, place.partition
            if place.topic == topic and (key not in newest or newest[key][0] < commit.timestamp_ms):
                told = (commit.offset, commit.leader_epoch, commit.metadata)
                newest[key] = commit.timestamp_ms, GroupCommit(group.group_id, name, place.partition, *told)
    return [newest[key][1] for key in sorted(newest)]


def write_commits(
    fs: FileSystem,
    roots: Sequence[str],
    commits: Sequence[GroupCommit],
    broker: BrokerConfig | None,
    partitions: int,
) -> None:
    """Commit offsets in a node's roots; with so many partitions, if there is no `__consumer_offsets` yet."""
    now_ms = clock_ms()
    with open_store(roots, config=broker, topics=[GROUPS_TOPIC], background=False, fs=fs) as store:
        if GROUPS_TOPIC not in store:
            store.create_topic(GROUPS_TOPIC, partitions, _CONFIG)
        topic = store[GROUPS_TOPIC]
        for number in sorted({partition_for(one.group, len(topic)) for one in commits}):
            records = [
                one.record(now_ms) for one in commits if partition_for(one.group, len(topic)) == number
            ]
            topic[number].append(records, origin=AppendOrigin.COORDINATOR, sync=True)
