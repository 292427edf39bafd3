"""Retention: which of the oldest segments go, and why.

Three skips what the one before has left, each from the oldest segment to the first that stays:

1. log start   the next segment begins at or below the log start offset; done for every cleanup policy
2. size        without it the log still has `retention.bytes` (only policy delete, as is 3)
3. time        its largest timestamp (the file's own time if no record has one) is older than `retention.ms`

In each pass a segment stays, and all after it, if it reaches past the high watermark, or if it is the last
one and empty. A timestamp in the future is not old, however wrong it is. The active segment can go with the
rest: it is rolled first, so that there is always one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidelog.config import LogConfig
from tidelog.log import Log
from tidelog.types import TimestampOffset

__all__ = [
    "Deletion",
    "RetainableSegment",
    "RetentionPlan",
    "RetentionReason",
    "apply_retention",
    "plan_retention",
]


class RetainableSegment(Protocol):
    """What is asked of a segment, and only while a pass gets that far."""

    @property
    def base_offset(self) -> int:
        """Its first offset."""

    @property
    def size(self) -> int:
        """The bytes of its log."""

    @property
    def max_timestamp_so_far(self) -> TimestampOffset:
        """The largest timestamp of a record; -1 if none has one."""

    @property
    def largest_timestamp(self) -> int:
        """That timestamp, or the time of the file if there is none."""


class RetentionReason(enum.Enum):
    """Why a segment goes."""

    LOG_START = "log start offset"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


@dataclass(frozen=True, slots=True)
class Deletion:
    """A segment that goes."""

    base_offset: int
    end_offset: int
    size: int
    reason: RetentionReason
    detail: str
    """The reason in numbers, for people."""


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """The segments that go, oldest first."""

    deletions: tuple[Deletion, ...]
    log_start_offset: int
    """Where the log starts when they are gone."""
    roll: bool
    """Whether the active segment is among them."""
    stay: str | None
    """Why the oldest segment that stays does so; None if none is left but the new active one."""

    @property
    def size(self) -> int:
        """The bytes that become free."""
        return sum(deletion.size for deletion in self.deletions)


_Verdict = Callable[[RetainableSegment, RetainableSegment | None], tuple[str | None, str]]
"""Of a segment and the next one: why it goes (or None), and why it stays."""


def plan_retention(
    segments: Sequence[RetainableSegment],
    config: LogConfig,
    *,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
    now_ms: int,
) -> RetentionPlan:
    """What retention would delete now; nothing is changed."""
    plan = _Planner(list(segments), log_start_offset, high_watermark, log_end_offset)
    plan.run(RetentionReason.LOG_START, _below_log_start(log_start_offset))
    if config.delete:
        size = sum(segment.size for segment in plan.left)
        if 0 <= config.retention_bytes <= size:
            plan.run(RetentionReason.SIZE, _above_size(size, config.retention_bytes))
        if config.retention_ms >= 0:
            plan.run(RetentionReason.TIME, _too_old(now_ms, config.retention_ms))
    return plan.result()


class _Planner:
    def __init__(
        self, left: list[RetainableSegment], log_start: int, high_watermark: int, log_end: int
    ) -> None:
        self.left = left
        self._log_start = log_start
        self._high_watermark = high_watermark
        self._log_end = log_end
        self._deletions: list[Deletion] = []
        self._stay: list[str] = []

    def run(self, reason: RetentionReason, verdict: _Verdict) -> None:
        """One pass."""
        while self.left:
            segment, following = self.left[0], self.left[1] if len(self.left) > 1 else None
            end = self._log_end if following is None else following.base_offset
            if self._high_watermark < end:
                self._stay.append(f"it reaches past the high watermark {self._high_watermark}")
                return
            why, why_not = verdict(segment, following)
            if why is None:
                self._stay.append(why_not)
                return
            if following is None and segment.size == 0:
                self._stay.append("it is the active segment, and empty")
                return
            self._deletions.append(Deletion(segment.base_offset, end, segment.size, reason, why))
            self._log_start = max(self._log_start, end)
            del self.left[0]

    def result(self) -> RetentionPlan:
        stay = self._stay if self.left else []
        reasons = "; ".join(dict.fromkeys(stay)) or None
        return RetentionPlan(tuple(self._deletions), self._log_start, not self.left, reasons)


def _below_log_start(log_start: int) -> _Verdict:
    def verdict(segment: RetainableSegment, following: RetainableSegment | None) -> tuple[str | None, str]:
        if following is not None and following.base_offset <= log_start:
            return f"ends at {following.base_offset}, the log starts at {log_start}", ""
        return None, f"it holds offsets from the log start {log_start} on"

    return verdict


def _above_size(size: int, retention_bytes: int) -> _Verdict:
    left = size

    def verdict(segment: RetainableSegment, following: RetainableSegment | None) -> tuple[str | None, str]:
        nonlocal left
        after = left - segment.size
        if after < retention_bytes:
            return None, f"without it the log has {after} bytes, less than {retention_bytes}"
        left = after
        return f"without it the log has {after} bytes, of {retention_bytes} to keep", ""

    return verdict


def _too_old(now_ms: int, retention_ms: int) -> _Verdict:
    def verdict(segment: RetainableSegment, following: RetainableSegment | None) -> tuple[str | None, str]:
        age = now_ms - segment.largest_timestamp
        if age > retention_ms:
            of = (
                "newest record"
                if segment.max_timestamp_so_far.timestamp >= 0
                else "file (no record has a time)"
            )
            return f"its {of} is {age} ms old, of {retention_ms} to keep", ""
        if age < 0:
            return None, f"its newest record lies {-age} ms in the future"
        return None, f"its newest record is {age} ms old, not more than {retention_ms}"

    return verdict


def apply_retention(
    log: Log, now_ms: int, config: LogConfig | None = None, *, high_watermark: int | None = None
) -> RetentionPlan:
    """Delete what retention says now, by the log's configuration or another one; what was deleted.

    Nothing that reaches past the log's high watermark goes, or past another one that is given.

    One thread at a time for a log; appends and reads continue. An active segment that is to go is rolled and
    then judged again: what was appended in the meantime is safe.
    """
    config = config or log.config
    plan = _plan(log, now_ms, config, high_watermark)
    if plan.roll:
        log.roll()
        plan = _plan(log, now_ms, config, high_watermark)
    going = {deletion.base_offset for deletion in plan.deletions}
    log.delete_segments([segment for segment in log.segments if segment.base_offset in going])
    return plan


def _plan(log: Log, now_ms: int, config: LogConfig, bound: int | None) -> RetentionPlan:
    segments, offsets = log.view
    mark = offsets.high_watermark.message_offset
    return plan_retention(
        list(segments),
        config,
        log_start_offset=offsets.log_start,
        high_watermark=mark if bound is None else min(bound, mark),
        log_end_offset=offsets.log_end.message_offset,
        now_ms=now_ms,
    )
