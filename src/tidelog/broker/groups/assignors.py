"""Server-side assignors of the consumer protocol: which member is to read which partitions.

    uniform   as even as can be over all topics, and as many partitions as possible stay where they are
    range     topic by topic, each member a run of partitions; members in the order of their ids, static ones
              first in the order of their instance ids

Both are pure: members and how many partitions topics have go in, every partition of every subscribed topic
comes out with one member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

__all__ = ["ASSIGNORS", "Assignment", "Subscriber", "TopicPartitionId", "range_assignor", "uniform"]

TopicPartitionId = tuple[UUID, int]
Assignment = dict[str, frozenset[TopicPartitionId]]


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as assignors see it: its topics, and what it has been assigned so far."""

    member_id: str
    topics: frozenset[UUID]
    instance_id: str | None = None
    owned: frozenset[TopicPartitionId] = frozenset()


def range_assignor(members: Sequence[Subscriber], counts: Mapping[UUID, int]) -> Assignment:
    """The assignor `range`."""
    ordered = sorted(
        members, key=lambda member: (member.instance_id is None, member.instance_id or member.member_id)
    )
    assigned: dict[str, set[TopicPartitionId]] = {member.member_id: set() for member in members}
    for topic, count in counts.items():
        readers = [member for member in ordered if topic in member.topics]
        start = 0
        for index, member in enumerate(readers):
            size = count // len(readers) + (index < count % len(readers))
            assigned[member.member_id].update((topic, number) for number in range(start, start + size))
            start += size
    return {member_id: frozenset(parts) for member_id, parts in assigned.items()}


def uniform(members: Sequence[Subscriber], counts: Mapping[UUID, int]) -> Assignment:
    """The assignor `uniform`."""
    if len({member.topics for member in members}) <= 1:
        return _uniform_same(members, counts)
    return _uniform_mixed(members, counts)


def _wanted(members: Sequence[Subscriber], counts: Mapping[UUID, int]) -> list[TopicPartitionId]:
    """Every partition that somebody subscribes to."""
    topics = {topic for member in members for topic in member.topics}
    return [(topic, number) for topic, count in counts.items() if topic in topics for number in range(count)]


def _kept(members: Sequence[Subscriber], wanted: set[TopicPartitionId]) -> dict[str, list[TopicPartitionId]]:
    """What members may keep: what is there, what they subscribe to, and what nobody before them has."""
    taken: set[TopicPartitionId] = set()
    kept = {}
    for member in members:
        mine = [
            part
            for part in sorted(member.owned)
            if part in wanted and part[0] in member.topics and part not in taken
        ]
        taken.update(mine)
        kept[member.member_id] = mine
    return kept


def _uniform_same(members: Sequence[Subscriber], counts: Mapping[UUID, int]) -> Assignment:
    """All members subscribe to the same topics: quotas that differ by one at most."""
    if not members:
        return {}
    wanted = _wanted(members, counts)
    kept = _kept(members, set(wanted))
    least, extra = divmod(len(wanted), len(members))
    quotas = {}
    for index, member in enumerate(members):
        has = len(kept[member.member_id])
        must_take = len(members) - index <= extra
        takes = extra > 0 and (has > least or must_take)
        quotas[member.member_id] = least + takes
        extra -= takes
    for member_id, quota in quotas.items():
        del kept[member_id][quota:]
    taken = {part for parts in kept.values() for part in parts}
    free = [part for part in wanted if part not in taken]
    for member_id, quota in quotas.items():
        room = quota - len(kept[member_id])
        kept[member_id] += free[:room]
        del free[:room]
    return {member_id: frozenset(parts) for member_id, parts in kept.items()}


def _uniform_mixed(members: Sequence[Subscriber], counts: Mapping[UUID, int]) -> Assignment:
    """Members subscribe to different topics: free partitions go to whoever has least, then loads even out."""
    wanted = _wanted(members, counts)
    readers = {topic: [member.member_id for member in members if topic in member.topics] for topic in counts}
    assigned = {member_id: set(parts) for member_id, parts in _kept(members, set(wanted)).items()}
    taken = {part for parts in assigned.values() for part in parts}
    # Topics with few readers first: they leave no choice.
    for part in sorted(wanted, key=lambda part: len(readers[part[0]])):
        if part not in taken:
            least = min(readers[part[0]], key=lambda member_id: len(assigned[member_id]))
            assigned[least].add(part)
    _even_out(assigned, readers)
    return {member_id: frozenset(parts) for member_id, parts in assigned.items()}


def _even_out(assigned: dict[str, set[TopicPartitionId]], readers: Mapping[UUID, Sequence[str]]) -> None:
    """Move partitions from members that have more to those with at least two fewer, until none can."""
    moved = True
    while moved:
        moved = False
        for member_id in sorted(assigned, key=lambda name: -len(assigned[name])):
            for part in sorted(assigned[member_id]):
                least = min(readers[part[0]], key=lambda name: len(assigned[name]))
                if len(assigned[least]) + 1 < len(assigned[member_id]):
                    assigned[member_id].remove(part)
                    assigned[least].add(part)
                    moved = True


ASSIGNORS: dict[str, Callable[[Sequence[Subscriber], Mapping[UUID, int]], Assignment]] = {
    "uniform": uniform,
    "range": range_assignor,
}
