"""`compact`, `retention` and `trim` of whole roots on Spark: what the jobs report, for commands to show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.cleanup.retention import Deletion, RetentionReason
from tidelog.cli.actions.directories import check_root, existing_directory
from tidelog.cli.errors import UsageError
from tidelog.cli.render.output import Output
from tidelog.cli.render.spark_progress import Reporter
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.manager.upkeep.trimming import Trim
from tidelog.storage import LOCAL
from tidelog.storage.directory import is_partition
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["compact_on_spark", "retain_on_spark", "root_for_spark", "trim_on_spark"]


def compact_on_spark(
    root: str,
    master: str,
    output: Output,
    *,
    topics: Sequence[str],
    now_ms: int,
    from_start: bool,
    config: BrokerConfig,
) -> Iterator[tuple[TopicPartition, dict[str, Any]]]:
    """Compact the compacted topics of a root, or those named: a row of COMPACT_SCHEMA for each log."""
    from tidelog.spark import compact, quiet_session

    with quiet_session(master) as spark, ExitStack() as stack:
        tell = Reporter(output, stack, "compacting")
        rows = _rows(
            compact(
                spark,
                root,
                topics=topics or None,
                now_ms=now_ms,
                from_start=from_start,
                report=tell,
                config=config,
            )
        )
    yield from rows


def retain_on_spark(
    root: str, master: str, *, dry_run: bool, settings: Mapping[str, str], config: BrokerConfig
) -> Iterator[tuple[TopicPartition, Deletion]]:
    """Delete what retention deletes from a root, or look: the segments that go."""
    from tidelog.spark import quiet_session, retention

    with quiet_session(master) as spark:
        rows = _rows(retention(spark, root, dry_run=dry_run, settings=settings, config=config))
    for partition, row in rows:
        reason = RetentionReason(row["reason"])
        yield (
            partition,
            Deletion(row["base_offset"], row["end_offset"], row["bytes"], reason, row["detail"]),
        )


def trim_on_spark(
    root: str, master: str, *, topic: str | None, before_ms: int, dry_run: bool, config: BrokerConfig
) -> Iterator[Trim]:
    """Delete a root's records up to a time, or look: the partitions whose log start moves."""
    from tidelog.spark import quiet_session, trim

    with quiet_session(master) as spark:
        topics = None if topic is None else [topic]
        rows = _rows(trim(spark, root, topics=topics, before_ms=before_ms, dry_run=dry_run, config=config))
    for partition, row in rows:
        yield Trim(
            partition, row["log_start_offset"], row["new_log_start_offset"], row["segments"], row["bytes"]
        )


def _rows(report: DataFrame) -> list[tuple[TopicPartition, dict[str, Any]]]:
    """A job's report, by partition."""
    rows: list[dict[str, Any]] = report.toArrow().to_pylist()
    return [(TopicPartition(row["topic"], row["partition"]), row) for row in rows]


def root_for_spark(path: Path) -> str:
    """The root that goes to Spark; UsageError if it is none."""
    directory = existing_directory(path)
    if is_partition(LOCAL, directory):
        raise UsageError(f"{directory} is one partition: --spark is for roots")
    check_root(directory)
    return directory
