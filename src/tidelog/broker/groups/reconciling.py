"""A member's way from what it has to what it is to have.

1. what it has and is not to have any more, it gives up first (UNREVOKED_PARTITIONS, in its old epoch)
2. then it gets what is free, and the new epoch
3. what another member has yet to give up follows later (UNRELEASED_PARTITIONS)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from uuid import UUID

from kio.schema.errors import ErrorCode

from tidelog.broker.groups.assignors import TopicPartitionId
from tidelog.broker.groups.consumer_group import ConsumerMember, Held, MemberState
from tidelog.broker.refusals import Refused

__all__ = ["reconcile"]

Owned = Collection[TopicPartitionId] | None
"""What a member says it has; None where it says nothing."""


def reconcile(
    member: ConsumerMember,
    target: Collection[TopicPartitionId],
    target_epoch: int,
    *,
    topic_ids: Collection[UUID],
    holders: Mapping[TopicPartitionId, str],
    owned: Owned,
    subscription_changed: bool,
) -> ConsumerMember:
    """The member after its next step."""
    wanted = {part for part in target if part[0] in topic_ids}
    match member.state:
        case MemberState.STABLE if member.epoch == target_epoch:
            return _shrunk(member, topic_ids, owned) if subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS if _owns(owned, member.revoking):
            return _shrunk(member, topic_ids, owned) if subscription_changed else member
        case MemberState.UNKNOWN:
            if owned is None or owned:
                raise Refused(ErrorCode.fenced_member_epoch)
    return _next(member, wanted, target_epoch, holders, owned)


def _owns(owned: Owned, parts: Held) -> bool:
    """Whether the member has not shown yet that it gave all of them up."""
    return bool(parts) and (owned is None or any(part in parts for part in owned))


def _shrunk(member: ConsumerMember, topic_ids: Collection[UUID], owned: Owned) -> ConsumerMember:
    """Without the topics that the member no longer subscribes to."""
    kept = {part: since for part, since in member.assigned.items() if part[0] in topic_ids}
    if len(kept) == len(member.assigned):
        return member
    given_up = {part: since for part, since in member.assigned.items() if part not in kept}
    revoking = {**member.revoking, **given_up}
    if _owns(owned, revoking):
        return _giving_up(member, kept, revoking)
    return replace(member, previous_epoch=member.epoch, assigned=kept)


def _giving_up(member: ConsumerMember, kept: Held, revoking: Held) -> ConsumerMember:
    """The member keeps its epoch until it has given up what it is not to have."""
    return replace(
        member,
        state=MemberState.UNREVOKED_PARTITIONS,
        previous_epoch=member.epoch,
        assigned=kept,
        revoking=revoking,
    )


def _next(
    member: ConsumerMember,
    wanted: set[TopicPartitionId],
    target_epoch: int,
    holders: Mapping[TopicPartitionId, str],
    owned: Owned,
) -> ConsumerMember:
    kept = {part: since for part, since in member.assigned.items() if part in wanted}
    revoking = {part: since for part, since in member.assigned.items() if part not in wanted}
    if _owns(owned, revoking):
        return _giving_up(member, kept, revoking)
    missing = wanted - kept.keys()
    # What the member itself has just given up, it may get back at once.
    free = {part for part in missing if part not in holders or holders[part] == member.member_id}
    return replace(
        member,
        state=MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        assigned={**kept, **dict.fromkeys(free, target_epoch)},
        revoking={},
    )
