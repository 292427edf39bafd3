"""Copying a partition batch by batch through a log of our own.

Kafka decides about rolling once an append, and a leader's appends are single batches: with the config of
the source the copy, appended so, rolls where the source did. Otherwise segments begin where those of the
source do, and batches are appended many at a time, which writes the same bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidelog.cli.actions.directories import parse_settings
from tidelog.cli.actions.find import one_partition
from tidelog.cli.actions.loading import RootOptions
from tidelog.cli.errors import UsageError
from tidelog.cli.render.output import Column, Output
from tidelog.config import LogConfig
from tidelog.log import Log
from tidelog.records.batches import BatchTable
from tidelog.scanning.log_end import read_segment
from tidelog.scanning.partitions import Partition, SegmentFacts

__all__ = ["copy_partition"]

_WINDOW_BYTES = 8 << 20
_INT_MAX = (1 << 31) - 1
_LONG_MAX = (1 << 63) - 1


def copy_partition(
    source: Path,
    target: Path,
    config: Sequence[str],
    output: Output,
    *,
    roll_by_config: bool,
    properties: Path | None = None,
) -> None:
    """Copy `source` to `target`, and say how much that was."""
    partition = one_partition(source)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{target} exists already: name a new directory")
    defaults = RootOptions(properties).broker.topic_defaults
    settings = LogConfig.from_properties(parse_settings(config), defaults)
    if not roll_by_config:
        settings = dataclasses.replace(settings, internal_segment_bytes=_INT_MAX, segment_ms=_LONG_MAX)
    bases = [segment.base_offset for segment in partition.segments]
    total = sum(segment.size for segment in partition.segments)
    batches = 0
    with (
        output.progress(total, "copying") as progress,
        Log.open(target, settings, clean=True, log_start_offset=bases[0], topic_id=partition.topic_id) as log,
    ):
        for base, segment in zip(bases, partition.segments, strict=True):
            if base > bases[0] and not roll_by_config:
                log.roll(base)
            for data, count in _windows(partition, segment, single=roll_by_config):
                log.append_as_follower(data)
                batches += count
                progress.advance(len(data))
        row = (batches, log.size, len(log.segments), log.log_start_offset, log.log_end_offset)
    columns = [
        Column(name, name.replace("_", " "), right=True)
        for name in ("batches", "bytes", "segments", "log_start_offset", "log_end_offset")
    ]
    output.table(columns, [row])


def _windows(
    partition: Partition, segment: SegmentFacts, *, single: bool
) -> Iterator[tuple[memoryview, int]]:
    """The batches of a segment, one by one or many at a time: (bytes, how many)."""
    for data, origin, table in read_segment(partition, segment, 0):
        first = 0
        while first < len(table):
            last = first + 1 if single else _cut(table, first)
            start = int(table.position[first]) - origin
            yield data[start : table[first:last].end - origin], last - first
            first = last


def _cut(table: BatchTable, first: int) -> int:
    """Where a window that begins at row `first` ends: within bounds, but one batch at least."""
    end = int(table.position[first]) + _WINDOW_BYTES
    return max(first + 1, int((table.position + table.size).searchsorted(end, side="right")))
