"""Opening a store: from root directories to topics whose logs are loaded.

1. Every root is locked and looked at; all must belong to one node of one cluster. A root that cannot be
   opened is offline, unless it is the first. A root that was not closed cleanly is refused unless recovery
   was asked for. Up to here nothing has changed.
2. The metadata says which topics there are. Where there is no metadata at all, and the roots are nobody's,
   what is found is adopted.
3. Each directory is judged (`directories`). What belongs to no topic is left as it is and reported; only with
   `adopt` is it set aside.
4. Roots are claimed. If that was asked for, they are recovered: all logs in them, as `tidelog recover` does.
5. The logs are loaded, a few at a time in each root; a log that cannot be loaded is offline.
6. Registered partitions that have no directory get one, as a broker gives them: creating a topic may have
   been cut short after it was registered.
7. A bulk write that was cut short is carried out or taken back (`publishing`).
8. What was adopted or recovered is registered.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError, LogError, TidelogError
from tidelog.layout.config import known_config
from tidelog.layout.partitions import check_no_partition
from tidelog.layout.roots import (
    Checkpoint,
    Root,
    Skipped,
    check_clean,
    unclean,
)
from tidelog.log import Log
from tidelog.manager.metadata.files import home_of_metadata
from tidelog.manager.metadata.registry import Registry
from tidelog.manager.publishing.applying import check_pending, finish_pending
from tidelog.manager.store.checkpointed import Checkpointed
from tidelog.manager.store.directories import (
    Found,
    Judged,
    Verdict,
    check_free,
    find_directories,
    hold_back_copies,
    judge,
    metadata_elsewhere,
)
from tidelog.manager.store.environment import Environment
from tidelog.manager.store.events import EventDispatcher, LogFailed, RootWentOffline
from tidelog.manager.store.holding import hold_roots
from tidelog.manager.store.loading import Loaded, LoadJob, load_logs
from tidelog.manager.store.open_options import OpenOptions
from tidelog.manager.store.partition import Partition, close_all
from tidelog.manager.store.placement import place
from tidelog.manager.store.tidying import set_aside
from tidelog.manager.store.topics import Topic
from tidelog.manager.upkeep.kept_aside import KeepingFileSystem
from tidelog.manager.upkeep.recovery import recover_logs
from tidelog.storage.metadata import random_id
from tidelog.storage.names import CLEAN_SHUTDOWN_FILE, DirectoryState
from tidelog.storage.write_journal import JOURNAL_FILE, read_journal
from tidelog.types import TopicPartition

__all__ = ["Opened", "open_roots"]

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Opened:
    """What opening found."""

    roots: list[Root]
    registry: Registry
    topics: dict[str, Topic] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    """Directories that are waiting to be deleted."""
    skipped: list[Skipped] = field(default_factory=list)
    unknown: list[tuple[Root, Judged]] = field(default_factory=list)
    """Directories that belong to no topic, and are left as they are."""
    offline_roots: dict[str, BaseException] = field(default_factory=dict)
    options: OpenOptions = field(default_factory=OpenOptions)
    checkpointed: Checkpointed = field(default_factory=Checkpointed)
    elsewhere: str | None = None
    """Why topics cannot be made here: the metadata is on another disk."""

    def why_missing(self, name: str) -> str:
        """The message about a topic that does not exist."""
        if name in self.registry.image.topics and name not in self.topics:
            return f"topic {name!r} was not opened: this store is for {sorted(self.topics)} alone"
        unknown = [one for _, one in self.unknown if one.topic == name]
        if not unknown:
            return f"there is no topic {name!r}"
        why = self.elsewhere or f"{unknown[0].reason}; adopt=True (--adopt) takes it in"
        return f"there is a directory {unknown[0].found.name}, but no topic {name!r}: {why}"

    def unopened(self, name: str) -> Topic | None:
        """A topic that the metadata knows, but that was not opened: without its partitions."""
        known = self.registry.image.topics.get(name)
        if known is None or name in self.topics:
            return None
        return Topic(name, known.topic_id, self.registry.image.topic_config(name))

    def check_whole(self, topic: str) -> None:
        """Refuse to delete a topic of which only some partitions were opened."""
        if not self.options.wants_all_of(topic):
            raise InvalidInputError(f"only some partitions of topic {topic!r} were opened: open all of it")

    def check_free(self, topic: str, numbers: Sequence[int]) -> None:
        """Refuse new partitions where directories of that name are, which no metadata knows."""
        for root in self.roots:
            if root.offline is None:
                check_free(root.fs, root.path, topic, numbers)


def open_roots(paths: Sequence[str], env: Environment, options: OpenOptions) -> Opened:
    """Open a store's roots and load what is in them."""
    if not paths:
        raise InvalidInputError("a store needs at least one root directory")
    for path in paths:
        check_no_partition(env.fs, path)
    roots, offline = hold_roots(paths, env, options.create)
    opening = None
    try:
        opening = _Opening(roots, offline, env, options)
        return opening.run()
    except BaseException:
        if opening is not None:
            opening.leave_in_order()
        for root in roots:
            root.release()
        raise


class _Opening:
    def __init__(
        self, roots: list[Root], offline: dict[str, BaseException], env: Environment, options: OpenOptions
    ) -> None:
        self._env = env
        self._fs = env.fs
        self._options = options
        home = home_of_metadata(env.fs, [root.path for root in roots])
        registry = Registry(env.fs, home, roots[0].identity.node_id, env.now_ms)
        self._opened = Opened(roots, registry, offline_roots=offline, options=options)
        self._by_id = {root.identity.directory_id: root for root in roots}
        self._configs: dict[str, LogConfig] = {}
        journals = (read_journal(env.fs, root.path).pending for root in roots)
        self._pending = frozenset(
            one.topic_partition.topic for write in journals if write for one in write.partitions
        )
        self._was_new = registry.is_new
        self._recovered: set[Root] = set()
        self._adopted: set[TopicPartition] = set()
        self._failed: dict[str, str] = {}
        """Logs that could not be recovered, and why."""

    def run(self) -> Opened:
        opened, options = self._opened, self._options
        for root in opened.roots:
            check_pending(self._fs, root)
        for root in opened.roots:
            if not options.recover:
                check_clean(self._fs, root.facts)
            root.in_order = not unclean(self._fs, root.facts)
        may_adopt = self._may_adopt()
        judged = self._judge(may_adopt)
        for one in judged:
            if one.verdict is Verdict.CONFLICT and one.topic not in opened.registry.image.topics:
                raise LogError(one.reason)  # nothing is registered yet that could be offline
        self._claim_roots()
        if options.recover:
            self._recover(
                {(one.found.directory_id, one.found.name) for one in judged if one.found.is_foreign}
            )
        for root in opened.roots:
            opened.skipped += root.facts.skipped
        opened.skipped += [Skipped("the metadata", what) for what in opened.registry.image.passed_over]
        self._make_topics(judged)
        jobs = self._settle(judged)
        self._load(jobs)
        self._make_missing()
        self._note_unknown()
        self._finish_writes()
        # Where the metadata is on another disk, none is begun here: there would be two of it.
        if may_adopt or (opened.elsewhere is None and (options.recover or self._was_new)):
            self._register()
        return opened

    def _judge(self, may_adopt: bool) -> list[Judged]:
        image, roots = self._opened.registry.image, self._opened.roots
        judged = judge(self._found(), image, adopt=may_adopt)
        if may_adopt or any(root.facts.meta is None or not root.facts.meta.directory_id for root in roots):
            return judged  # a root without an id of its own may be the one that is registered
        return hold_back_copies(judged, image, node_id=roots[0].identity.node_id, roots=self._by_id.keys())

    def _may_adopt(self) -> bool:
        """Whether unregistered partitions are taken in: where nobody has said what belongs here, they are.

        A root that is somebody's, by its `meta.properties`, has its metadata: if not here, on another disk.
        """
        if self._options.adopt is not None:
            return self._options.adopt
        nobodys = all(root.facts.meta is None or not root.facts.partitions for root in self._opened.roots)
        return self._was_new and nobodys

    def _claim_roots(self) -> None:
        opened = self._opened
        for root in list(opened.roots):
            try:
                root.claim()
            except OSError as error:
                if root is opened.roots[0]:
                    raise
                opened.roots.remove(root)
                opened.offline_roots[root.path] = error
                del self._by_id[root.identity.directory_id]
                root.release()
                self._env.tell(RootWentOffline(root.path, str(error)))

    def leave_in_order(self) -> None:
        """Close what was opened, because opening has failed: roots that were in order are so again.

        One whose logs cannot be closed, or whose disk fails, has to be recovered. One that was not claimed
        yet keeps the file that it has.
        """
        partitions = [one for topic in self._opened.topics.values() for one in topic]
        for root in close_all(partitions, self._opened.roots, 1):
            with suppress(OSError):
                if root.facts.clean and not self._fs.exists(root.file(CLEAN_SHUTDOWN_FILE)):
                    root.write_clean_shutdown()

    def _recover(self, foreign: Collection[tuple[uuid.UUID, str]]) -> None:
        """Recover the roots that were not closed cleanly: all logs in them, whoever knows them."""
        for root in self._opened.roots:
            if root.in_order:
                continue
            keeping = None if self._options.discard else KeepingFileSystem(self._fs)
            done = recover_logs(
                keeping or self._fs,
                root,
                [name for name in root.facts.logs if (root.identity.directory_id, name) not in foreign],
                image=self._opened.registry.image,
                broker=self._env.config,
                threads=self._env.config.num_recovery_threads_per_data_dir,
                tell=self._env.tell,
                now_ms=self._env.now_ms,
            )
            self._failed |= {one.path: one.error for one in done if one.error is not None}
            self._recovered.add(root)
            root.in_order = all(one.error is None for one in done)
            for name, size in keeping.kept if keeping is not None else ():
                _logger.warning("recovery has kept %d bytes that it cut off in %s", size, name)

    def _found(self) -> list[Found]:
        report = self._opened.skipped.append
        roots = self._opened.roots
        each = (find_directories(self._fs, one.facts, one.identity.directory_id, report) for one in roots)
        return [found for listed in each for found in listed]

    # Topics

    def _make_topics(self, judged: Sequence[Judged]) -> None:
        """Topics and partitions as registered and adopted, without logs yet."""
        topics = self._opened.topics
        image = self._opened.registry.image
        node_id = self._opened.roots[0].identity.node_id
        here = {
            one.found.topic_partition for one in judged if one.verdict in (Verdict.LOAD, Verdict.CONFLICT)
        }
        for name, known in image.topics.items():
            if not (self._options.wants_some_of(name) or name in self._pending):
                continue
            topic = topics[name] = Topic(name, known.topic_id, image.topic_config(name))
            for number, facts in known.partitions.items():
                partition = TopicPartition(name, number)
                if self._is_wanted(partition) and (node_id in facts.replicas or partition in here):
                    others = tuple(replica for replica in facts.replicas if replica != node_id)
                    made = Partition(partition, known.topic_id, facts.leader_epoch, others)
                    made.force = self._options.force
                    topic.partitions[number] = made
        ids: dict[str, uuid.UUID] = {}
        adopted = [
            one
            for one in judged
            if one.verdict is Verdict.ADOPT and self._is_wanted(one.found.topic_partition)
        ]
        for one in adopted:
            if one.found.topic_id is not None:
                ids[one.found.topic_partition.topic] = one.found.topic_id
        for one in adopted:
            partition = one.found.topic_partition
            if partition.topic not in topics:
                topics[partition.topic] = Topic(partition.topic, ids.get(partition.topic) or random_id())
            topic = topics[partition.topic]
            topic.partitions[partition.partition] = Partition(partition, topic.topic_id, 0)
            self._adopted.add(partition)
        for topic in topics.values():
            config, faults = known_config(topic.config, self._env.config.topic_defaults)
            self._configs[topic.name] = config
            self._opened.skipped += [Skipped(f"config of topic {topic.name}", fault) for fault in faults]

    def _is_wanted(self, partition: TopicPartition) -> bool:
        """Whether a partition is to be opened: it is asked for, or a write to it has to be finished."""
        return self._options.wants(partition) or partition.topic in self._pending

    def _partition(self, partition: TopicPartition) -> Partition:
        return self._opened.topics[partition.topic].partitions[partition.partition]

    # Directories

    def _settle(self, judged: Sequence[Judged]) -> dict[Root, list[LoadJob]]:
        """Act on the verdicts; what is to be loaded."""
        jobs: dict[Root, list[LoadJob]] = {root: [] for root in self._opened.roots}
        for one in judged:
            root = self._by_id.get(one.found.directory_id)
            if root is None:  # it went offline since
                continue
            path = root.file(one.found.name)
            wanted = self._is_wanted(one.found.topic_partition)
            match one.verdict:
                case Verdict.LEAVE if one.reason:
                    self._opened.skipped.append(Skipped(path, one.reason))
                case Verdict.DELETE:
                    self._opened.deleted.append(path)
                case Verdict.STRAY if self._options.adopt and wanted:
                    set_aside(self._fs, root, one, self._env.tell)
                case Verdict.STRAY:
                    self._opened.unknown.append((root, one))
                    self._opened.skipped.append(Skipped(path, f"{one.reason}; left as it is"))
                case Verdict.CONFLICT if wanted:
                    self._fail(one.found.topic_partition, path, LogError(one.reason), None)
                case Verdict.LOAD | Verdict.ADOPT if wanted and path in self._failed:
                    error = LogError(f"recovery failed: {self._failed[path]}")
                    self._fail(one.found.topic_partition, path, error, root)
                case Verdict.LOAD | Verdict.ADOPT if wanted:
                    jobs[root].append(self._job(root, one, path))
                case _:
                    pass
        return jobs

    def _fail(self, partition: TopicPartition, path: str, error: Exception, root: Root | None) -> None:
        self._partition(partition).go_offline(error, root)
        _logger.error("%s is offline: %s", path, error)
        self._env.tell(LogFailed(partition, path, str(error)))

    def _job(self, root: Root, one: Judged, path: str) -> LoadJob:
        partition = one.found.topic_partition
        topic = self._opened.topics[partition.topic]
        point = root.checkpoints[Checkpoint.RECOVERY_POINTS].get(partition, 0)
        start = root.checkpoints[Checkpoint.LOG_STARTS].get(partition, 0)

        known = one.found.topic_id == topic.topic_id  # and need not be read again

        def load(recovered: Callable[[int], None]) -> Log:
            return self._env.open_log(
                path,
                self._configs[topic.name],
                topic_id=None if known else topic.topic_id,
                clean=True,
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
                clean=True,
                threads=self._env.config.num_recovery_threads_per_data_dir,
                # Of a root that was recovered, that is what is told.
                tell=EventDispatcher() if root in self._recovered else self._env.tell,
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
                    partition = self._partition(one.job.partition)
                    partition.attach(one.log, root)
                    if partition.topic_partition not in self._adopted:
                        self._opened.checkpointed.found(root, partition)
                elif one.error is not None:
                    self._fail(one.job.partition, one.job.path, one.error, root)

    def _make_missing(self) -> None:
        """Give registered partitions without a directory an empty log, if their root is here."""
        image = self._opened.registry.image
        for topic in self._opened.topics.values():
            known = image.topics.get(topic.name)
            for partition in topic:
                if partition.root is not None or partition.has_failed or known is None:
                    continue
                if partition.others:
                    partition.go_offline(
                        LogError(f"brokers {list(partition.others)} hold it; this disk does not")
                    )
                    continue
                number = partition.topic_partition.partition
                node_id = self._opened.roots[0].identity.node_id
                self._make(topic, partition, known.partitions[number].directory_of(node_id))

    def _make(self, topic: Topic, partition: Partition, directory_id: uuid.UUID | None) -> None:
        root = None if directory_id is None else self._by_id.get(directory_id)
        if root is None and directory_id is not None:
            partition.go_offline(LogError("the root that has it is not open"))
            return
        if root is None and self._opened.offline_roots:
            # It may be there. LogManager: "Can not create log because log directories are offline".
            offline = ", ".join(self._opened.offline_roots)
            why = f"it is in none of the open roots, so it may be in {offline}, which cannot be opened"
            partition.go_offline(
                LogError(f"{why}: repair that disk, or open without it if it is gone for good")
            )
            return
        if root is None:
            counts = {root: len(root.facts.directories) for root in self._opened.roots}
            root = place([0], self._opened.roots, counts)[0]
        path = root.file(str(partition.topic_partition))
        try:
            root.forget([partition.topic_partition])
            log = self._env.open_log(path, self._configs[topic.name], topic_id=topic.topic_id, clean=True)
            self._fs.sync_directory(root.path)
            partition.attach(log, root)
        except (OSError, TidelogError) as error:
            self._fail(partition.topic_partition, path, error, root)

    def _note_unknown(self) -> None:
        """Note whether the metadata that should know what is here is elsewhere."""
        opened = self._opened
        unknown = [
            one.found.name for _, one in opened.unknown if one.found.parsed.state is DirectoryState.LIVE
        ]
        registry = opened.registry
        opened.elsewhere = metadata_elsewhere(registry.image, registry.in_log, unknown)

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
