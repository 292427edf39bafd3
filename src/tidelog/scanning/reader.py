"""`scan`: partitions -> ranges -> tasks -> record batches.

Tasks run on one thread or several; their batches come out in the plan's order. On several threads tasks are
short, so that a thread is rarely done with its own long before the reader comes to it; one more task than
there are threads is begun and not yet read to its end, each a few batches ahead of the reader. So memory is
bounded by batch size times threads, not by the data.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.records.decode import MAX_BYTES, MAX_ROWS
from tidelog.records.schema import Projection
from tidelog.scanning.bounds import AtDamage, AtTime, OffsetBound, resolve, visible
from tidelog.scanning.losses import Corrupt, Loss, log_loss
from tidelog.scanning.partitions import Partition, find_partitions, look_steadily
from tidelog.scanning.plan import DEFAULT_SPLIT_BYTES
from tidelog.scanning.ranges import OffsetRange, check_replaced, is_committed, plan_range
from tidelog.scanning.salvage import run_with
from tidelog.scanning.tasks import ScanTask, open_view
from tidelog.scanning.typed import TypedColumns, typed_columns
from tidelog.scanning.volumes import FileView
from tidelog.values.spec import Values

__all__ = ["Bound", "plan_scan", "scan"]

Bound = int | datetime | Mapping[int, int] | None
"""An offset; a time; an offset by partition number; None for the log's own start or end."""

_AHEAD = 12  # record batches that a task may be ahead of its reader
_THREAD_SPLIT_BYTES = 12 << 20  # decoded, most often no more than `_AHEAD` batches: else its thread waits


def scan(
    path: str | Path | Iterable[str | Path],
    topics: str | Collection[str] | None = None,
    *,
    partitions: Collection[int] | None = None,
    start: Bound = None,
    end: Bound = None,
    isolation: str = "read_uncommitted",
    control_records: bool = False,
    columns: Iterable[str] | None = None,
    values: Values | None = None,
    keys: Values | None = None,
    corrupt: str = "fail",
    on_loss: Callable[[Loss], None] = log_loss,
    threads: int = 1,
    split_bytes: int | None = None,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
) -> pa.RecordBatchReader:
    """Read records from directories that Kafka or tidelog wrote, in use or not, as Arrow record batches.

    `path` is a root directory, a partition directory, several of them, a glob, or an fsspec URL. `start` is
    included, `end` is not; an aware `datetime` means the first record at or after that time. As for a
    consumer, Kafka's internal topics are read only if they are named, and control records (transaction
    markers) only with `control_records`. `isolation="read_committed"` leaves out aborted data and what lies
    past the last stable offset.

    `values` and `keys` decode Avro, Protobuf and JSON under a JSON Schema: the column then has its schema's
    type, and two more follow it: `value_invalid` with the bytes that did not decode, and `value_error` with
    the reason.

    The result is read once; DuckDB, Polars and pandas take it as it is. Files are only read; a log that is
    being written is read up to its last whole batch. If a file is damaged, you get the records before the
    damage, then CorruptRecordError; with `corrupt="stop"` the partition ends there, and with `corrupt="skip"`
    reading continues at the next sound batch. `on_loss` is then called with each `Loss`, in the order of
    reading; by default, losses are logged as warnings. DataLossError means that the log
    was truncated, compacted or deleted while it was read (scan again), or that a crash cut a compaction short
    (recover it first; `corrupt="skip"` reads the rest).
    """
    projection = Projection.of(columns)
    policy = Corrupt.parse(corrupt)
    if threads < 1:
        raise InvalidInputError(f"threads must be 1 or more, not {threads}")
    tasks = plan_scan(
        path,
        topics,
        partitions=partitions,
        start=start,
        end=end,
        isolation=isolation,
        control_records=control_records,
        split_bytes=_split_bytes(threads) if split_bytes is None else split_bytes,
        corrupt=policy,
    )
    typed = TypedColumns()
    if values is not None or keys is not None:
        typed = typed_columns(projection, tasks, values, keys)
    run = _Run(projection, max_rows, max_bytes, policy, typed)
    found = _in_order(tasks, run, threads) if threads > 1 else _one_by_one(tasks, run)
    batches = _without_losses(found, policy, on_loss)
    return pa.RecordBatchReader.from_batches(typed.schema(projection.schema), batches)


def _split_bytes(threads: int) -> int:
    return DEFAULT_SPLIT_BYTES if threads == 1 else _THREAD_SPLIT_BYTES


def plan_scan(
    path: str | Path | Iterable[str | Path],
    topics: str | Collection[str] | None = None,
    *,
    partitions: Collection[int] | None = None,
    start: Bound = None,
    end: Bound = None,
    isolation: str = "read_uncommitted",
    control_records: bool = False,
    split_bytes: int = DEFAULT_SPLIT_BYTES,
    corrupt: Corrupt = Corrupt.FAIL,
) -> list[ScanTask]:
    """The tasks of a scan: values that can be pickled and run anywhere the files can be read."""
    committed_only = is_committed(isolation)
    if split_bytes < 1:
        raise InvalidInputError(f"split_bytes must be 1 or more, not {split_bytes}")
    named = {topics} if isinstance(topics, str) else topics
    tasks: list[ScanTask] = []
    for partition in find_partitions(path, named, internal=False):
        if partitions is None or partition.topic_partition.partition in partitions:
            tasks += look_steadily(
                partition,
                lambda one: plan_range(
                    _range(one, start, end, committed_only, corrupt),
                    committed_only=committed_only,
                    with_control=control_records,
                    split_bytes=split_bytes,
                    with_missing=corrupt is Corrupt.SKIP,
                ),
            )
    return tasks


def _range(
    partition: Partition, start: Bound, end: Bound, committed_only: bool, corrupt: Corrupt
) -> OffsetRange:
    """The offsets that are meant. What comes before damage is read first: reading will meet it, and raise."""
    at_damage = AtDamage.SKIP if corrupt is Corrupt.SKIP else AtDamage.MEET
    seen = visible(partition, committed_only=committed_only, at_damage=at_damage)
    wanted = resolve(partition, _bound(partition, start), _bound(partition, end), seen, at_damage)
    if corrupt is not Corrupt.SKIP:
        check_replaced(wanted)
    return wanted


def _bound(partition: Partition, bound: Bound) -> OffsetBound:
    if isinstance(bound, Mapping):
        return bound.get(partition.topic_partition.partition)
    if isinstance(bound, datetime):
        if bound.tzinfo is None:
            raise InvalidInputError(f"{bound} has no time zone; set tzinfo")
        return AtTime(round(bound.timestamp() * 1000))
    return bound


@dataclass(frozen=True, slots=True)
class _Run:
    """How tasks are run."""

    projection: Projection
    max_rows: int
    max_bytes: int
    corrupt: Corrupt
    typed: TypedColumns

    def __call__(self, task: ScanTask, view: FileView | None = None) -> Iterator[pa.RecordBatch | Loss]:
        """The records of a task, and what was lost between them."""
        found = run_with(
            self.corrupt,
            task,
            self.projection,
            max_rows=self.max_rows,
            max_bytes=self.max_bytes,
            view=view,
        )
        for item in found:
            yield item if isinstance(item, Loss) else self.typed.decode(item, task.topic)


_Found: TypeAlias = tuple[ScanTask, pa.RecordBatch | Loss]


def _without_losses(
    found: Iterable[_Found], corrupt: Corrupt, on_loss: Callable[[Loss], None]
) -> Iterator[pa.RecordBatch]:
    """The records; losses are told, and end their partition if reading stops at them."""
    stopped = set()
    for task, item in found:
        if task.url in stopped:
            continue
        if isinstance(item, Loss):
            on_loss(item)
            if corrupt is Corrupt.STOP:
                stopped.add(task.url)
        else:
            yield item


def _one_by_one(tasks: list[ScanTask], run: _Run) -> Iterator[_Found]:
    stopped = ""
    for task in tasks:
        if task.url == stopped:
            continue
        for item in run(task):
            yield task, item
            if isinstance(item, Loss) and run.corrupt is Corrupt.STOP:
                stopped = task.url


_Queued: TypeAlias = pa.RecordBatch | Loss | BaseException | None


class _Stopped(Exception):
    """The reader has gone."""


def _in_order(tasks: list[ScanTask], run: _Run, threads: int) -> Iterator[_Found]:
    """What tasks find, in order, decoded ahead on `threads` threads, each with a short queue of its own."""
    queues: list[queue.Queue[_Queued]] = [queue.Queue(maxsize=_AHEAD) for _ in tasks]
    stop = threading.Event()
    unread = threading.Semaphore(threads + 1)
    todo = iter(list(zip(tasks, queues, strict=True)))
    todo_lock = threading.Lock()

    def put(target: queue.Queue[_Queued], item: _Queued) -> None:
        while not stop.is_set():
            try:
                target.put(item, timeout=0.2)
                return
            except queue.Full:
                continue
        raise _Stopped

    def work() -> None:
        opened, view = "", None  # the file of the last task: most often of the next one, too
        while True:
            unread.acquire()
            with todo_lock:
                task, target = next(todo, (None, None))
            if task is None or target is None or stop.is_set():
                unread.release()  # the next one has to end, too
                return
            try:
                if run.corrupt is Corrupt.SKIP:
                    view = None  # it opens its file by itself, which may have gone
                elif task.is_tail or task.source != opened or view is None or view.size < task.end_position:
                    opened, view = task.source, open_view(task)
                for item in run(task, view):
                    put(target, item)
                put(target, None)
            except _Stopped:
                return
            except BaseException as error:
                with suppress(_Stopped):
                    put(target, error)

    workers = [threading.Thread(target=work, name=f"tidelog-scan-{n}", daemon=True) for n in range(threads)]
    for worker in workers:
        worker.start()
    try:
        for task, target in zip(tasks, queues, strict=True):
            while (item := target.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield task, item
            unread.release()
    finally:
        stop.set()
        unread.release()
        for worker in workers:
            worker.join()
