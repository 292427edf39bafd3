"""What retention will delete, and when: its own rules, applied to the time to come.

A segment goes when each one before it goes, and when

    time   its largest timestamp is older than `retention.ms`
    size   the log has `retention.bytes` without it; the log grows as it did in the last 24 hours

whichever is first. What is due now is `plan_retention`'s own answer. When the last segment goes is not known
while it is written to. Of a compacted topic, and of what reaches past the high watermark, nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.cleanup import RetentionPlan
from tidelog.cleanup.retention import RetainableSegment, RetentionReason
from tidelog.config import LogConfig

__all__ = ["Going", "forecast"]

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Going:
    """When a segment goes, and by which rule."""

    base_offset: int
    size: int
    at_ms: int
    reason: RetentionReason


def forecast(
    segments: Sequence[RetainableSegment],
    config: LogConfig,
    plan: RetentionPlan,
    *,
    high_watermark: int,
    now_ms: int,
    bytes_per_day: int,
) -> list[Going]:
    """The segments that go, oldest first; `plan` is what retention would delete at `now_ms`."""
    going = [Going(one.base_offset, one.size, now_ms, one.reason) for one in plan.deletions]
    if not config.delete:
        return going
    left = list(segments[len(going) :])
    size_after = sum(one.size for one in left)
    at_ms = now_ms
    for number, segment in enumerate(left, 1):
        following = left[number] if number < len(left) else None
        size_after -= segment.size
        if following is None and bytes_per_day:
            break
        if following is not None and following.base_offset > high_watermark:
            break
        due = _due(segment, size_after, config, now_ms, bytes_per_day)
        if due is None or (following is None and segment.size == 0):
            break
        at_ms = max(at_ms, due[0])
        going.append(Going(segment.base_offset, segment.size, at_ms, due[1]))
    return going


def _due(
    segment: RetainableSegment, size_after: int, config: LogConfig, now_ms: int, bytes_per_day: int
) -> tuple[int, RetentionReason] | None:
    """When a segment may go, without regard to those before it; None: never, as things are."""
    found = []
    if config.retention_ms >= 0:
        found.append((segment.largest_timestamp + config.retention_ms + 1, RetentionReason.TIME))
    if config.retention_bytes >= 0:
        lacking = config.retention_bytes - size_after
        if lacking <= 0:
            found.append((now_ms, RetentionReason.SIZE))
        elif bytes_per_day > 0:
            found.append((now_ms - (-lacking * _DAY_MS // bytes_per_day), RetentionReason.SIZE))
    return min(found, key=lambda one: one[0], default=None)
