"""SyncGroup, Heartbeat and LeaveGroup of classic groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import Effect, Reply, Request
from tidelog.broker.groups import records
from tidelog.broker.groups.classic_answers import answer_sync
from tidelog.broker.groups.classic_group import ClassicGroup, ClassicMember, GroupState
from tidelog.broker.groups.classic_joining import ClassicJoining
from tidelog.broker.groups.table import GroupTable
from tidelog.broker.messages import field, respond
from tidelog.broker.refusals import Refused

__all__ = ["ClassicSyncing"]

_BATCHED_LEAVE = 3
_NAMES_PROTOCOL = 5


class ClassicSyncing:
    """Members that have joined: they get their assignment, stay, and leave."""

    def __init__(self, table: GroupTable, joining: ClassicJoining) -> None:
        self._table = table
        self._joining = joining

    # ---- SyncGroup

    def sync(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        """SyncGroup."""
        try:
            group, member = self._check_sync(asked.message)
        except Refused as refused:
            return [Reply(asked.ticket, respond(asked.message, error_code=refused.code))]
        group.pending_syncs.discard(member.member_id)
        if not group.pending_syncs:
            self._table.timers.cancel(("sync", group.group_id))
        if group.state is GroupState.STABLE:
            return [answer_sync(asked, group, member.assignment)]
        member.syncing = asked
        if group.leader != member.member_id:
            return ()
        return self._store(group, asked, now_ms)

    def _check_sync(self, message: Any) -> tuple[ClassicGroup, ClassicMember]:
        if not message.group_id:
            raise Refused(ErrorCode.invalid_group_id)
        names = (field(message, "protocol_type"), field(message, "protocol_name"))
        if message.__version__ >= _NAMES_PROTOCOL and None in names:
            raise Refused(ErrorCode.inconsistent_group_protocol)
        group = self._classic(message.group_id)
        if group.is_empty:
            raise Refused(ErrorCode.unknown_member_id)
        member = group.check_member(message.member_id, field(message, "group_instance_id"))
        if message.generation_id != group.generation:
            raise Refused(ErrorCode.illegal_generation)
        known = (group.protocol_type, group.protocol_name)
        if any(
            said is not None and has is not None and said != has
            for said, has in zip(names, known, strict=True)
        ):
            raise Refused(ErrorCode.inconsistent_group_protocol)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise Refused(ErrorCode.rebalance_in_progress)
        return group, member

    def _classic(self, group_id: str) -> ClassicGroup:
        group = self._table.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise Refused(ErrorCode.unknown_member_id)
        return group

    def _store(self, group: ClassicGroup, asked: Request, now_ms: int) -> Sequence[Effect]:
        """The leader's assignment counts once it is written."""
        assignment = {each.member_id: bytes(each.assignment) for each in asked.message.assignments}
        group_before = (group.state, group.state_since_ms)

        def stored() -> Sequence[Effect]:
            effects = self._joining.assign(group, assignment, ErrorCode.none, now_ms)
            group.move_to(GroupState.STABLE, now_ms)
            return effects

        def failed(code: ErrorCode) -> Sequence[Effect]:
            group.state, group.state_since_ms = group_before
            effects = self._joining.assign(group, {}, code, now_ms)
            return [*effects, *self._joining.rebalance_or_complete(group, now_ms)]

        record = records.classic_group(group, assignment)
        return self._table.append(group.group_id, [record], now_ms, stored, failed, replays=False)

    # ---- Heartbeat

    def heartbeat(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        """Heartbeat."""
        message = asked.message
        code = ErrorCode.none
        try:
            if not message.group_id:
                raise Refused(ErrorCode.invalid_group_id)
            group = self._classic(message.group_id)
            member = group.check_member(message.member_id, field(message, "group_instance_id"))
            if message.generation_id != group.generation:
                raise Refused(ErrorCode.illegal_generation)
            self._joining.expect_heartbeat(group, member.member_id, member.session_timeout_ms, now_ms)
            if group.state is GroupState.PREPARING_REBALANCE:
                code = ErrorCode.rebalance_in_progress
        except Refused as refused:
            code = refused.code
        return [Reply(asked.ticket, respond(message, error_code=code))]

    # ---- LeaveGroup

    def leave(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        """LeaveGroup: one member, or from version 3 on several of them."""
        message = asked.message
        batched = message.__version__ >= _BATCHED_LEAVE
        wanted = (
            [(each.member_id, field(each, "group_instance_id")) for each in message.members]
            if batched
            else [(message.member_id, None)]
        )
        if not message.group_id:
            return [Reply(asked.ticket, respond(message, error_code=ErrorCode.invalid_group_id))]
        group = self._table.groups.get(message.group_id)
        if not isinstance(group, ClassicGroup):
            results = [
                _left(member_id, instance, ErrorCode.unknown_member_id) for member_id, instance in wanted
            ]
            return [self._answer_leave(asked, batched, results)]
        effects: list[Effect] = []
        results = []
        for member_id, instance_id in wanted:
            code, told = self._leave_one(group, member_id, instance_id)
            effects += told
            results.append(_left(member_id, instance_id, code))
        if any(result["error_code"] is ErrorCode.none for result in results) and not group.is_empty:
            effects += self._joining.rebalance_or_complete(group, now_ms)
        return [*effects, self._answer_leave(asked, batched, results)]

    def _leave_one(
        self, group: ClassicGroup, member_id: str, instance_id: str | None
    ) -> tuple[ErrorCode, Sequence[Effect]]:
        if not member_id and instance_id in group.static_members:
            member_id = group.static_members[instance_id or ""]
        elif member_id in group.pending_joins:
            self._joining.forget_heartbeat(group, member_id)
            group.remove(member_id)
            return ErrorCode.none, ()
        try:
            member = group.check_member(member_id, instance_id)
        except Refused as refused:
            return (refused.code if member_id else ErrorCode.unknown_member_id), ()
        return ErrorCode.none, self._joining.drop(group, member)

    def _answer_leave(self, asked: Request, batched: bool, results: list[dict[str, Any]]) -> Reply:
        code = ErrorCode.none if batched else results[0]["error_code"]
        return Reply(asked.ticket, respond(asked.message, error_code=code, members=results))


def _left(member_id: str, instance_id: str | None, code: ErrorCode) -> dict[str, Any]:
    return {"member_id": member_id, "group_instance_id": instance_id, "error_code": code}
