"""A group of the classic protocol: its members choose a leader's assignment, generation by generation.

    Empty ──join──> PreparingRebalance ──all joined──> CompletingRebalance ──leader syncs──> Stable
      ^                 │      ^                              │                                │
      └──all are gone───┘      └───a member joins, leaves or changes its metadata──────────────┘

What is in the record is the last generation with its assignment; who waits for which answer is not.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import Request
from tidelog.broker.groups.offsets import Committed, PartitionCheck, no_check
from tidelog.broker.refusals import Refused
from tidelog.errors import CorruptRecordError
from tidelog.protocol.primitives import Reader

__all__ = ["CONSUMER_PROTOCOL", "ClassicGroup", "ClassicMember", "GroupState", "Protocols"]

CONSUMER_PROTOCOL = "consumer"
Protocols = tuple[tuple[str, bytes], ...]
"""Names and metadata of the protocols a member supports, its favourite first."""


class GroupState(enum.Enum):
    """Where a classic group is."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(slots=True)
class ClassicMember:
    """A member, and the requests whose answers it waits for."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    joining: Request | None = None
    syncing: Request | None = None
    is_new: bool = False

    def metadata(self, protocol: str | None) -> bytes:
        """What the member says under a protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    @property
    def is_waiting(self) -> bool:
        """Whether the member waits for an answer, and cannot be expected to send heartbeats."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)


@dataclass(slots=True)
class ClassicGroup:
    """The state of a group."""

    group_id: str
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.EMPTY
    state_since_ms: int = -1
    pending_joins: set[str] = field(default_factory=set)
    """Ids that were given out, whose members have not joined yet."""
    pending_syncs: set[str] = field(default_factory=set)
    new_member_added: bool = False

    kind = "Classic"

    # ---- questions

    @property
    def state_name(self) -> str:
        """The state as clients know it."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return self.state is GroupState.EMPTY

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take to rejoin."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def waiting_count(self) -> int:
        """How many members wait for their JoinGroup response."""
        return sum(member.joining is not None for member in self.members.values())

    @property
    def all_joined(self) -> bool:
        """Whether nobody is missing in this rebalance."""
        return self.waiting_count == len(self.members) and not self.pending_joins

    def has_room(self, member_id: str, max_size: int) -> bool:
        """Whether a member may join."""
        member = self.members.get(member_id)
        match self.state:
            case GroupState.EMPTY:
                return True
            case GroupState.PREPARING_REBALANCE:
                waits = member is not None and member.joining is not None
                return waits or self.waiting_count < max_size
            case _:
                return member is not None or len(self.members) < max_size

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member with these protocols has one in common with all others."""
        names = set(protocols)
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and names)
        return protocol_type == self.protocol_type and bool(names & self._common())

    def _common(self) -> set[str]:
        counts = Counter(name for member in self.members.values() for name in dict(member.protocols))
        return {name for name, count in counts.items() if count == len(self.members)}

    def select_protocol(self) -> str:
        """The protocol that most members prefer among those that all support."""
        common = self._common()
        votes = Counter(
            next((name for name, _ in member.protocols if name in common), "")
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def subscribed_topics(self) -> set[str] | None:
        """The topics of a consumers' group; None where they cannot be told."""
        if self.protocol_type != CONSUMER_PROTOCOL:
            return None
        if not self.members:
            return set()
        if self.protocol_name is None:
            return None
        try:
            return {
                topic
                for member in self.members.values()
                for topic in _topics(member.metadata(self.protocol_name))
            }
        except CorruptRecordError:
            return None

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a consumers' group reads a topic, or cannot be shown not to."""
        topics = self.subscribed_topics()
        return self.protocol_type == CONSUMER_PROTOCOL if topics is None else topic in topics

    def expires_from(self, commit: Committed) -> int | None:
        """The time from which an offset's retention counts; None where it does not expire now."""
        if self.protocol_type is None:
            return commit.commit_ms
        if self.is_empty:
            return self.state_since_ms if self.state_since_ms >= 0 else commit.commit_ms
        readable = self.subscribed_topics() is not None and self.state is GroupState.STABLE
        return commit.commit_ms if readable else None

    # ---- checks

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member; raises Refused where it is none, or another one has its instance id."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise Refused(ErrorCode.unknown_member_id)
            if known != member_id:
                raise Refused(ErrorCode.fenced_instance_id)
        if member_id not in self.members:
            raise Refused(ErrorCode.unknown_member_id)
        return self.members[member_id]

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, transactional: bool, _version: int
    ) -> PartitionCheck:
        """Raises Refused where a member may not commit offsets now; partitions need no check of their own."""
        if generation < 0 and self.is_empty:
            return no_check
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation != self.generation:
                raise Refused(ErrorCode.illegal_generation)
        elif not transactional and not self.is_empty:
            raise Refused(ErrorCode.unknown_member_id)
        if not transactional and self.state is GroupState.COMPLETING_REBALANCE:
            raise Refused(ErrorCode.rebalance_in_progress)
        return no_check

    def check_fetch(self, _member_id: str | None, _epoch: int) -> None:
        """Everybody may fetch a classic group's offsets."""

    def check_offset_delete(self) -> None:
        """Raises Refused where offsets may not be deleted now."""
        if not self.is_empty and self.protocol_type != CONSUMER_PROTOCOL:
            raise Refused(ErrorCode.non_empty_group)

    def check_delete(self) -> None:
        """Raises Refused where the group may not be deleted now."""
        if not self.is_empty:
            raise Refused(ErrorCode.non_empty_group)

    # ---- changes

    def move_to(self, state: GroupState, now_ms: int) -> None:
        """Go to another state."""
        self.previous_state, self.state, self.state_since_ms = self.state, state, now_ms

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member; the first one leads, and says what kind of group it is."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member, or one that was only expected."""
        member = self.members.pop(member_id, None)
        if member is not None and self.static_members.get(member.instance_id or "") == member_id:
            del self.static_members[member.instance_id or ""]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is one that has joined; False where nobody has."""
        if self.leader is None:
            return False
        if self.members[self.leader].joining is None:
            joined = (member.member_id for member in self.members.values() if member.joining is not None)
            chosen = next(joined, None)
            if chosen is None:
                return False
            self.leader = chosen
        return True

    def begin_generation(self, now_ms: int) -> None:
        """The next generation, of those that have joined."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.move_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, now_ms)
        self.pending_syncs.clear()


def _topics(subscription: bytes) -> list[str]:
    """The topics of a consumer's subscription; they are the first field in every version."""
    body = Reader(subscription, "subscription")
    body.version()
    count = body.i32()
    return [body.take(body.i16()).decode("utf-8", "replace") for _ in range(max(count, 0))]
