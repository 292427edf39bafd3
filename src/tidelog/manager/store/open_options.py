"""What the caller of `tidelog.open` has asked for."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.types import TopicPartition

__all__ = ["OpenOptions"]


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """What opening may change, and which topics and partitions it opens."""

    create: bool = True
    """Whether roots that are missing are made."""
    adopt: bool | None = None
    """Whether unregistered partitions are taken in, and those that cannot be set aside as `-stray`."""
    recover: bool = False
    """Whether roots that were not closed cleanly are recovered."""
    discard: bool = False
    """Whether what recovery cuts off is not kept."""
    force: bool = False
    """Whether partitions that other brokers hold too may be appended to."""
    topics: frozenset[str | TopicPartition] | None = None
    """The topics and single partitions to open; all others are not touched. None: all."""

    def wants(self, partition: TopicPartition) -> bool:
        """Whether a partition is to be opened."""
        return self.wants_all_of(partition.topic) or partition in (self.topics or ())

    def wants_all_of(self, topic: str) -> bool:
        """Whether all partitions of a topic are to be opened."""
        return self.topics is None or topic in self.topics

    def wants_some_of(self, topic: str) -> bool:
        """Whether a topic, or a partition of it, is to be opened."""
        return self.topics is None or topic in {_topic(one) for one in self.topics}


def _topic(one: str | TopicPartition) -> str:
    return one if isinstance(one, str) else one.topic
