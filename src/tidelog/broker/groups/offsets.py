"""Committed offsets of groups, and the offsets of open transactions that become visible with their marker.

Of two commits for a partition the later one in the log counts, also where a transaction's marker comes after
a plain commit that was written after the transaction's own: so each commit keeps its order in the log.
A marker ends the transaction in its own partition of the topic: groups of other partitions have theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from tidelog.broker.effects import Partition

__all__ = ["Committed", "Offsets", "PartitionCheck", "no_check"]

PartitionCheck = Callable[[UUID | None, int], None]
"""Raises Refused where an offset may not be committed for this partition of a topic."""


def no_check(_topic_id: UUID | None, _partition: int) -> None:
    """Every partition may be committed."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What is committed for a partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = -1
    expire_ms: int | None = None
    """Only from old clients that gave a retention time of their own."""
    topic_id: UUID | None = None
    order: int = 0


class Offsets:
    """The offsets of all groups."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[Partition, Committed]] = {}
        self._pending: dict[tuple[int, int], dict[str, dict[Partition, Committed]]] = {}
        """By partition of `__consumer_offsets` and producer id."""

    def of(self, group_id: str) -> Mapping[Partition, Committed]:
        """What a group has committed."""
        return self._committed.get(group_id, {})

    def groups(self) -> tuple[str, ...]:
        """The groups that have committed offsets."""
        return tuple(self._committed)

    def pending(self, group_id: str) -> set[Partition]:
        """The partitions for which a group has offsets in open transactions."""
        return {part for groups in self._pending.values() for part in groups.get(group_id, ())}

    def commit(self, group_id: str, partition: Partition, committed: Committed) -> None:
        """Commit an offset."""
        self._committed.setdefault(group_id, {})[partition] = committed

    def keep(
        self, home: int, producer_id: int, group_id: str, partition: Partition, committed: Committed
    ) -> None:
        """Keep an offset until its transaction ends; `home` is the group's partition of the topic."""
        groups = self._pending.setdefault((home, producer_id), {})
        groups.setdefault(group_id, {})[partition] = committed

    def forget(self, group_id: str, partition: Partition) -> None:
        """Forget what is committed for a partition, and what open transactions would commit."""
        for groups in (self._committed, *self._pending.values()):
            found = groups.get(group_id)
            if found is not None and found.pop(partition, None) is not None and not found:
                del groups[group_id]
        self._pending = {producer: groups for producer, groups in self._pending.items() if groups}

    def end(self, home: int, producer_id: int, commit: bool) -> None:
        """End a producer's transaction in a partition of the topic: its offsets count, or never did."""
        for group_id, found in self._pending.pop((home, producer_id), {}).items():
            if not commit:
                continue
            committed = self._committed.setdefault(group_id, {})
            for partition, offset in found.items():
                known = committed.get(partition)
                if known is None or offset.order > known.order:
                    committed[partition] = offset
