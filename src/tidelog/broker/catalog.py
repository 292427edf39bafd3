"""The topics that a broker serves: those of a store it holds, or of roots it only looks at.

Handlers ask the same questions of both. A log that is only looked at is listed anew now and then, and answers
nobody who wants to change it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tidelog.broker.errors import Code, RefusedError
from tidelog.log.epochs import EpochEndOffset, LeaderEpochCache
from tidelog.log.read.fetching import FetchData
from tidelog.manager.store.partition import Partition
from tidelog.manager.store.store import Store
from tidelog.storage import LOCAL, EpochEntry, read_epoch_checkpoint
from tidelog.storage.metadata import read_meta_properties
from tidelog.storage.names import LEADER_EPOCH_FILE, META_PROPERTIES_FILE
from tidelog.types import FetchIsolation, TimestampOffset, TopicPartition

if TYPE_CHECKING:
    from tidelog.manager.store.readonly import ReadOnlyPartition, ReadOnlyStore

__all__ = ["Catalog", "Ends", "ReadOnlyCatalog", "ServedLog", "ServedTopic", "StoreCatalog", "epoch_at"]

_LOOK_S = 1.0
"""How long a listing of roots that are only looked at holds."""


class Ends(NamedTuple):
    """A log's offsets, of one moment."""

    log_start: int
    last_stable: int
    high_watermark: int
    log_end: int


class ServedLog(Protocol):
    """A partition's log, as handlers see it."""

    topic_partition: TopicPartition

    @property
    def ends(self) -> Ends:
        """Its offsets."""

    @property
    def leader_epoch(self) -> int:
        """The epoch that this broker leads it in."""

    @property
    def is_online(self) -> bool:
        """Whether it can be read."""

    @property
    def epochs(self) -> Iterable[EpochEntry]:
        """The leader epochs and where each begins."""

    def read(self, offset: int, max_bytes: int, isolation: FetchIsolation, whole: bool) -> FetchData:
        """Batches from an offset on; with `whole` the first one however large."""

    def find_time(self, timestamp: int) -> TimestampOffset | None:
        """What a timestamp, or one of Kafka's special ones, finds."""

    def epoch_end(self, epoch: int) -> EpochEndOffset:
        """Where a leader epoch ends."""


class HeldLog:
    """A log of a store that this process holds."""

    __slots__ = ("partition", "topic_partition")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.topic_partition = partition.topic_partition

    @property
    def ends(self) -> Ends:
        """Its offsets."""
        offsets = self.partition.log.offsets
        return Ends(
            offsets.log_start,
            offsets.last_stable_offset,
            offsets.high_watermark.message_offset,
            offsets.log_end.message_offset,
        )

    @property
    def leader_epoch(self) -> int:
        """The epoch of appends."""
        return self.partition.leader_epoch

    @property
    def is_online(self) -> bool:
        """Whether it has a log."""
        return self.partition.is_online

    @property
    def epochs(self) -> Iterable[EpochEntry]:
        """The leader epochs and where each begins; one in which nothing was written yet: at the log end.

        Kafka notes an epoch when it begins. A consumer that was told of it asks where it ends, and resets its
        position if the answer is that it is not known.
        """
        log = self.partition.log
        noted = log.epoch_entries
        if noted and noted[-1].epoch >= self.leader_epoch:
            return noted
        cache = LeaderEpochCache(noted)
        cache.assign(self.leader_epoch, log.log_end_offset)
        return cache.entries

    def read(self, offset: int, max_bytes: int, isolation: FetchIsolation, whole: bool) -> FetchData:
        """Batches from an offset on."""
        return self.partition.read(offset, max_bytes, isolation, whole)

    def find_time(self, timestamp: int) -> TimestampOffset | None:
        """What a timestamp finds."""
        return self.partition.offset_for_timestamp(timestamp)

    def epoch_end(self, epoch: int) -> EpochEndOffset:
        """Where a leader epoch ends."""
        log = self.partition.log
        if log.latest_epoch == self.leader_epoch:
            return log.end_offset_for(epoch)
        return LeaderEpochCache(self.epochs).end_offset_for(epoch, log.log_end_offset)


class SeenLog:
    """A log that is only looked at."""

    __slots__ = ("partition", "topic_partition")

    is_online = True

    def __init__(self, partition: ReadOnlyPartition) -> None:
        self.partition = partition
        self.topic_partition = partition.topic_partition

    @property
    def ends(self) -> Ends:
        """Its offsets; the end of what can be read counts as the high watermark."""
        found = self.partition.offsets
        stable = min(found.last_stable, found.log_end)
        return Ends(found.log_start, stable, found.log_end, found.log_end)

    @property
    def leader_epoch(self) -> int:
        """The newest epoch that has written."""
        return max((entry.epoch for entry in self.epochs), default=0)

    @property
    def epochs(self) -> Iterable[EpochEntry]:
        """The leader epochs and where each begins."""
        path = f"{self.partition.path}/{LEADER_EPOCH_FILE}"
        return read_epoch_checkpoint(LOCAL, path) if LOCAL.exists(path) else ()

    def read(self, offset: int, max_bytes: int, isolation: FetchIsolation, whole: bool) -> FetchData:
        """Batches from an offset on."""
        if isolation is FetchIsolation.HIGH_WATERMARK:
            isolation = FetchIsolation.LOG_END
        return self.partition.read(offset, max_bytes, isolation, whole)

    def find_time(self, timestamp: int) -> TimestampOffset | None:
        """What a timestamp finds."""
        return self.partition.offset_for_timestamp(timestamp)

    def epoch_end(self, epoch: int) -> EpochEndOffset:
        """Where a leader epoch ends."""
        return LeaderEpochCache(self.epochs).end_offset_for(epoch, self.ends.log_end)


def epoch_at(log: ServedLog, offset: int) -> int:
    """The leader epoch that wrote an offset; -1 where none is known."""
    found = -1
    for entry in log.epochs:
        if entry.start_offset > offset:
            break
        found = entry.epoch
    return found


@dataclass(frozen=True, slots=True)
class ServedTopic:
    """A topic, as handlers see it."""

    name: str
    topic_id: uuid.UUID | None
    config: Mapping[str, str]
    logs: Mapping[int, ServedLog]


class Catalog(Protocol):
    """All topics, and whose they are."""

    node_id: int
    cluster_id: str

    @property
    def store(self) -> Store:
        """The store, to change it; RefusedError where it is served read-only."""

    @property
    def is_writable(self) -> bool:
        """Whether there is a store that can be changed."""

    def names(self) -> Iterable[str]:
        """The names of all topics."""

    def topic(self, name: str) -> ServedTopic | None:
        """A topic by its name."""

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        """The name of the topic with an id."""

    def log(self, name: str, number: int) -> ServedLog | None:
        """A partition's log."""

    def partition_count(self, name: str) -> int | None:
        """How many partitions a topic has."""

    def topic_id(self, name: str) -> uuid.UUID | None:
        """A topic's id."""

    def leader_epoch(self, name: str, partition: int) -> int:
        """The leader epoch of a partition; 0 where there is none yet."""


class StoreCatalog:
    """The topics of a store that this process holds."""

    is_writable = True

    def __init__(self, store: Store) -> None:
        self.store = store
        identity = store.roots[0].identity
        self.node_id = identity.node_id
        self.cluster_id = identity.cluster_id
        self._topics: dict[str, ServedTopic] = {}
        self._names: dict[uuid.UUID, str] = {}
        self._source: dict[str, Any] = {}
        self.refresh()

    def refresh(self) -> None:
        """Take over what has changed in the store: topics, partitions and their configuration."""
        served = {
            topic.name: ServedTopic(
                topic.name,
                topic.topic_id,
                topic.config,
                {number: self._log(topic.name, one) for number, one in sorted(topic.partitions.items())},
            )
            for topic in self.store.topics.values()
        }
        self._names = {topic.topic_id: topic.name for topic in served.values() if topic.topic_id}
        self._topics = served

    def _log(self, name: str, partition: Partition) -> HeldLog:
        """The log as it was served before, where it is the same partition."""
        old = self._topics.get(name)
        known = old.logs.get(partition.topic_partition.partition) if old is not None else None
        if isinstance(known, HeldLog) and known.partition is partition:
            return known
        return HeldLog(partition)

    def names(self) -> Iterable[str]:
        """The names of all topics."""
        return list(self._topics)

    def topic(self, name: str) -> ServedTopic | None:
        """A topic by its name."""
        return self._topics.get(name)

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        """The name of the topic with an id."""
        return self._names.get(topic_id)

    def log(self, name: str, number: int) -> ServedLog | None:
        """A partition's log."""
        topic = self._topics.get(name)
        return None if topic is None else topic.logs.get(number)

    def partition_count(self, name: str) -> int | None:
        """How many partitions a topic has."""
        topic = self._topics.get(name)
        return None if topic is None else len(topic.logs)

    def topic_id(self, name: str) -> uuid.UUID | None:
        """A topic's id."""
        topic = self._topics.get(name)
        return None if topic is None else topic.topic_id

    def leader_epoch(self, name: str, partition: int) -> int:
        """The leader epoch of a partition; 0 where there is none yet."""
        log = self.log(name, partition)
        return 0 if log is None else log.leader_epoch


class ReadOnlyCatalog:
    """The topics of roots that are only looked at."""

    is_writable = False

    def __init__(self, seen: ReadOnlyStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._seen = seen
        self._clock = clock
        self._looked_at = float("-inf")
        self._topics: dict[str, ServedTopic] = {}
        meta = None
        path = f"{seen.roots[0]}/{META_PROPERTIES_FILE}"
        if LOCAL.exists(path):
            meta = read_meta_properties(LOCAL, path)
        self.node_id = 1 if meta is None or meta.node_id is None else meta.node_id
        self.cluster_id = "" if meta is None or meta.cluster_id is None else meta.cluster_id

    @property
    def store(self) -> Store:
        """There is none."""
        raise RefusedError(Code.CLUSTER_AUTHORIZATION_FAILED, "this broker serves its roots read-only")

    def _look(self) -> dict[str, ServedTopic]:
        if self._clock() - self._looked_at > _LOOK_S:
            self._topics = {
                topic.name: ServedTopic(
                    topic.name,
                    topic.topic_id,
                    topic.config,
                    {number: SeenLog(one) for number, one in sorted(topic.partitions.items())},
                )
                for topic in self._seen.topics.values()
            }
            self._looked_at = self._clock()
        return self._topics

    def names(self) -> Iterable[str]:
        """The names of all topics."""
        return list(self._look())

    def topic(self, name: str) -> ServedTopic | None:
        """A topic by its name."""
        return self._look().get(name)

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        """The name of the topic with an id."""
        return next((topic.name for topic in self._look().values() if topic.topic_id == topic_id), None)

    def log(self, name: str, number: int) -> ServedLog | None:
        """A partition's log."""
        topic = self.topic(name)
        return None if topic is None else topic.logs.get(number)

    def partition_count(self, name: str) -> int | None:
        """How many partitions a topic has."""
        topic = self.topic(name)
        return None if topic is None else len(topic.logs)

    def topic_id(self, name: str) -> uuid.UUID | None:
        """A topic's id."""
        topic = self.topic(name)
        return None if topic is None else topic.topic_id

    def leader_epoch(self, name: str, partition: int) -> int:
        """The leader epoch of a partition; 0 where there is none."""
        log = self.log(name, partition)
        return 0 if log is None else log.leader_epoch
