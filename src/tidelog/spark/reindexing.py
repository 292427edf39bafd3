"""`reindex`: the local command's repairs, spread over tasks.

A task gets neighbouring segments and does with each what the local command does (`manager.reindexing`): the
entries of an index follow from all batches before them, so a segment, which has at most 2 GiB, is not cut.
Files are replaced whole, from a name of the attempt's own, by bytes that depend on the log only: retries and
speculation write the same again. The driver holds the root's lock meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.manager.reindexing import Reindexed, ReindexTask, hold_root, plan_reindex, reindex_segment
from tidelog.spark.jobs import Bin, pack, report_frame, run_job, share_bytes
from tidelog.spark.verifying import directory_of
from tidelog.storage import LOCAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["REINDEX_SCHEMA", "rebuild", "reindex"]

REINDEX_SCHEMA = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("indexes", pa.list_(pa.string())),
        pa.field("cause", pa.string()),
        pa.field("error", pa.string()),
    ]
)
"""A row for each segment that needed something: its log, the index files replaced, what was wrong with them
(null where all were to be made anew), and what is wrong with the log itself."""

_SCHEMA = pa.schema([pa.field("number", pa.int64()), *REINDEX_SCHEMA])


@dataclass(frozen=True, slots=True)
class ReindexWork:
    """What a task does with a bin of segments."""

    def __call__(self, number: int, segments: Bin[ReindexTask]) -> list[dict[str, Any]]:
        """Rebuild what needs it; a row for each segment that did."""
        rows = []
        for n, task in enumerate(segments.items, segments.first):
            done = reindex_segment(LOCAL, task)
            if done is not None:
                rows.append({"number": n} | _row(done))
        return rows


def _row(done: Reindexed) -> dict[str, Any]:
    return {"file": done.file, "indexes": list(done.indexes), "cause": done.cause, "error": done.error}


def reindex(
    spark: SparkSession,
    path: str | Path,
    *,
    everything: bool = False,
    dry_run: bool = False,
    settings: Mapping[str, str] | None = None,
    report: Callable[[int, int], None] | None = None,
) -> DataFrame:
    """Rebuild the indexes in a root or partition that are missing or wrong, or `everything`.

    The rows are the answers of the local `reindex`, see `REINDEX_SCHEMA`. Driver and workers share the
    directory; `report` is told of progress.
    """
    done = rebuild(
        spark,
        directory_of(path),
        everything=everything,
        dry_run=dry_run,
        settings=settings,
        report=report,
    )
    return report_frame(spark, [_row(one) for one in done], REINDEX_SCHEMA)


def rebuild(
    spark: SparkSession,
    path: str,
    *,
    everything: bool = False,
    dry_run: bool = False,
    settings: Mapping[str, str] | None = None,
    report: Callable[[int, int], None] | None = None,
) -> list[Reindexed]:
    """The answers of `reindex`, in order."""
    with hold_root(LOCAL, path, dry_run=dry_run):
        tasks = plan_reindex(LOCAL, path, everything=everything, dry_run=dry_run, settings=settings)
        bins = pack(tasks, share_bytes(spark, sum(task.size for task in tasks)))
        rows = run_job(spark, ReindexWork(), bins, _SCHEMA, report)
    return [
        Reindexed(row["file"], tuple(row["indexes"]), row["cause"], row["error"])
        for row in sorted(rows, key=lambda row: row["number"])
    ]
