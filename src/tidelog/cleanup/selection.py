"""Which log compaction takes next, and which part of it: pure decisions.

    clean        [log start, first dirty offset)                     compacted before
    cleanable    [first dirty offset, first uncleanable offset)      to be compacted
    uncleanable  [first uncleanable offset, log end)                 not now

The first dirty offset is the cleaner checkpoint's, the log start if there is none. A checkpoint outside of
the log is not true any more: it is set back to the log start. Never cleaned are

    the active segment,  what lies past the last stable offset (and so past the high watermark),
    the first segment with a record younger than `min.compaction.lag.ms`, and all behind it.

Segments are cleaned whole, so what is uncleanable begins with the segment that holds such an offset.

A log is worth cleaning when its dirty ratio, cleanable / (clean + cleanable) bytes, is above
`min.cleanable.dirty.ratio`, or when its oldest dirty segment began longer than `max.compaction.lag.ms` ago.
Of those the dirtiest is taken.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from tidelog.config import LogConfig
from tidelog.log import Log

__all__ = [
    "CleanableSegment",
    "LogFacts",
    "LogToClean",
    "OffsetsToClean",
    "choose_filthiest",
    "cleanable_offsets",
    "facts_of",
    "plan_cleaning",
    "when_rolled",
]


class CleanableSegment(Protocol):
    """What is asked of a segment."""

    @property
    def base_offset(self) -> int:
        """Its first offset."""

    @property
    def size(self) -> int:
        """The bytes of its log."""

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp of a record; the time of the file if there is none."""

    @property
    def first_batch_timestamp(self) -> int:
        """The largest timestamp of its first batch; -1 if there is none."""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """A log at one moment."""

    segments: Sequence[CleanableSegment]
    """Oldest first; the last one is being written."""
    config: LogConfig
    log_start_offset: int
    last_stable_offset: int
    log_end_offset: int

    @property
    def active_base_offset(self) -> int:
        """Where the segment that is being written begins."""
        return self.segments[-1].base_offset

    @property
    def gains_by_a_roll(self) -> bool:
        """Whether more can be cleaned once the active segment is rolled."""
        last = self.segments[-1]
        return last.size > 0 and self.last_stable_offset > last.base_offset

    def between(self, start: int, end: int) -> Sequence[CleanableSegment]:
        """The segments from the one that holds `start` on that begin before `end`."""
        if start >= end:
            return ()
        bases = [segment.base_offset for segment in self.segments]
        return self.segments[max(bisect_right(bases, start) - 1, 0) : bisect_left(bases, end)]

    def sealed_from(self, offset: int) -> Sequence[CleanableSegment]:
        """The segments from the one that holds `offset` on, without the active one."""
        return self.between(offset, self.active_base_offset)


@dataclass(frozen=True, slots=True)
class OffsetsToClean:
    """Where a log's dirty part begins, and where what cannot be cleaned does."""

    first_dirty_offset: int
    first_uncleanable_dirty_offset: int
    reset: str | None
    """Why the checkpoint is not true and must be set to the first dirty offset; None if it is."""


@dataclass(frozen=True, slots=True)
class LogToClean:
    """What cleaning a log would look at."""

    offsets: OffsetsToClean
    first_uncleanable_offset: int
    """The base offset of the first segment that is not cleaned."""
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int
    """For how long the log has been due by `max.compaction.lag.ms`; 0 if it is not."""
    min_cleanable_dirty_ratio: float

    @property
    def first_dirty_offset(self) -> int:
        """Where cleaning begins."""
        return self.offsets.first_dirty_offset

    @property
    def total_bytes(self) -> int:
        """The bytes that cleaning would read."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        """The dirty share of them."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_due(self) -> bool:
        """Whether cleaning is worth while, or required."""
        if not self.total_bytes:
            return False
        required = self.compaction_delay_ms > 0 and self.cleanable_bytes > 0
        return required or self.cleanable_ratio > self.min_cleanable_dirty_ratio


def facts_of(log: Log) -> LogFacts:
    """The facts about a log, now."""
    segments, offsets = log.view
    return LogFacts(
        tuple(segments),
        log.config,
        offsets.log_start,
        offsets.last_stable_offset,
        offsets.log_end.message_offset,
    )


@dataclass(frozen=True, slots=True)
class _NextSegment:
    """The segment that a roll would begin."""

    base_offset: int
    size: int = 0
    largest_timestamp: int = -1
    first_batch_timestamp: int = -1


def when_rolled(log: LogFacts) -> LogFacts:
    """The log as it would be after a roll, where that gains something: for a plan that changes nothing."""
    if not log.gains_by_a_roll:
        return log
    return replace(log, segments=(*log.segments, _NextSegment(log.log_end_offset)))


def cleanable_offsets(log: LogFacts, checkpoint: int | None, now_ms: int) -> OffsetsToClean:
    """The dirty part that can be cleaned; `checkpoint` is how far the log is known to be clean."""
    first_dirty, reset = log.log_start_offset if checkpoint is None else checkpoint, None
    if first_dirty < log.log_start_offset:
        reset = f"the checkpoint {checkpoint} lies below the log start {log.log_start_offset}"
    elif first_dirty > log.log_end_offset:
        reset = f"the checkpoint {checkpoint} lies past the log end {log.log_end_offset}"
    if reset is not None:
        first_dirty = log.log_start_offset
    bounds = [log.last_stable_offset, log.active_base_offset]
    lag_ms = max(log.config.min_compaction_lag_ms, 0)
    if lag_ms:
        for segment in log.sealed_from(first_dirty):
            if segment.largest_timestamp > now_ms - lag_ms:
                bounds.append(segment.base_offset)
                break
    return OffsetsToClean(first_dirty, max(first_dirty, min(bounds)), reset)


def plan_cleaning(log: LogFacts, checkpoint: int | None, now_ms: int) -> LogToClean:
    """What cleaning a log now would look at, and whether it is due."""
    offsets = cleanable_offsets(log, checkpoint, now_ms)
    first_dirty = offsets.first_dirty_offset
    uncleanable = log.sealed_from(offsets.first_uncleanable_dirty_offset)
    bound = uncleanable[0].base_offset if uncleanable else log.active_base_offset
    return LogToClean(
        offsets,
        bound,
        _size(log.between(-1, first_dirty)),
        _size(log.between(min(first_dirty, bound), bound)),
        _compaction_delay_ms(log, first_dirty, now_ms),
        log.config.min_cleanable_dirty_ratio,
    )


def _size(segments: Iterable[CleanableSegment]) -> int:
    return sum(segment.size for segment in segments)


def _compaction_delay_ms(log: LogFacts, first_dirty_offset: int, now_ms: int) -> int:
    """For how long the dirty segment that began first has been older than `max.compaction.lag.ms`."""
    clean_until = now_ms - max(log.config.max_compaction_lag_ms, 0)
    if clean_until <= 0:  # as it is by default: no file is looked at
        return 0
    times = [segment.first_batch_timestamp for segment in log.sealed_from(first_dirty_offset)]
    earliest = min((timestamp for timestamp in times if timestamp > 0), default=None)
    return 0 if earliest is None else max(clean_until - earliest, 0)


_Name = TypeVar("_Name")


def choose_filthiest(logs: Iterable[tuple[_Name, LogToClean]]) -> tuple[_Name, LogToClean] | None:
    """Of those that are due the one with the largest dirty ratio; the first of several."""
    due = [each for each in logs if each[1].is_due]
    return max(due, key=lambda each: each[1].cleanable_ratio, default=None)
