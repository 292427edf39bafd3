"""Running a task over damage: what is sound is read, what is not is skipped and told.

1. A batch whose checksum fails, or whose records do not decode, is left out; its length still tells where the
   next one begins.
2. Where a header makes no sense, reading continues at the next entry of the offset index, or at the task's
   end.
3. A file that has gone since the task was planned is left out whole.

Each loss is reported once. A gap in the offsets alone is no loss: cleaning leaves such gaps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidelog.errors import ChecksumError, CorruptRecordError
from tidelog.kernels import scan as _kernel
from tidelog.records.batches import BatchTable, Column
from tidelog.records.decode import MAX_BYTES, MAX_ROWS
from tidelog.records.schema import Projection
from tidelog.scanning.partitions import Partition
from tidelog.scanning.tasks import ScanTask, decode_window, read_batches
from tidelog.scanning.volumes import FileView, open_volume
from tidelog.storage.names import parse_segment_file
from tidelog.types import TopicPartition

__all__ = ["Loss", "log_loss", "salvage_task"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loss:
    """Bytes [start_position, end_position) of a file that could not be read, and why."""

    source: str
    start_position: int
    end_position: int
    reason: str

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.end_position - self.start_position

    def __str__(self) -> str:
        """A sentence."""
        return f"skipped {self.size} bytes at position {self.start_position} of {self.source}: {self.reason}"


def log_loss(loss: Loss) -> None:
    """Report a loss to the log."""
    _log.warning("%s", loss)


def salvage_task(
    task: ScanTask,
    projection: Projection,
    report: Callable[[Loss], None] = log_loss,
    *,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Like `run_task`, but skips what is damaged or gone, and reports it."""
    try:
        view = open_volume(task.url).view(task.log_name)
    except FileNotFoundError:
        report(Loss(task.source, task.start_position, task.end_position, "the file has gone"))
        return
    for data, origin, table in _sound_windows(task, view, report):
        sound = _checked(task, data, origin, table, report)
        for batch in _decodable(task, data, origin, sound, projection, report, max_rows, max_bytes):
            if batch.num_rows:
                yield batch if "offset" in projection.columns else batch.select(projection.columns)


def _sound_windows(
    task: ScanTask, view: FileView, report: Callable[[Loss], None]
) -> Iterator[tuple[memoryview, int, BatchTable]]:
    """`read_batches`, continuing after what is no batch."""
    position = task.start_position
    while True:
        try:
            yield from read_batches(replace(task, start_position=position), view)
            return
        except CorruptRecordError as error:
            position = _next_entry(task, max(error.position, position))
            task = replace(task, first_last_offset=-1)
            report(Loss(task.source, error.position, position, error.reason))


def _next_entry(task: ScanTask, after: int) -> int:
    """The position of the next indexed batch of the task's segment; the task's end if there is none."""
    name = parse_segment_file(task.log_name)
    partition = Partition(task.url, TopicPartition(task.topic, task.partition))
    for segment in partition.segments:
        if name is not None and segment.base_offset == name.offset:
            _, positions = partition.offset_index(segment).entries_array()
            later = positions[(positions > after) & (positions < task.end_position)]
            return int(later[0]) if len(later) else task.end_position
    return task.end_position


def _checked(
    task: ScanTask, data: memoryview, origin: int, table: BatchTable, report: Callable[[Loss], None]
) -> BatchTable:
    """The batches whose checksums are right."""
    keep = np.ones(len(table), np.bool_)
    start = 0
    while start < len(table):
        bad = _kernel.verify(data, table.rows[start:], origin)
        if bad < 0:
            break
        start += bad
        keep[start] = False
        _report_batch(task, table, start, ChecksumError("the checksum does not match").reason, report)
        start += 1
    return table if keep.all() else BatchTable(np.ascontiguousarray(table.rows[keep]))


def _decodable(
    task: ScanTask,
    data: memoryview,
    origin: int,
    table: BatchTable,
    projection: Projection,
    report: Callable[[Loss], None],
    max_rows: int,
    max_bytes: int,
) -> Iterator[pa.RecordBatch]:
    """The records of the batches that decode."""
    while len(table):
        done = -1
        try:
            for batch in decode_window(task, data, origin, table, projection, max_rows, max_bytes, False):
                if batch.num_rows:
                    done = batch.column("offset")[-1].as_py()
                yield batch
            return
        except CorruptRecordError as error:
            bad = np.flatnonzero(table.position == error.position)
            if not len(bad):
                raise
            _report_batch(task, table, int(bad[0]), error.reason, report)
            rest = (table.last_offset > done) & (table.position != error.position)
            table = BatchTable(np.ascontiguousarray(table.rows[rest]))


def _report_batch(
    task: ScanTask, table: BatchTable, index: int, reason: str, report: Callable[[Loss], None]
) -> None:
    row = table.rows[index].tolist()
    offsets = f"offsets {row[Column.BASE_OFFSET]} to {row[Column.LAST_OFFSET]}"
    report(
        Loss(
            task.source,
            row[Column.POSITION],
            row[Column.POSITION] + row[Column.SIZE],
            f"{reason} ({offsets})",
        )
    )
