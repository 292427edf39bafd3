"""Saving what is sound of damaged partitions, into a new root.

1. Every segment is read past its damage (`scanning.salvage`): the batches that are sound and decode.
2. They are appended, byte for byte and with their offsets, to a new log, whose segments begin where those of
   the source do; indexes, leader epochs and producer snapshots are made anew. The last segment is there even
   if nothing in it is sound, so that its offsets are not given out again.
3. A root's metadata, what its checkpoints say of the partitions and at last its identity go with them: a
   broker does not start on what was cut short. There is no clean-shutdown file: one that starts on the new
   root checks it.

The source is only read, and not locked. The target must not exist or be empty.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tidelog.config import LogConfig
from tidelog.errors import DataLossError, InvalidInputError
from tidelog.layout.roots import Checkpoint
from tidelog.log import Log
from tidelog.manager.metadata.files import BOOTSTRAP_FILE
from tidelog.records.schema import Projection
from tidelog.scanning.log_end import segment_task
from tidelog.scanning.losses import Loss
from tidelog.scanning.partitions import Partition, SegmentFacts
from tidelog.scanning.ranges import missing_tasks
from tidelog.scanning.salvage import Report, readable_windows, salvage_task
from tidelog.storage import FileSystem, atomic_write, read_file
from tidelog.storage.checkpoints import write_offset_checkpoint
from tidelog.storage.files import make_directories
from tidelog.storage.names import META_PROPERTIES_FILE, parse_segment_file
from tidelog.types import TopicPartition

__all__ = ["Salvaged", "salvage_partitions"]

_INT_MAX = (1 << 31) - 1
_LONG_MAX = (1 << 63) - 1
_ROOT_FILES = (BOOTSTRAP_FILE, META_PROPERTIES_FILE)
_QUORUM_STATE = "quorum-state"


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What was saved of a partition."""

    partition: TopicPartition
    batches: int
    size_bytes: int
    bytes_before: int
    log_start_offset: int
    log_end_offset: int
    losses: tuple[Loss, ...]


def salvage_partitions(
    fs: FileSystem,
    partitions: Sequence[Partition],
    target: str,
    advance: Callable[[int], None] = lambda size: None,
) -> Iterator[Salvaged]:
    """Save partitions into a new root; each is answered when it is done."""
    if fs.exists(target) and (not fs.stat(target).is_directory or fs.list(target)):
        raise InvalidInputError(f"{target} exists already: name a new or empty directory")
    remote = [one.url for one in partitions if "://" in one.url]
    if remote:
        raise InvalidInputError(f"{remote[0]} is not on this machine: copy it here first")
    make_directories(fs, target)
    starts: dict[TopicPartition, int] = {}
    marks: dict[TopicPartition, int] = {}
    for partition in partitions:
        done = _salvage(fs, partition, f"{target}/{partition.topic_partition}", advance)
        if not partition.is_metadata_log:
            starts[done.partition] = done.log_start_offset
            marks[done.partition] = min(partition.high_watermark or done.log_end_offset, done.log_end_offset)
        yield done
    write_offset_checkpoint(fs, f"{target}/{Checkpoint.LOG_STARTS.value}", starts)
    write_offset_checkpoint(fs, f"{target}/{Checkpoint.HIGH_WATERMARKS.value}", marks)
    for root in dict.fromkeys(one.url.rpartition("/")[0] for one in partitions):
        for name in _ROOT_FILES:
            _take_over(fs, f"{root}/{name}", f"{target}/{name}")
    fs.sync_directory(target)


def _salvage(fs: FileSystem, partition: Partition, target: str, advance: Callable[[int], None]) -> Salvaged:
    losses: list[Loss] = []
    for task in missing_tasks(partition):
        for _ in salvage_task(task, Projection(("offset",)), losses.append):
            pass
    config = dataclasses.replace(
        LogConfig(), internal_segment_bytes=_INT_MAX, segment_ms=_LONG_MAX, max_message_bytes=_INT_MAX
    )
    bases = [segment.base_offset for segment in partition.segments]
    first = bases[0] if bases else partition.log_start_offset
    batches = size = 0
    with Log.open(target, config, clean=True, log_start_offset=first, topic_id=partition.topic_id) as log:
        for number, segment in enumerate(partition.segments):
            if number and segment.base_offset > log.log_end_offset:
                log.roll(segment.base_offset)
            for data, count in _sound_bytes(partition, segment, losses.append):
                log.append_as_follower(data)
                batches += count
                size += len(data)
            advance(segment.size)
        end = log.log_end_offset
    for name in sorted(name for name, is_directory in partition.volume.names() if not is_directory):
        if name == _QUORUM_STATE or (name.endswith(".checkpoint") and parse_segment_file(name) is None):
            _take_over(fs, f"{partition.url}/{name}", f"{target}/{name}")
    losses.sort(key=lambda loss: (loss.source, loss.start_position))
    before = sum(segment.size for segment in partition.segments)
    start = min(partition.log_start_offset, end)
    return Salvaged(partition.topic_partition, batches, size, before, start, end, tuple(losses))


def _sound_bytes(
    partition: Partition, segment: SegmentFacts, report: Report
) -> Iterator[tuple[memoryview, int]]:
    """The sound batches of a segment, those that touch each other together: (bytes, how many)."""
    task = segment_task(partition, segment)
    try:
        view = partition.log_view(segment)
    except DataLossError as error:
        raise DataLossError(f"{error}; salvage reads files that nobody writes to") from error
    for data, origin, table in readable_windows(task, view, report):
        ends = table.position + table.size
        breaks = np.flatnonzero(table.position[1:] != ends[:-1]) + 1
        for first, last in pairwise([0, *breaks.tolist(), len(table)]):
            yield data[int(table.position[first]) - origin : int(ends[last - 1]) - origin], last - first


def _take_over(fs: FileSystem, source: str, target: str) -> None:
    """Copy a small file, if it is there."""
    if fs.exists(source) and not fs.exists(target):
        atomic_write(fs, target, read_file(fs, source))
