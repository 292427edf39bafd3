"""A group of the consumer protocol: the coordinator assigns, members reconcile.

Everything is in records, one kind for each part of the state, and changes by replaying them:

    group epoch          rises with every change of members, subscriptions or topics
    target assignment    what each member is to have, computed for a group epoch (the assignment epoch)
    current assignment   what a member has, and what it has yet to give up; its epoch tells how far it is

A partition is given to a member only after the one that had it has given it up. Each assigned partition keeps
the epoch of its assignment: commits of an older epoch are refused.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from tidelog.broker.groups.assignors import TopicPartitionId
from tidelog.broker.groups.offsets import Committed, PartitionCheck, no_check
from tidelog.broker.refusals import Refused
from tidelog.protocol.coordinator_records import CoordinatorRecord

__all__ = [
    "LEFT",
    "LEFT_FOR_A_WHILE",
    "ConsumerGroup",
    "ConsumerMember",
    "Held",
    "MemberState",
    "ResolvedRegex",
]

LEFT = -1
LEFT_FOR_A_WHILE = -2
"""The epoch of a static member that will be back."""

Held = Mapping[TopicPartitionId, int]
"""Partitions, each with the epoch in which it was assigned."""


class MemberState(enum.IntEnum):
    """How far a member is; the numbers are those of its records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member: what it wants, and what it has."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    regex: str | None = None
    assignor: str | None = None
    assigned: Held = field(default_factory=dict)
    revoking: Held = field(default_factory=dict)

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has all that it is to have in an epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matched."""

    topics: frozenset[str]
    version: int
    resolved_ms: int


@dataclass(slots=True)
class ConsumerGroup:
    """The state of a group."""

    group_id: str
    epoch: int = 0
    metadata_hash: int = 0
    assignment_epoch: int = -1
    assignment_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    target: dict[str, frozenset[TopicPartitionId]] = field(default_factory=dict)
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    has_partition_metadata: bool = False
    """A record of Kafka 4.0, which a hash has replaced."""

    kind = "Consumer"
    protocol_type = "consumer"

    def draft(self) -> ConsumerGroup:
        """A copy to try records on."""
        return replace(self, members=dict(self.members), target=dict(self.target), regexes=dict(self.regexes))

    # ---- questions

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    @property
    def state_name(self) -> str:
        """The state as clients know it."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        settled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if settled else "Reconciling"

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with this instance id."""
        return next(
            (each for each in self.members.values() if each.instance_id == instance_id is not None), None
        )

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The names of the topics that a member subscribes to, by name or by its regular expression."""
        resolved = self.regexes.get(member.regex or "")
        return member.topics if resolved is None else member.topics | resolved.topics

    def subscribed_topics(self) -> frozenset[str]:
        """The names of all topics that members subscribe to."""
        return frozenset().union(*(self.topics_of(member) for member in self.members.values()))

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the group reads a topic."""
        return any(topic in self.topics_of(member) for member in self.members.values())

    def readers_of_regex(self, regex: str) -> int:
        """How many members subscribe to a regular expression."""
        return sum(member.regex == regex for member in self.members.values())

    def holders(self) -> dict[TopicPartitionId, str]:
        """Who has a partition, or has yet to give it up."""
        return {
            part: member.member_id
            for member in self.members.values()
            for part in (*member.assigned, *member.revoking)
        }

    def preferred_assignor(self, default: str) -> str:
        """The assignor that most members ask for."""
        votes = [member.assignor for member in self.members.values() if member.assignor is not None]
        return max(votes, key=votes.count) if votes else default

    def expires_from(self, commit: Committed) -> int | None:
        """The time from which an offset's retention counts."""
        return commit.commit_ms

    # ---- checks

    def check_member(self, member_id: str) -> ConsumerMember:
        """The member; raises Refused where it is none."""
        member = self.members.get(member_id)
        if member is None:
            text = f"Member {member_id} is not a member of group {self.group_id}."
            raise Refused(ErrorCode.unknown_member_id, text)
        return member

    def check_commit(
        self, member_id: str, instance_id: str | None, epoch: int, transactional: bool, version: int
    ) -> PartitionCheck:
        """Raises Refused where a member may not commit now; what is to be checked for each partition."""
        if epoch < 0 and not self.members:
            return no_check
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return no_check
        member = self.check_member(member_id)
        if not transactional and version < 9:
            raise Refused(ErrorCode.unsupported_version)
        if epoch == member.epoch:
            return no_check
        if epoch > member.epoch:
            raise Refused(ErrorCode.stale_member_epoch)

        def check(topic_id: UUID | None, partition: int) -> None:
            part = (topic_id or UUID(int=0), partition)
            since = member.assigned.get(part, member.revoking.get(part))
            if since is None or epoch < since:
                raise Refused(ErrorCode.stale_member_epoch)

        return check

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raises Refused where a member may not fetch offsets now."""
        if member_id is None and epoch < 0:
            return
        if self.check_member(member_id or "").epoch != epoch:
            raise Refused(ErrorCode.stale_member_epoch)

    def check_offset_delete(self) -> None:
        """Offsets of topics that nobody reads may always be deleted."""

    def check_delete(self) -> None:
        """Raises Refused where the group may not be deleted now."""
        if self.members:
            raise Refused(ErrorCode.non_empty_group)

    # ---- records

    def replay(self, record: CoordinatorRecord) -> None:
        """Change what a record says."""
        value = record.value
        match record.kind:
            case "ConsumerGroupMetadata" if value is not None:
                self.epoch = value["epoch"]
                self.metadata_hash = value.get("metadataHash", 0)
            case "ConsumerGroupPartitionMetadata":
                self.has_partition_metadata = value is not None
            case "ConsumerGroupTargetAssignmentMetadata":
                self.assignment_epoch = -1 if value is None else value["assignmentEpoch"]
                self.assignment_ms = 0 if value is None else value.get("assignmentTimestamp", 0)
            case "ConsumerGroupRegularExpression":
                self._replay_regex(record.key["regularExpression"], value)
            case "ConsumerGroupMemberMetadata":
                self._replay_member(record.key["memberId"], value)
            case "ConsumerGroupTargetAssignmentMember":
                self._replay_target(record.key["memberId"], value)
            case "ConsumerGroupCurrentMemberAssignment":
                self._replay_assignment(record.key["memberId"], value)

    def _replay_regex(self, regex: str, value: Mapping[str, Any] | None) -> None:
        self.regexes.pop(regex, None)
        if value is not None:
            topics = frozenset(value["topics"])
            self.regexes[regex] = ResolvedRegex(topics, value["version"], value["timestamp"])

    def _replay_member(self, member_id: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            self.members.pop(member_id, None)
            return
        self.members[member_id] = replace(
            self.members.get(member_id, ConsumerMember(member_id)),
            instance_id=value["instanceId"],
            rack_id=value["rackId"],
            client_id=value["clientId"],
            client_host=value["clientHost"],
            rebalance_timeout_ms=value["rebalanceTimeoutMs"],
            topics=frozenset(value["subscribedTopicNames"]),
            regex=value["subscribedTopicRegex"],
            assignor=value["serverAssignor"],
        )

    def _replay_target(self, member_id: str, value: Mapping[str, Any] | None) -> None:
        self.target.pop(member_id, None)
        if value is not None:
            self.target[member_id] = frozenset(
                (topic["topicId"], number)
                for topic in value["topicPartitions"]
                for number in topic["partitions"]
            )

    def _replay_assignment(self, member_id: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            if member_id in self.members:
                self.members[member_id] = replace(
                    self.members[member_id], epoch=LEFT, previous_epoch=LEFT, assigned={}, revoking={}
                )
            return
        known = set(MemberState)
        state = value["state"]
        self.members[member_id] = replace(
            self.members.get(member_id, ConsumerMember(member_id)),
            epoch=value["memberEpoch"],
            previous_epoch=value["previousMemberEpoch"],
            state=MemberState(state) if state in known else MemberState.UNKNOWN,
            assigned=_held(value["assignedPartitions"], value["memberEpoch"]),
            revoking=_held(value["partitionsPendingRevocation"], value["memberEpoch"]),
        )


def _held(topics: list[Mapping[str, Any]], epoch: int) -> dict[TopicPartitionId, int]:
    """Partitions with their epochs; records of older brokers have none, then the member's counts."""
    held = {}
    for topic in topics:
        numbers = topic["partitions"]
        epochs = topic.get("assignmentEpochs") or [epoch] * len(numbers)
        held.update(
            {(topic["topicId"], number): since for number, since in zip(numbers, epochs, strict=False)}
        )
    return held
