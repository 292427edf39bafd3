"""Retention of the partitions of a report: each one's configuration, and what goes when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.config import LogConfig
from tidelog.errors import TidelogError
from tidelog.layout.config import log_config
from tidelog.layout.roots import RootFacts, look_at
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.metadata.files import look_at_metadata
from tidelog.manager.metadata.image import MetadataImage
from tidelog.manager.upkeep.retention_plan import is_planned, plan_partition_retention
from tidelog.report.counts import HOUR_MS
from tidelog.report.retention import forecast
from tidelog.report.tables import Table, columns_of
from tidelog.scanning.partitions import Partition
from tidelog.storage import LOCAL
from tidelog.storage.names import DirectoryState

__all__ = ["retention_tables"]

_DAY_MS = 86_400_000
_PLAN = ("at", "cleanup_policy", "retention_ms", "retention_bytes", "bytes_per_day", "stays")
_GOING = ("at", "base_offset", "size_bytes", "at_ms", "reason")


def retention_tables(
    partitions: Sequence[Partition], found: Sequence[Mapping[str, Any]], config: BrokerConfig, now_ms: int
) -> tuple[Table, Table]:
    """The rules of each partition that somebody here knows the rules of, and the segments that go by them."""
    roots: dict[str, tuple[RootFacts, MetadataImage] | None] = {}
    plans, goings = [], []
    for at, (partition, facts) in enumerate(zip(partitions, found, strict=True)):
        root = partition.url.rpartition("/")[0]
        if partition.state is not DirectoryState.LIVE or "://" in root:
            continue
        if root not in roots:
            roots[root] = _look(root)
        known = roots[root]
        if known is None or not is_planned(*known, partition.topic_partition):
            continue
        own = log_config(known[1].topic_config(partition.topic_partition.topic), config.topic_defaults)
        rate = bytes_per_day(facts, now_ms)
        try:
            planned = plan_partition_retention(*known, partition.again(), own, now_ms)
            going = forecast(
                planned.views,
                own,
                planned.plan,
                high_watermark=planned.high_watermark,
                now_ms=now_ms,
                bytes_per_day=rate,
            )
        except (TidelogError, OSError) as error:  # a damaged log: what goes is not known
            plans.append([at, _policy(own), own.retention_ms, own.retention_bytes, rate, str(error)])
            continue
        plans.append([at, _policy(own), own.retention_ms, own.retention_bytes, rate, planned.plan.stay])
        goings += [[at, one.base_offset, one.size, one.at_ms, one.reason.value] for one in going]
    return columns_of(_PLAN, plans), columns_of(_GOING, goings)


def _look(root: str) -> tuple[RootFacts, MetadataImage] | None:
    try:
        return look_at(LOCAL, root), look_at_metadata(LOCAL, root).image
    except (TidelogError, OSError):
        return None


def _policy(config: LogConfig) -> str:
    return ",".join(config.cleanup_policy)


def bytes_per_day(facts: Mapping[str, Any], now_ms: int) -> int:
    """The bytes that were written in the last 24 hours, by the times of batches."""
    first, last = (now_ms - _DAY_MS) // HOUR_MS, now_ms // HOUR_MS
    width: int = facts["hour_width"]
    found: int = sum(size for hour, _, size, _ in facts["hours"] if first < hour + width - 1 and hour <= last)
    return found * 24 // max(width, 24)
