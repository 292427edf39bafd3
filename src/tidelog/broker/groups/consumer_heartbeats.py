"""ConsumerGroupHeartbeat: a member joins, stays, reconciles and leaves.

A heartbeat is worked out on a draft of the group, record by record:

    1. the member, if it is new or says something new
    2. the topics of regular expressions, if there are new ones or some time has passed
    3. the group's epoch, if subscriptions or the topics themselves have changed
    4. the target assignment, if the group's epoch is ahead of it
    5. what the member has now

All records are appended as one batch; then they are replayed on the group itself, and the member is answered.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import Effect, Reply, Request
from tidelog.broker.groups import consumer_records, records
from tidelog.broker.groups.assignors import ASSIGNORS, Subscriber, TopicPartitionId
from tidelog.broker.groups.classic_group import ClassicGroup
from tidelog.broker.groups.consumer_group import (
    LEFT,
    LEFT_FOR_A_WHILE,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    ResolvedRegex,
)
from tidelog.broker.groups.metadata_hash import metadata_hash
from tidelog.broker.groups.reconciling import reconcile
from tidelog.broker.groups.table import GroupTable
from tidelog.broker.messages import milliseconds, respond
from tidelog.broker.refusals import Refused
from tidelog.protocol.coordinator_records import CoordinatorRecord

__all__ = ["ConsumerHeartbeats"]

_REGEX_PAUSE_MS = 10_000
_GIVEN_MEMBER_ID = 1


class _Draft:
    """A group with records that are not appended yet."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group.draft()
        self.records: list[CoordinatorRecord] = []

    def write(self, *written: CoordinatorRecord) -> None:
        self.records += written
        for record in written:
            self.group.replay(record)

    def replace_member(self, old: ConsumerMember, new: ConsumerMember) -> None:
        """A static member goes on under a new id, with all that it had."""
        group_id, had = self.group.group_id, self.group.target.get(old.member_id, frozenset())
        self.write(
            *consumer_records.member_gone(group_id, old.member_id),
            consumer_records.member(group_id, new),
            consumer_records.target(group_id, new.member_id, had),
            consumer_records.assignment(group_id, new),
        )


class ConsumerHeartbeats:
    """Members of consumer groups."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table
        self._config = table.config

    def heartbeat(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        """ConsumerGroupHeartbeat."""
        message = asked.message
        try:
            self._check(message)
            if message.member_epoch in (LEFT, LEFT_FOR_A_WHILE):
                return self._leave(asked, now_ms)
            return self._beat(asked, now_ms)
        except Refused as refused:
            return [_refusal(asked, refused.code, refused.message)]

    def _check(self, message: Any) -> None:
        epoch = message.member_epoch
        needs_id = message.__version__ >= _GIVEN_MEMBER_ID or epoch > 0 or epoch == LEFT
        for value, name, wanted in [
            (message.member_id, "MemberId", needs_id),
            (message.group_id, "GroupId", True),
            (message.instance_id, "InstanceId", True),
            (message.rack_id, "RackId", True),
        ]:
            if wanted and value == "":
                raise Refused(ErrorCode.invalid_request, f"{name} can't be empty.")
        regex = getattr(message, "subscribed_topic_regex", None)
        if epoch == 0:
            if milliseconds(message.rebalance_timeout) == -1:
                raise Refused(
                    ErrorCode.invalid_request, "RebalanceTimeoutMs must be provided in first request."
                )
            if message.topic_partitions is None or message.topic_partitions:
                raise Refused(ErrorCode.invalid_request, "TopicPartitions must be empty when (re-)joining.")
            if message.subscribed_topic_names is None and regex is None:
                text = (
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
                )
                raise Refused(ErrorCode.invalid_request, text)
        elif epoch == LEFT_FOR_A_WHILE and message.instance_id is None:
            raise Refused(ErrorCode.invalid_request, "InstanceId can't be null.")
        elif epoch < LEFT_FOR_A_WHILE:
            raise Refused(ErrorCode.invalid_request, "MemberEpoch is invalid.")
        assignor, known = message.server_assignor, self._config.consumer_assignors
        if assignor is not None and assignor not in known:
            text = f"ServerAssignor {assignor} is not supported. Supported assignors: {', '.join(known)}."
            raise Refused(ErrorCode.unsupported_assignor, text)

    # ---- a heartbeat

    def _beat(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        message = asked.message
        draft = self._draft(message)
        owned = _owned(message)
        before = self._member(draft, message, owned)
        member = _updated(before, asked)
        if member != before or member.member_id not in draft.group.members:
            draft.write(consumer_records.member(draft.group.group_id, member))
        regex_changed = self._update_regexes(draft, before, member, now_ms)
        changed = member.topics != before.topics or regex_changed
        self._update_epoch(draft, changed)
        self._update_target(draft, now_ms)
        after = self._reconcile(draft, member.member_id, owned, changed)
        full = milliseconds(message.rebalance_timeout) != -1 and message.topic_partitions is not None
        full = full and (message.subscribed_topic_names, member.regex) != (None, None)
        tells = message.member_epoch == 0 or full or after.assigned != before.assigned

        def done() -> Sequence[Effect]:
            self._expect(message.group_id, after, now_ms)
            response = respond(
                message,
                member_id=after.member_id,
                member_epoch=after.epoch,
                heartbeat_interval=self._config.consumer_heartbeat_interval_ms,
                assignment={"topic_partitions": _by_topic(after.assigned)} if tells else None,
            )
            return [Reply(asked.ticket, response)]

        return self._append(message.group_id, draft.records, asked, now_ms, done)

    def _append(
        self,
        group_id: str,
        written: Sequence[CoordinatorRecord],
        asked: Request,
        now_ms: int,
        done: Any,
    ) -> Sequence[Effect]:
        return self._table.append(group_id, written, now_ms, done, lambda code: [_refusal(asked, code)])

    def _draft(self, message: Any) -> _Draft:
        """The group, made where a member wants to join; an empty classic group makes way for it."""
        group_id, joins = message.group_id, message.member_epoch == 0
        group = self._table.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            draft = _Draft(group)
        elif joins and (group is None or group.is_empty):
            draft = _Draft(ConsumerGroup(group_id))
            if isinstance(group, ClassicGroup):
                draft.records.append(records.classic_group_gone(group_id))
        elif group is None:
            raise Refused(ErrorCode.group_id_not_found, f"Consumer group {group_id} not found.")
        else:
            raise Refused(ErrorCode.group_id_not_found, f"Group {group_id} is not a consumer group.")
        members = draft.group.members
        if len(members) >= self._config.consumer_max_size and message.member_id not in members:
            raise Refused(ErrorCode.group_max_size_reached)
        return draft

    def _member(
        self, draft: _Draft, message: Any, owned: Collection[TopicPartitionId] | None
    ) -> ConsumerMember:
        """The member as it was; raises Refused where it is unknown, fenced or in another epoch."""
        group, joins = draft.group, message.member_epoch == 0
        member_id = message.member_id or self._table.new_id()
        if message.instance_id is None:
            known = group.members.get(member_id)
            if known is None and not joins:
                group.check_member(member_id)
        else:
            known = group.static_member(message.instance_id)
            if known is None and not joins:
                raise Refused(ErrorCode.unknown_member_id)
            if known is not None and not joins and known.member_id != member_id:
                raise Refused(ErrorCode.fenced_instance_id)
            if known is not None and joins:
                if known.epoch != LEFT_FOR_A_WHILE:
                    raise Refused(ErrorCode.unreleased_instance_id)
                fresh = replace(known, member_id=member_id, epoch=0, previous_epoch=0)
                draft.replace_member(known, fresh)
                return fresh
        if known is None:
            return ConsumerMember(member_id)
        _check_epoch(known, message.member_epoch, owned)
        return known

    def _update_regexes(
        self, draft: _Draft, before: ConsumerMember, member: ConsumerMember, now_ms: int
    ) -> bool:
        """Resolve new regular expressions, forget unused ones; whether the member's has changed."""
        group = draft.group
        changed = before.regex != member.regex
        if changed and before.regex and not group.readers_of_regex(before.regex):
            draft.write(consumer_records.regex_gone(group.group_id, before.regex))
        wanted = {each.regex for each in group.members.values() if each.regex}
        last_ms = max((each.resolved_ms for each in group.regexes.values()), default=-_REGEX_PAUSE_MS)
        for pattern in sorted(wanted):
            known = group.regexes.get(pattern)
            if known is not None and now_ms < last_ms + _REGEX_PAUSE_MS:
                continue
            topics = self._matching(pattern)
            stale = known is None or now_ms >= known.resolved_ms + self._config.regex_refresh_interval_ms
            if stale or (known is not None and topics != known.topics):
                resolved = ResolvedRegex(topics, 0, now_ms)
                draft.write(consumer_records.regex(group.group_id, pattern, resolved))
        return changed

    def _matching(self, pattern: str) -> frozenset[str]:
        try:
            matcher = re.compile(pattern)
        except re.error as error:
            text = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}."
            raise Refused(ErrorCode.invalid_regular_expression, text) from error
        return frozenset(name for name in self._table.topics.names() if matcher.fullmatch(name))

    def _update_epoch(self, draft: _Draft, changed: bool) -> None:
        group = draft.group
        found = metadata_hash(group.subscribed_topics(), self._table.topics)
        if changed or found != group.metadata_hash or group.epoch == 0:
            draft.write(consumer_records.epoch(group.group_id, group.epoch + 1, found))
        if group.has_partition_metadata:
            draft.write(consumer_records.partition_metadata_gone(group.group_id))

    def _update_target(self, draft: _Draft, now_ms: int) -> None:
        group = draft.group
        if group.assignment_epoch >= group.epoch:
            return
        topics = self._table.topics
        ids = {name: topics.topic_id(name) for name in group.subscribed_topics()}
        counts = {
            topic_id: topics.partition_count(name) or 0
            for name, topic_id in sorted(ids.items())
            if topic_id is not None
        }
        members = [
            Subscriber(
                each.member_id,
                self._topic_ids(group, each),
                each.instance_id,
                group.target.get(each.member_id, frozenset()),
            )
            for each in group.members.values()
        ]
        assignor = ASSIGNORS[group.preferred_assignor(self._config.consumer_assignors[0])]
        for member_id, parts in assignor(members, counts).items():
            if group.target.get(member_id) != parts:
                draft.write(consumer_records.target(group.group_id, member_id, parts))
        draft.write(consumer_records.assignment_epoch(group.group_id, group.epoch, now_ms))

    def _topic_ids(self, group: ConsumerGroup, member: ConsumerMember) -> frozenset[UUID]:
        ids = (self._table.topics.topic_id(name) for name in group.topics_of(member))
        return frozenset(topic_id for topic_id in ids if topic_id is not None)

    def _reconcile(
        self, draft: _Draft, member_id: str, owned: Collection[TopicPartitionId] | None, changed: bool
    ) -> ConsumerMember:
        group = draft.group
        member = group.members[member_id]
        if not changed and member.is_reconciled_to(group.assignment_epoch):
            return member
        after = reconcile(
            member,
            group.target.get(member_id, frozenset()),
            group.assignment_epoch,
            topic_ids=self._topic_ids(group, member),
            holders=group.holders(),
            owned=owned,
            subscription_changed=changed,
        )
        if after != member:
            draft.write(consumer_records.assignment(group.group_id, after))
        return after

    # ---- leaving

    def _leave(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        message = asked.message
        group = self._table.get(message.group_id)
        if not isinstance(group, ConsumerGroup):
            raise Refused(ErrorCode.group_id_not_found, f"Group {message.group_id} is not a consumer group.")
        if message.instance_id is None:
            member = group.check_member(message.member_id)
        else:
            known = group.static_member(message.instance_id)
            if known is None:
                raise Refused(ErrorCode.unknown_member_id)
            if known.member_id != message.member_id:
                raise Refused(ErrorCode.fenced_instance_id)
            member = known
        if message.member_epoch == LEFT_FOR_A_WHILE:
            away = replace(
                member, epoch=LEFT_FOR_A_WHILE, assigned=dict.fromkeys(member.assigned, 0), revoking={}
            )
            written = [consumer_records.assignment(group.group_id, away)]
        else:
            written = self._without(group, member)

        def left() -> Sequence[Effect]:
            if message.member_epoch == LEFT:
                self._forget(group.group_id, member.member_id)
            response = respond(message, member_id=member.member_id, member_epoch=message.member_epoch)
            return [Reply(asked.ticket, response)]

        return self._append(group.group_id, written, asked, now_ms, left)

    def _without(self, group: ConsumerGroup, member: ConsumerMember) -> list[CoordinatorRecord]:
        """The records that remove a member; the others get what it had with their next heartbeats."""
        draft = _Draft(group)
        draft.write(*consumer_records.member_gone(group.group_id, member.member_id))
        if member.regex and not draft.group.readers_of_regex(member.regex):
            draft.write(consumer_records.regex_gone(group.group_id, member.regex))
        found = metadata_hash(draft.group.subscribed_topics(), self._table.topics)
        draft.write(consumer_records.epoch(group.group_id, group.epoch + 1, found))
        return draft.records

    # ---- time

    def resume(self, group: ConsumerGroup, now_ms: int) -> None:
        """After a restart: members have to be heard of."""
        for member in group.members.values():
            self._expect(group.group_id, member, now_ms)

    def _expect(self, group_id: str, member: ConsumerMember, now_ms: int) -> None:
        """Remove the member unless it is heard of in time, and gives up in time what it is to give up."""
        timers, name = self._table.timers, member.member_id
        session_ms = self._config.consumer_session_timeout_ms
        timers.set(
            ("session", group_id, name),
            now_ms + session_ms,
            lambda now: self._fence(group_id, name, None, now),
        )
        revoking = ("revoking", group_id, name)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            timers.cancel(revoking)
        elif timers.deadline(revoking) is None:
            epoch = member.epoch
            timers.set(
                revoking,
                now_ms + member.rebalance_timeout_ms,
                lambda now: self._fence(group_id, name, epoch, now),
            )

    def _forget(self, group_id: str, member_id: str) -> None:
        self._table.timers.cancel(("session", group_id, member_id))
        self._table.timers.cancel(("revoking", group_id, member_id))

    def _fence(self, group_id: str, member_id: str, epoch: int | None, now_ms: int) -> Sequence[Effect]:
        group = self._table.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if not isinstance(group, ConsumerGroup) or not isinstance(member, ConsumerMember):
            return ()
        if epoch is not None and member.epoch != epoch:
            return ()

        def fenced() -> Sequence[Effect]:
            self._forget(group_id, member_id)
            return ()

        def failed(_: ErrorCode) -> Sequence[Effect]:
            self._table.timers.set(
                ("session", group_id, member_id),
                now_ms + 1_000,
                lambda now: self._fence(group_id, member_id, epoch, now),
            )
            return ()

        return self._table.append(group_id, self._without(group, member), now_ms, fenced, failed)


def _refusal(asked: Request, code: ErrorCode, text: str | None = None) -> Reply:
    return Reply(asked.ticket, respond(asked.message, error_code=code, error_message=text))


def _owned(message: Any) -> frozenset[TopicPartitionId] | None:
    if message.topic_partitions is None:
        return None
    return frozenset(
        (topic.topic_id or UUID(int=0), number)
        for topic in message.topic_partitions
        for number in topic.partitions
    )


def _check_epoch(member: ConsumerMember, epoch: int, owned: Collection[TopicPartitionId] | None) -> None:
    """The present epoch, or the one before if the member has nothing that it should not have."""
    if epoch in (0, member.epoch):
        return
    lost_answer = (
        epoch == member.previous_epoch and owned is not None and set(owned) <= member.assigned.keys()
    )
    if epoch > member.epoch or not lost_answer:
        text = (
            f"The consumer group member has the member epoch {epoch}, but the group coordinator knows "
            f"{member.epoch}. The member must abandon all its partitions and rejoin."
        )
        raise Refused(ErrorCode.fenced_member_epoch, text)


def _updated(member: ConsumerMember, asked: Request) -> ConsumerMember:
    """The member with what its heartbeat says anew."""
    message = asked.message
    said = {
        "instance_id": message.instance_id,
        "rack_id": message.rack_id,
        "assignor": message.server_assignor,
        "regex": getattr(message, "subscribed_topic_regex", None),
    }
    names = message.subscribed_topic_names
    timeout_ms = milliseconds(message.rebalance_timeout)
    return replace(
        member,
        client_id=asked.caller.client_id,
        client_host=asked.caller.host,
        topics=member.topics if names is None else frozenset(names),
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        **{name: value for name, value in said.items() if value is not None},
    )


def _by_topic(parts: Collection[TopicPartitionId]) -> list[dict[str, Any]]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, number in sorted(parts):
        topics.setdefault(topic_id, []).append(number)
    return [{"topic_id": topic_id, "partitions": numbers} for topic_id, numbers in topics.items()]
