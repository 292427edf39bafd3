"""Many logs over many roots: the coordinator.

    with tidelog.open("/data") as store:
        store.create_topic("orders", partitions=3, config={"retention.ms": "-1"})
        store.partition("orders", 0).append([Record(b"value", b"key")], sync=True)

A topic is there when it is registered, and gone when it is not: creating one registers it, then makes its
directories; deleting one unregisters it, then renames them. What a crash leaves in between, the next opening
brings in order. Closing finishes what was to be deleted, closes every log, writes the checkpoints and then,
in each root where all went well, says that it was closed cleanly.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tidelog.cleanup import RetentionPlan
from tidelog.config import LogConfig
from tidelog.errors import (
    FlushError,
    InvalidInputError,
    LogClosedError,
    LogError,
    LogOfflineError,
    TidelogError,
    TopicExistsError,
)
from tidelog.layout.config import known_config, texts
from tidelog.layout.roots import Checkpoint, Root, Skipped
from tidelog.log import Log
from tidelog.manager.background.cleaner_states import CleanerStates
from tidelog.manager.background.cleaning import Cleaning
from tidelog.manager.background.maintenance import Maintenance
from tidelog.manager.background.scheduler import BackgroundThread, TaskQueue, monotonic_ms
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.store.creation import Creation
from tidelog.manager.store.environment import Environment
from tidelog.manager.store.metrics import StoreMetrics, measure
from tidelog.manager.store.moves import move_log, root_named, unfinished_moves
from tidelog.manager.store.opening import Opened
from tidelog.manager.store.partition import Partition, close_all
from tidelog.manager.store.tidying import set_aside
from tidelog.manager.store.topic_mapping import TopicMapping
from tidelog.manager.store.topics import Topic
from tidelog.storage.forks import is_orphan, watch
from tidelog.storage.metadata import random_id
from tidelog.storage.names import (
    CLUSTER_METADATA_TOPIC,
    DirectoryState,
    format_partition_directory,
    validate_topic,
)
from tidelog.storage.removal import remove_tree
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from _typeshed import StrPath

    from tidelog.cleanup.cleaner import CleanReport

__all__ = ["Store"]

_logger = logging.getLogger(__name__)

_NEVER_MS = 1 << 53


class Store(TopicMapping[Topic, Partition]):
    """Open roots; made by `open_store` (`opener`)."""

    def __init__(
        self, opened: Opened, env: Environment, queue: TaskQueue, *, background: bool | None
    ) -> None:
        self._env = env
        self._opened = opened
        self._topics = opened.topics
        self._queue = queue
        self._lock = threading.RLock()  # held by whoever changes topics
        self._closed = False
        states = CleanerStates()
        parts = (lambda: self.partitions, env.config, env.now_ms, env.tell, states)
        self._maintenance = maintenance = Maintenance(opened.roots, *parts, opened.checkpointed)
        self._cleaning = Cleaning(*parts, maintenance.retain, maintenance.take_offline)
        self._creation = Creation(
            env, opened.registry, self._online_roots, lambda: self.partitions, maintenance.take_offline
        )
        self._states = states
        self._lower_recovery_points()
        watch(self)
        self._threads: list[BackgroundThread] = []
        maintenance.schedule(queue)
        if background is not None:
            self._schedule_upkeep(background)
        if background is not False:
            self._threads.append(BackgroundThread(queue))

    def _lower_recovery_points(self) -> None:
        """Write down recovery points that opening has lowered, before anything is appended.

        A log can end below its checkpoint: a truncation inside of a batch takes the batch whole, and recovery
        cuts. What is appended there next is not on the disk yet, and the old checkpoint would vouch for it.
        """
        for partition in self.partitions:
            root = partition.root
            if root is None or not partition.is_online:
                continue
            known = root.checkpoints[Checkpoint.RECOVERY_POINTS].get(partition.topic_partition, 0)
            if known > partition.log.recovery_point:
                with partition.gate:
                    failure = self._maintenance.lower_checkpoints(partition)
                if failure is not None:
                    self._maintenance.take_offline(root, failure)

    def _schedule_upkeep(self, background: bool) -> None:
        """Have old segments, compacted records and directories of deleted topics removed by the clock."""
        config = self._env.config
        self._maintenance.schedule_retention(self._queue)
        self._threads += self._begin_to_clean(background)
        delay_ms = config.topic_defaults.file_delete_delay_ms
        # Not a task that closing would hurry to finish: nobody has asked this store for it.
        self._queue.schedule(
            "delete-directories", self._delete_leftovers, period_ms=_NEVER_MS, delay_ms=delay_ms
        )

    def _delete_leftovers(self) -> None:
        """Remove directories of topics that were deleted before the store was opened."""
        while self._opened.deleted:
            remove_tree(self._env.fs, self._opened.deleted.pop())

    def _begin_to_clean(self, background: bool) -> list[BackgroundThread]:
        """Have logs compacted: in a thread of its own, because that can take long, or with other tasks."""
        config = self._env.config
        if not config.log_cleaner_enable:
            return []
        queue = TaskQueue(monotonic_ms) if background else self._queue
        delay_ms = 0 if background else config.log_initial_task_delay_ms
        period_ms = config.log_cleaner_backoff_ms
        queue.schedule("clean", self._cleaning.clean_due, period_ms=period_ms, delay_ms=delay_ms)
        return [BackgroundThread(queue, "tidelog-cleaner")] if background else []

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """With its roots."""
        return f"Store({', '.join(root.path for root in self.roots)})"

    # What there is

    @property
    def roots(self) -> list[Root]:
        """The roots that were opened; `Root.offline` is set if one has failed since."""
        return list(self._opened.roots)

    @property
    def config(self) -> BrokerConfig:
        """The broker's configuration, which topics inherit."""
        return self._env.config

    @property
    def offline_roots(self) -> dict[str, str]:
        """Roots that cannot be used, and why."""
        found = {path: str(error) for path, error in self._opened.offline_roots.items()}
        return found | {root.path: str(root.offline) for root in self.roots if root.offline is not None}

    @property
    def offline_partitions(self) -> dict[TopicPartition, str]:
        """Partitions that cannot be used, and why."""
        return {
            partition.topic_partition: reason
            for partition in self.partitions
            if (reason := partition.offline_reason) is not None
        }

    @property
    def skipped(self) -> list[Skipped]:
        """Directories that were skipped when the store was opened, and why."""
        return list(self._opened.skipped)

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics by name."""
        return dict(self._topics)

    def _why_missing(self, name: str) -> str:
        return self._opened.why_missing(name)

    @property
    def partitions(self) -> list[Partition]:
        """All partitions of all topics. Takes no lock: listeners and checkpoints may ask."""
        return [partition for topic in list(self._topics.values()) for partition in topic]

    def metrics(self) -> StoreMetrics:
        """Offsets, sizes, segments and flush times of all partitions, and how they were loaded."""
        loads = self._env.tell.loads
        return measure(self.partitions, self.offline_roots, self._cleaning.metrics, loads)

    # Topics

    def create_topic(
        self, name: str, partitions: int | None = None, config: Mapping[str, object] | None = None
    ) -> Topic:
        """Create a topic with this many partitions (default: `num.partitions`) and its own configuration.

        A bad name, an unknown key or a bad value is refused, and nothing is created.
        """
        (made,) = self.create_topics({name: partitions}, config)
        return made

    def create_topics(
        self, topics: Mapping[str, int | None], config: Mapping[str, object] | None = None
    ) -> list[Topic]:
        """Create several topics with one configuration, registered in one step; see `create_topic`."""
        settings = texts(config or {})
        log_config = LogConfig.from_properties(settings, self._env.config.topic_defaults)
        counts = {name: self._count(name, partitions) for name, partitions in topics.items()}
        with self._env.tell.deferring(), self._lock:
            self._check_open()
            for name in counts:
                if name == CLUSTER_METADATA_TOPIC or name in self._opened.registry.image.topics:
                    raise TopicExistsError(f"topic {name!r} exists already")
            if self._opened.elsewhere is not None and not self._opened.options.force:
                raise LogError(self._opened.elsewhere)
            made = [Topic(name, random_id(), settings) for name in counts]
            self._add_partitions([(topic, range(counts[topic.name])) for topic in made], log_config)
            return made

    def _count(self, name: str, partitions: int | None) -> int:
        """How many partitions a new topic gets; its name is checked."""
        validate_topic(name)
        count = self._env.config.num_partitions if partitions is None else partitions
        if count < 1:
            raise InvalidInputError(f"a topic needs at least one partition, not {count}")
        return count

    def create_partitions(self, name: str, total: int) -> Topic:
        """Add partitions to a topic, up to `total`."""
        with self._env.tell.deferring(), self._lock:
            self._check_open()
            topic = self.topic(name)
            known = self._opened.registry.image.topics[name].partitions
            if total <= len(known):
                raise InvalidInputError(f"topic {name!r} has {len(known)} partitions already")
            log_config, _ = known_config(topic.config, self._env.config.topic_defaults)
            self._add_partitions([(topic, range(len(known), total))], log_config)
            return topic

    def _add_partitions(self, topics: Sequence[tuple[Topic, Sequence[int]]], config: LogConfig) -> None:
        """Make partitions of one topic, or of several new ones: all of them or none (`creation`)."""
        for topic, numbers in topics:
            self._opened.check_free(topic.name, numbers)
        is_new = all(topic.name not in self._topics for topic, _ in topics)
        made = self._creation.add(topics, config, is_new=is_new)
        for (topic, _), new in zip(topics, made, strict=True):
            topic.partitions = topic.partitions | new
            self._topics[topic.name] = topic

    def delete_topic(self, name: str) -> None:
        """Delete a topic. It is gone at once; its files are removed after `file.delete.delay.ms`."""
        with self._env.tell.deferring(), self._lock:
            self._check_open()
            topic = self.topic(name)
            self._opened.check_whole(name)
            self._opened.registry.register(removed=[topic.topic_id])
            del self._topics[name]
            # A move that is under way fails for want of its log, and removes its copy itself.
            under_way = {number for number, one in topic.partitions.items() if one.moving.locked()}
            for partition in topic:
                with self._cleaning.paused(partition.topic_partition):
                    if partition.is_online:
                        self._delete_log(partition.detach())
                self._cleaning.forget(partition.topic_partition, partition.root)
            for root in self._online_roots():
                for moving, path in list(unfinished_moves(self._env.fs, root.path)):
                    if moving.topic == name and moving.partition not in under_way:
                        remove_tree(self._env.fs, path)
            self._maintenance.checkpoint()

    def _online_roots(self) -> list[Root]:
        return [root for root in self.roots if root.offline is None]

    def _delete_log(self, log: Log) -> None:
        log.rename(format_partition_directory(log.topic_partition, DirectoryState.DELETE))
        self._queue.schedule_once("delete-log", log.delete, log.config.file_delete_delay_ms)

    def reserve_producer_ids(self, count: int = 1000) -> int:
        """Reserve `count` producer ids, durably. Returns the first."""
        with self._lock:
            self._check_open()
            registry = self._opened.registry
            first = registry.image.next_producer_id
            registry.register(largest_producer_id=first + count - 1)
            return first

    def alter_config(self, name: str, changes: Mapping[str, object | None]) -> Topic:
        """Set keys of a topic's configuration; None resets a key to its default.

        The topic need not be opened: only the metadata is changed then.
        """
        with self._env.tell.deferring(), self._lock:
            self._check_open()
            unopened = self._opened.unopened(name)
            topic = self.topic(name) if unopened is None else unopened
            settings = dict(topic.config) | texts(
                {key: value for key, value in changes.items() if value is not None}
            )
            for key, value in changes.items():
                if value is None:
                    settings.pop(key, None)
            asked = {key: settings[key] for key in changes if key in settings}
            LogConfig.from_properties(asked, self._env.config.topic_defaults)
            config, _ = known_config(settings, self._env.config.topic_defaults)
            altered = Topic(name, topic.topic_id, settings, topic.partitions)
            self._opened.registry.register([altered.registration()])
            topic.config = settings
            for partition in topic:
                with self._cleaning.paused(partition.topic_partition):
                    if partition.is_online:
                        partition.log.update_config(config)
            return topic

    def move_partition(self, topic: str, number: int, root: StrPath) -> None:
        """Move a partition to another root, while it is read and written."""
        target = root_named(self.roots, root)
        partition = self.partition(topic, number)
        deferring = self._env.tell.deferring()
        with deferring, partition.moving, self._cleaning.paused(partition.topic_partition):
            source = partition.root
            register = partial(self._register, topic)
            old = move_log(partition, target, self._env, self._lock, register, self._check_open)
            if old is not None:
                self._cleaning.moved(partition.topic_partition, source, target)
                self._delete_log(old)
                self._maintenance.checkpoint()

    def truncate_partition(self, topic: str, number: int, offset: int) -> bool:
        """Remove a partition's records at or after an offset. Returns whether there were any.

        Use this instead of `Log.truncate_to`: it pauses the cleaner and resets its checkpoint.
        """
        self._check_open()
        partition = self.partition(topic, number)
        with self._env.tell.deferring(), self._cleaning.paused(partition.topic_partition):
            with partition.gate:
                cut = partition.log.truncate_to(offset)
                end = partition.log.segments.last.base_offset
                failure = self._maintenance.lower_checkpoints(partition) if cut else None
            self._cleaning.truncated(partition, end)
        if failure is not None and partition.root is not None:
            self._maintenance.take_offline(partition.root, failure)
        return cut

    @property
    def unfinished_moves(self) -> dict[TopicPartition, str]:
        """Partitions whose move was interrupted by a crash, and their target roots."""
        return {
            partition: root.path
            for root in self._online_roots()
            for partition, _ in unfinished_moves(self._env.fs, root.path)
            if partition.topic in self._topics
            and partition.partition in self._topics[partition.topic].partitions
        }

    def resume_moves(self) -> None:
        """Finish the moves that a crash interrupted."""
        for partition, root in self.unfinished_moves.items():
            self.move_partition(partition.topic, partition.partition, root)

    def _register(self, name: str) -> None:
        with self._lock:
            self._opened.registry.register([self.topic(name).registration()])

    def tidy(self) -> dict[str, str]:
        """Rename directories that belong to no topic to `-stray`, as a broker does. Returns old and new
        paths.
        """
        with self._env.tell.deferring(), self._lock:
            self._check_open()
            if self._opened.elsewhere is not None and not self._opened.options.force:
                raise LogError(self._opened.elsewhere)
            done = {}
            while self._opened.unknown:
                root, one = self._opened.unknown.pop()
                done[root.file(one.found.name)] = set_aside(self._env.fs, root, one, self._env.tell)
            self._maintenance.checkpoint()
            return done

    # Maintenance

    def flush(self) -> None:
        """Wait until everything is on the disk. FlushError names the partitions that could not be flushed.

        All other partitions are flushed first.
        """
        self._check_open()
        failed: dict[TopicPartition, str] = {}
        for partition in self.partitions:
            if partition.was_online:
                try:
                    partition.flush()
                except (OSError, LogOfflineError) as error:
                    if partition in self.partitions:  # not deleted since
                        failed[partition.topic_partition] = str(error)
        if failed:
            raise FlushError(failed)

    def checkpoint(self) -> None:
        """Write the checkpoints now."""
        self._check_open()
        self._maintenance.checkpoint()

    def apply_retention(self, only: TopicPartition | None = None) -> dict[TopicPartition, RetentionPlan]:
        """Apply retention now, to one partition or to all. Returns what was deleted."""
        self._check_open()
        return self._maintenance.apply_retention(only)

    def clean(self, only: TopicPartition | None = None) -> dict[TopicPartition, CleanReport]:
        """Compact now: all partitions that are due, or one partition, due or not. Returns what was done."""
        self._check_open()
        return self._cleaning.clean(only)

    def run_due_tasks(self) -> int:
        """Run the background tasks that are due, for stores without a thread. Returns how many ran."""
        return self._queue.run_due()

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosedError("the store was closed")

    # The end

    def close(self) -> None:
        """Close every log, write the checkpoints and the clean-shutdown file, and release the roots.

        Calling it again is harmless. In a forked child it does nothing: the store is the parent's.
        """
        if is_orphan(self):
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for partition in self.partitions:
            with partition.moving:  # a move that is under way gives up
                pass
        self._states.close()
        for thread in self._threads:
            thread.stop()
        self._queue.drain()
        try:
            self._close_logs(in_order=self._register_what_logs_know())
        finally:
            for root in self.roots:
                root.release()

    def _register_what_logs_know(self) -> bool:
        """Register newer leader epochs and producer ids, if any are; False if recovery has to do it."""
        if not any(partition.has_grown for partition in self.partitions):
            return True
        registry, is_ours = self._opened.registry, False
        try:
            registry.check_writable()
            is_ours = True  # and not a cluster's, whose brokers give producers their ids
            producers = [producer for partition in self.partitions for producer in partition.producers]
            registry.register(
                [topic.registration() for topic in self._topics.values()],
                largest_producer_id=max(producers, default=-1),
            )
        except (OSError, TidelogError) as error:
            _logger.error("the metadata could not be brought up to date: %s", error)
            return not is_ours
        return True

    def _close_logs(self, *, in_order: bool) -> None:
        """Close the logs of all roots, then say of those where all went well that they are in order."""
        threads = self._env.config.num_recovery_threads_per_data_dir
        whole = close_all(self.partitions, self._online_roots(), threads)
        self._maintenance.checkpoint()
        for root in whole:
            if in_order and root.offline is None and root.in_order:
                try:
                    root.write_clean_shutdown()
                except OSError as error:
                    self._maintenance.take_offline(root, error)
        for partition in self.partitions:
            if partition.is_online:
                partition.detach()
