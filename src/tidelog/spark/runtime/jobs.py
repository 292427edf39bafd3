"""Jobs over splits: one split a task, a few rows of report a split, nothing else comes back.

A job's tasks open the files by themselves; Spark only hands out numbers and collects the reports. Each task
is a pure function of its split, so that retries and speculation may run it again. Splits travel pickled one
by one: a task unpacks its own only.

A session that has a `SparkContext` runs them as an RDD: there is nothing to plan, and nothing for Java to
compile beside the tasks, which want the processors. Spark Connect has frames only.
"""

from __future__ import annotations

import pickle
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import pyarrow as pa

from tidelog import errors
from tidelog.spark.runtime.shipping import ship

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "Bin",
    "Gathering",
    "Task",
    "Work",
    "job_frame",
    "pack",
    "parallelism",
    "report_frame",
    "run_gathered",
    "run_job",
    "share_bytes",
    "share_on",
]

_DEFAULT_PARALLELISM = 8
_POLL_S = 0.5
_TASKS_PER_CORE = 4
_MIN_SHARE_BYTES = 32 << 20
_MAX_SHARE_BYTES = 512 << 20
_OUR_ERROR = re.compile(r"^tidelog\.errors\.(\w+): (.*)$", re.MULTILINE)
_DISK_ERROR = re.compile(
    r"^(?:OSError|PermissionError|FileNotFoundError): \[Errno (\d+)\] (.*?)(?:: '(.*)')?$", re.MULTILINE
)

Work = Callable[[int, Any], list[dict[str, Any]]]
"""From a split's number and the split to its report, rows of the report's schema. Must be picklable."""


class Sized(Protocol):
    """Something to work on that takes so many bytes."""

    @property
    def size(self) -> int:
        """Bytes."""


_Item = TypeVar("_Item", bound=Sized)


@dataclass(frozen=True, slots=True)
class Bin(Generic[_Item]):
    """Neighbours in a list of things to do, to be done by one task; `first` is the number of the first."""

    first: int
    items: tuple[_Item, ...]

    @property
    def size(self) -> int:
        """Bytes of all."""
        return sum(item.size for item in self.items)


def pack(items: Sequence[_Item], max_bytes: int) -> list[Bin[_Item]]:
    """Put neighbours together, as many as make up `max_bytes`; a larger one goes alone."""
    bins: list[Bin[_Item]] = []
    first = filled = 0
    for number, item in enumerate(items):
        if number > first and filled + item.size > max_bytes:
            bins.append(Bin(first, tuple(items[first:number])))
            first, filled = number, 0
        filled += item.size
    return [*bins, Bin(first, tuple(items[first:]))] if items else []


class Task:
    """What runs on an executor: the splits of the numbers it is given, one report each, as Arrow or as bytes
    of Arrow.
    """

    def __init__(self, work: Work, splits: Sequence[Any], schema: pa.Schema) -> None:
        self._work = work
        self._splits = [pickle.dumps(split) for split in splits]
        self._schema = schema

    def of_frame(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reports for the numbers in `batches`."""
        for batch in batches:
            yield from map(self._report, batch.column(0).to_pylist())

    def of_rdd(self, numbers: Iterator[int]) -> Iterator[bytes]:
        """Reports for the numbers."""
        for number in numbers:
            yield self._report(number).serialize().to_pybytes()

    def _report(self, number: int) -> pa.RecordBatch:
        rows = self._work(number, pickle.loads(self._splits[number]))
        return pa.RecordBatch.from_pylist(rows, schema=self._schema)


class Gathering:
    """What runs on an executor with all rows that tasks sent under one key: a report."""

    def __init__(self, work: Callable[[pa.Table], list[dict[str, Any]]], schema: pa.Schema) -> None:
        self._work = work
        self._schema = schema

    def __call__(self, group: pa.Table) -> pa.Table:
        """The report for the rows of one key."""
        return pa.Table.from_pylist(self._work(group), schema=self._schema)


def run_job(
    spark: SparkSession,
    work: Work,
    splits: Sequence[Any],
    schema: pa.Schema,
    report: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Run `work` on every split and collect the rows that come back, each split's once.

    `report` is told now and then about how many bytes of how many are done. An error of ours that ended a
    task is raised here as itself.
    """
    if not splits:
        return []
    context = _context(spark)
    if context is None:
        return _run(spark, splits, _rows_of(job_frame(spark, work, splits, schema)), report)
    numbers = context.parallelize(range(len(splits)), len(splits))
    reports = numbers.mapPartitions(ship(Task(work, splits, schema).of_rdd))

    def collect() -> list[dict[str, Any]]:
        found = [pa.ipc.read_record_batch(pa.py_buffer(each), schema) for each in reports.collect()]
        return [row for batch in found for row in batch.to_pylist()]

    return _run(spark, splits, collect, report)


def run_gathered(
    spark: SparkSession,
    work: Work,
    splits: Sequence[Any],
    sent: pa.Schema,
    gathering: Gathering,
    schema: pa.Schema,
    report: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Like `run_job`, in two steps: the rows of `work` go, by the first column of `sent`, to tasks that see
    all rows of a key together. They travel through Spark's shuffle, from worker to worker; what `gathering`
    makes of them comes back.
    """
    if not splits:
        return []
    from pyspark.sql.pandas.types import from_arrow_schema

    groups = job_frame(spark, work, splits, sent).groupBy(sent.names[0])
    rows = groups.applyInArrow(ship(gathering), from_arrow_schema(schema))
    return _run(spark, splits, _rows_of(rows), report)


def _context(spark: SparkSession) -> SparkContext | None:
    """What runs RDDs; None on Spark Connect."""
    context: SparkContext | None = getattr(spark, "_sc", None)
    return context


def _rows_of(frame: DataFrame) -> Callable[[], list[dict[str, Any]]]:
    return lambda: frame.toArrow().to_pylist()


def job_frame(spark: SparkSession, work: Work, splits: Sequence[Any], schema: pa.Schema) -> DataFrame:
    """The rows that `work` makes of every split, as a frame that is yet to be run."""
    from pyspark.sql.pandas.types import from_arrow_schema

    numbers = spark.range(0, len(splits), 1, max(len(splits), 1))
    return numbers.mapInArrow(ship(Task(work, splits, schema).of_frame), from_arrow_schema(schema))


def _run(
    spark: SparkSession,
    splits: Sequence[Any],
    collect: Callable[[], list[dict[str, Any]]],
    report: Callable[[int, int], None] | None,
) -> list[dict[str, Any]]:
    """What `collect` has Spark do over splits, watched; its rows."""
    size = sum(split.size for split in splits)
    try:
        with _watched(spark, len(splits), size, report):
            return collect()
    except Exception as error:
        raise ours(error) from error


def ours(error: Exception) -> Exception:
    """The error of ours, or of the disk, that a failed task has in its traceback; else `error` itself."""
    told = [found for found in _OUR_ERROR.finditer(str(error)) if hasattr(errors, found[1])]
    if told:
        kind = getattr(errors, told[-1][1])
        ours: Exception = kind(told[-1][2])
        return ours
    disk = list(_DISK_ERROR.finditer(str(error)))
    if disk:
        number, what, place = disk[-1].groups()
        return OSError(int(number), what, place)
    return error


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at a time; a guess on Spark Connect, which does not tell."""
    try:
        return max(int(spark.sparkContext.defaultParallelism), 1)
    except Exception:
        return _DEFAULT_PARALLELISM


def share_bytes(spark: SparkSession, total: int) -> int:
    """How large the share of a task is to be: enough tasks for all cores, none too small to be worth it."""
    return share_on(parallelism(spark), total)


def share_on(cores: int, total: int) -> int:
    """The same for so many cores."""
    return min(max(total // (_TASKS_PER_CORE * cores), _MIN_SHARE_BYTES), _MAX_SHARE_BYTES)


def report_frame(spark: SparkSession, rows: list[dict[str, Any]], schema: pa.Schema) -> DataFrame:
    """A report's rows as a frame."""
    from pyspark.sql.pandas.types import from_arrow_schema

    table = pa.Table.from_pylist(rows, schema=schema)
    return spark.createDataFrame(table, schema=from_arrow_schema(schema))


@contextmanager
def _watched(
    spark: SparkSession, tasks: int, size: int, report: Callable[[int, int], None] | None
) -> Iterator[None]:
    """Reports progress from a thread of its own for as long as the `with` lasts."""
    context = _context(spark)
    if report is None or context is None:
        yield
        return
    tag = f"tidelog-{uuid.uuid4().hex}"
    context.addJobTag(tag)
    done = threading.Event()

    def watch() -> None:
        tracker = context.statusTracker()
        while not done.wait(_POLL_S):
            report(size * min(_completed(tracker, context, tag), tasks) // tasks, size)

    watcher = threading.Thread(target=watch, name="tidelog-progress", daemon=True)
    watcher.start()
    try:
        yield
        report(size, size)
    finally:
        done.set()
        watcher.join()
        context.removeJobTag(tag)


def _completed(tracker: Any, context: Any, tag: str) -> int:
    """How many tasks of the jobs under a tag are done."""
    jobs = context._jsc.sc().statusTracker().getJobIdsForTag(tag)
    finished = 0
    for job in jobs:
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            stage_info = tracker.getStageInfo(stage)
            finished += stage_info.numCompletedTasks if stage_info is not None else 0
    return finished
