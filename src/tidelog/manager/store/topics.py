"""Topics of a store, and where their configuration comes from.

A topic's configuration is the broker's defaults, overridden by what is set for the topic. The metadata keeps
what is set (`metadata.registry`), where a broker reads it too.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.manager.metadata.registration import Place, Registration
from tidelog.manager.store.numbered import NumberedPartitions
from tidelog.manager.store.partition import Partition

__all__ = ["Topic"]


@dataclass(slots=True)
class Topic(NumberedPartitions[Partition]):
    """A topic and its partitions."""

    name: str
    topic_id: uuid.UUID
    config: Mapping[str, str] = field(default_factory=dict)
    """What is set for it, as text under Kafka's keys."""
    partitions: dict[int, Partition] = field(default_factory=dict)

    def registration(self) -> Registration:
        """The topic as the metadata should know it.

        Left out are partitions whose root is not known, and those that other brokers hold too: the cluster
        knows more about them than one disk.
        """
        return Registration(
            self.name,
            self.topic_id,
            self.config,
            {
                number: Place(partition.root.identity.directory_id, partition.leader_epoch)
                for number, partition in self.partitions.items()
                if partition.root is not None and not partition.others
            },
        )
