"""Following logs that another process writes.

Each look lists the partition again and reads the headers that have come since the last one (`log_tail`), so
new segments are found, and an unfinished write waits for its end. What has gone or was cut back is told, and
reading continues with what there is. Now and then the partitions themselves are looked for: a new one is read
from its start, one that has moved to another root from where it was left. A bulk write that is being
published is shown when it is whole.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidelog.cli.actions.reading import Selection, read_tasks
from tidelog.cli.render.output import Output
from tidelog.errors import DataLossError, InvalidInputError
from tidelog.scanning.filters import RecordFilter
from tidelog.scanning.log_end import LogTail, Transactions, log_tail
from tidelog.scanning.partitions import Partition, look_steadily
from tidelog.scanning.ranges import OffsetRange
from tidelog.scanning.roots import RootView
from tidelog.scanning.tasks import ScanTask
from tidelog.types import TopicPartition

__all__ = ["follow"]

_PAUSE_S = 0.1
_FIND_S = 1.0
"""How long after a look for partitions there is another."""


@dataclass(slots=True)
class _Place:
    """How far a partition has been read."""

    partition: Partition
    offset: int
    tail: LogTail
    transactions: Transactions
    is_gone: bool = False


def follow(
    selection: Selection, columns: Sequence[str], out: Output, check: Callable[[], None]
) -> Iterator[pa.RecordBatch | None]:
    """Records as they arrive; None after each look, when it is time to show them. `check` raises to stop.

    `offset` is among the columns.
    """
    places = {one.partition.topic_partition: _place(one) for one in selection.ranges}
    found_at = time.monotonic()
    while True:
        check()
        if time.monotonic() - found_at >= _FIND_S:
            _find_more(places, selection)
            found_at = time.monotonic()
        for place in list(places.values()):
            try:
                tasks = _look(place, selection, out)
            except FileNotFoundError:
                _miss(place, places, selection, out)
                continue
            except DataLossError:  # its writer was at it: the next look will do
                continue
            for batch in _read(place, tasks, columns, selection.wanted):
                check()
                yield batch
        yield None
        time.sleep(_PAUSE_S)


def _find_more(places: dict[TopicPartition, _Place], selection: Selection) -> None:
    """Take in partitions that were not there, and places that have changed."""
    try:
        found = selection.find()
    except (InvalidInputError, FileNotFoundError):  # such as a partition in two roots, while it moves
        return
    for one in found:
        place = places.get(one.topic_partition)
        if place is None:
            start = one.log_start_offset
            places[one.topic_partition] = _Place(one, start, LogTail(-1, 0, start), Transactions())
        elif place.partition.url != one.url:
            place.partition, place.tail = one, LogTail(-1, 0, place.offset)
            place.transactions = Transactions()


def _miss(place: _Place, places: dict[TopicPartition, _Place], selection: Selection, out: Output) -> None:
    """A directory is not there any more: the partition has moved, or was deleted, which is told once."""
    before = place.partition.url
    _find_more(places, selection)
    if place.partition.url == before and not place.is_gone:
        place.is_gone = True
        out.warn(f"{place.partition.topic_partition}: {before} is gone")


def _place(wanted: OffsetRange) -> _Place:
    tail = LogTail(-1, 0, wanted.end)
    with contextlib.suppress(DataLossError):  # it has gone since the range was made: the first look tells
        seen = look_steadily(wanted.partition, lambda one: log_tail(one, damage_ends_it=True))
        if seen.end_offset == wanted.end:  # if it grew since, what came must be read
            tail = seen
    return _Place(wanted.partition, wanted.end, tail, Transactions())


def _look(place: _Place, selection: Selection, out: Output) -> list[ScanTask]:
    """What has come since the last look, as tasks."""
    old = place.partition
    partition = Partition(old.url, old.topic_partition, RootView(old.url.rpartition("/")[0]))
    since = place.tail if place.tail.base_offset >= 0 else None
    tail = log_tail(partition, since, damage_ends_it=True)
    end = partition.published_end(tail.end_offset)
    if selection.committed_only:
        end = min(end, place.transactions.stable_offset(partition, end))
    start = place.offset
    if start < partition.log_start_offset:
        out.warn(f"{old.topic_partition}: offsets {start} to {partition.log_start_offset - 1} are gone")
        start, since = partition.log_start_offset, None
    if tail.end_offset < start:
        out.warn(f"{old.topic_partition}: the log was cut back from {start} to {tail.end_offset}")
        start, since = tail.end_offset, None
    place.partition, place.tail, place.offset, place.is_gone = partition, tail, max(start, end), False
    if start >= end:
        return []
    # An earlier look may have seen more than could be shown.
    if since is None or selection.committed_only or start < since.end_offset:
        return selection.plan(OffsetRange(partition, start, end))
    return _tasks(partition, since, tail, start, end)


def _read(
    place: _Place, tasks: list[ScanTask], columns: Sequence[str], wanted: RecordFilter
) -> Iterator[pa.RecordBatch]:
    """The records of tasks; where a file goes in the meantime, the next look begins behind those that
    came.
    """
    offset = tasks[0].start_offset if tasks else place.offset
    try:
        for batch in read_tasks(tasks, columns, wanted):
            offset = batch.column("offset")[-1].as_py() + 1
            yield batch
    except DataLossError:
        place.offset, place.tail = offset, LogTail(-1, 0, offset)


def _tasks(partition: Partition, since: LogTail, tail: LogTail, start: int, end: int) -> list[ScanTask]:
    """The bytes between two looks, from segment to segment; no index is needed."""
    name = partition.topic_partition
    tasks = []
    for segment in partition.segments:
        if since.base_offset <= segment.base_offset <= tail.base_offset:
            is_last = segment.base_offset == tail.base_offset
            tasks.append(
                ScanTask(
                    url=partition.url,
                    log_name=segment.log_name,
                    topic=name.topic,
                    partition=name.partition,
                    start_position=since.position if segment.base_offset == since.base_offset else 0,
                    end_position=tail.position if is_last else segment.size,
                    start_offset=start,
                    end_offset=end,
                    is_tail=is_last,
                    with_control=False,
                )
            )
    return tasks
