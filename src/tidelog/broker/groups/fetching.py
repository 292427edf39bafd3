"""OffsetFetch: of one group, or from version 8 on of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import Effect, Partition, Reply, Request
from tidelog.broker.groups.table import GroupTable
from tidelog.broker.messages import field, respond
from tidelog.broker.refusals import Refused

__all__ = ["fetch_offsets"]

_BATCHED = 8
_TOPIC_IDS = 10
_GROUP_ERROR = 2
_NO_OFFSET: dict[str, Any] = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": ""}


def fetch_offsets(table: GroupTable, asked: Request) -> Sequence[Effect]:
    """OffsetFetch."""
    message = asked.message
    stable = bool(field(message, "require_stable", False))
    if message.__version__ >= _BATCHED:
        groups = [_group(table, each, message.__version__, stable) for each in message.groups]
        return [Reply(asked.ticket, respond(message, groups=groups))]
    found = _group(table, message, message.__version__, stable)
    code = found["error_code"]
    if code is not ErrorCode.none and message.__version__ < _GROUP_ERROR:
        found["topics"] = [
            {"name": topic.name, "partitions": [_said(number, code) for number in topic.partition_indexes]}
            for topic in message.topics or ()
        ]
    return [Reply(asked.ticket, respond(message, topics=found["topics"], error_code=code))]


def _group(table: GroupTable, wanted: Any, version: int, stable: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"group_id": wanted.group_id, "topics": [], "error_code": ErrorCode.none}
    member_id, epoch = field(wanted, "member_id"), int(field(wanted, "member_epoch", -1))
    group = table.groups.get(wanted.group_id)
    try:
        if group is not None:
            group.check_fetch(member_id, epoch)
    except Refused as refused:
        return told | {"error_code": refused.code}
    committed = table.offsets.of(wanted.group_id)
    unstable = table.offsets.pending(wanted.group_id) if stable else set()
    if wanted.topics is None:
        return told | {"topics": _all(table, committed, unstable, version)}
    return told | {"topics": [_topic(table, topic, committed, unstable) for topic in wanted.topics]}


def _all(table: GroupTable, committed: Any, unstable: set[Partition], version: int) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for partition in committed:
        topics.setdefault(partition[0], []).append(_partition(partition, committed, unstable, None))
    told = [
        {"name": name, "topic_id": table.topics.topic_id(name), "partitions": found}
        for name, found in topics.items()
    ]
    # A topic that is gone has no id, and cannot be told by it.
    return [each for each in told if version < _TOPIC_IDS or each["topic_id"] is not None]


def _topic(table: GroupTable, topic: Any, committed: Any, unstable: set[Partition]) -> dict[str, Any]:
    topic_id: UUID | None = field(topic, "topic_id")
    name = field(topic, "name")
    if name is None and topic_id is not None:
        name = table.topics.topic_name(topic_id)
    if name is None:
        parts = [_said(number, ErrorCode.unknown_topic_id) for number in topic.partition_indexes]
        return {"name": "", "topic_id": topic_id, "partitions": parts}
    expected = topic_id or table.topics.topic_id(name)
    parts = [_partition((name, number), committed, unstable, expected) for number in topic.partition_indexes]
    return {"name": name, "topic_id": topic_id, "partitions": parts}


def _partition(
    partition: Partition, committed: Any, unstable: set[Partition], expected: UUID | None
) -> dict[str, Any]:
    if partition in unstable:
        return _said(partition[1], ErrorCode.unstable_offset_commit)
    found = committed.get(partition)
    recreated = found is not None and None not in (found.topic_id, expected) and found.topic_id != expected
    if found is None or recreated:
        return _said(partition[1])
    return {
        "partition_index": partition[1],
        "committed_offset": found.offset,
        "committed_leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
    }


def _said(number: int, code: ErrorCode = ErrorCode.none) -> dict[str, Any]:
    return {"partition_index": number, "error_code": code, **_NO_OFFSET}
