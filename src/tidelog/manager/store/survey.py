"""What becomes of each directory that is found in the roots. A pure decision.

directory                                      fate
------------------------------------------     ----------------------------------------------------------
__cluster_metadata-0                           left alone, always
-stray                                         left alone
-delete                                        deleted after a while
-future, registered                            left alone: a copy under way, which its move will want
-future, not registered                        stray, or left alone where what is not registered is adopted
live, registered, its topic's id or none       loaded
live, registered, another topic's id           stray: an older topic of the same name
live, not registered                           stray, or adopted where the store may: then all of a topic's
                                               partitions must agree on its id
live, in two roots                             the one in the registered root is loaded, the other is stray;
                                               where neither is, the partition is offline: somebody must say
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidelog.manager.metadata.image import MetadataImage
from tidelog.storage.metadata import format_id
from tidelog.storage.names import CLUSTER_METADATA_TOPIC, DirectoryState, PartitionDirectoryName
from tidelog.types import TopicPartition

__all__ = ["Fate", "Found", "Judged", "judge"]


class Fate(enum.Enum):
    """What becomes of a directory."""

    LEAVE = "leave"
    DELETE = "delete"
    LOAD = "load"
    ADOPT = "adopt"
    STRAY = "stray"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Found:
    """A directory: the root's id, its name, and the topic id in its `partition.metadata`."""

    directory_id: uuid.UUID
    name: str
    parsed: PartitionDirectoryName
    topic_id: uuid.UUID | None

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose it is."""
        return self.parsed.topic_partition


@dataclass(frozen=True, slots=True)
class Judged:
    """A directory and its fate."""

    found: Found
    fate: Fate
    reason: str = ""


def judge(found: Iterable[Found], image: MetadataImage, *, adopt: bool) -> list[Judged]:
    """The fate of each directory; `adopt` takes in what is not registered."""
    judged = [_alone(one, image, adopt) for one in found]
    if adopt:
        judged = _agreeing(judged)
    return _single(judged, image)


def _alone(found: Found, image: MetadataImage, adopt: bool) -> Judged:
    state, partition = found.parsed.state, found.topic_partition
    if partition.topic == CLUSTER_METADATA_TOPIC or state is DirectoryState.STRAY:
        return Judged(found, Fate.LEAVE)
    if state is DirectoryState.DELETE:
        return Judged(found, Fate.DELETE)
    topic = image.topics.get(partition.topic)
    registered = topic is not None and partition.partition in topic.partitions
    if state is DirectoryState.FUTURE and (registered or adopt):
        return Judged(found, Fate.LEAVE)
    if topic is None or not registered:
        if adopt and (topic is None or found.topic_id in (None, topic.topic_id)):
            return Judged(found, Fate.ADOPT)
        return Judged(found, Fate.STRAY, "no such partition is registered")
    if found.topic_id not in (None, topic.topic_id):
        theirs, ours = format_id(found.topic_id or topic.topic_id), format_id(topic.topic_id)
        return Judged(found, Fate.STRAY, f"it is of topic {theirs}, but {partition.topic} is {ours} now")
    return Judged(found, Fate.LOAD)


def _agreeing(judged: Sequence[Judged]) -> list[Judged]:
    """Of adopted partitions of one topic, those that agree with the first one's id."""
    ids: dict[str, uuid.UUID] = {}
    for one in judged:
        if one.fate is Fate.ADOPT and one.found.topic_id is not None:
            ids.setdefault(one.found.topic_partition.topic, one.found.topic_id)
    return [
        Judged(one.found, Fate.STRAY, "other partitions of the topic have another id")
        if one.fate is Fate.ADOPT
        and one.found.topic_id not in (None, ids.get(one.found.topic_partition.topic))
        else one
        for one in judged
    ]


def _single(judged: Sequence[Judged], image: MetadataImage) -> list[Judged]:
    """Of several directories of one partition, the registered one."""
    live: dict[TopicPartition, list[Judged]] = {}
    for one in judged:
        if one.fate in (Fate.LOAD, Fate.ADOPT):
            live.setdefault(one.found.topic_partition, []).append(one)
    settled = []
    for one in judged:
        twins = live.get(one.found.topic_partition, [])
        if len(twins) > 1 and one in twins:
            one = _settle(one, twins, image)
        settled.append(one)
    return settled


def _settle(one: Judged, twins: Sequence[Judged], image: MetadataImage) -> Judged:
    partition = one.found.topic_partition
    topic = image.topics.get(partition.topic)
    places = topic.partitions[partition.partition].directories if topic and one.fate is Fate.LOAD else ()
    if sum(twin.found.directory_id in places for twin in twins) != 1:
        where = f"{len(twins)} roots have a directory of {partition}, and none is known to be the right one"
        return Judged(one.found, Fate.CONFLICT, f"{where}: move all but one away")
    if one.found.directory_id in places:
        return one
    return Judged(
        one.found, Fate.STRAY, "another root has the partition; a move to or from here was cut short"
    )
