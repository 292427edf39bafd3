"""From the topics that there are to the records that make a broker know them.

    changes      what has to be added to known metadata: new topics, partitions, configs, places and epochs
    bootstrap    metadata from scratch, for a metadata log that has yet to begin

Every record is there once and only if it is needed: what the metadata says already is left alone. A topic is
removed only if it is named; that its directory is not to be seen proves nothing, its disk may be offline.

A new partition has one replica, this node, which leads it in the epoch given (not below the log's newest).
Producer ids found in logs must not be given away again: a broker would take a new producer's first batches
for old ones that it has already, and drop them. So the next id to be given moves beyond them.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidelog.manager.metadata.image import MetadataImage, PartitionImage, TopicImage
from tidelog.protocol.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    ResourceType,
    TopicRecord,
)

__all__ = ["FEATURES", "Place", "Registration", "bootstrap", "changes"]

FEATURES = {"metadata.version": 25, "group.version": 1, "transaction.version": 2}
"""What a new cluster starts with: the levels of Kafka 4.0, which every 4.x broker takes."""

_PRODUCER_ID_BLOCK = 1000
_LARGEST_PRODUCER_ID = 2**63 - 1
_TOPIC_RECORDS = (TopicRecord, PartitionRecord, PartitionChangeRecord, RemoveTopicRecord, ProducerIdsRecord)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a partition is, and its newest leader epoch."""

    directory_id: uuid.UUID
    leader_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Registration:
    """A topic as it is on disk. `config` holds what differs from the defaults, as text under Kafka's keys."""

    name: str
    topic_id: uuid.UUID
    config: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[int, Place] = field(default_factory=dict)


def changes(
    image: MetadataImage,
    topics: Iterable[Registration],
    *,
    node_id: int,
    removed: Collection[uuid.UUID] = (),
    largest_producer_id: int = -1,
) -> list[MetadataRecord]:
    """The records that bring the metadata up to `topics`; none where it says all that."""
    records: list[MetadataRecord] = [
        RemoveTopicRecord(topic.topic_id) for topic in image.topics.values() if topic.topic_id in removed
    ]
    for topic in topics:
        known = image.topics.get(topic.name)
        if known is not None and known.topic_id != topic.topic_id:
            if known.topic_id not in removed:
                records.append(RemoveTopicRecord(known.topic_id))
            known = None
        records += _topic_changes(topic, known, image, node_id)
    following = (largest_producer_id // _PRODUCER_ID_BLOCK + 1) * _PRODUCER_ID_BLOCK
    following = min(following, _LARGEST_PRODUCER_ID)
    if largest_producer_id >= image.next_producer_id and following > image.next_producer_id:
        records.append(ProducerIdsRecord(node_id, -1, following))
    return records


def _topic_changes(
    topic: Registration, known: TopicImage | None, image: MetadataImage, node_id: int
) -> Iterator[MetadataRecord]:
    if known is None:
        yield TopicRecord(topic.name, topic.topic_id)
    before = {} if known is None else image.topic_config(topic.name)
    for key in sorted(before.keys() | topic.config.keys()):
        if before.get(key) != topic.config.get(key):
            yield ConfigRecord(ResourceType.TOPIC, topic.name, key, topic.config.get(key))
    for number, place in sorted(topic.partitions.items()):
        old = None if known is None else known.partitions.get(number)
        yield from _partition_changes(topic, number, place, old, node_id)


def _partition_changes(
    topic: Registration, number: int, place: Place, old: PartitionImage | None, node_id: int
) -> Iterator[MetadataRecord]:
    if old is None or old.leader_epoch < place.leader_epoch:
        yield PartitionRecord(
            number,
            topic.topic_id,
            replicas=(node_id,),
            isr=(node_id,),
            leader=node_id,
            leader_epoch=place.leader_epoch,
            partition_epoch=0 if old is None else old.partition_epoch + 1,
            directories=(place.directory_id,),
        )
    elif old.replicas == (node_id,) and old.directories != (place.directory_id,):
        yield PartitionChangeRecord(number, topic.topic_id, directories=(place.directory_id,))


def bootstrap(
    existing: Sequence[MetadataRecord], added: Iterable[MetadataRecord] = (), *, node_id: int
) -> list[MetadataRecord]:
    """What `existing` bootstrap records and those `added` to them come to, each topic told once.

    Records that are not about topics stay as they are; a cluster without features gets `FEATURES`.
    """
    image = MetadataImage.of([*existing, *added])
    features = {} if "metadata.version" in image.features else FEATURES
    records: list[MetadataRecord] = [FeatureLevelRecord(name, level) for name, level in features.items()]
    records += [record for record in existing if not _is_about_topics(record)]
    for topic in image.topics.values():
        records.append(TopicRecord(topic.name, topic.topic_id))
        records += [
            ConfigRecord(ResourceType.TOPIC, topic.name, key, value)
            for key, value in sorted(image.topic_config(topic.name).items())
        ]
        records += [
            _told_whole(topic.topic_id, number, part) for number, part in sorted(topic.partitions.items())
        ]
    if image.next_producer_id:
        records.append(ProducerIdsRecord(node_id, -1, image.next_producer_id))
    return records


def _is_about_topics(record: MetadataRecord) -> bool:
    topic_config = isinstance(record, ConfigRecord) and record.resource_type == ResourceType.TOPIC
    return topic_config or isinstance(record, _TOPIC_RECORDS)


def _told_whole(topic_id: uuid.UUID, number: int, part: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        number,
        topic_id,
        replicas=part.replicas,
        isr=part.replicas,
        leader=part.leader,
        leader_epoch=part.leader_epoch,
        partition_epoch=part.partition_epoch,
        directories=part.directories,
    )
