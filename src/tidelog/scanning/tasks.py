"""A piece of a scan: a stretch of one segment file, to be decoded wherever the task is sent.

A task is a value: it can be pickled, sent to another process, and run any number of times with the same
result, as long as the file is there. It begins and ends at batch boundaries that the plan knows from the
offset index; the offsets it is asked for may lie inside batches, so the first and last of them are cut to
size after decoding.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter

import numpy as np
import pyarrow as pa

from tidelog.errors import (
    CorruptRecordError,
    DataLossError,
    OffsetDisorderError,
    TidelogError,
    TornBatchError,
)
from tidelog.layout.partitions import PartitionFiles
from tidelog.log.read.committed import Aborted, committed
from tidelog.records.batches import BatchTable, first_disorder
from tidelog.records.chunks import ChunkDecoder
from tidelog.records.columns import numbers
from tidelog.records.compression import MAX_DECOMPRESSED
from tidelog.records.decode import MAX_BYTES, MAX_ROWS
from tidelog.records.schema import Projection
from tidelog.records.windows import Window, read_windows
from tidelog.scanning.changes import offset_at, was_changed
from tidelog.scanning.volumes import FileView, open_volume, read_topic_id
from tidelog.storage.names import parse_segment_file

__all__ = [
    "NO_END",
    "Aborted",
    "ScanTask",
    "changed_meanwhile",
    "committed",
    "decode_window",
    "open_view",
    "read_batches",
    "run_task",
    "select_batches",
    "settled",
    "was_joined",
]

NO_END = (1 << 63) - 1
"""The end offset of a task that reads whatever there is."""


@dataclass(frozen=True, slots=True)
class ScanTask:
    """Records [start_offset, end_offset) out of bytes [start_position, end_position) of one segment's log."""

    url: str
    log_name: str
    topic: str
    partition: int
    start_position: int
    end_position: int
    start_offset: int
    end_offset: int
    is_tail: bool = False
    """The end is the end of the log, where an unfinished write is no damage."""
    committed_only: bool = False
    aborted: tuple[Aborted, ...] = ()
    with_control: bool = True
    """Whether control records come too, where not only committed data is wanted."""
    first_last_offset: int = -1
    """The last offset of the batch at the start, as the offset index has it; -1 where that is not known."""
    next_base: int = NO_END
    """Where the next segment begins."""
    topic_id: uuid.UUID | None = None
    """The topic's, if it is known: a topic that was deleted and made again is another one."""
    planned_ns: int = field(default_factory=time.time_ns, compare=False)
    """When it was made."""

    def __reduce__(self) -> tuple[type[ScanTask], tuple[object, ...]]:
        """Its fields, one after the other: thousands are pickled for a plan, and Python's own way is slow."""
        return type(self), _fields_of(self)

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.end_position - self.start_position

    @property
    def base_offset(self) -> int:
        """The lowest offset that the file can hold: its name says so."""
        return _named_offset(self.log_name)

    @property
    def source(self) -> str:
        """The file, for messages."""
        return f"{self.url}/{self.log_name}"


_fields_of = attrgetter(*ScanTask.__slots__)


@lru_cache(maxsize=1 << 10)
def _named_offset(log_name: str) -> int:
    name = parse_segment_file(log_name)
    return 0 if name is None else name.offset


def run_task(
    task: ScanTask,
    projection: Projection,
    *,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
    view: FileView | None = None,
) -> Iterator[pa.RecordBatch]:
    """The task's records, checked and decoded, in record batches of bounded size.

    Raises `CorruptRecordError` at damage, and `DataLossError` if the file has gone, or has been changed by
    its writer, since the scan was planned. `view` is the task's file where the caller has it open.
    """
    view = open_view(task) if view is None else view
    windows = read_batches(task, view)
    decoder: ChunkDecoder | None = None
    try:
        while True:
            try:
                data, origin, table = next(windows)
            except StopIteration as end:
                _check_end(task, end.value)
                return
            if decoder is None:
                decoder = task_decoder(task, data, origin, projection, max_rows, max_bytes)
            else:
                decoder.look_at(data, origin)
            for batch in decoder.chunks(table):
                cut = _cut(batch, task)
                if cut.num_rows:
                    yield cut if "offset" in projection.columns else cut.select(projection.columns)
    except CorruptRecordError as error:
        told = _told(task, view, error)
        if told is error:
            raise
        raise told from error


def settled(task: ScanTask, view: FileView, windows: Iterator[Window]) -> Iterator[Window]:
    """The windows of a task; a fault that is its writer's doing is told as a DataLossError."""
    try:
        yield from windows
    except CorruptRecordError as error:
        told = _told(task, view, error)
        if told is error:
            raise
        raise told from error


def _told(task: ScanTask, view: FileView, error: CorruptRecordError) -> TidelogError:
    # Where segments were joined, or cut and written anew, the offsets of the planned next one bound nothing.
    is_changed = was_joined(task) or was_changed(
        task.source,
        view,
        error,
        task.planned_ns,
        lambda: open_view(task),
        range(task.base_offset, task.next_base),
    )
    return changed_meanwhile(task) if is_changed else error


def was_joined(task: ScanTask) -> bool:
    """Whether another segment follows than was planned, as when a cleaning has joined two."""
    if task.next_base == NO_END:
        return False
    try:
        listed = PartitionFiles.look(open_volume(task.url).names)
    except FileNotFoundError:
        return True
    later = [one.base_offset for one in listed.segments if one.base_offset > task.base_offset]
    return task.next_base not in later[:1]


def _check_end(task: ScanTask, reached: int) -> None:
    """The end of a log was there when the scan was planned: if it is not, the log was cut since."""
    if task.is_tail and reached < task.end_offset < NO_END:
        raise changed_meanwhile(task)


def changed_meanwhile(task: ScanTask) -> DataLossError:
    """The error for a file that its writer has changed while it was read."""
    return DataLossError(
        f"{task.source} was changed by its writer while it was read "
        f"(wanted: offsets {task.start_offset} to {task.end_offset - 1}); plan it anew"
    )


def open_view(task: ScanTask) -> FileView:
    """The task's file, to be read; `DataLossError` where it has gone."""
    volume = open_volume(task.url)
    try:
        view = volume.view(task.log_name)
    except FileNotFoundError as error:
        raise _gone(task) from error
    # After the file is open: a directory that takes this one's name from now on does no harm.
    if task.topic_id is not None and read_topic_id(volume) != task.topic_id:
        raise _gone(task)
    return view


def _gone(task: ScanTask) -> DataLossError:
    return DataLossError(
        f"{task.source} has gone since the scan was planned "
        f"(wanted: offsets {task.start_offset} to {task.end_offset - 1}); plan it anew"
    )


def task_decoder(
    task: ScanTask,
    data: memoryview,
    origin: int,
    projection: Projection,
    max_rows: int,
    max_bytes: int,
    check_crc: bool = True,
) -> ChunkDecoder:
    """A decoder of what `read_batches` gives; `offset` is among its columns in any case."""
    wanted = projection.columns
    return ChunkDecoder(
        data,
        projection if "offset" in wanted else Projection((*wanted, "offset")),
        topic=task.topic,
        partition=task.partition,
        origin=origin,
        source=task.source,
        max_rows=max_rows,
        max_bytes=max_bytes,
        max_decompressed=MAX_DECOMPRESSED,
        check_crc=check_crc,
    )


def decode_window(
    task: ScanTask,
    data: memoryview,
    origin: int,
    table: BatchTable,
    projection: Projection,
    max_rows: int,
    max_bytes: int,
    check_crc: bool = True,
) -> Iterator[pa.RecordBatch]:
    """What `read_batches` gave, decoded and cut to the task's offsets; `offset` is there in any case."""
    decoder = task_decoder(task, data, origin, projection, max_rows, max_bytes, check_crc)
    for batch in decoder.chunks(table):
        yield _cut(batch, task)


def read_batches(
    task: ScanTask, view: FileView, window_bytes: int | None = None
) -> Generator[Window, None, int]:
    """Windows of the file, each with the batches in it that the task wants; answers the offset it got to.

    Offsets that do not grow are damage: no checksum covers them.
    """
    floor, first_last = task.base_offset, task.first_last_offset
    end = min(task.end_position, view.size) if task.is_tail else task.end_position
    follows, is_done = task.start_position == 0, False
    try:
        for window in read_windows(
            view, task.start_position, end, window_bytes=window_bytes, name=task.source
        ):
            table = window.table
            if first_last not in (-1, table.last_offset[0]):
                floor = offset_at(task.url, task.log_name, task.start_position)
            first_last = -1
            bad = first_disorder(table, floor, task.next_base, follows=follows)
            follows = True
            if bad is not None and not is_done:
                table = table[:bad]
            if is_done and bad is None:
                return floor
            if len(table) and not is_done:
                selected = select_batches(task, table)
                if len(selected):
                    yield Window(window.data, window.origin, selected)
            if bad is not None:
                raise _disorder(window.table, bad, task.source)
            leaps = table.base_offset[-1] > (table.last_offset[-2] + 1 if len(table) > 1 else floor)
            floor = int(table.last_offset[-1]) + 1
            if floor >= task.end_offset:
                if not leaps:
                    return floor
                is_done = True  # if its offsets are right: the next ones tell
    except TornBatchError:
        if not task.is_tail:
            raise
    return floor


def _disorder(table: BatchTable, bad: int, source: str) -> OffsetDisorderError:
    base, last = int(table.base_offset[bad]), int(table.last_offset[bad])
    return OffsetDisorderError(
        f"the batch has offsets {base} to {last}, which its neighbours contradict",
        position=int(table.position[bad]),
        offset=base,
        source=source,
    )


def select_batches(task: ScanTask, table: BatchTable) -> BatchTable:
    """The batches that the task wants, of those in a table, in which offsets grow."""
    is_inside = table.last_offset[0] >= task.start_offset and table.base_offset[-1] < task.end_offset
    if is_inside and task.with_control and not task.committed_only:
        return table
    # A magic 0/1 wrapper's base offset is not known before it is decoded: only its last offset can rule it
    # out.
    keep = (table.last_offset >= task.start_offset) & (
        (table.base_offset < task.end_offset) | ((table.magic < 2) & (table.codec != 0))
    )
    if task.committed_only:
        keep &= committed(table, task.aborted)
    elif not task.with_control:
        keep &= ~table.is_control
    return table if keep.all() else BatchTable(np.ascontiguousarray(table.rows[keep]))


def _cut(batch: pa.RecordBatch, task: ScanTask) -> pa.RecordBatch:
    """The rows of the task's offsets; a log's offsets grow, so they are a slice."""
    offsets = numbers(batch.column("offset"))
    if offsets[0] >= task.start_offset and offsets[-1] < task.end_offset:
        return batch
    first, last = np.searchsorted(offsets, (task.start_offset, task.end_offset))
    return batch.slice(int(first), int(last - first))
