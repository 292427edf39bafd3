"""The responses that members of classic groups wait for: to JoinGroup and SyncGroup."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import Reply, Request
from tidelog.broker.groups.classic_group import ClassicGroup, ClassicMember
from tidelog.broker.messages import respond

__all__ = ["answer_join", "answer_sync", "joined", "refuse_join"]

_NULLABLE_PROTOCOL = 7


def answer_join(asked: Request, **fields: Any) -> Reply:
    """A JoinGroup response; old versions have no null for the protocol's name."""
    if asked.message.__version__ < _NULLABLE_PROTOCOL and fields.get("protocol_name") is None:
        fields["protocol_name"] = ""
    return Reply(asked.ticket, respond(asked.message, **fields))


def refuse_join(asked: Request, code: ErrorCode, member_id: str | None = None) -> list[Reply]:
    """A JoinGroup response with an error."""
    said = asked.message.member_id if member_id is None else member_id
    return [answer_join(asked, error_code=code, member_id=said)]


def joined(
    group: ClassicGroup, member: ClassicMember, asked: Request, *, skips: bool = False, **fields: Any
) -> Reply:
    """The JoinGroup response of a generation; the leader is told all members."""
    members = [
        {
            "member_id": each.member_id,
            "group_instance_id": each.instance_id,
            "metadata": each.metadata(group.protocol_name),
        }
        for each in (group.members.values() if group.leader == member.member_id else ())
    ]
    told = {
        "generation_id": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": group.leader or "",
        "skip_assignment": skips,
        "member_id": member.member_id,
        "members": members,
    }
    return answer_join(asked, **(told | fields))


def answer_sync(
    asked: Request, group: ClassicGroup, assignment: bytes, code: ErrorCode = ErrorCode.none
) -> Reply:
    """A SyncGroup response."""
    ok = code is ErrorCode.none
    return Reply(
        asked.ticket,
        respond(
            asked.message,
            error_code=code,
            protocol_type=group.protocol_type if ok else None,
            protocol_name=group.protocol_name if ok else None,
            assignment=assignment,
        ),
    )
