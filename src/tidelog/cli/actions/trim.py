"""Which partitions of a root to trim, up to where, and what became of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.cli.actions.directories import check_root, existing_directory, live_partition
from tidelog.cli.actions.loading import (
    RootOptions,
    check_ready,
    metadata_of,
    offline_in,
    opened_root,
    refuse_offline,
    refuse_unknown,
    split_known,
)
from tidelog.cli.actions.spark_upkeep import trim_on_spark
from tidelog.cli.errors import UsageError
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.units import are, counted, parse_time
from tidelog.errors import UnknownTopicOrPartitionError
from tidelog.manager.upkeep.trimming import Trim, plan_trim, trim
from tidelog.scanning.partitions import find_partitions
from tidelog.storage import LOCAL
from tidelog.storage.directory import is_partition
from tidelog.storage.names import CLUSTER_METADATA_TOPIC
from tidelog.types import TopicPartition

__all__ = ["Selection", "trim_path"]

_COLUMNS = (
    Column("partition", "PARTITION"),
    Column("log_start_offset", "START", right=True),
    Column("new_log_start_offset", "NEW START", right=True),
    Column("segments", "SEGMENTS", right=True),
    Column("size_bytes", "BYTES", right=True),
)


@dataclass(frozen=True, slots=True)
class Selection:
    """Some partitions of a root."""

    root: str
    topic: str | None
    partition: int | None

    @classmethod
    def of(cls, path: Path, topic: str | None, partition: int | None) -> Selection:
        """What a command was told; UsageError if that does not fit."""
        directory = existing_directory(path)
        if is_partition(LOCAL, directory):
            if topic is not None or partition is not None:
                raise UsageError(f"{directory} is one partition: --topic and --partition are for roots")
            found = live_partition(directory)
            directory, topic, partition = str(Path(directory).parent), found.topic, found.partition
        if partition is not None and topic is None:
            raise UsageError("--partition needs --topic")
        check_root(directory)
        return cls(directory, topic, partition)


def trim_path(
    selection: Selection,
    before: int | None,
    before_time: str | None,
    output: Output,
    *,
    dry_run: bool,
    master: str | None = None,
    options: RootOptions,
) -> None:
    """Trim what is selected, with Spark if a master is given, or show what would go."""
    if (before is None) == (before_time is None):
        raise UsageError("name the end: --before OFFSET or --before-time TIME")
    now_ms = time.time_ns() // 1_000_000
    moment = None if before_time is None else parse_time(before_time, now_ms)
    if before is not None and selection.partition is None:
        raise UsageError("--before is an offset of one partition: name it with --topic and --partition")
    check_ready(selection.root, options)
    offline: dict[TopicPartition, str] = {}
    if master is not None:
        if moment is None or selection.partition is not None:
            raise UsageError("--spark is for whole roots and topics: name the end with --before-time")
        root, topic = selection.root, selection.topic
        broker = options.broker
        trims = trim_on_spark(root, master, topic=topic, before_ms=moment, dry_run=dry_run, config=broker)
    elif dry_run:
        trims = _rehearsed(selection, before, moment, options, offline)
    else:
        trims = _trimmed(selection, before, moment, output, options, offline)
    done: list[Trim] = []

    def rows() -> Iterator[Sequence[Cell]]:
        for one in trims:
            done.append(one)
            start, new_start = one.log_start_offset, one.new_log_start_offset
            yield str(one.partition), start, new_start, one.segments, one.size_bytes

    output.table(_COLUMNS, rows())
    segments, size = sum(one.segments for one in done), sum(one.size_bytes for one in done)
    output.say(f"{counted(segments, 'segment')} {are(segments, dry_run=dry_run)} deleted, {size} bytes")
    refuse_offline(offline)


def _planned(
    selection: Selection, before: int | None, moment: int | None, options: RootOptions
) -> list[Trim]:
    """What would go; what is refused is refused here, before anything is changed."""
    topics = None if selection.topic is None else {selection.topic}
    there = {
        one.topic_partition: one
        for one in find_partitions(selection.root, topics)
        if one.topic_partition.topic != CLUSTER_METADATA_TOPIC
        and selection.partition in (None, one.topic_partition.partition)
    }
    if selection.topic is not None and not there:
        number = "" if selection.partition is None else f" with a partition {selection.partition}"
        raise UnknownTopicOrPartitionError(
            f"{selection.root} has no topic {selection.topic!r}{number}: `tidelog ls` shows what is there"
        )
    known, unknown = split_known(selection.root, list(there), metadata_of(selection.root, options))
    if unknown and selection.topic is not None:
        raise refuse_unknown(selection.root, unknown[0])
    return [plan_trim(there[name], before_offset=before, before_ms=moment) for name in known]


_Offline = dict[TopicPartition, str]
"""Partitions that cannot be opened, and why: they are left alone, and told after the others."""


def _rehearsed(
    selection: Selection, before: int | None, moment: int | None, options: RootOptions, offline: _Offline
) -> Iterator[Trim]:
    planned = _planned(selection, before, moment, options)
    offline |= offline_in(selection.root, options, {one.partition for one in planned if one.is_due})
    yield from (one for one in planned if one.partition not in offline)


def _trimmed(
    selection: Selection,
    before: int | None,
    moment: int | None,
    output: Output,
    options: RootOptions,
    offline: _Offline,
) -> Iterator[Trim]:
    planned = _planned(selection, before, moment, options)
    going = {one.partition for one in planned if one.is_due}
    with opened_root(selection.root, output, options, topics=going) as store:
        offline |= store.offline_partitions
        for one in planned:
            if one.partition in offline:
                continue
            if one.partition in going:
                partition = store.partition(one.partition.topic, one.partition.partition)
                yield trim(partition, one.new_log_start_offset)
            else:
                yield one
