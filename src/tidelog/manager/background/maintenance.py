"""What a store does by the clock, each piece a short task of its one scheduler.

    checkpoints       recovery points, log starts and high watermarks of each root; before them, whether the
                      root is still ours
    flush             logs whose last flush is `flush.ms` ago
    retention         old segments (`cleanup.retention`); those of compacted logs are `cleaning`'s
    producer expiry   producers that have been silent for too long

A disk that fails under a checkpoint takes its root offline, with all logs in it; one that fails under a log
takes that log offline. The others continue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from tidelog.cleanup import RetentionPlan, apply_retention
from tidelog.errors import LogClosedError, LogLockedError, LogOfflineError
from tidelog.layout.roots import Checkpoint, Offsets, Root
from tidelog.log import Log
from tidelog.manager.background.cleaner_states import CleanerStates
from tidelog.manager.background.scheduler import TaskQueue
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.store.checkpointed import Checkpointed, checkpointed_offset
from tidelog.manager.store.events import EventDispatcher, LogFailed, RootWentOffline
from tidelog.manager.store.partition import Partition
from tidelog.types import TopicPartition

__all__ = ["Maintenance"]

_logger = logging.getLogger(__name__)

_FLUSH_LOOK_MS = 1000
"""How often `flush.ms` is looked at, at least: by Kafka's own default for it, never."""


_CHECKPOINTED = (Checkpoint.LOG_STARTS, Checkpoint.RECOVERY_POINTS, Checkpoint.HIGH_WATERMARKS)


def _with(
    partition: TopicPartition, offset: int | None, known: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """What a checkpoint says with another offset of one partition; None for nothing of it."""
    others = {name: known[name] for name in known if name != partition}
    return others if offset is None else others | {partition: offset}


class Maintenance:
    """The tasks, over whatever partitions and roots there are at the time."""

    def __init__(
        self,
        roots: Iterable[Root],
        partitions: Callable[[], Iterable[Partition]],
        config: BrokerConfig,
        now_ms: Callable[[], int],
        tell: EventDispatcher,
        states: CleanerStates,
        checkpointed: Checkpointed,
    ) -> None:
        self._roots = tuple(roots)
        self._partitions = partitions
        self._config = config
        self._now_ms = now_ms
        self._tell = tell
        self._states = states
        self._checkpointed = checkpointed

    def schedule(self, queue: TaskQueue) -> None:
        """Put all of them on the queue, but for retention, which has to be asked for."""
        config = self._config
        periods: dict[Callable[[], object], int] = {
            self.checkpoint_recovery_points: config.log_flush_offset_checkpoint_interval_ms,
            self.checkpoint_log_starts: config.log_flush_start_offset_checkpoint_interval_ms,
            self.checkpoint_high_watermarks: config.replica_high_watermark_checkpoint_interval_ms,
            self.expire_producers: config.producer_id_expiration_check_interval_ms,
        }
        for task, period_ms in periods.items():
            name = getattr(task, "__name__", "task")
            queue.schedule(name, task, period_ms=period_ms, delay_ms=config.log_initial_task_delay_ms)
        look_ms = min(max(config.log_flush_scheduler_interval_ms, 1), _FLUSH_LOOK_MS)
        queue.schedule("flush_dirty", self.flush_dirty, period_ms=look_ms, delay_ms=look_ms)

    def schedule_retention(self, queue: TaskQueue) -> None:
        """Put retention on the queue."""
        config = self._config
        period_ms, delay_ms = config.log_retention_check_interval_ms, config.log_initial_task_delay_ms
        queue.schedule("retain", self.retain_by_the_clock, period_ms=period_ms, delay_ms=delay_ms)

    # Checkpoints

    def checkpoint(self) -> None:
        """Write all checkpoints."""
        self.checkpoint_recovery_points()
        self.checkpoint_log_starts()
        self.checkpoint_high_watermarks()

    def checkpoint_recovery_points(self) -> None:
        """Write down how far each log is on the disk."""
        self._checkpoint(Checkpoint.RECOVERY_POINTS)

    def checkpoint_log_starts(self) -> None:
        """Write down where logs start whose first segment does not tell it."""
        self._checkpoint(Checkpoint.LOG_STARTS)

    def checkpoint_high_watermarks(self) -> None:
        """Write down the high watermarks."""
        self._checkpoint(Checkpoint.HIGH_WATERMARKS)

    def _checkpoint(self, kind: Checkpoint) -> None:
        for root in self._roots:
            if root.offline is not None:
                continue
            try:
                root.update_checkpoint(kind, partial(self._offsets, kind, root))
            except (OSError, LogLockedError) as error:
                self.take_offline(root, error)

    def _offsets(self, kind: Checkpoint, root: Root, before: Offsets) -> dict[TopicPartition, int]:
        """What a checkpoint should say now (`store.checkpointed`)."""
        return self._checkpointed.offsets(kind, root, self._partitions(), self._logs(root), before)

    def lower_checkpoints(self, partition: Partition) -> Exception | None:
        """Write down the offsets of a log that was truncated, before anything is appended to it again.

        With the partition's gate held. A recovery point or a log start that lies above what is appended next
        would have a recovery pass over it, or remove it. The error where that failed: the root must go
        offline, which takes gates.
        """
        root, log = partition.root, partition.log
        if root is None:
            return None
        name = partition.topic_partition
        try:
            for kind in _CHECKPOINTED:
                root.update_checkpoint(kind, partial(_with, name, checkpointed_offset(kind, log)))
        except (OSError, LogLockedError) as error:
            partition.go_offline(error)
            return error
        return None

    def take_offline(self, root: Root, why: BaseException) -> None:
        """Use a root no more, and none of its logs."""
        root.go_offline(why)
        self._tell(RootWentOffline(root.path, str(why)))
        for partition in self._partitions():
            if partition.root is root:
                partition.go_offline(why)

    # Logs

    def _logs(self, root: Root | None = None) -> list[tuple[Partition, Log]]:
        """The partitions that can be used now, in a root or in all, with their logs."""
        found = []
        for partition in list(self._partitions()):
            try:
                if (root is None or partition.root is root) and partition.is_online:
                    found.append((partition, partition.log))
            except LogOfflineError:  # since we asked
                continue
        return found

    def flush_dirty(self) -> None:
        """Flush the logs whose last flush is longer ago than their `flush.ms`."""
        now = self._now_ms()
        for partition, log in self._logs():
            dirty = log.recovery_point < log.log_end_offset
            if dirty and now - log.last_flush_ms >= log.config.flush_ms:
                self._on(partition, lambda log: log.flush())

    def apply_retention(self, only: TopicPartition | None = None) -> dict[TopicPartition, RetentionPlan]:
        """Delete old segments, of one partition or of all; what was deleted."""
        done = {}
        for partition, _ in self._logs():
            name = partition.topic_partition
            if only in (None, name):
                with self._tell.deferring(), self._states.paused(name):
                    plan = self.retain(partition)
                if plan is not None:
                    done[name] = plan
        return done

    def retain_by_the_clock(self) -> None:
        """Delete old segments of the logs whose segments nobody else works on."""
        for partition, log in self._logs():
            name = partition.topic_partition
            if log.config.compact and self._config.log_cleaner_enable:
                continue  # the cleaner does it
            with self._tell.deferring():
                if self._states.begin(name):
                    try:
                        self.retain(partition)
                    finally:
                        self._states.end(name)

    def retain(self, partition: Partition) -> RetentionPlan | None:
        """Delete a partition's old segments, which are the caller's; None if there are none."""
        bound = self._replicated_up_to(partition)
        plan = self._on(partition, lambda log: apply_retention(log, self._now_ms(), high_watermark=bound))
        for deletion in plan.deletions if plan is not None else ():
            _logger.info(
                "%s: segment %d is deleted by %s: %s",
                partition.topic_partition,
                deletion.base_offset,
                deletion.reason.value,
                deletion.detail,
            )
        return plan if plan is not None and plan.deletions else None

    @staticmethod
    def _replicated_up_to(partition: Partition) -> int | None:
        """The high watermark of a partition that other brokers hold too, as its broker has left it."""
        if not partition.others or partition.root is None:
            return None
        return partition.root.checkpoints[Checkpoint.HIGH_WATERMARKS].get(partition.topic_partition)

    def expire_producers(self) -> None:
        """Forget producers that have been silent for too long."""
        for partition, _ in self._logs():
            self._on(partition, lambda log: log.remove_expired_producers())

    def _on(self, partition: Partition, task: Callable[[Log], RetentionPlan | None]) -> RetentionPlan | None:
        """Do something to a log; one that was closed or whose disk failed does not stop the others."""
        try:
            with partition.gate:  # it does not move away meanwhile
                return task(partition.log)
        except (LogClosedError, LogOfflineError) as error:
            self._tell(LogFailed(partition.topic_partition, repr(partition), str(error)))
            _logger.error("%s: %s", partition, error)
            return None
