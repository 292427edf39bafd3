"""JoinGroup, and the rebalances of classic groups up to the sync.

1. a member joins, leaves, is lost or changes what it says: the group prepares a rebalance
2. all members rejoin within the longest rebalance timeout, or are removed; a group that was empty waits
   a little for more members first
3. the next generation begins: each member gets its JoinGroup response, and has to sync
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import Effect, Request
from tidelog.broker.groups import consumer_records, records
from tidelog.broker.groups.classic_answers import answer_join, answer_sync, joined, refuse_join
from tidelog.broker.groups.classic_group import ClassicGroup, ClassicMember, GroupState, Protocols
from tidelog.broker.groups.table import GroupTable
from tidelog.broker.messages import field, milliseconds
from tidelog.broker.refusals import Refused

__all__ = ["ClassicJoining"]

_KNOWN_MEMBER_ID = 4
_SKIPS_ASSIGNMENT = 9
_REBALANCES = (GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING_REBALANCE)


class ClassicJoining:
    """The way of classic groups from one generation to the next."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._timers = table.timers
        self._config = table.config

    # ---- JoinGroup

    def join(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        """JoinGroup."""
        message = asked.message
        session_ms = milliseconds(message.session_timeout)
        if not message.group_id:
            return refuse_join(asked, ErrorCode.invalid_group_id)
        if not self._config.min_session_timeout_ms <= session_ms <= self._config.max_session_timeout_ms:
            return refuse_join(asked, ErrorCode.invalid_session_timeout)
        group = self._table.groups.get(message.group_id)
        if isinstance(group, ClassicGroup):
            return self._join(group, asked, now_ms)
        if group is not None and not group.is_empty:
            return refuse_join(asked, ErrorCode.inconsistent_group_protocol)
        if message.member_id:
            return refuse_join(asked, ErrorCode.unknown_member_id)
        gone = [] if group is None else consumer_records.group_gone(group)

        def created() -> Sequence[Effect]:
            fresh = self._table.groups[message.group_id]
            assert isinstance(fresh, ClassicGroup)
            return self._join(fresh, asked, now_ms)

        record = records.empty_group(message.group_id, now_ms)
        return self._table.append(
            message.group_id, [*gone, record], now_ms, created, lambda code: refuse_join(asked, code)
        )

    def _join(self, group: ClassicGroup, asked: Request, now_ms: int) -> Sequence[Effect]:
        message = asked.message
        if not group.has_room(message.member_id, self._config.max_size):
            group.remove(message.member_id)
            return refuse_join(asked, ErrorCode.group_max_size_reached, "")
        if not group.supports(message.protocol_type, [each.name for each in message.protocols]):
            return refuse_join(asked, ErrorCode.inconsistent_group_protocol)
        if not message.member_id:
            return self._join_new(group, asked, now_ms)
        if message.member_id in group.pending_joins:
            return self._add(group, message.member_id, asked, now_ms)
        try:
            member = group.check_member(message.member_id, field(message, "group_instance_id"))
        except Refused as refused:
            return refuse_join(asked, refused.code)
        return self._rejoin(group, member, asked, now_ms)

    def _join_new(self, group: ClassicGroup, asked: Request, now_ms: int) -> Sequence[Effect]:
        message = asked.message
        instance_id = field(message, "group_instance_id")
        prefix = asked.caller.client_id if instance_id is None else instance_id
        member_id = f"{prefix}-{self._table.new_id()}"
        if instance_id is not None:
            known = group.static_members.get(instance_id)
            if known is not None:
                return self._replace_static(group, known, member_id, asked, now_ms)
            return self._add(group, member_id, asked, now_ms)
        if message.__version__ < _KNOWN_MEMBER_ID:
            return self._add(group, member_id, asked, now_ms)
        group.pending_joins.add(member_id)
        self.expect_heartbeat(group, member_id, milliseconds(message.session_timeout), now_ms)
        return refuse_join(asked, ErrorCode.member_id_required, member_id)

    def _add(self, group: ClassicGroup, member_id: str, asked: Request, now_ms: int) -> Sequence[Effect]:
        message = asked.message
        member = ClassicMember(
            member_id,
            field(message, "group_instance_id"),
            asked.caller.client_id,
            asked.caller.host,
            *_timeouts(message),
            _protocols(message),
            joining=asked,
            is_new=True,
        )
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        group.add(member, message.protocol_type)
        self.expect_heartbeat(group, member_id, self._config.new_member_timeout_ms, now_ms)
        return self.rebalance_or_complete(group, now_ms)

    def _rejoin(
        self, group: ClassicGroup, member: ClassicMember, asked: Request, now_ms: int
    ) -> Sequence[Effect]:
        same = member.protocols == _protocols(asked.message)
        match group.state:
            case GroupState.EMPTY:
                return refuse_join(asked, ErrorCode.unknown_member_id)
            case GroupState.COMPLETING_REBALANCE if same:
                return [joined(group, member, asked)]
            case GroupState.STABLE if same and group.leader != member.member_id:
                return [joined(group, member, asked)]
            case _:
                self._update(member, asked)
                return self.rebalance_or_complete(group, now_ms)

    def _update(self, member: ClassicMember, asked: Request) -> None:
        member.rebalance_timeout_ms, member.session_timeout_ms = _timeouts(asked.message)
        member.protocols = _protocols(asked.message)
        member.joining = asked

    def _replace_static(
        self, group: ClassicGroup, old_id: str, new_id: str, asked: Request, now_ms: int
    ) -> Sequence[Effect]:
        """A static member is back under a new id; whoever has the old one is fenced."""
        old, old_leader = group.members[old_id], group.leader
        effects: list[Effect] = []
        if old.joining is not None:
            fenced = ErrorCode.fenced_instance_id
            effects.append(answer_join(old.joining, error_code=fenced, member_id=old_id, leader=""))
        if old.syncing is not None:
            effects.append(answer_sync(old.syncing, group, b"", ErrorCode.fenced_instance_id))
        member = ClassicMember(
            new_id,
            old.instance_id,
            old.client_id,
            old.client_host,
            *_timeouts(asked.message),
            _protocols(asked.message),
            old.assignment,
        )
        _swap(group, old_id, member)
        self.expect_heartbeat(group, new_id, member.session_timeout_ms, now_ms)
        member.joining = asked
        if group.state is GroupState.STABLE and group.protocol_name == group.select_protocol():
            return [*effects, *self._store_static(group, member, old, old_leader, now_ms)]
        if group.state is GroupState.PREPARING_REBALANCE:
            return [*effects, *self._complete_if_joined(group, now_ms)]
        return [*effects, *self.prepare_rebalance(group, now_ms)]

    def _store_static(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        old: ClassicMember,
        old_leader: str | None,
        now_ms: int,
    ) -> Sequence[Effect]:
        """No rebalance is needed: the generation goes on with the new id, once that is written."""
        asked = member.joining
        assert asked is not None

        def stored() -> Sequence[Effect]:
            member.joining = None
            if asked.message.__version__ >= _SKIPS_ASSIGNMENT:
                return [joined(group, member, asked, skips=group.leader == member.member_id)]
            return [joined(group, member, asked, members=[], leader=old_leader or "")]

        def failed(code: ErrorCode) -> Sequence[Effect]:
            old.joining = old.syncing = None
            _swap(group, member.member_id, old)
            self.expect_heartbeat(group, old.member_id, old.session_timeout_ms, now_ms)
            return [joined(group, old, asked, members=[], error_code=code, member_id="")]

        assignment = {each.member_id: each.assignment for each in group.members.values()}
        record = records.classic_group(group, assignment)
        return self._table.append(group.group_id, [record], now_ms, stored, failed, replays=False)

    # ---- rebalances

    def rebalance_or_complete(self, group: ClassicGroup, now_ms: int) -> Sequence[Effect]:
        """Begin a rebalance, or end the one there is if nobody is missing."""
        if group.state in _REBALANCES:
            return self.prepare_rebalance(group, now_ms)
        return self._complete_if_joined(group, now_ms)

    def prepare_rebalance(self, group: ClassicGroup, now_ms: int) -> Sequence[Effect]:
        """Have all members join again."""
        effects: list[Effect] = []
        if group.state is GroupState.COMPLETING_REBALANCE:
            effects += self.assign(group, {}, ErrorCode.rebalance_in_progress, now_ms)
        group.pending_syncs.clear()
        self._timers.cancel(("sync", group.group_id))
        if group.state is GroupState.EMPTY:
            delay_ms = self._config.initial_rebalance_delay_ms
            rest_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._wait_for_more(group, delay_ms, rest_ms, now_ms)
            group.move_to(GroupState.PREPARING_REBALANCE, now_ms)
            return effects
        group.move_to(GroupState.PREPARING_REBALANCE, now_ms)
        if group.all_joined:
            return [*effects, *self.complete_join(group, now_ms)]
        self._complete_at(group, now_ms + group.rebalance_timeout_ms)
        return effects

    def _wait_for_more(self, group: ClassicGroup, delay_ms: int, rest_ms: int, now_ms: int) -> None:
        def waited(now: int) -> Sequence[Effect]:
            if not group.new_member_added or not rest_ms:
                return self.complete_join(group, now)
            group.new_member_added = False
            longer_ms = min(self._config.initial_rebalance_delay_ms, rest_ms)
            self._wait_for_more(group, longer_ms, max(rest_ms - delay_ms, 0), now)
            return ()

        self._timers.set(("join", group.group_id), now_ms + delay_ms, waited)

    def _complete_at(self, group: ClassicGroup, at_ms: int) -> None:
        self._timers.set(("join", group.group_id), at_ms, lambda now: self.complete_join(group, now))

    def _complete_if_joined(self, group: ClassicGroup, now_ms: int) -> Sequence[Effect]:
        preparing = group.state is GroupState.PREPARING_REBALANCE
        if preparing and group.previous_state is not GroupState.EMPTY and group.all_joined:
            return self.complete_join(group, now_ms)
        return ()

    def complete_join(self, group: ClassicGroup, now_ms: int) -> Sequence[Effect]:
        """Begin the next generation with those that have joined; static members are kept."""
        self._timers.cancel(("join", group.group_id))
        missing = [member for member in group.members.values() if member.joining is None]
        for member in missing:
            if member.instance_id is None:
                self.forget_heartbeat(group, member.member_id)
                group.remove(member.member_id)
        if not group.elect_joined_leader() and group.members:
            self._complete_at(group, now_ms + group.rebalance_timeout_ms)
            return ()
        group.begin_generation(now_ms)
        if group.is_empty:
            record = records.classic_group(group, {})
            return self._table.append(
                group.group_id, [record], now_ms, lambda: (), lambda _: (), replays=False
            )
        effects: list[Effect] = []
        for member in group.members.values():
            if member.joining is not None:
                effects.append(joined(group, member, member.joining))
            member.joining, member.is_new = None, False
            self.expect_heartbeat(group, member.member_id, member.session_timeout_ms, now_ms)
            group.pending_syncs.add(member.member_id)
        self._expect_syncs(group, now_ms)
        return effects

    def _expect_syncs(self, group: ClassicGroup, now_ms: int) -> None:
        generation = group.generation

        def expired(now: int) -> Sequence[Effect]:
            waits = group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
            if generation != group.generation or not waits or not group.pending_syncs:
                return ()
            for member_id in tuple(group.pending_syncs):
                self.forget_heartbeat(group, member_id)
                group.remove(member_id)
            return self.prepare_rebalance(group, now)

        self._timers.set(("sync", group.group_id), now_ms + group.rebalance_timeout_ms, expired)

    def assign(
        self, group: ClassicGroup, assignment: dict[str, bytes], code: ErrorCode, now_ms: int
    ) -> list[Effect]:
        """Keep what members are assigned, and answer those that wait for it."""
        effects: list[Effect] = []
        for member in group.members.values():
            member.assignment = assignment.get(member.member_id, b"")
            if member.syncing is not None:
                effects.append(answer_sync(member.syncing, group, member.assignment, code))
                member.syncing = None
                self.expect_heartbeat(group, member.member_id, member.session_timeout_ms, now_ms)
        return effects

    # ---- heartbeats

    def expect_heartbeat(self, group: ClassicGroup, member_id: str, within_ms: int, now_ms: int) -> None:
        """Remove the member unless it is heard of in time."""
        self._timers.set(
            ("heartbeat", group.group_id, member_id),
            now_ms + within_ms,
            lambda now: self._lost(group, member_id, now),
        )

    def forget_heartbeat(self, group: ClassicGroup, member_id: str) -> None:
        """Expect nothing more from a member."""
        self._timers.cancel(("heartbeat", group.group_id, member_id))

    def _lost(self, group: ClassicGroup, member_id: str, now_ms: int) -> Sequence[Effect]:
        if self._table.groups.get(group.group_id) is not group:
            return ()
        member = group.members.get(member_id)
        if member is None:
            group.remove(member_id)
            preparing = group.state is GroupState.PREPARING_REBALANCE
            return self.complete_join(group, now_ms) if preparing and group.all_joined else ()
        if member.is_waiting:
            return ()
        return self.remove_member(group, member, now_ms)

    def remove_member(self, group: ClassicGroup, member: ClassicMember, now_ms: int) -> Sequence[Effect]:
        """Remove a member that is lost; a rebalance follows."""
        effects: list[Effect] = [*self.drop(group, member)]
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            effects += self.prepare_rebalance(group, now_ms)
        elif group.state is GroupState.PREPARING_REBALANCE and group.all_joined:
            effects += self.complete_join(group, now_ms)
        return effects

    def drop(self, group: ClassicGroup, member: ClassicMember) -> Sequence[Effect]:
        """Remove a member without more ado; if it waits to join, it may try again."""
        self.forget_heartbeat(group, member.member_id)
        waiting, member.joining = member.joining, None
        group.remove(member.member_id)
        return () if waiting is None else refuse_join(waiting, ErrorCode.unknown_member_id, "")

    def resume(self, group: ClassicGroup, now_ms: int) -> Sequence[Effect]:
        """After a restart: members have to be heard of."""
        for member in group.members.values():
            self.expect_heartbeat(group, member.member_id, member.session_timeout_ms, now_ms)
        if len(group.members) > self._config.max_size:
            return self.prepare_rebalance(group, now_ms)
        return ()


def _swap(group: ClassicGroup, old_id: str, member: ClassicMember) -> None:
    """Put a member in the place of the one with the old id."""
    leads = group.leader == old_id
    group.members = {
        (member.member_id if key == old_id else key): (member if key == old_id else each)
        for key, each in group.members.items()
    }
    if leads:
        group.leader = member.member_id
    if member.instance_id is not None:
        group.static_members[member.instance_id] = member.member_id


def _timeouts(message: Any) -> tuple[int, int]:
    """Rebalance and session timeout; the oldest version has one for both."""
    session_ms = milliseconds(message.session_timeout)
    if message.__version__ == 0:
        return session_ms, session_ms
    return milliseconds(message.rebalance_timeout), session_ms


def _protocols(message: Any) -> Protocols:
    return tuple((each.name, bytes(each.metadata)) for each in message.protocols)
