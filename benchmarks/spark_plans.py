"""One plan of a Spark job, in a process of its own, timed: `python -m benchmarks.spark_plans KIND ROOT N`.

No Java: this is what the driver does before the first task. Answers {"seconds", "cpu_seconds", "megabytes",
"tasks"}; the memory is the process's peak, without what a file system in memory holds.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import fsspec

from benchmarks.spark_scale import one_record
from tidelog.spark.compaction.job import cleanable, whole_tasks
from tidelog.spark.compaction.whole import WholeSplit
from tidelog.spark.exporting.job import export_tasks, plan_export
from tidelog.spark.source.batch import plan_batch
from tidelog.spark.source.offsets import select_partitions
from tidelog.spark.source.options import SourceOptions
from tidelog.tables.table import Done

_CORES = 4
_NOW_MS = 4_000_000_000_000


def main() -> None:
    """Plans, and says what it took."""
    kind, root, partitions = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if kind.endswith("-memory"):
        root = _in_memory(partitions)
    before = _megabytes()
    begin, begin_cpu = time.perf_counter(), time.process_time()
    tasks = _plan(kind.removesuffix("-memory"), root)
    times = {"seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - begin_cpu}
    held = before if kind.endswith("-memory") else 0.0
    print(json.dumps(times | {"megabytes": _megabytes() - held, "tasks": tasks}))


def _plan(kind: str, root: str) -> int:
    if kind == "compact":
        rows = cleanable([root], ["t"], _NOW_MS, from_start=True)
        splits = [WholeSplit(root, {}, 0, 0, 0, 0, 0, _NOW_MS, row["bytes_before"]) for row in rows]
        return len(whole_tasks(splits, _CORES))
    options = SourceOptions.parse({"path": root})
    if kind == "read":
        return len(plan_batch(options))
    plan = plan_export(select_partitions(options), Done(), options)
    return len(export_tasks(plan.ranges, options, _CORES))


def _in_memory(partitions: int) -> str:
    """The same segments in fsspec's memory file system: a listing, and a request for each file."""
    fs = fsspec.filesystem("memory")
    batches = [one_record(base) for base in range(10)]
    for number in range(partitions):
        for base, batch in enumerate(batches):
            fs.pipe_file(f"/plan/t-{number}/{base:020}.log", batch)
    return "memory://plan"


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
