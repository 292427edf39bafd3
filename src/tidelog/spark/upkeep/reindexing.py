"""`reindex`: the local command's repairs, spread over tasks.

1. Small segments: a task gets neighbours and does with each what the local command does
   (`manager.upkeep.reindexing`).
2. Large ones are cut (`manager.upkeep.reindex_pieces`). Tasks walk and check the pieces, and send the tables
   of their headers through Spark's shuffle to one task for each segment. That joins them and makes the
   indexes; where they do not join (damage, old formats), it does what the local command does.

What a batch adds to an index follows from all batches before it, so the entries are made in one place; the
bytes are read and checked in many. Nothing but reports comes to the driver, which holds the root's lock.
Files are replaced as a whole, from a name of the attempt's own, by bytes that depend on the log only: retries
and speculation write the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from tidelog.manager.upkeep.reindex_pieces import ReindexPiece, cut, join, scan_piece
from tidelog.manager.upkeep.reindexing import (
    Reindexed,
    ReindexOptions,
    ReindexTask,
    held_for_reindex,
    plan_reindex,
    reindex_segment,
)
from tidelog.spark.runtime.jobs import Bin, Gathering, pack, report_frame, run_gathered, run_job, share_bytes
from tidelog.spark.upkeep.verification import directory_of
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
"""A row for each segment that needed something: its log, the index files replaced, what was wrong with
them (null where all were to be rebuilt), and what is wrong with the log itself.
"""

_SCHEMA = pa.schema([pa.field("number", pa.int64()), *REINDEX_SCHEMA])
_SENT_SCHEMA = pa.schema([pa.field("number", pa.int64()), pa.field("table", pa.binary())])
"""A run of batches of a segment; null where a piece has none, so that every segment is gathered."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """A piece of the segment of that number, or all of it."""

    number: int
    piece: ReindexPiece

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.piece.size


@dataclass(frozen=True, slots=True)
class ReindexWork:
    """What a task does with a bin of small segments."""

    def __call__(self, number: int, segments: Bin[Numbered]) -> list[dict[str, Any]]:
        """Rebuild what needs it; a row for each segment that did."""
        rows = []
        for each in segments.items:
            done = reindex_segment(LOCAL, each.piece.task)
            if done is not None:
                rows.append({"number": each.number} | _row(done))
        return rows


@dataclass(frozen=True, slots=True)
class ScanWork:
    """What a task does with a bin of pieces of large segments."""

    def __call__(self, number: int, pieces: Bin[Numbered]) -> list[dict[str, Any]]:
        """The tables of their batches."""
        rows: list[dict[str, Any]] = []
        for each in pieces.items:
            tables: list[bytes | None] = [*scan_piece(LOCAL, each.piece)]
            rows += [{"number": each.number, "table": table} for table in tables or [None]]
        return rows


@dataclass(frozen=True, slots=True)
class GatherWork:
    """What a task does with all tables of a large segment."""

    tasks: Mapping[int, ReindexTask]

    def __call__(self, sent: pa.Table) -> list[dict[str, Any]]:
        """Rebuild what needs it; a row if something did."""
        number = sent.column("number")[0].as_py()
        tables = [table for table in sent.column("table").to_pylist() if table is not None]
        task = self.tasks[number]
        done = reindex_segment(LOCAL, task, join(LOCAL, task, tables))
        return [] if done is None else [{"number": number} | _row(done)]


def _row(done: Reindexed) -> dict[str, Any]:
    return {"file": done.file, "indexes": list(done.indexes), "cause": done.cause, "error": done.error}


def reindex(
    spark: SparkSession,
    path: str | Path,
    *,
    everything: bool = False,
    dry_run: bool = False,
    settings: Mapping[str, str] | None = None,
    piece_bytes: int | None = None,
    report: Callable[[int, int], None] | None = None,
) -> DataFrame:
    """Rebuild the indexes in a root or partition that are missing or wrong, or `everything`.

    The rows are the answers of the local `reindex`, see `REINDEX_SCHEMA`. Driver and workers share the
    directory. Segments larger than `piece_bytes` are cut (default: by the number of cores); `report` is told
    of progress.
    """
    options = ReindexOptions(everything=everything, dry_run=dry_run, settings=settings)
    done = rebuild(spark, directory_of(path), piece_bytes=piece_bytes, report=report, **options)
    return report_frame(spark, [_row(one) for one in done], REINDEX_SCHEMA)


def rebuild(
    spark: SparkSession,
    path: str,
    *,
    piece_bytes: int | None = None,
    report: Callable[[int, int], None] | None = None,
    **options: Unpack[ReindexOptions],
) -> list[Reindexed]:
    """The answers of `reindex`, in order."""
    with held_for_reindex(LOCAL, path, dry_run=options.get("dry_run", False)):
        tasks = plan_reindex(LOCAL, path, **options)
        share = share_bytes(spark, sum(task.size for task in tasks))
        cuts = [cut(task, piece_bytes or share) for task in tasks]
        small = [Numbered(number, pieces[0]) for number, pieces in enumerate(cuts) if len(pieces) == 1]
        large = {number: tasks[number] for number, pieces in enumerate(cuts) if len(pieces) > 1}
        pieces = [Numbered(number, piece) for number in large for piece in cuts[number]]
        gathering = Gathering(GatherWork(large), _SCHEMA)
        progress = _Progress(report, sum(task.size for task in tasks))
        rows = run_job(spark, ReindexWork(), pack(small, share), _SCHEMA, progress.part())
        progress.done += sum(each.size for each in small)
        rows += run_gathered(
            spark, ScanWork(), pack(pieces, share), _SENT_SCHEMA, gathering, _SCHEMA, progress.part()
        )
    return [
        Reindexed(row["file"], tuple(row["indexes"]), row["cause"], row["error"])
        for row in sorted(rows, key=lambda row: row["number"])
    ]


@dataclass(slots=True)
class _Progress:
    """One report for jobs that follow each other."""

    report: Callable[[int, int], None] | None
    total: int
    done: int = 0

    def part(self) -> Callable[[int, int], None] | None:
        """What the next job reports to."""
        report = self.report
        return None if report is None else lambda done, _: report(self.done + done, self.total)
