"""The configuration of the group coordinator, under Kafka's keys."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GroupConfig"]


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Times in milliseconds; the defaults are Kafka's."""

    min_session_timeout_ms: int = 6_000
    """group.min.session.timeout.ms"""
    max_session_timeout_ms: int = 1_800_000
    """group.max.session.timeout.ms"""
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms"""
    max_size: int = 0x7FFFFFFF
    """group.max.size"""
    new_member_timeout_ms: int = 300_000
    """How long a new member may wait for its first JoinGroup response."""
    offset_metadata_max_bytes: int = 4_096
    """offset.metadata.max.bytes"""
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    """offsets.retention.minutes"""
    offsets_check_interval_ms: int = 600_000
    """offsets.retention.check.interval.ms"""
    consumer_session_timeout_ms: int = 45_000
    """group.consumer.session.timeout.ms"""
    consumer_heartbeat_interval_ms: int = 5_000
    """group.consumer.heartbeat.interval.ms"""
    consumer_max_size: int = 0x7FFFFFFF
    """group.consumer.max.size"""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """group.consumer.assignors; the first one is taken where members do not choose."""
    regex_refresh_interval_ms: int = 600_000
    """group.consumer.regex.refresh.interval.ms"""
