"""`rewrite`: records of a root erased, redacted or written another way, by many tasks.

The driver does what the local command does (`tidelog.rewriting`): it holds the root, plans a task for each
segment, keeps the originals and swaps the new segments in. Only the tasks run elsewhere, several small
segments together. All workers must reach the root.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.errors import DataLossError, InvalidInputError
from tidelog.manager.brokerconfig import BrokerConfig
from tidelog.rewriting.edits import Edits
from tidelog.rewriting.rewrite import Rewriting, RewrittenPartition, partitions_in, plan_rewrite, rewrite_root
from tidelog.rewriting.segments import SegmentDone, SegmentTask, rewrite_segment
from tidelog.spark.runtime.jobs import Bin, pack, report_frame, run_job, share_bytes
from tidelog.storage import LOCAL
from tidelog.storage.names import parse_partition_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["REWRITE_SCHEMA", "SparkRunner", "rewrite"]

REWRITE_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("segments", pa.int64()),
        pa.field("segments_changed", pa.int64()),
        pa.field("records_read", pa.int64()),
        pa.field("records_erased", pa.int64()),
        pa.field("records_redacted", pa.int64()),
        pa.field("records_retimed", pa.int64()),
        pa.field("batches_rewritten", pa.int64()),
        pa.field("batches_emptied", pa.int64()),
        pa.field("batches_dropped", pa.int64()),
        pa.field("bytes_before", pa.int64()),
        pa.field("bytes_after", pa.int64()),
    ]
)
"""A row for each partition."""

_ANSWERS = pa.schema([pa.field("number", pa.int64()), pa.field("answer", pa.binary())])


@dataclass(frozen=True, slots=True)
class _Work:
    """Rewrites the segments of a share."""

    edits: Edits

    def __call__(self, number: int, share: Bin[SegmentTask]) -> list[dict[str, Any]]:
        """What became of each, pickled."""
        done = [rewrite_segment(LOCAL, task, self.edits) for task in share.items]
        return [{"number": number, "answer": pickle.dumps(done)}]


class SparkRunner:
    """Runs the tasks of a rewrite on a cluster."""

    def __init__(self, spark: SparkSession, report: Callable[[int, int], None] | None = None) -> None:
        self._spark = spark
        self._report = report

    def __call__(self, tasks: Sequence[SegmentTask], edits: Edits) -> list[SegmentDone]:
        """The answers, in the order of the tasks."""
        shares = pack(tasks, share_bytes(self._spark, sum(task.size for task in tasks)))
        rows = run_job(self._spark, _Work(edits), shares, _ANSWERS, self._report)
        answers = {row["number"]: row["answer"] for row in rows}
        if len(rows) != len(shares) or len(answers) != len(shares):
            raise DataLossError(f"Spark answered {len(rows)} times for {len(shares)} shares")
        return [done for number in range(len(shares)) for done in pickle.loads(answers[number])]


def rewrite(
    spark: SparkSession,
    root: str | Path,
    edits: Edits,
    *,
    topics: Iterable[str] | None = None,
    discard: bool = False,
    dry_run: bool = False,
    report: Callable[[int, int], None] | None = None,
    config: BrokerConfig | None = None,
) -> DataFrame:
    """Rewrite the topics of a root, or the named ones, as `tidelog rewrite` does; see REWRITE_SCHEMA.

    Internal topics are left alone unless they are named. The originals are kept in the root's quarantine,
    with all that was erased, unless `discard` is set.
    """
    path = str(Path(root).absolute())
    named = None if topics is None else set(topics)
    names = partitions_in(LOCAL, path, named)
    missing = (named or set()) - {parse_partition_directory(name).topic_partition.topic for name in names}
    if missing:
        raise InvalidInputError(f"there is no topic {', '.join(sorted(missing))} in {path}")
    defaults = (config or BrokerConfig()).topic_defaults
    request = Rewriting(LOCAL, path, tuple(names), edits, discard, defaults=defaults)
    run = SparkRunner(spark, report)
    done = plan_rewrite(request, run) if dry_run else rewrite_root(request, run).partitions
    return report_frame(spark, [_row(one) for one in done], REWRITE_SCHEMA)


def _row(one: RewrittenPartition) -> dict[str, Any]:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "segments": len(one.segments),
        "segments_changed": one.changed,
        **asdict(one.stats),
        "bytes_before": one.bytes_before,
        "bytes_after": one.bytes_after,
    }
