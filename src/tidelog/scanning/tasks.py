"""A piece of a scan: a stretch of one segment file, to be decoded wherever the task is sent.

A task is a value: it can be pickled, sent to another process, and run any number of times with the same
result, as long as the file is there. It begins and ends at batch boundaries that the plan knows from the
offset index; the offsets it is asked for may lie inside batches, so the first and last of them are cut to
size after decoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidelog.errors import DataLossError, TornBatchError
from tidelog.log.read.committed import Aborted, committed
from tidelog.records.batches import BatchTable, scan_batches
from tidelog.records.columns import numbers
from tidelog.records.decode import MAX_BYTES, MAX_ROWS, iter_record_batches
from tidelog.records.schema import Projection
from tidelog.scanning.volumes import FileView, open_volume

__all__ = ["Aborted", "ScanTask", "committed", "decode_window", "open_view", "read_batches", "run_task"]


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

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.end_position - self.start_position

    @property
    def source(self) -> str:
        """The file, for messages."""
        return f"{self.url}/{self.log_name}"


def run_task(
    task: ScanTask,
    projection: Projection,
    *,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
    view: FileView | None = None,
) -> Iterator[pa.RecordBatch]:
    """The task's records, checked and decoded, in record batches of bounded size.

    Raises `CorruptRecordError` at damage, and `DataLossError` if the file has gone since it was planned.
    `view` is the task's file where the caller has it open.
    """
    view = open_view(task) if view is None else view
    for data, origin, table in read_batches(task, view):
        for batch in decode_window(task, data, origin, table, projection, max_rows, max_bytes):
            if batch.num_rows:
                yield batch if "offset" in projection.columns else batch.select(projection.columns)


def open_view(task: ScanTask) -> FileView:
    """The task's file, to be read; `DataLossError` where it has gone."""
    try:
        return open_volume(task.url).view(task.log_name, may_shrink=task.is_tail)
    except FileNotFoundError as error:
        raise DataLossError(
            f"{task.source} has gone since the scan was planned "
            f"(wanted: offsets {task.start_offset} to {task.end_offset - 1}); plan it anew"
        ) from error


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
    wanted = projection.columns
    for batch in iter_record_batches(
        data,
        table,
        topic=task.topic,
        partition=task.partition,
        columns=wanted if "offset" in wanted else (*wanted, "offset"),
        origin=origin,
        source=task.source,
        max_rows=max_rows,
        max_bytes=max_bytes,
        check_crc=check_crc,
    ):
        yield _cut(batch, task)


def read_batches(task: ScanTask, view: FileView) -> Iterator[tuple[memoryview, int, BatchTable]]:
    """Windows of the file, each with the batches in it that the task wants: (bytes, position, table)."""
    position = task.start_position
    end = min(task.end_position, view.size)
    window = view.window
    while position < end:
        data = view.read(position, min(window, end - position))
        scan = scan_batches(data, origin=position, max_batches=1 << 12, check_crc=False, source=task.source)
        more = position + len(data) < end
        table = scan.table
        if len(table):
            selected = _select(task, table)
            if len(selected):
                yield data, position, selected
            if table.last_offset[-1] >= task.end_offset - 1:
                return
        if scan.fault is not None:
            if isinstance(scan.fault, TornBatchError) and more:
                if not len(table):
                    window *= 2  # a batch larger than the window
                    continue
            elif task.is_tail and isinstance(scan.fault, TornBatchError):
                return
            else:
                raise scan.fault
        window = view.window
        position = scan.end


def _select(task: ScanTask, table: BatchTable) -> BatchTable:
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
