"""Compaction by the clock: a store's compacted logs, the dirtiest first.

A turn (`clean_filthiest`), as Kafka's cleaner thread takes one:

1. Of all logs with `cleanup.policy=compact` that nobody works on, the dirtiest that is due is chosen
   (`cleanup.selection`); a checkpoint that is not true any more is set back first.
2. It is cleaned (`cleanup.cleaner`); after each round the root's `cleaner-offset-checkpoint` says how far.
3. Retention is applied to the compacted logs: this thread is the one that may touch their old segments.

A log that cannot be cleaned is marked, reported and left alone from then on; the others continue. Cleaning is
told to stop (`cleaner_states`) before a partition is deleted, moved or truncated, when its configuration
changes, and when the store is closed; a log that is truncated without that stops it too, and is cleaned at
another turn. Nothing here holds a lock that appends or reads take.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from tidelog.cleanup.selection import LogToClean, choose_filthiest, facts_of, plan_cleaning
from tidelog.errors import LogClosedError, LogLockedError, LogOfflineError, TidelogError
from tidelog.layout.roots import Checkpoint, Root
from tidelog.lazy import LazyModule
from tidelog.log import Log
from tidelog.manager.background.cleaner_states import CleanerStates, CleaningAbortedError
from tidelog.manager.background.throttle import Throttle
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.store.events import EventDispatcher, LogCleaned, LogFailed, LogUncleanable
from tidelog.manager.store.partition import Partition
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.cleanup.cleaner import CleanReport
    from tidelog.cleanup.offset_map import OffsetMap
    from tidelog.cleanup.progress import Hooks

__all__ = ["Cleaning", "CleaningMetrics"]

# Most processes never compact: the cleaner is imported by the first that does.
_offset_map = LazyModule("tidelog.cleanup.offset_map")
_cleaner = LazyModule("tidelog.cleanup.cleaner")

_logger = logging.getLogger(__name__)

_UNLIMITED = sys.float_info.max
_LARGEST_MAP = (1 << 31) - 1
"""Kafka gives a cleaner no more."""


@dataclass(frozen=True, slots=True)
class CleaningMetrics:
    """Numbers about compaction since the store was opened."""

    logs_cleaned: int = 0
    bytes_read: int = 0
    """By both passes."""
    bytes_written: int = 0
    seconds: float = 0.0
    longest_seconds: float = 0.0
    last_turn_ms: int | None = None
    """When the logs were looked at last."""
    max_dirty_ratio: float = 0.0
    """Of the dirtiest log, at that time."""
    max_compaction_delay_ms: int = 0
    """How long the log that waits longest has been due by its `max.compaction.lag.ms`, at that time."""
    uncleanable: Mapping[TopicPartition, str] = field(default_factory=dict)
    """The logs that are left alone, and why."""

    @property
    def recopy_ratio(self) -> float:
        """How much of what was read was written again."""
        return self.bytes_written / self.bytes_read if self.bytes_read else 0.0


class _CheckpointError(Exception):
    """A root's checkpoint could not be written."""


class Cleaning:
    """Cleans a store's logs. One thread takes turns; any may ask for the rest."""

    def __init__(
        self,
        partitions: Callable[[], Iterable[Partition]],
        config: BrokerConfig,
        now_ms: Callable[[], int],
        tell: EventDispatcher,
        states: CleanerStates,
        retain: Callable[[Partition], object],
        take_offline: Callable[[Root, BaseException], None],
    ) -> None:
        self._partitions = partitions
        self._config = config
        self._now_ms = now_ms
        self._tell = tell
        self._states = states
        self._retain = retain
        self._take_offline = take_offline
        self._lock = threading.Lock()  # held by whoever changes a number
        self._turn = threading.Lock()  # held by whoever cleans: there is one map
        self._uncleanable: dict[TopicPartition, str] = {}
        self._numbers = CleaningMetrics()
        self._map: OffsetMap | None = None
        rate = config.log_cleaner_io_max_bytes_per_second
        self._throttle = Throttle(rate) if rate < _UNLIMITED else None

    # Turns

    def clean_due(self) -> None:
        """Take turns until no log is due."""
        while self.clean_filthiest():
            pass

    def clean_filthiest(self) -> bool:
        """Take a turn; whether a log was cleaned, or found to be uncleanable, so that another may be due."""
        chosen = choose_filthiest(self._look())
        done = False
        if chosen is not None:
            partition = chosen[0]
            report = self._clean(partition, due_only=True)
            done = report is not None or partition.topic_partition in self._uncleanable
        for partition in list(self._partitions()):
            self._apply_retention(partition)
        return done

    def clean(self, only: TopicPartition | None = None) -> dict[TopicPartition, CleanReport]:
        """Clean what is due, or one partition whether it is due or not; what was done.

        That partition gets another chance if it was marked as uncleanable.
        """
        done = {}
        if only is None:
            names = [partition.topic_partition for partition, plan in self._look() if plan.is_due]
        else:
            names = [only]
            with self._lock:
                self._uncleanable.pop(only, None)
        for partition in list(self._partitions()):
            if partition.topic_partition in names:
                report = self._clean(partition, due_only=only is None)
                if report is not None:
                    done[partition.topic_partition] = report
        return done

    # What must not meet cleaning

    def paused(self, partition: TopicPartition) -> AbstractContextManager[None]:
        """Stop cleaning a partition, and keep it from beginning again for as long as this lasts."""
        return self._states.paused(partition)

    def forget(self, partition: TopicPartition, root: Root | None) -> None:
        """A partition was deleted."""
        with self._lock:
            self._uncleanable.pop(partition, None)
        if root is not None and partition in root.checkpoints[Checkpoint.CLEANED]:
            self._write_or_go_offline(root, partition, None)

    def moved(self, partition: TopicPartition, source: Root | None, target: Root) -> None:
        """A partition has moved to another root: what is clean of it is so there too."""
        if source is None or partition not in source.checkpoints[Checkpoint.CLEANED]:
            return
        offset = source.checkpoints[Checkpoint.CLEANED][partition]
        self._write_or_go_offline(target, partition, offset)
        self._write_or_go_offline(source, partition, None)

    def truncated(self, partition: Partition, end: int) -> None:
        """A log was truncated: it is clean up to what is its active segment then at most."""
        root, name = partition.root, partition.topic_partition
        if root is not None and root.checkpoints[Checkpoint.CLEANED].get(name, 0) > end:
            self._write_or_go_offline(root, name, end)

    def is_cleaning(self, partition: TopicPartition) -> bool:
        """Whether a partition is being cleaned, or its old segments deleted, now."""
        return self._states.is_working(partition)

    @property
    def metrics(self) -> CleaningMetrics:
        """The numbers, now."""
        with self._lock:
            return replace(self._numbers, uncleanable=dict(self._uncleanable))

    # Choosing

    def _look(self) -> list[tuple[Partition, LogToClean]]:
        """What cleaning each log would look at."""
        plans = []
        for partition in list(self._partitions()):
            log = self._compacted(partition)
            if log is None or self._states.is_paused(partition.topic_partition):
                continue
            try:
                plan = self._plan(partition, log)
            except _CheckpointError as error:
                if partition.root is not None:
                    self._take_offline(partition.root, error)
                continue
            if plan is not None and plan.total_bytes:
                plans.append((partition, plan))
        with self._lock:
            self._numbers = replace(
                self._numbers,
                last_turn_ms=self._now_ms(),
                max_dirty_ratio=max((plan.cleanable_ratio for _, plan in plans), default=0.0),
                max_compaction_delay_ms=max((plan.compaction_delay_ms for _, plan in plans), default=0),
            )
        return plans

    def _compacted(self, partition: Partition) -> Log | None:
        """A partition's log, if it can be compacted."""
        try:
            log = partition.log if partition.is_online else None
        except LogOfflineError:  # since we asked
            return None
        if log is None or not log.config.compact or partition.topic_partition in self._uncleanable:
            return None
        return log

    def _plan(self, partition: Partition, log: Log) -> LogToClean | None:
        """What cleaning would look at; None if that cannot be told."""
        root, name = partition.root, partition.topic_partition
        if root is None or root.offline is not None:
            return None
        try:
            plan = plan_cleaning(
                facts_of(log), root.checkpoints[Checkpoint.CLEANED].get(name), self._now_ms()
            )
        except (LogClosedError, LogOfflineError):
            return None
        except (TidelogError, OSError) as error:
            self._mark(partition, error)
            return None
        if plan.offsets.reset is not None:
            level = logging.DEBUG if log.config.delete else logging.WARNING
            _logger.log(level, "%s is cleaned from its start: %s", name, plan.offsets.reset)
            self._write(root, name, plan.first_dirty_offset)
        return plan

    # Working

    def _clean(self, partition: Partition, *, due_only: bool) -> CleanReport | None:
        """Clean a log, unless it cannot be, or (`due_only`) need not be."""
        with self._tell.deferring(), self._turn:
            if not self._states.begin(partition.topic_partition):
                return None
            try:
                report, failure = self._attempt(partition, due_only), None
            except _CheckpointError as error:
                report, failure = None, error
            finally:
                self._states.end(partition.topic_partition)
        if failure is not None and partition.root is not None:
            self._take_offline(partition.root, failure)
        if report is not None:
            self._count(partition.topic_partition, report)
        return report

    def _attempt(self, partition: Partition, due_only: bool) -> CleanReport | None:
        log = self._compacted(partition)
        if log is None:
            return None
        truncations = log.truncations
        try:
            plan = self._plan(partition, log)
            if plan is None or not (plan.is_due if due_only else plan.cleanable_bytes):
                return None
            _logger.info(
                "%s: cleaning [%d, %d)",
                partition.topic_partition,
                plan.first_dirty_offset,
                plan.first_uncleanable_offset,
            )
            report: CleanReport = _cleaner.clean_log(
                log,
                _cleaner.LocalPasses(self._offset_map(), **self._hooks(partition, log, truncations)),
                first_dirty_offset=plan.first_dirty_offset,
                upper_bound=plan.first_uncleanable_offset,
                now_ms=self._now_ms(),
                checkpoint=partial(self._cleaned_to, partition, log, truncations),
            )
            return report
        except CleaningAbortedError as error:
            _logger.info("%s", error)
        except (TidelogError, OSError) as error:
            if log.truncations != truncations:
                _logger.info("%s was truncated while it was cleaned: %s", partition.topic_partition, error)
            elif isinstance(error, (LogClosedError, LogOfflineError)):
                self._tell(LogFailed(partition.topic_partition, repr(partition), str(error)))
            else:
                self._mark(partition, error)
        return None

    def _hooks(self, partition: Partition, log: Log, truncations: int) -> Hooks:
        """Cleaning stops when it is told to, or when the log was truncated, and keeps to the rate."""
        name, throttle = partition.topic_partition, self._throttle

        def check() -> None:
            self._states.check(name)
            if log.truncations != truncations:
                raise CleaningAbortedError(f"{name} was truncated while it was cleaned")

        return {"check": check, "throttle": None if throttle is None else lambda size: throttle(size, check)}

    def _cleaned_to(self, partition: Partition, log: Log, truncations: int, end_offset: int) -> None:
        """A round is over."""
        if partition.root is not None and log.truncations == truncations:
            self._write(partition.root, partition.topic_partition, end_offset)

    def _offset_map(self) -> OffsetMap:
        """The map, made when it is needed first: a store without compacted topics has none."""
        if self._map is None:
            config = self._config
            size = min(config.log_cleaner_dedupe_buffer_size, _LARGEST_MAP)
            self._map = _offset_map.OffsetMap(size, config.log_cleaner_io_buffer_load_factor)
        return self._map

    def _apply_retention(self, partition: Partition) -> None:
        name = partition.topic_partition
        with self._tell.deferring():
            if self._compacted(partition) is None or not self._states.begin(name):
                return
            try:
                self._retain(partition)
            finally:
                self._states.end(name)

    def _count(self, name: TopicPartition, report: CleanReport) -> None:
        stats = report.stats
        with self._lock:
            self._numbers = replace(
                self._numbers,
                logs_cleaned=self._numbers.logs_cleaned + 1,
                bytes_read=self._numbers.bytes_read + stats.size_read,
                bytes_written=self._numbers.bytes_written + stats.size_written,
                seconds=self._numbers.seconds + report.elapsed_s,
                longest_seconds=max(self._numbers.longest_seconds, report.elapsed_s),
            )
        self._tell(LogCleaned(name, report))

    def _mark(self, partition: Partition, error: BaseException) -> None:
        """Leave a log alone from now on."""
        name, reason = partition.topic_partition, str(error)
        with self._lock:
            self._uncleanable[name] = reason
        _logger.error("%s cannot be cleaned and is left alone: %s", name, reason)
        self._tell(LogUncleanable(name, repr(partition), reason))

    # Checkpoints

    def _write(self, root: Root, partition: TopicPartition, offset: int | None) -> None:
        """Say how far a partition is clean; None: say nothing of it any more."""

        def change(known: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
            others = {name: end for name, end in known.items() if name != partition}
            return others if offset is None else {**others, partition: offset}

        try:
            root.update_checkpoint(Checkpoint.CLEANED, change)
        except (OSError, LogLockedError) as error:
            raise _CheckpointError(str(error)) from error

    def _write_or_go_offline(self, root: Root, partition: TopicPartition, offset: int | None) -> None:
        if root.offline is not None:
            return
        try:
            self._write(root, partition, offset)
        except _CheckpointError as error:
            self._take_offline(root, error)
