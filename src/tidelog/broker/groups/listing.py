"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import Effect, Reply, Request
from tidelog.broker.groups import records
from tidelog.broker.groups.classic_group import ClassicGroup, GroupState
from tidelog.broker.groups.table import Group, GroupTable
from tidelog.broker.messages import field, respond
from tidelog.broker.refusals import Refused
from tidelog.protocol.coordinator_records import CoordinatorRecord

__all__ = ["delete_groups", "describe_groups", "group_operations", "list_groups"]

_NOT_FOUND = 6
_NO_OPERATIONS = -(1 << 31)
_GROUP_OPERATIONS = sum(1 << code for code in (3, 6, 8, 10, 11))
"""Read, delete, describe, and both of configs: nobody is kept from anything."""


def list_groups(table: GroupTable, asked: Request) -> Sequence[Effect]:
    """ListGroups, with filters on state and type."""
    message = asked.message
    states = {name.strip().lower() for name in field(message, "states_filter", ())}
    kinds = {name.strip().lower() for name in field(message, "types_filter", ())}

    def is_asked_for(group: Group) -> bool:
        state = group.state_name.lower()
        return (not states or state in states) and (not kinds or group.kind.lower() in kinds)

    groups = [
        {
            "group_id": group.group_id,
            "protocol_type": group.protocol_type or "",
            "group_state": group.state_name,
            "group_type": group.kind.lower(),
        }
        for group in table.groups.values()
        if is_asked_for(group)
    ]
    return [Reply(asked.ticket, respond(message, groups=groups))]


def group_operations(message: Any) -> int:
    """What a client may do with a group, if it wants to know."""
    is_asked = field(message, "include_authorized_operations", False)
    return _GROUP_OPERATIONS if is_asked else _NO_OPERATIONS


def describe_groups(table: GroupTable, asked: Request) -> Sequence[Effect]:
    """DescribeGroups: classic groups only."""
    message = asked.message
    found = [_described(table.groups.get(name), name, message) for name in message.groups]
    return [Reply(asked.ticket, respond(message, groups=found))]


def _described(group: Group | None, group_id: str, message: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"group_id": group_id, "authorized_operations": _NO_OPERATIONS}
    if not isinstance(group, ClassicGroup):
        told["group_state"] = "Dead"
        if message.__version__ >= _NOT_FOUND:
            kind = "not found" if group is None else "not a classic group"
            told |= {
                "error_code": ErrorCode.group_id_not_found,
                "error_message": f"Group {group_id} is {kind}.",
            }
        return told
    settled = group.state is GroupState.STABLE
    members = [
        {
            "member_id": member.member_id,
            "group_instance_id": member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "member_metadata": member.metadata(group.protocol_name) if settled else b"",
            "member_assignment": member.assignment,
        }
        for member in group.members.values()
    ]
    return told | {
        "authorized_operations": group_operations(message),
        "group_state": group.state_name,
        "protocol_type": group.protocol_type or "",
        "protocol_data": (group.protocol_name or "") if settled else "",
        "members": members,
    }


def delete_groups(
    table: GroupTable,
    asked: Request,
    now_ms: int,
    tombstones: Callable[[str], Sequence[CoordinatorRecord]],
) -> Sequence[Effect]:
    """DeleteGroups: empty groups, with their offsets."""
    message = asked.message
    waiting, results = list(dict.fromkeys(message.groups_names)), list[dict[str, Any]]()

    def proceed() -> Sequence[Effect]:
        if len(results) == len(waiting):
            return [Reply(asked.ticket, respond(message, results=results))]
        group_id = waiting[len(results)]
        try:
            table.get(group_id).check_delete()
        except Refused as refused:
            return finish(refused.code)
        has = set(table.offsets.of(group_id)) | table.offsets.pending(group_id)
        gone = [records.offset_gone(group_id, partition) for partition in sorted(has)]
        written = [*gone, *tombstones(group_id)]
        return table.append(group_id, written, now_ms, lambda: finish(ErrorCode.none), finish)

    def finish(code: ErrorCode) -> Sequence[Effect]:
        results.append({"group_id": waiting[len(results)], "error_code": code})
        return proceed()

    return proceed()
