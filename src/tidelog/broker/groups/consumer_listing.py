"""ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import Effect, Reply, Request, TopicView
from tidelog.broker.groups.assignors import TopicPartitionId
from tidelog.broker.groups.consumer_group import ConsumerGroup
from tidelog.broker.groups.listing import group_operations
from tidelog.broker.groups.table import GroupTable
from tidelog.broker.messages import respond

__all__ = ["describe_consumer_groups"]

_CONSUMER_MEMBER = 1


def describe_consumer_groups(table: GroupTable, asked: Request) -> Sequence[Effect]:
    """ConsumerGroupDescribe: groups of the consumer protocol only."""
    groups = [_described(table, group_id, asked.message) for group_id in asked.message.group_ids]
    return [Reply(asked.ticket, respond(asked.message, groups=groups))]


def _described(table: GroupTable, group_id: str, message: Any) -> dict[str, Any]:
    if not group_id:
        return {"group_id": "", "error_code": ErrorCode.invalid_group_id}
    group = table.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        why = "not found" if group is None else "is not a consumer group"
        return {
            "group_id": group_id,
            "error_code": ErrorCode.group_id_not_found,
            "error_message": f"Group {group_id} {why}.",
        }
    return {
        "group_id": group_id,
        "group_state": group.state_name,
        "group_epoch": group.epoch,
        "assignment_epoch": max(group.assignment_epoch, 0),
        "authorized_operations": group_operations(message),
        "assignor_name": group.preferred_assignor(table.config.consumer_assignors[0]),
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "rack_id": member.rack_id,
                "member_epoch": member.epoch,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "subscribed_topic_names": sorted(member.topics),
                "subscribed_topic_regex": member.regex,
                "assignment": _assignment([*member.assigned, *member.revoking], table.topics),
                "target_assignment": _assignment(group.target.get(member.member_id, ()), table.topics),
                "member_type": _CONSUMER_MEMBER,
            }
            for member in group.members.values()
        ],
    }


def _assignment(parts: Collection[TopicPartitionId], topics: TopicView) -> dict[str, Any]:
    found: dict[Any, list[int]] = {}
    for topic_id, number in sorted(parts):
        found.setdefault(topic_id, []).append(number)
    named = [(topic_id, topics.topic_name(topic_id), numbers) for topic_id, numbers in found.items()]
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": name, "partitions": numbers}
            for topic_id, name, numbers in named
            if name is not None
        ]
    }
