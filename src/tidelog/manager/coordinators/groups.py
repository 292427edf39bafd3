"""Groups as `__consumer_offsets` has them: last known members, committed offsets, lag behind the logs.

Groups of the classic and of the consumer protocol; of share and streams groups only the offsets. What is read
is the state that the last coordinator wrote: members that were there then may be gone.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tidelog.errors import TidelogError
from tidelog.manager.coordinators.folding import fold_partition
from tidelog.protocol.coordinator_formats import CONSUMER_PROTOCOL
from tidelog.protocol.coordinator_records import CoordinatorRecord, decode_group_record
from tidelog.protocol.notation import Message, parse_messages
from tidelog.protocol.primitives import Reader
from tidelog.scanning.log_end import salvaged_end
from tidelog.scanning.partitions import Partition, look_steadily
from tidelog.types import TopicPartition

__all__ = [
    "GROUPS_TOPIC",
    "GROUP_SCHEMA",
    "Commit",
    "Group",
    "GroupRow",
    "Member",
    "describe_groups",
    "group_rows",
    "log_ends",
    "read_groups",
]

GROUPS_TOPIC = "__consumer_offsets"
_ASSIGNMENT = 1
_STABLE = 0  # the state of a member whose assignment is the one that it should have


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed offset."""

    offset: int
    timestamp_ms: int
    metadata: str
    leader_epoch: int = -1


@dataclass(slots=True)
class Member:
    """A member as it was last written, with the partitions that it had."""

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    host: str = ""
    epoch: int = -1
    is_settled: bool = True
    assigned: set[TopicPartition] = field(default_factory=set)


@dataclass(slots=True)
class Group:
    """A group as its last coordinator left it."""

    group_id: str
    kind: str = "classic"
    """The protocol: classic, consumer, share or streams."""
    epoch: int = -1
    """The generation of a classic group."""
    target_epoch: int = -1
    members: dict[str, Member] = field(default_factory=dict)
    commits: dict[TopicPartition, Commit] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The state in Kafka's words, as far as the records tell it."""
        if not self.members:
            return "Empty"
        if self.kind == "classic":
            return "Stable"
        if self.epoch > self.target_epoch:
            return "Assigning"
        settled = all(one.is_settled and one.epoch == self.target_epoch for one in self.members.values())
        return "Stable" if settled else "Reconciling"


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group and one partition, as `kafka-consumer-groups --describe` has it."""

    group: str
    kind: str
    state: str
    topic: str | None
    partition: int | None
    committed_offset: int | None
    log_end_offset: int | None
    lag: int | None
    member_id: str | None
    instance_id: str | None
    client_id: str | None
    host: str | None
    committed_ms: int | None
    metadata: str | None


GROUP_SCHEMA = pa.schema(
    [
        pa.field("group", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("state", pa.string(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("committed_offset", pa.int64()),
        pa.field("log_end_offset", pa.int64()),
        pa.field("lag", pa.int64()),
        pa.field("member_id", pa.string()),
        pa.field("instance_id", pa.string()),
        pa.field("client_id", pa.string()),
        pa.field("host", pa.string()),
        pa.field("committed_ms", pa.int64()),
        pa.field("metadata", pa.string()),
    ]
)
"""The fields of a `GroupRow` as columns."""


def read_groups(partition: Partition, names: Mapping[uuid.UUID, str]) -> list[Group]:
    """The groups of a partition of `__consumer_offsets`, by id; `names` has the topics by their ids."""
    groups: dict[str, Group] = {}
    for key, latest in fold_partition(partition).items():
        try:
            record = decode_group_record(key, latest.value)
        except TidelogError:
            continue  # a record that no version of Kafka wrote
        if record is not None and record.value is not None:
            _apply(groups, record, record.value, names)
    return [groups[name] for name in sorted(groups)]


def _apply(
    groups: dict[str, Group],
    record: CoordinatorRecord,
    value: Mapping[str, Any],
    names: Mapping[uuid.UUID, str],
) -> None:
    group_id = record.key.get("group") or record.key.get("groupId") or ""
    group = groups.setdefault(group_id, Group(group_id))
    for kind in ("Consumer", "Share", "Streams"):
        if record.kind.startswith(f"{kind}Group"):
            group.kind = kind.lower()
    name = record.key.get("memberId")
    member = None if name is None else group.members.setdefault(name, Member(name))
    match record.kind:
        case "OffsetCommit" | "LegacyOffsetCommit":
            place = TopicPartition(record.key["topic"], record.key["partition"])
            group.commits[place] = Commit(
                value["offset"], value["commitTimestamp"], value["metadata"], value.get("leaderEpoch", -1)
            )
        case "GroupMetadata":
            group.epoch = value["generation"]
            for one in value["members"]:
                group.members[one["memberId"]] = _classic_member(one, value["protocolType"])
        case "ConsumerGroupMetadata":
            group.epoch = value["epoch"]
        case "ConsumerGroupTargetAssignmentMetadata":
            group.target_epoch = value["assignmentEpoch"]
        case "ConsumerGroupMemberMetadata" if member is not None:
            member.instance_id, member.client_id = value["instanceId"], value["clientId"]
            member.host = value["clientHost"]
        case "ConsumerGroupCurrentMemberAssignment" if member is not None:
            member.epoch, member.is_settled = value["memberEpoch"], value["state"] == _STABLE
            held = [*value["assignedPartitions"], *value["partitionsPendingRevocation"]]
            member.assigned = {
                TopicPartition(names.get(each["topicId"], str(each["topicId"])), number)
                for each in held
                for number in each["partitions"]
            }


def _classic_member(value: Mapping[str, Any], protocol_type: str) -> Member:
    member = Member(value["memberId"], value.get("groupInstanceId"), value["clientId"], value["clientHost"])
    if protocol_type == "consumer" and value["assignment"]:
        try:
            body = Reader(bytes(value["assignment"]), "assignment")
            version = body.i16()
            form = _protocol()[_ASSIGNMENT]
            told = form.decode(body, min(version, form.newest_version), native=True)
        except TidelogError:
            return member  # each client writes what it likes
        member.assigned = {
            TopicPartition(each["topic"], number)
            for each in told["assignedPartitions"]
            for number in each["partitions"]
        }
    return member


@functools.cache
def _protocol() -> dict[int, Message]:
    return parse_messages(CONSUMER_PROTOCOL)


def log_ends(partitions: Iterable[Partition]) -> dict[TopicPartition, int]:
    """Where the logs end."""
    return {one.topic_partition: look_steadily(one, lambda each: salvaged_end(each)[0]) for one in partitions}


def group_rows(group: Group, ends: Mapping[TopicPartition, int]) -> Iterator[GroupRow]:
    """A row for each partition that a group has committed or that a member had; one at least."""
    holders = {place: member for member in group.members.values() for place in member.assigned}
    places = sorted({*group.commits, *holders})
    idle = [member for member in group.members.values() if not member.assigned]
    for place in places:
        yield _row(group, place, holders.get(place), ends.get(place))
    for member in idle:
        yield _row(group, None, member, None)
    if not places and not idle:
        yield _row(group, None, None, None)


def _row(group: Group, place: TopicPartition | None, member: Member | None, end: int | None) -> GroupRow:
    commit = None if place is None else group.commits.get(place)
    lag = None if commit is None or end is None else end - commit.offset
    return GroupRow(
        group.group_id,
        group.kind,
        group.state,
        None if place is None else place.topic,
        None if place is None else place.partition,
        None if commit is None else commit.offset,
        end,
        lag,
        None if member is None else member.member_id,
        None if member is None else member.instance_id,
        None if member is None else member.client_id,
        None if member is None else member.host,
        None if commit is None else commit.timestamp_ms,
        None if commit is None else commit.metadata,
    )


def describe_groups(
    partitions: Iterable[Partition],
    names: Mapping[uuid.UUID, str],
    ends: Mapping[TopicPartition, int],
    wanted: str | None = None,
) -> list[GroupRow]:
    """The rows of all groups, or of the one that is wanted, by group and partition."""
    groups = [
        group
        for one in partitions
        if one.topic_partition.topic == GROUPS_TOPIC
        for group in read_groups(one, names)
        if wanted is None or group.group_id == wanted
    ]
    groups.sort(key=lambda group: group.group_id)
    return [row for group in groups for row in group_rows(group, ends)]
