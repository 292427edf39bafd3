"""Whether the disks are of one broker, as `meta.properties` has it, and are those that the metadata knows.

Kafka's rules: `MetaPropertiesEnsemble` and `KafkaRaftServer`. The metadata assigns each replica to a
directory id; a controller takes a replica for offline whose directory id no disk of its broker has.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator

from tidelog.doctor.disks import Broker, Disk, PartitionDirectory, kafka_name
from tidelog.doctor.findings import Finding, Kind, Severity
from tidelog.manager.metadata.image import PartitionImage
from tidelog.storage.metadata import MetaProperties, format_id
from tidelog.storage.names import META_PROPERTIES_FILE, DirectoryState
from tidelog.types import TopicPartition

__all__ = ["assigned_id", "examine_identity", "lost_id", "missing_partitions"]

NO_START = "it does not start"
OFFLINE = "it takes the whole disk offline; with one disk, it stops"
_RESERVED = 100
"""Directory ids below are none: a replica that is not assigned, or whose disk is lost."""


def examine_identity(broker: Broker) -> Iterator[tuple[Disk, Finding]]:
    """What contradicts, or is missing."""
    seen: dict[object, Disk] = {}
    first = next((disk for disk in broker.disks if disk.meta is not None), None)
    for disk in broker.disks:
        if disk.meta is None or disk.meta_fault is not None:
            yield disk, _without_identity(disk, alone=disk is broker.home or first is None)
            continue
        known = disk.meta if first is None or first.meta is None else first.meta
        for cause, advice in _contradictions(disk.meta, known, broker.node_id):
            yield disk, _identity_finding(disk, cause, advice)
        if disk.meta.directory_id is not None:
            other = seen.setdefault(disk.meta.directory_id, disk)
            if other is not disk:
                cause = f"its directory.id is that of {other.path}, too: one was copied from the other"
                advice = "take the line directory.id out of the copy's file, or the copy out of log.dirs"
                yield disk, _identity_finding(disk, cause, advice)
        yield from ((disk, finding) for finding in _unassigned(broker, disk))


def _identity_finding(disk: Disk, cause: str, advice: str, kafka: str = NO_START) -> Finding:
    file = f"{disk.path}/{META_PROPERTIES_FILE}"
    return Finding(Severity.FATAL, Kind.IDENTITY, file, cause, kafka, advice)


def _without_identity(disk: Disk, *, alone: bool) -> Finding:
    """A disk whose file cannot be read, or that has none."""
    if disk.meta_fault is not None:
        return _identity_finding(
            disk,
            f"it cannot be read: {disk.meta_fault}",
            "tidelog fix writes it anew if another disk of the broker tells the ids; else restore it",
            NO_START if alone else OFFLINE,
        )
    return _identity_finding(
        disk,
        "it is missing: the directory is not formatted",
        "tidelog fix writes it if another disk of the broker tells the ids; else restore it, or "
        "kafka-storage.sh format",
    )


def _contradictions(
    meta: MetaProperties, known: MetaProperties, node_id: int | None
) -> Iterator[tuple[str, str]]:
    """What a file says that is not so of its broker, and what to do."""
    if meta.node_id is None or meta.cluster_id is None:
        yield "it names no node or no cluster", "restore it from a copy"
    if meta.cluster_id != known.cluster_id:
        yield (
            f"it is of cluster {meta.cluster_id}, but another disk is of {known.cluster_id}",
            "name only the disks of one broker",
        )
    if node_id is not None and meta.node_id not in (None, node_id):
        yield (
            f"it is of node {meta.node_id}, but the broker is node {node_id}",
            "name only the disks of one broker, and its own server.properties",
        )
    if meta.directory_id is not None and meta.directory_id.int < _RESERVED:
        yield (
            f"directory.id {format_id(meta.directory_id)} is reserved",
            "take the line directory.id out: a broker writes a new one",
        )


def _unassigned(broker: Broker, disk: Disk) -> Iterator[Finding]:
    """A disk whose partitions the metadata assigns to a directory that none of the disks is."""
    lost = _lost_ids(broker, disk)
    if not lost:
        return
    told = ", ".join(format_id(one) for one in lost)
    yield Finding(
        Severity.LOSS,
        Kind.IDENTITY,
        f"{disk.path}/{META_PROPERTIES_FILE}",
        f"the metadata assigns {lost.total()} partitions that lie here to directory id {told}, "
        "which no disk has",
        "it treats them as offline: those without another replica have no leader",
        "name all disks of the broker; if these are all, write that id into the line directory.id",
    )


def lost_id(broker: Broker, disk: Disk) -> uuid.UUID | None:
    """The directory id that a disk must have had, if all of its partitions agree and no disk has it."""
    lost = _lost_ids(broker, disk)
    found = {assigned_id(broker, one) for one in disk.live} - {None}
    return next(iter(lost)) if len(lost) == 1 and len(found) == 1 else None


def _lost_ids(broker: Broker, disk: Disk) -> Counter[uuid.UUID]:
    known = {one.meta.directory_id for one in broker.disks if one.meta is not None}
    found = (assigned_id(broker, one) for one in disk.live)
    return Counter(one for one in found if one is not None and one not in known)


def assigned_id(broker: Broker, one: PartitionDirectory) -> uuid.UUID | None:
    """The directory id that the metadata assigns a partition's replica to; None if it does not say."""
    topic = broker.image.topics.get(one.partition.topic)
    part = None if topic is None else topic.partitions.get(one.partition.partition)
    if part is None or topic is None or one.topic_id not in (None, topic.topic_id):
        return None
    return _replica_id(broker, part)


def missing_partitions(broker: Broker, disk: Disk) -> list[TopicPartition]:
    """The partitions that the metadata assigns to a disk, and that have no directory on any."""
    if disk.meta is None or disk.meta.directory_id is None:
        return []
    marked = (DirectoryState.LIVE, DirectoryState.FUTURE)
    there = {one.partition for each in broker.disks for one in each.directories if one.parsed.state in marked}
    there |= {taken for each in broker.disks for name in each.foreign if (taken := kafka_name(name))}
    return [
        name
        for topic in broker.image.topics.values()
        for number, part in sorted(topic.partitions.items())
        if (name := TopicPartition(topic.name, number)) not in there
        and _replica_id(broker, part) == disk.meta.directory_id
    ]


def _replica_id(broker: Broker, part: PartitionImage) -> uuid.UUID | None:
    places = dict(zip(part.replicas, part.directories, strict=False))
    found = None if broker.node_id is None else places.get(broker.node_id)
    return None if found is None or found.int < _RESERVED else found
