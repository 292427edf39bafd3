"""Opening a store: from root directories to topics whose logs are loaded.

1. Every root is locked and says whose it is; all must belong to one node of one cluster. A root that cannot
   be opened is offline, unless it is the one with the metadata.
2. The metadata says which topics there are. Where there is no metadata at all, nobody has said yet: what is
   found is adopted.
3. Each directory meets its fate (`survey`).
4. The logs are loaded, a few at a time in each root; a log that cannot be loaded is offline.
5. Registered partitions that have no directory get one, as a broker gives them: creating a topic may have
   been cut short after it was registered.
6. A bulk write that was cut short is carried out or taken back (`publishing`).
7. What was adopted, and what the logs know better, is registered.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tidelog.config import LogConfig
from tidelog.errors import InvalidIndexError, InvalidInputError, LogError, TidelogError
from tidelog.log import Log, Scheduler
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.metadata.files import METADATA_DIRECTORY
from tidelog.manager.metadata.registry import Registry
from tidelog.manager.publishing.applying import check_pending, finish_pending
from tidelog.manager.store.events import LogFailed, LogStrayed, RootWentOffline, Teller
from tidelog.manager.store.loading import Loaded, LoadJob, load_logs
from tidelog.manager.store.partition import Partition
from tidelog.manager.store.placement import place
from tidelog.manager.store.root import Checkpoint, Contents, Root, Skipped, open_root
from tidelog.manager.store.survey import Fate, Found, Judged, judge
from tidelog.manager.store.topics import Topic, known_config
from tidelog.storage import FileSystem
from tidelog.storage.metadata import random_id, read_partition_metadata
from tidelog.storage.names import (
    PARTITION_METADATA_FILE,
    DirectoryState,
    format_partition_directory,
)
from tidelog.storage.write_journal import JOURNAL_FILE
from tidelog.types import TopicPartition

__all__ = ["Environment", "Opened", "open_roots"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Environment:
    """What a store works with."""

    fs: FileSystem
    config: BrokerConfig
    now_ms: Callable[[], int]
    scheduler: Scheduler
    tell: Teller

    def open_log(
        self,
        path: str,
        config: LogConfig,
        *,
        topic_id: uuid.UUID | None = None,
        clean: bool = False,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        recovered: Callable[[int], None] = lambda size: None,
    ) -> Log:
        """A log as this store runs it."""
        return Log.open(
            path,
            config,
            clean=clean,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            topic_id=topic_id,
            fs=self.fs,
            now_ms=self.now_ms,
            scheduler=self.scheduler,
            producer_id_expiration_ms=self.config.producer_id_expiration_ms,
            max_transaction_timeout_ms=self.config.transaction_max_timeout_ms,
            recovered=recovered,
        )


@dataclass(slots=True)
class Opened:
    """What opening found."""

    roots: list[Root]
    registry: Registry
    topics: dict[str, Topic] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    """Directories that are waiting to be deleted."""
    skipped: list[Skipped] = field(default_factory=list)
    offline_roots: dict[str, BaseException] = field(default_factory=dict)


def open_roots(paths: Sequence[str], env: Environment, *, create: bool, adopt: bool | None) -> Opened:
    """Open a store's roots and load what is in them."""
    if not paths:
        raise InvalidInputError("a store needs a root directory at least")
    roots, offline = _open_roots(paths, env, create)
    try:
        return _Opening(roots, offline, env).run(adopt)
    except BaseException:
        for root in roots:
            root.release()
        raise


def _open_roots(
    paths: Sequence[str], env: Environment, create: bool
) -> tuple[list[Root], dict[str, BaseException]]:
    roots: list[Root] = []
    offline: dict[str, BaseException] = {}
    node_id, cluster_id = env.config.node_id, None
    try:
        for path in paths:
            try:
                root = open_root(path, env.fs, create=create, node_id=node_id, cluster_id=cluster_id)
            except (OSError, InvalidIndexError) as error:
                if not roots:  # the first one has the metadata, or would have it
                    raise
                offline[path] = error
                env.tell(RootWentOffline(path, str(error)))
                continue
            roots.append(root)
            node_id, cluster_id = root.identity.node_id, root.identity.cluster_id
    except BaseException:
        for root in roots:
            root.release()
        raise
    return roots, offline


class _Opening:
    def __init__(self, roots: list[Root], offline: dict[str, BaseException], env: Environment) -> None:
        self._env = env
        self._fs = env.fs
        home = [root for root in roots if env.fs.exists(root.file(METADATA_DIRECTORY))]
        if len(home) > 1:
            both = " and ".join(root.path for root in home)
            raise LogError(f"{both} both have a metadata log: they do not belong to one node")
        registry = Registry(env.fs, (home or roots)[0].path, roots[0].identity.node_id, env.now_ms)
        self._opened = Opened(roots, registry, offline_roots=offline)
        self._contents: dict[Root, Contents] = {}
        self._by_id = {root.identity.directory_id: root for root in roots}
        self._configs: dict[str, LogConfig] = {}

    def run(self, adopt: bool | None) -> Opened:
        opened = self._opened
        registry = opened.registry
        for root in opened.roots:
            check_pending(self._fs, root)
        self._read_roots()
        may_adopt = registry.is_new if adopt is None else adopt
        judged = judge(self._found(), registry.image, adopt=may_adopt)
        self._make_topics(judged)
        jobs = self._settle(judged)
        self._load(jobs)
        self._make_missing()
        self._finish_writes()
        self._register()
        return opened

    def _read_roots(self) -> None:
        opened = self._opened
        for root in list(opened.roots):
            try:
                self._contents[root] = root.read()
                opened.skipped += self._contents[root].skipped
            except OSError as error:
                if root is opened.roots[0]:
                    raise
                opened.roots.remove(root)
                opened.offline_roots[root.path] = error
                del self._by_id[root.identity.directory_id]
                root.release()
                self._env.tell(RootWentOffline(root.path, str(error)))

    def _found(self) -> list[Found]:
        found = []
        for root, contents in self._contents.items():
            for name, parsed in contents.directories.items():
                topic_id = None
                if parsed.state is DirectoryState.LIVE:
                    topic_id = self._topic_id(f"{root.file(name)}/{PARTITION_METADATA_FILE}")
                found.append(Found(root.identity.directory_id, name, parsed, topic_id))
        return found

    def _topic_id(self, path: str) -> uuid.UUID | None:
        try:
            return read_partition_metadata(self._fs, path).topic_id
        except FileNotFoundError:
            return None
        except (OSError, InvalidIndexError) as error:
            self._opened.skipped.append(Skipped(path, str(error)))
            return None

    # Topics

    def _make_topics(self, judged: Sequence[Judged]) -> None:
        """Topics and partitions as registered and adopted, without logs yet."""
        topics = self._opened.topics
        image = self._opened.registry.image
        node_id = self._opened.roots[0].identity.node_id
        for name, known in image.topics.items():
            topic = topics[name] = Topic(name, known.topic_id, image.topic_config(name))
            for number, facts in known.partitions.items():
                if node_id in facts.replicas:
                    partition = TopicPartition(name, number)
                    topic.partitions[number] = Partition(partition, known.topic_id, facts.leader_epoch)
        ids: dict[str, uuid.UUID] = {}
        adopted = [one for one in judged if one.fate is Fate.ADOPT]
        for one in adopted:
            if one.found.topic_id is not None:
                ids[one.found.topic_partition.topic] = one.found.topic_id
        for one in adopted:
            partition = one.found.topic_partition
            if partition.topic not in topics:
                topics[partition.topic] = Topic(partition.topic, ids.get(partition.topic) or random_id())
            topic = topics[partition.topic]
            topic.partitions[partition.partition] = Partition(partition, topic.topic_id, 0)
        for topic in topics.values():
            config, faults = known_config(topic.config, self._env.config.topic_defaults)
            self._configs[topic.name] = config
            self._opened.skipped += [Skipped(f"config of topic {topic.name}", fault) for fault in faults]

    def _partition(self, partition: TopicPartition) -> Partition:
        return self._opened.topics[partition.topic].partitions[partition.partition]

    # Directories

    def _settle(self, judged: Sequence[Judged]) -> dict[Root, list[LoadJob]]:
        """Act on the fates; what is to be loaded."""
        jobs: dict[Root, list[LoadJob]] = {root: [] for root in self._opened.roots}
        for one in judged:
            root = self._by_id[one.found.directory_id]
            path = root.file(one.found.name)
            match one.fate:
                case Fate.DELETE:
                    self._opened.deleted.append(path)
                case Fate.STRAY:
                    self._stray(root, one)
                case Fate.CONFLICT:
                    if one.found.topic_partition.topic not in self._opened.topics:
                        raise LogError(one.reason)  # nothing is registered yet that could be offline
                    self._fail(one.found.topic_partition, path, LogError(one.reason), root)
                case Fate.LOAD | Fate.ADOPT:
                    jobs[root].append(self._job(root, one, path))
                case Fate.LEAVE:
                    pass
        return jobs

    def _stray(self, root: Root, one: Judged) -> None:
        partition = one.found.topic_partition
        path = root.file(format_partition_directory(partition, DirectoryState.STRAY))
        self._fs.rename(root.file(one.found.name), path)
        self._fs.sync_directory(root.path)
        _logger.warning("%s became %s: %s", root.file(one.found.name), path, one.reason)
        self._env.tell(LogStrayed(partition, path, one.reason))

    def _fail(self, partition: TopicPartition, path: str, error: Exception, root: Root) -> None:
        self._partition(partition).go_offline(error, root)
        _logger.error("%s is offline: %s", path, error)
        self._env.tell(LogFailed(partition, path, str(error)))

    def _job(self, root: Root, one: Judged, path: str) -> LoadJob:
        contents, partition = self._contents[root], one.found.topic_partition
        topic = self._opened.topics[partition.topic]
        point = root.checkpoints[Checkpoint.RECOVERY_POINTS].get(partition, 0)
        start = root.checkpoints[Checkpoint.LOG_STARTS].get(partition, 0)

        known = one.found.topic_id == topic.topic_id  # and need not be read again

        def load(recovered: Callable[[int], None]) -> Log:
            return self._env.open_log(
                path,
                self._configs[topic.name],
                topic_id=None if known else topic.topic_id,
                clean=contents.clean,
                log_start_offset=start,
                recovery_point=point,
                recovered=recovered,
            )

        return LoadJob(partition, path, point, load)

    # Logs

    def _load(self, jobs: dict[Root, list[LoadJob]]) -> None:
        def load(root: Root) -> list[Loaded]:
            return load_logs(
                root.path,
                jobs[root],
                fs=self._fs,
                clean=self._contents[root].clean,
                threads=self._env.config.num_recovery_threads_per_data_dir,
                tell=self._env.tell,
            )

        roots = self._opened.roots
        if len(roots) == 1:
            results = [load(roots[0])]
        else:
            with ThreadPoolExecutor(len(roots), thread_name_prefix="tidelog-root") as pool:
                results = list(pool.map(load, roots))
        for root, loaded in zip(roots, results, strict=True):
            for one in loaded:
                if one.log is not None:
                    self._partition(one.job.partition).attach(one.log, root)
                elif one.error is not None:
                    self._fail(one.job.partition, one.job.path, one.error, root)

    def _make_missing(self) -> None:
        """Give registered partitions without a directory an empty log, if their root is here."""
        image = self._opened.registry.image
        for topic in self._opened.topics.values():
            known = image.topics.get(topic.name)
            for partition in topic:
                if partition.root is not None or known is None:
                    continue
                number = partition.topic_partition.partition
                self._make(topic, partition, known.partitions[number].directories)

    def _make(self, topic: Topic, partition: Partition, directories: Sequence[uuid.UUID]) -> None:
        root = next((self._by_id[one] for one in directories if one in self._by_id), None)
        if root is None and any(one.int > _RESERVED_IDS for one in directories):
            partition.go_offline(LogError("the root that has it is not open"))
            return
        if root is None:
            counts = {root: len(self._contents[root].directories) for root in self._opened.roots}
            root = place([0], self._opened.roots, counts)[0]
        path = root.file(str(partition.topic_partition))
        try:
            log = self._env.open_log(path, self._configs[topic.name], topic_id=topic.topic_id, clean=True)
            self._fs.sync_directory(root.path)
            partition.attach(log, root)
        except (OSError, TidelogError) as error:
            self._fail(partition.topic_partition, path, error, root)

    def _finish_writes(self) -> None:
        for root in self._opened.roots:
            finish_pending(self._fs, root, self._named)

    def _named(self, name: TopicPartition) -> Partition:
        topic = self._opened.topics.get(name.topic)
        if topic is None or name.partition not in topic.partitions:
            raise LogError(
                f"a write to {name} was cut short, and {name} is not here: open all roots of the store, "
                f"or remove the journal ({JOURNAL_FILE}) to keep what is there"
            )
        return topic.partitions[name.partition]

    def _register(self) -> None:
        opened = self._opened
        producers = [
            producer
            for topic in opened.topics.values()
            for partition in topic
            if partition.is_online
            for producer in partition.log.active_producers
        ]
        opened.registry.register(
            [topic.registration() for topic in opened.topics.values()],
            largest_producer_id=max(producers, default=-1),
        )


_RESERVED_IDS = 100
"""Directory ids up to this one are no directories: unassigned, lost, migrating."""
