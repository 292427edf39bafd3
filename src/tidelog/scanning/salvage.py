"""Running a task over damage: what is sound is read, what is not is skipped and told.

1. As long as batches follow each other without a gap in bytes and offsets, they are decoded as they come.
2. At anything else (damage, a leap in the offsets, a split that begins where no batch does) the whole segment
   is surveyed (`soundness`): what is sound in it does not depend on how it was split.
3. A task reads the batches that begin in its bytes and tells the losses that begin there. So each is told
   once, however many tasks it spans.
4. A batch whose checksum holds and whose records do not decode is a loss, too. A file that has gone since the
   task was planned is left out whole.
5. A writer may change the file meanwhile. What looks lost in a file that was changed a short while ago has to
   look so twice, and what was found sound is checked again as it is read. Else the task is to be planned anew
   (`DataLossError`).

A gap in the offsets alone is no loss: cleaning leaves such gaps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tidelog.errors import CorruptRecordError, DataLossError
from tidelog.records.batches import BatchTable, Column, first_disorder
from tidelog.records.decode import MAX_BYTES, MAX_ROWS
from tidelog.records.schema import Projection
from tidelog.records.windows import Window, read_windows
from tidelog.scanning.changes import may_have_changed
from tidelog.scanning.losses import Corrupt, Loss, log_loss
from tidelog.scanning.soundness import Gap, Sound, Survey, survey_segment
from tidelog.scanning.tasks import (
    NO_END,
    ScanTask,
    changed_meanwhile,
    decode_window,
    open_view,
    run_task,
    select_batches,
    was_joined,
)
from tidelog.scanning.volumes import FileView, open_volume
from tidelog.scanning.witness import index_bytes
from tidelog.storage.names import FileKind

__all__ = [
    "FILE_GONE",
    "Loss",
    "Report",
    "log_loss",
    "readable_windows",
    "run_with",
    "salvage_task",
    "sound_windows",
    "survey_task",
    "task_losses",
]

Report: TypeAlias = Callable[[Loss], None]
"""Is told each loss."""

FILE_GONE = "the file has gone"
"""The reason of a loss where a file was deleted since it was listed."""

_KEPT_SURVEYS = 4
_surveys: dict[tuple[str, int, int, int], Survey] = {}
_surveys_lock = threading.Lock()


def salvage_task(
    task: ScanTask,
    projection: Projection,
    report: Report = log_loss,
    *,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Like `run_task`, but skips what is damaged or gone, and reports it."""
    try:
        view = open_view(task)
    except DataLossError:
        report(_gone(task))
        return
    for data, origin, table in sound_windows(task, view, report):
        selected = select_batches(task, table)
        for batch in _decodable(
            task, Window(data, origin, selected), projection, report, max_rows, max_bytes
        ):
            if batch.num_rows:
                yield batch if "offset" in projection.columns else batch.select(projection.columns)


def run_with(
    corrupt: Corrupt,
    task: ScanTask,
    projection: Projection,
    *,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
    view: FileView | None = None,
) -> Iterator[pa.RecordBatch | Loss]:
    """The records of a task and what is lost between them, in order.

    If reading stops at damage, the loss comes last; the partition's later tasks are not to be run then.
    """
    if corrupt is Corrupt.SKIP:
        losses: list[Loss] = []
        batches = salvage_task(task, projection, losses.append, max_rows=max_rows, max_bytes=max_bytes)
        for batch in batches:
            yield from losses
            losses.clear()
            yield batch
        yield from losses
        return
    try:
        yield from run_task(task, projection, max_rows=max_rows, max_bytes=max_bytes, view=view)
    except CorruptRecordError as error:
        if corrupt is Corrupt.FAIL:
            raise
        yield _rest_of(task, error)


def readable_windows(task: ScanTask, view: FileView, report: Report) -> Iterator[Window]:
    """The batches that begin in the task's bytes, are sound and decode."""
    for window in sound_windows(task, view, report):
        bad: list[int] = []

        def note(loss: Loss, bad: list[int] = bad) -> None:
            bad.append(loss.start_position)
            report(loss)

        for _ in _decodable(task, window, Projection(("offset",)), note, MAX_ROWS, MAX_BYTES):
            pass
        rows = window.table.rows[~np.isin(window.table.position, bad)]
        if len(rows):
            yield Window(window.data, window.origin, BatchTable(np.ascontiguousarray(rows)))


def task_losses(task: ScanTask) -> Iterator[Loss]:
    """What `salvage_task` would report: all of the task is read and decoded, and nothing kept."""
    for found in run_with(Corrupt.SKIP, task, Projection(("offset",))):
        if isinstance(found, Loss):
            yield found


def _gone(task: ScanTask) -> Loss:
    """The loss of a task's whole file."""
    end = None if task.next_base == NO_END else task.next_base
    return Loss(
        task.topic,
        task.partition,
        task.source,
        task.start_position,
        task.end_position,
        max(task.base_offset, task.start_offset),
        end,
        FILE_GONE,
    )


def _rest_of(task: ScanTask, error: CorruptRecordError) -> Loss:
    """What reading leaves out that stops at an error: the rest of the log."""
    first = task.start_offset if error.offset is None else error.offset
    end, is_unfinished = task.end_position, False
    try:
        survey = survey_task(task, view := open_volume(task.url).view(task.log_name))
        end = max(error.position, _file_end(task, view))
        for gap in survey.gaps:
            if gap.start <= error.position < gap.end:
                first, is_unfinished = gap.first_offset, gap.is_unfinished
    except FileNotFoundError:
        pass
    return Loss(
        task.topic,
        task.partition,
        task.source,
        error.position,
        end,
        first,
        None,
        f"{error.reason}; reading stopped there",
        is_unfinished,
    )


def _loss_of(task: ScanTask, gap: Gap) -> Loss:
    """A gap as a loss of the task's partition."""
    return Loss(
        task.topic,
        task.partition,
        task.source,
        gap.start,
        gap.end,
        gap.first_offset,
        gap.end_offset,
        gap.reason,
        gap.is_unfinished,
    )


def sound_windows(task: ScanTask, view: FileView, report: Report) -> Iterator[Window]:
    """The sound batches that begin in the task's bytes, and may hold its offsets."""
    reached = yield from _plain_windows(task, view)
    if reached is None:
        return
    survey = survey_task(task, view)
    owned_end = NO_END if task.end_position >= _file_end(task, view) else task.end_position
    pieces: list[Sound | Gap] = sorted((*survey.sound, *survey.gaps), key=lambda piece: piece.start)
    for piece in pieces:
        if piece.start >= owned_end:
            return
        if isinstance(piece, Gap):
            if piece.start >= task.start_position and _is_wanted(task, piece):
                report(_loss_of(task, piece))
        elif piece.end > reached:
            yield from _windows_of(piece, reached, owned_end, task, view)


def _windows_of(
    sound: Sound, reached: int, owned_end: int, task: ScanTask, view: FileView
) -> Iterator[Window]:
    """The batches of sound bytes that begin in [reached, owned_end)."""
    is_boundary = sound.start <= reached and reached > task.start_position
    start = reached if is_boundary else sound.start
    windows = read_windows(view, start, sound.end, check_crc=True, name=task.source)
    while True:
        try:
            data, origin, table = next(windows)
        except StopIteration:
            return
        except CorruptRecordError as error:
            raise changed_meanwhile(task) from error
        last = int(table.last_offset[-1])
        if last > sound.last_offset or first_disorder(table, 0) is not None:
            raise changed_meanwhile(task)
        owned = table.rows[(table.position >= reached) & (table.position < owned_end)]
        if len(owned):
            yield Window(data, origin, BatchTable(np.ascontiguousarray(owned)))
        if table.end >= owned_end or last >= task.end_offset:
            return


def _is_wanted(task: ScanTask, gap: Gap) -> bool:
    end = NO_END if gap.end_offset is None else gap.end_offset
    return gap.first_offset < task.end_offset and end >= task.start_offset


def _plain_windows(task: ScanTask, view: FileView) -> Generator[Window, None, int | None]:
    """Batches as long as nothing is out of the ordinary; answers where that ended, None if all was plain."""
    start, end = task.start_position, min(task.end_position, view.size)
    if end < task.end_position or (start and task.first_last_offset < 0):
        return start
    following = None if end >= _file_end(task, view) else _next_base(view, end)
    position, before = start, task.base_offset - 1
    try:
        for window in read_windows(view, start, end, check_crc=True, name=task.source):
            table = window.table
            last = table.last_offset
            if position == start > 0:
                if last[0] != task.first_last_offset:
                    return start
                before = int(table.base_offset[0]) - 1
            plain = _plain_batches(table, before, task.next_base)
            if plain == len(table) and table.end == end and following not in (None, int(last[-1]) + 1):
                plain = 0
            if plain:
                yield Window(window.data, window.origin, table[:plain])
                position, before = table[:plain].end, int(last[plain - 1])
            if plain < len(table):
                return position
            if before >= task.end_offset - 1:
                return None
    except CorruptRecordError:
        return position
    return None if position == end else position


def _plain_batches(table: BatchTable, before: int, limit: int) -> int:
    """How many of the first batches follow each other, and `before`, without a gap."""
    last = table.last_offset
    # A compressed message of magic 0 or 1 tells its last offset only: it seems to leave a gap.
    first = table.base_offset
    previous = np.concatenate(([before], last[:-1]))
    odd = (first != previous + 1) | (last < first) | (last >= limit)
    return int(odd.argmax()) if odd.any() else len(table)


def _next_base(view: FileView, position: int) -> int:
    return int.from_bytes(view.read(position, 8), "big", signed=True)


def survey_task(task: ScanTask, view: FileView) -> Survey:
    """The survey of the task's segment; the last few are kept, for the tasks that share it.

    DataLossError if its writer changes it meanwhile.
    """
    key = (task.source, _file_end(task, view), view.changed_ns, task.next_base)
    if view.changed_ns:
        with _surveys_lock:
            if key in _surveys:
                return _surveys[key]
    survey = _survey(task, view)
    if survey.gaps and may_have_changed(view, task.planned_ns) and not _is_lost(task, view, survey):
        raise changed_meanwhile(task)
    if view.changed_ns and not view.has_changed():
        with _surveys_lock:
            while len(_surveys) >= _KEPT_SURVEYS:
                del _surveys[next(iter(_surveys))]
            _surveys[key] = survey
    return survey


def _is_lost(task: ScanTask, view: FileView, survey: Survey) -> bool:
    """Whether the gaps of a survey are still there, in a file that is as it was when the task was planned."""
    again = open_view(task)
    if again.size < max(view.size, task.end_position):
        return False
    cut_short = [gap for gap in survey.gaps if gap.is_unfinished and gap.first_offset < task.end_offset]
    if cut_short and again.changed_ns > task.planned_ns and task.end_offset < NO_END:
        return False  # a write is under way where the log's end was
    if was_joined(task):
        return False
    return set(survey.gaps) <= set(_survey(task, again).gaps)


def _survey(task: ScanTask, view: FileView) -> Survey:
    return survey_segment(
        view,
        _file_end(task, view),
        floor=task.base_offset,
        limit=task.next_base,
        is_last=task.next_base == NO_END,
        index=index_bytes(lambda: open_volume(task.url).content(_index_name(task))),
        name=task.source,
    )


def _index_name(task: ScanTask) -> str:
    return task.log_name.removesuffix(FileKind.LOG.value) + FileKind.OFFSET_INDEX.value


def _file_end(task: ScanTask, view: FileView) -> int:
    """Where the file ended when the scan was planned, if it may have grown since."""
    return min(task.end_position, view.size) if task.is_tail else view.size


def _decodable(
    task: ScanTask, window: Window, projection: Projection, report: Report, max_rows: int, max_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The records of the batches that decode; their checksums are known to be right."""
    data, origin, table = window
    while len(table):
        try:
            yield from decode_window(task, data, origin, table, projection, max_rows, max_bytes, False)
            return
        except CorruptRecordError as error:  # all before it has been given out
            bad = np.flatnonzero(table.position == error.position)
            if not len(bad):
                raise
            at = int(bad[0])
            report(_undecodable(task, table, at, error.reason))
            table = table[at + 1 :]


def _undecodable(task: ScanTask, table: BatchTable, index: int, reason: str) -> Loss:
    row = table.rows[index].tolist()
    first, position = row[Column.BASE_OFFSET], row[Column.POSITION]
    if row[Column.MAGIC] < 2 and index:
        first = int(table.last_offset[index - 1]) + 1
    return Loss(
        task.topic,
        task.partition,
        task.source,
        position,
        position + row[Column.SIZE],
        first,
        row[Column.LAST_OFFSET] + 1,
        reason,
    )
