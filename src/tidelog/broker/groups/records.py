"""Groups and offsets as records of `__consumer_offsets`, and back."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from tidelog.broker.effects import Partition
from tidelog.broker.groups.classic_group import ClassicGroup, ClassicMember, GroupState
from tidelog.broker.groups.offsets import Committed
from tidelog.protocol.coordinator_records import CoordinatorRecord

__all__ = [
    "classic_group",
    "classic_group_gone",
    "committed",
    "empty_group",
    "offset",
    "offset_gone",
    "parse_classic_group",
]

_NO_ID = UUID(int=0)
_GROUP_VERSION = 3
"""Version 4 of the value has no field more; Kafka 4.3 still writes 3."""


def offset(group_id: str, partition: Partition, commit: Committed) -> CoordinatorRecord:
    """An offset is committed. A retention time of the client's own needs the old version 1."""
    value: dict[str, object] = {
        "offset": commit.offset,
        "leaderEpoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "commitTimestamp": commit.commit_ms,
        "expireTimestamp": -1 if commit.expire_ms is None else commit.expire_ms,
    }
    if commit.topic_id is not None and commit.topic_id != _NO_ID:
        value["topicId"] = commit.topic_id
    version = 4 if commit.expire_ms is None else 1
    return CoordinatorRecord("OffsetCommit", _offset_key(group_id, partition), value, version)


def offset_gone(group_id: str, partition: Partition) -> CoordinatorRecord:
    """An offset is deleted or expired."""
    return CoordinatorRecord("OffsetCommit", _offset_key(group_id, partition), None)


def _offset_key(group_id: str, partition: Partition) -> dict[str, object]:
    return {"group": group_id, "topic": partition[0], "partition": partition[1]}


def committed(value: Mapping[str, object], order: int) -> Committed:
    """What an offset's record says."""
    found = {name: value.get(name) for name in ("offset", "metadata", "commitTimestamp")}
    expire = value.get("expireTimestamp", -1)
    topic_id = value.get("topicId")
    return Committed(
        offset=_number(found["offset"]),
        leader_epoch=_number(value.get("leaderEpoch", -1)),
        metadata=str(found["metadata"]),
        commit_ms=_number(found["commitTimestamp"]),
        expire_ms=None if expire == -1 else _number(expire),
        topic_id=topic_id if isinstance(topic_id, UUID) else None,
        order=order,
    )


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


def classic_group(group: ClassicGroup, assignment: Mapping[str, bytes]) -> CoordinatorRecord:
    """A generation of a classic group, with what its members are assigned."""
    return _group(
        group.group_id,
        protocolType=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader,
        currentStateTimestamp=group.state_since_ms,
        members=[
            {
                "memberId": member.member_id,
                "groupInstanceId": member.instance_id,
                "clientId": member.client_id,
                "clientHost": member.client_host,
                "rebalanceTimeout": member.rebalance_timeout_ms,
                "sessionTimeout": member.session_timeout_ms,
                "subscription": member.metadata(group.protocol_name),
                "assignment": assignment.get(member.member_id, b""),
            }
            for member in group.members.values()
        ],
    )


def empty_group(group_id: str, now_ms: int) -> CoordinatorRecord:
    """A group that its first member has yet to join."""
    return _group(
        group_id,
        protocolType="",
        generation=0,
        protocol=None,
        leader=None,
        currentStateTimestamp=now_ms,
        members=[],
    )


def _group(group_id: str, **value: object) -> CoordinatorRecord:
    return CoordinatorRecord("GroupMetadata", {"group": group_id}, value, _GROUP_VERSION)


def classic_group_gone(group_id: str) -> CoordinatorRecord:
    """A classic group is deleted."""
    return CoordinatorRecord("GroupMetadata", {"group": group_id}, None)


def parse_classic_group(record: CoordinatorRecord) -> ClassicGroup:
    """The group that a record says: stable if it has members."""
    value = record.value
    assert value is not None
    group = ClassicGroup(record.key["group"])
    group.generation = value["generation"]
    group.protocol_type = value["protocolType"] or None
    group.protocol_name = value["protocol"]
    group.leader = value["leader"]
    group.state_since_ms = value.get("currentStateTimestamp", -1)
    for told in value["members"]:
        timeout_ms = told["sessionTimeout"]
        member = ClassicMember(
            told["memberId"],
            told.get("groupInstanceId"),
            told["clientId"],
            told["clientHost"],
            told.get("rebalanceTimeout", timeout_ms),
            timeout_ms,
            ((value["protocol"] or "", told["subscription"]),),
            assignment=told["assignment"],
        )
        group.members[member.member_id] = member
        if member.instance_id is not None:
            group.static_members[member.instance_id] = member.member_id
    group.state = GroupState.STABLE if group.members else GroupState.EMPTY
    return group
