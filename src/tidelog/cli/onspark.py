"""`compact`, `retention` and `trim` of whole roots on Spark, told in the words of the local commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from tidelog.cli.errors import UsageError
from tidelog.cli.output import Column, Output
from tidelog.cli.reporting import Reporter
from tidelog.manager.recovery import is_partition
from tidelog.storage import LOCAL
from tidelog.storage.names import META_PROPERTIES_FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["compact_on_spark", "retain_on_spark", "trim_on_spark"]

_RENAMED = {"segments_after": "segments", "bytes_after": "bytes", "size_bytes": "bytes"}
"""Columns that a job's report calls otherwise."""

_PARTITION = Column("partition", "PARTITION")
_PLANNED = (
    _PARTITION,
    Column("first_dirty_offset", "FROM", right=True),
    Column("end_offset", "UP TO", right=True),
    Column("segments_before", "SEGMENTS", right=True, optional=True),
    Column("bytes_before", "BYTES", right=True),
)
_COMPACTED = (
    *_PLANNED,
    Column("segments_after", "AFTER", right=True, optional=True),
    Column("bytes_after", "AFTER", right=True),
    Column("records_read", "RECORDS", right=True, optional=True),
    Column("records_kept", "KEPT", right=True, optional=True),
)
_RETENTION = (
    _PARTITION,
    Column("base_offset", "SEGMENT", right=True),
    Column("end_offset", "UP TO", right=True, optional=True),
    Column("size_bytes", "BYTES", right=True),
    Column("reason", "BY"),
    Column("detail", "WHY"),
)
_TRIMMED = (
    _PARTITION,
    Column("log_start_offset", "START", right=True),
    Column("new_log_start_offset", "NEW START", right=True),
    Column("segments", "SEGMENTS", right=True),
    Column("size_bytes", "BYTES", right=True),
)


def compact_on_spark(
    root: str,
    master: str,
    output: Output,
    *,
    topics: Sequence[str],
    dry_run: bool,
    now_ms: int | None,
    from_start: bool,
) -> None:
    """Compact the compacted topics of a root, or those named, or show what would be."""
    from tidelog.spark import compact

    how: dict[str, Any] = {"now_ms": now_ms, "from_start": from_start, "dry_run": dry_run}
    with _session(root, master) as spark, ExitStack() as stack:
        tell = Reporter(output, stack, "compacting")
        rows = _rows(compact(spark, root, topics=topics or None, report=tell, **how))
    _show(output, _PLANNED if dry_run else _COMPACTED, rows)
    before = sum(row["bytes_before"] for row in rows)
    if dry_run:
        output.say(f"{len(rows)} logs would be compacted, {before} bytes rewritten")
    else:
        after = sum(row["bytes"] for row in rows)
        output.say(f"{len(rows)} logs compacted; {before} bytes before, {after} after")


def retain_on_spark(
    root: str, master: str, output: Output, *, dry_run: bool, settings: Mapping[str, str]
) -> None:
    """Delete what retention deletes from a root, or show it."""
    from tidelog.spark import retention

    with _session(root, master) as spark:
        rows = _rows(retention(spark, root, dry_run=dry_run, settings=settings))
    _show(output, _RETENTION, rows)
    size = sum(row["bytes"] for row in rows)
    output.say(f"{len(rows)} segments {'would go' if dry_run else 'are deleted'}, {size} bytes")


def trim_on_spark(
    root: str, master: str, output: Output, *, topic: str | None, before_ms: int, dry_run: bool
) -> None:
    """Delete a root's records up to a time, or show what would go."""
    from tidelog.spark import trim

    with _session(root, master) as spark:
        topics = None if topic is None else [topic]
        rows = _rows(trim(spark, root, topics=topics, before_ms=before_ms, dry_run=dry_run))
    _show(output, _TRIMMED, rows)
    segments, size = sum(row["segments"] for row in rows), sum(row["bytes"] for row in rows)
    output.say(f"{segments} segments {'would go' if dry_run else 'are deleted'}, {size} bytes")


@contextmanager
def _session(root: str, master: str) -> Iterator[SparkSession]:
    """A session for work on a root; UsageError where it is none."""
    if is_partition(LOCAL, root):
        raise UsageError(f"{root} is one partition: --spark is for roots")
    if not LOCAL.exists(f"{root}/{META_PROPERTIES_FILE}"):
        raise UsageError(f"{root} is no root of a broker or store (it has no {META_PROPERTIES_FILE})")
    from tidelog.spark import quiet_session

    with quiet_session(master) as spark:
        yield spark


def _rows(report: DataFrame) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = report.toArrow().to_pylist()
    return found


def _show(output: Output, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
    """A report's rows, with partitions by their names."""
    named = [{**row, "partition": f"{row['topic']}-{row['partition']}"} for row in rows]
    output.table(columns, ([row[_RENAMED.get(one.name, one.name)] for one in columns] for row in named))
