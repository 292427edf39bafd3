"""What becomes of each directory that is found in the roots. A pure decision.

"Stray" is what belongs to no topic. Opening leaves it as it is and reports it; it is renamed `-stray` only if
that is asked for (`adopt`, `Store.tidy`, `tidelog tidy`), as brokers do at each start.

directory                                      verdict
------------------------------------------     ----------------------------------------------------------
__cluster_metadata-0                           left alone, always
-stray                                         left alone (`tidelog unstray` takes it back)
live, not registered, with other files only    left alone: it has such a name by chance (`jdk-17`)
-delete                                        deleted after a while
-future, registered                            left alone: a copy under way, which its move will want
-future, not registered                        stray, or left alone where what is not registered is adopted
live, registered, its topic's id or none       loaded
live, registered, another topic's id           stray: an older topic of the same name
live, not registered                           stray, or adopted where the store may: then all of a topic's
                                               partitions must agree on its id
live, in two roots                             the one in the registered root is loaded, the other is stray;
                                               where neither is, the partition is offline: somebody must say
live, registered in a root that is not open    the partition is offline: a move may have left this copy behind
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from tidelog.errors import InvalidIndexError, LogError, TopicExistsError
from tidelog.layout.roots import RootFacts, Skipped, look_at
from tidelog.manager.metadata.files import home_of_metadata, read_cluster_metadata
from tidelog.manager.metadata.image import MetadataImage
from tidelog.storage import FileSystem
from tidelog.storage.metadata import format_id, read_partition_metadata
from tidelog.storage.names import (
    CLUSTER_METADATA_TOPIC,
    LEADER_EPOCH_FILE,
    PARTITION_METADATA_FILE,
    DirectoryState,
    PartitionDirectoryName,
    parse_segment_file,
)
from tidelog.types import TopicPartition

__all__ = [
    "Found",
    "Judged",
    "Unknown",
    "Verdict",
    "check_free",
    "find_directories",
    "find_unknown",
    "hold_back_copies",
    "judge",
    "metadata_elsewhere",
]


class Verdict(enum.Enum):
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
    is_foreign: bool = False
    """Whether it holds something, but nothing of a partition."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose it is."""
        return self.parsed.topic_partition


@dataclass(frozen=True, slots=True)
class Judged:
    """A directory and its verdict."""

    found: Found
    verdict: Verdict
    reason: str = ""

    @property
    def topic(self) -> str:
        """The topic whose it is, by its name."""
        return self.found.topic_partition.topic


def judge(found: Iterable[Found], image: MetadataImage, *, adopt: bool) -> list[Judged]:
    """The verdict of each directory; `adopt` takes in what is not registered."""
    judged = [_alone(one, image, adopt) for one in found]
    if adopt:
        judged = _agreeing(judged)
    return _single(judged, image)


def _alone(found: Found, image: MetadataImage, adopt: bool) -> Judged:
    state, partition = found.parsed.state, found.topic_partition
    if partition.topic == CLUSTER_METADATA_TOPIC or state is DirectoryState.STRAY:
        return Judged(found, Verdict.LEAVE)
    if state is DirectoryState.DELETE:
        return Judged(found, Verdict.DELETE)
    topic = image.topics.get(partition.topic)
    registered = topic is not None and partition.partition in topic.partitions
    if found.is_foreign and not registered:
        return Judged(found, Verdict.LEAVE, "it holds files, but none of a partition: it is left as it is")
    if state is DirectoryState.FUTURE and (registered or adopt):
        return Judged(found, Verdict.LEAVE)
    if topic is None or not registered:
        if adopt and (topic is None or found.topic_id in (None, topic.topic_id)):
            return Judged(found, Verdict.ADOPT)
        return Judged(found, Verdict.STRAY, "no such partition is registered")
    if found.topic_id not in (None, topic.topic_id):
        theirs, ours = format_id(found.topic_id or topic.topic_id), format_id(topic.topic_id)
        return Judged(found, Verdict.STRAY, f"it is of topic {theirs}, but {partition.topic} is {ours} now")
    return Judged(found, Verdict.LOAD)


def _agreeing(judged: Sequence[Judged]) -> list[Judged]:
    """Of adopted partitions of one topic, those that agree with the first one's id."""
    ids: dict[str, uuid.UUID] = {}
    for one in judged:
        if one.verdict is Verdict.ADOPT and one.found.topic_id is not None:
            ids.setdefault(one.found.topic_partition.topic, one.found.topic_id)
    return [
        Judged(one.found, Verdict.STRAY, "other partitions of the topic have another id")
        if one.verdict is Verdict.ADOPT
        and one.found.topic_id not in (None, ids.get(one.found.topic_partition.topic))
        else one
        for one in judged
    ]


def _single(judged: Sequence[Judged], image: MetadataImage) -> list[Judged]:
    """Of several directories of one partition, the registered one."""
    live: dict[TopicPartition, list[Judged]] = {}
    for one in judged:
        if one.verdict in (Verdict.LOAD, Verdict.ADOPT):
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
    places = (
        topic.partitions[partition.partition].directories if topic and one.verdict is Verdict.LOAD else ()
    )
    if sum(twin.found.directory_id in places for twin in twins) != 1:
        where = f"{len(twins)} roots have a directory of {partition}, and none is known to be the right one"
        return Judged(one.found, Verdict.CONFLICT, f"{where}: move all but one away")
    if one.found.directory_id in places:
        return one
    return Judged(
        one.found, Verdict.STRAY, "another root has the partition; a move to or from here was cut short"
    )


def hold_back_copies(
    judged: Iterable[Judged], image: MetadataImage, *, node_id: int, roots: Collection[uuid.UUID]
) -> list[Judged]:
    """The same, but of partitions that are registered in none of these roots, no copy is loaded.

    A move that was cut short may have left it: the root that is not open has newer records then.
    """
    settled = []
    for one in judged:
        if one.verdict is Verdict.LOAD:
            partition = one.found.topic_partition
            place = image.topics[partition.topic].partitions[partition.partition].directory_of(node_id)
            if place is not None and place not in roots:
                reason = (
                    f"{partition} is registered in the root with directory.id {format_id(place)}, which is "
                    "not open, and what is here may be an old copy. Name all of the broker's log.dirs; if "
                    "that root is gone for good, take this copy in with adopt=True (--adopt)"
                )
                one = Judged(one.found, Verdict.CONFLICT, reason)
        settled.append(one)
    return settled


# ---- looking


def find_directories(
    fs: FileSystem,
    facts: RootFacts,
    directory_id: uuid.UUID,
    report: Callable[[Skipped], object] = lambda skipped: None,
) -> list[Found]:
    """The partitions' directories of a root, as they are to be judged."""
    found = []
    for name, parsed in facts.directories.items():
        topic_id = None
        path = f"{facts.path}/{name}/{PARTITION_METADATA_FILE}"
        if parsed.state is DirectoryState.LIVE:
            try:
                topic_id = read_partition_metadata(fs, path).topic_id
            except FileNotFoundError:
                pass
            except (OSError, InvalidIndexError) as error:
                report(Skipped(path, str(error)))
        live = parsed.state is DirectoryState.LIVE
        foreign = live and topic_id is None and _is_foreign(fs, f"{facts.path}/{name}")
        found.append(Found(directory_id, name, parsed, topic_id, foreign))
    return found


def _is_foreign(fs: FileSystem, path: str) -> bool:
    """Whether a directory holds something, but nothing of a partition."""
    try:
        names = [entry.name for entry in fs.list(path)]
    except OSError:
        return False
    ours = {PARTITION_METADATA_FILE, LEADER_EPOCH_FILE}
    return bool(names) and not any(name in ours or parse_segment_file(name) for name in names)


@dataclass(frozen=True, slots=True)
class Unknown:
    """Directories that belong to no topic."""

    found: list[tuple[str, str]]
    """The path and the reason of each."""
    elsewhere: str | None
    """Why it cannot be said that they belong to none: the metadata is on another disk."""

    def check_home(self) -> None:
        """Refuse to act on them where the metadata is elsewhere."""
        if self.elsewhere is not None:
            raise LogError(self.elsewhere)


def metadata_elsewhere(image: MetadataImage, in_log: bool, unknown: Sequence[str]) -> str | None:
    """Whether the metadata that should know these directories is on another disk: what to say then."""
    if not unknown or in_log or image.topics:
        return None
    return (
        f"{len(unknown)} partitions ({unknown[0]}...) are here that no metadata here knows: this is one of "
        "several disks of a broker, and the metadata is on another. Name all of the broker's log.dirs, or "
        "register what is here with adopt=True (--adopt)"
    )


def find_unknown(fs: FileSystem, roots: Sequence[str]) -> Unknown:
    """The directories of one node's roots that opening would leave as they are; nothing is changed."""
    metadata = read_cluster_metadata(fs, home_of_metadata(fs, roots))
    paths: dict[uuid.UUID, str] = {}
    found: list[Found] = []
    for path in roots:
        facts = look_at(fs, path)
        given = None if facts.meta is None else facts.meta.directory_id
        directory_id = given or uuid.uuid4()
        paths[directory_id] = path
        found += find_directories(fs, facts, directory_id)
    judged = [one for one in judge(found, metadata.image, adopt=False) if one.verdict is Verdict.STRAY]
    named = [(f"{paths[one.found.directory_id]}/{one.found.name}", one.reason) for one in judged]
    live = [one.found.name for one in judged if one.found.parsed.state is DirectoryState.LIVE]
    return Unknown(named, metadata_elsewhere(metadata.image, metadata.in_log, live))


def check_free(fs: FileSystem, root: str, topic: str, numbers: Iterable[int]) -> None:
    """Refuse new partitions where directories of that name are, which no metadata knows."""
    for path in (f"{root}/{topic}-{number}" for number in numbers):
        if fs.is_link(path):  # which exists for nobody if it leads nowhere
            raise TopicExistsError(f"{path} is a symbolic link, which no metadata knows: move it away")
        if fs.exists(path):
            raise TopicExistsError(
                f"{path} is there, though no metadata knows it: take it in with adopt=True, or set "
                f"it aside with `tidelog tidy {root}`"
            )
