"""`reconcile` of whole clusters' disks: a task for each partition.

Driver and workers share the disks and the directory that is written. A task that runs again begins its
partition anew.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.errors import DataLossError
from tidelog.manager.reconciling.outcome import Outcome
from tidelog.manager.reconciling.rooting import Job, run_job
from tidelog.spark.runtime import jobs as runtime
from tidelog.storage import LOCAL
from tidelog.storage.removal import remove_tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ReconcileWork", "run_jobs"]

_SCHEMA = pa.schema([pa.field("number", pa.int64()), pa.field("outcome", pa.binary())])


@dataclass(frozen=True, slots=True)
class ReconcileWork:
    """What a task does: reconcile one partition."""

    def __call__(self, number: int, job: Job) -> list[dict[str, Any]]:
        """One row, with the outcome."""
        if job.target is not None:
            remove_tree(LOCAL, f"{job.target}/{job.partition}")
        if job.truncated_to is not None:
            remove_tree(LOCAL, f"{job.truncated_to}/{job.partition}")
        return [{"number": number, "outcome": pickle.dumps(run_job(job))}]


def run_jobs(
    spark: SparkSession, jobs: Sequence[Job], report: Callable[[int, int], None] | None = None
) -> list[Outcome]:
    """The outcome of each job, in order."""
    rows = runtime.run_job(spark, ReconcileWork(), jobs, _SCHEMA, report)
    found = {row["number"]: row["outcome"] for row in rows}
    if len(rows) != len(jobs) or len(found) != len(jobs):
        raise DataLossError(f"Spark answered {len(rows)} reports for {len(jobs)} partitions; run it again")
    return [pickle.loads(found[number]) for number in range(len(jobs))]
