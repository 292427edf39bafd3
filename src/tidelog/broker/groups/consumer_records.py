"""The records of consumer groups, as Kafka writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from tidelog.broker.groups.assignors import TopicPartitionId
from tidelog.broker.groups.consumer_group import ConsumerGroup, ConsumerMember, Held, ResolvedRegex
from tidelog.protocol.coordinator_records import CoordinatorRecord

__all__ = [
    "assignment",
    "assignment_epoch",
    "epoch",
    "group_gone",
    "member",
    "member_gone",
    "partition_metadata_gone",
    "regex",
    "regex_gone",
    "target",
]


def _record(kind: str, group_id: str, value: dict[str, Any] | None, **key: str) -> CoordinatorRecord:
    return CoordinatorRecord(f"ConsumerGroup{kind}", {"groupId": group_id, **key}, value)


def epoch(group_id: str, number: int, metadata_hash: int) -> CoordinatorRecord:
    """The group has a new epoch."""
    value = {"epoch": number} | ({"metadataHash": metadata_hash} if metadata_hash else {})
    return _record("Metadata", group_id, value)


def member(group_id: str, each: ConsumerMember) -> CoordinatorRecord:
    """A member, and what it subscribes to."""
    value = {
        "instanceId": each.instance_id,
        "rackId": each.rack_id,
        "clientId": each.client_id,
        "clientHost": each.client_host,
        "subscribedTopicNames": sorted(each.topics),
        "subscribedTopicRegex": each.regex,
        "rebalanceTimeoutMs": each.rebalance_timeout_ms,
        "serverAssignor": each.assignor,
    }
    return _record("MemberMetadata", group_id, value, memberId=each.member_id)


def member_gone(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """A member and all it has."""
    return [
        _record(kind, group_id, None, memberId=member_id)
        for kind in ("CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata")
    ]


def target(group_id: str, member_id: str, parts: Iterable[TopicPartitionId]) -> CoordinatorRecord:
    """What a member is to have."""
    value = {"topicPartitions": _topics(dict.fromkeys(parts, 0), with_epochs=False)}
    return _record("TargetAssignmentMember", group_id, value, memberId=member_id)


def assignment_epoch(group_id: str, number: int, now_ms: int) -> CoordinatorRecord:
    """The epoch that targets were computed for."""
    value = {"assignmentEpoch": number} | ({"assignmentTimestamp": now_ms} if now_ms else {})
    return _record("TargetAssignmentMetadata", group_id, value)


def assignment(group_id: str, each: ConsumerMember) -> CoordinatorRecord:
    """What a member has."""
    value = {
        "memberEpoch": each.epoch,
        "previousMemberEpoch": each.previous_epoch,
        "state": int(each.state),
        "assignedPartitions": _topics(each.assigned),
        "partitionsPendingRevocation": _topics(each.revoking),
    }
    return _record("CurrentMemberAssignment", group_id, value, memberId=each.member_id)


def _topics(held: Held, *, with_epochs: bool = True) -> list[dict[str, Any]]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, number in sorted(held):
        topics.setdefault(topic_id, []).append(number)
    return [
        {"topicId": topic_id, "partitions": numbers}
        | ({"assignmentEpochs": [held[topic_id, number] for number in numbers]} if with_epochs else {})
        for topic_id, numbers in topics.items()
    ]


def regex(group_id: str, pattern: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    """The topics that a regular expression matches."""
    value = {
        "topics": sorted(resolved.topics),
        "version": resolved.version,
        "timestamp": resolved.resolved_ms,
    }
    return _record("RegularExpression", group_id, value, regularExpression=pattern)


def regex_gone(group_id: str, pattern: str) -> CoordinatorRecord:
    """Nobody subscribes to a regular expression any more."""
    return _record("RegularExpression", group_id, None, regularExpression=pattern)


def partition_metadata_gone(group_id: str) -> CoordinatorRecord:
    """The topics' metadata that Kafka 4.0 kept."""
    return _record("PartitionMetadata", group_id, None)


def group_gone(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """An empty group is deleted."""
    return [
        _record("TargetAssignmentMetadata", group.group_id, None),
        *(regex_gone(group.group_id, pattern) for pattern in group.regexes),
        partition_metadata_gone(group.group_id),
        _record("Metadata", group.group_id, None),
    ]
