"""What a run of metadata records adds up to: topics, their partitions and configs, features, producer ids.

Records between the beginning and the end of a transaction count at its end, all at once; after an abort, or
where the log stops before the end, not at all. A partition change with a leader raises the leader epoch by
one, every change the partition epoch, as brokers count.

Names become directories: a topic whose name is not legal, and a partition below 0, are passed over.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidelog.protocol.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    ResourceType,
    TopicRecord,
)
from tidelog.storage.metadata import format_id
from tidelog.storage.names import topic_fault
from tidelog.types import TopicPartition

__all__ = ["MetadataImage", "PartitionImage", "TopicImage"]

_RESERVED_IDS = 100
"""Directory ids up to this one are no directories: unassigned, lost, migrating."""


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """Where a partition is."""

    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[uuid.UUID, ...] = ()

    def directory_of(self, node_id: int) -> uuid.UUID | None:
        """The id of the root in which a node has it; None where that is not told."""
        told = dict(zip(self.replicas, self.directories, strict=False)).get(node_id)
        return told if told is not None and told.int > _RESERVED_IDS else None


@dataclass(slots=True)
class TopicImage:
    """A topic and its partitions."""

    name: str
    topic_id: uuid.UUID
    partitions: dict[int, PartitionImage] = field(default_factory=dict)


@dataclass(slots=True)
class MetadataImage:
    """The state that records add up to."""

    topics: dict[str, TopicImage] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    passed_over: list[str] = field(default_factory=list)
    """Records that no broker writes, and what is wrong with them."""
    _topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    _by_id: dict[uuid.UUID, TopicImage] = field(default_factory=dict)
    _transaction: list[MetadataRecord] | None = None

    @classmethod
    def of(cls, records: Iterable[MetadataRecord]) -> MetadataImage:
        """What these records add up to."""
        image = cls()
        for record in records:
            image.replay(record)
        return image

    def has(self, partition: TopicPartition) -> bool:
        """Whether there is such a partition."""
        topic = self.topics.get(partition.topic)
        return topic is not None and partition.partition in topic.partitions

    def topic_config(self, topic: str) -> Mapping[str, str]:
        """What is set for a topic, as text under Kafka's keys."""
        return dict(self._topic_configs.get(topic, {}))

    def restricted_to(self, topics: Collection[str]) -> MetadataImage:
        """What it says about some topics only, to be sent to where nothing else is asked."""
        return MetadataImage(
            topics={name: self.topics[name] for name in topics if name in self.topics},
            _topic_configs={
                name: self._topic_configs[name] for name in topics if name in self._topic_configs
            },
        )

    @property
    def in_transaction(self) -> bool:
        """Whether the records end inside a transaction, whose records do not count."""
        return self._transaction is not None

    def replay(self, record: MetadataRecord) -> None:
        """Add the next record."""
        match record:
            case BeginTransactionRecord():
                self._transaction = []
            case AbortTransactionRecord():
                self._transaction = None
            case EndTransactionRecord():
                waiting, self._transaction = self._transaction or (), None
                for each in waiting:
                    self._apply(each)
            case _ if self._transaction is not None:
                self._transaction.append(record)
            case _:
                self._apply(record)

    def _apply(self, record: MetadataRecord) -> None:
        match record:
            case TopicRecord(name) if (fault := topic_fault(name)) is not None:
                self.passed_over.append(f"topic {name!r}: {fault}")
            case TopicRecord(name, topic_id):
                self.topics[name] = self._by_id[topic_id] = TopicImage(name, topic_id)
            case RemoveTopicRecord(topic_id):
                topic = self._by_id.pop(topic_id, None)
                if topic is not None:
                    self.topics.pop(topic.name, None)
                    self._topic_configs.pop(topic.name, None)
            case PartitionRecord(number, topic_id) if number < 0:
                self.passed_over.append(
                    f"partition {number} of topic {format_id(topic_id)}: no number of one"
                )
            case PartitionRecord():
                topic = self._by_id.get(record.topic_id)
                if topic is not None:
                    topic.partitions[record.partition_id] = PartitionImage(
                        record.replicas,
                        record.leader,
                        record.leader_epoch,
                        record.partition_epoch,
                        record.directories,
                    )
            case PartitionChangeRecord():
                self._change(record)
            case ConfigRecord(ResourceType.TOPIC, name, key, value):
                configs = self._topic_configs.setdefault(name, {})
                configs.pop(key, None)
                if value is not None:
                    configs[key] = value
            case FeatureLevelRecord(name, level):
                self.features[name] = level
            case ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id

    def _change(self, record: PartitionChangeRecord) -> None:
        topic = self._by_id.get(record.topic_id)
        old = topic.partitions.get(record.partition_id) if topic is not None else None
        if topic is None or old is None:
            return
        led = record.leader is not None
        topic.partitions[record.partition_id] = replace(
            old,
            leader=old.leader if record.leader is None else record.leader,
            leader_epoch=old.leader_epoch + led,
            partition_epoch=old.partition_epoch + 1,
            replicas=old.replicas if record.replicas is None else record.replicas,
            directories=old.directories if record.directories is None else record.directories,
        )
