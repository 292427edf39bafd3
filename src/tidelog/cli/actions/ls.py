"""What `tidelog ls` shows: overviews of partitions, one by one, or added up by topic or root.

Directories that are marked (`-delete`, `-future`, `-stray`) take room too, and are shown as what they are.
They are nobody's data any more, or not yet: damage in them is told, and is no reason for an exit code.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tidelog.cli.errors import FOUND_WRONG
from tidelog.cli.render.output import Cell, Column, Output
from tidelog.cli.render.units import are, counted, size_text, time_text
from tidelog.errors import InvalidIndexError
from tidelog.scanning.overview import Overview, overview
from tidelog.scanning.partitions import Partition, find_partitions
from tidelog.scanning.volumes import open_volume
from tidelog.storage.metadata import parse_properties
from tidelog.storage.names import CLEAN_SHUTDOWN_FILE, META_PROPERTIES_FILE, DirectoryState

__all__ = ["Grouping", "list_paths"]

_Name = TypeVar("_Name")

_REMOTE_THREADS = 16

_SIZE = Column("size_bytes", "size", right=True)
_SEGMENTS = Column("segments", "segments", right=True)
_TIMES = (
    Column("first_timestamp", "first record", optional=True),
    Column("last_timestamp", "newest record", optional=True),
)
_CODECS = Column("codecs", "codec", optional=True)
_HEALTH = Column("health", "health")
_STATE = Column("state", "state")
_LIVE = "live"
_PARTITIONS = (
    Column("topic", "topic"),
    Column("partition", "partition", right=True),
    _SIZE,
    _SEGMENTS,
    Column("log_start_offset", "start", right=True),
    Column("log_end_offset", "end", right=True),
    _HEALTH,
    _STATE,
    *_TIMES,
    _CODECS,
    Column("path", "path", optional=True),
)
_TOPICS = (
    Column("topic", "topic"),
    Column("partitions", "partitions", right=True),
    _SIZE,
    _SEGMENTS,
    Column("offsets", "offsets", right=True),
    _HEALTH,
    _STATE,
    *_TIMES,
    _CODECS,
)
_ROOTS = (
    Column("root", "root"),
    Column("node_id", "node", right=True),
    Column("topics", "topics", right=True),
    Column("partitions", "partitions", right=True),
    Column("marked", "not live", right=True),
    _SIZE,
    _SEGMENTS,
    Column("clean_shutdown", "clean shutdown"),
    _HEALTH,
    *_TIMES,
    Column("cluster_id", "cluster", optional=True),
)


class Grouping(enum.Enum):
    """What a line is about."""

    PARTITIONS = enum.auto()
    TOPICS = enum.auto()
    ROOTS = enum.auto()


def list_paths(paths: Sequence[str], topics: Collection[str] | None, grouping: Grouping, out: Output) -> int:
    """List what is under the paths; the exit code."""
    # Each path by itself: the same partition in two roots is a thing to be shown, not refused.
    found = [partition for path in paths for partition in find_partitions(path, topics, marked=True)]
    damaged = 0

    def looked_at() -> Iterator[Overview]:
        nonlocal damaged
        for one in _overviews(found):
            damaged += bool(one.damage) and one.state is DirectoryState.LIVE
            yield one

    match grouping:
        case Grouping.PARTITIONS:
            # On a terminal the path is worth its room only where it differs.
            width = len(_PARTITIONS) - (out.terminal and len(paths) == 1)
            out.table(_PARTITIONS[:width], (_partition_row(one, out)[:width] for one in looked_at()))
        case Grouping.TOPICS:
            topics_found = _grouped(looked_at(), lambda one: (one.topic_partition.topic, _state(one)))
            out.table(_TOPICS, (_topic_row(*name, group, out) for name, group in topics_found.items()))
        case Grouping.ROOTS:
            roots_found = _grouped(looked_at(), lambda one: one.url.rpartition("/")[0])
            out.table(_ROOTS, (_root_row(name, group, out) for name, group in roots_found.items()))
    if damaged:
        live = sum(partition.state is DirectoryState.LIVE for partition in found)
        out.say(
            f"{damaged} of {counted(live, 'partition')} {are(damaged)} damaged: tidelog verify shows where"
        )
    return FOUND_WRONG if damaged else 0


def _overviews(partitions: Sequence[Partition]) -> Iterator[Overview]:
    """In order; those behind a URL several at a time."""
    if not any("://" in partition.url for partition in partitions):
        yield from map(overview, partitions)
        return
    with ThreadPoolExecutor(_REMOTE_THREADS) as pool:
        yield from pool.map(overview, partitions)


def _state(one: Overview) -> str:
    return one.state.value.removeprefix("-") or _LIVE


def _grouped(found: Iterable[Overview], name: Callable[[Overview], _Name]) -> dict[_Name, list[Overview]]:
    groups: dict[_Name, list[Overview]] = {}
    for one in found:
        groups.setdefault(name(one), []).append(one)
    return groups


def _partition_row(one: Overview, out: Output) -> Sequence[Cell]:
    return (
        one.topic_partition.topic,
        one.topic_partition.partition,
        _size(one.size, out),
        one.segments,
        one.log_start_offset,
        one.log_end_offset,
        "; ".join((*one.damage, *one.notes)) or "ok",
        _state(one),
        *_times([one], out),
        " ".join(one.codecs) or None,
        one.url,
    )


def _topic_row(topic: str, state: str, group: Sequence[Overview], out: Output) -> Sequence[Cell]:
    return (
        topic,
        len(group),
        _size(sum(one.size for one in group), out),
        sum(one.segments for one in group),
        sum(one.log_end_offset - one.log_start_offset for one in group),
        _health(group),
        state,
        *_times(group, out),
        " ".join(sorted({codec for one in group for codec in one.codecs})) or None,
    )


def _root_row(root: str, group: Sequence[Overview], out: Output) -> Sequence[Cell]:
    volume = open_volume(root)
    try:
        properties = parse_properties(volume.content(META_PROPERTIES_FILE), f"{root}/{META_PROPERTIES_FILE}")
    except (OSError, InvalidIndexError):
        properties = {}
    names = {name for name, _ in volume.names()}
    live = [one for one in group if one.state is DirectoryState.LIVE]
    return (
        root,
        properties.get("node.id", properties.get("broker.id")),
        len({one.topic_partition.topic for one in live}),
        len(live),
        len(group) - len(live),
        _size(sum(one.size for one in group), out),
        sum(one.segments for one in group),
        CLEAN_SHUTDOWN_FILE in names,
        _health(live),
        *_times(live, out),
        properties.get("cluster.id"),
    )


def _health(group: Sequence[Overview]) -> str:
    damaged = sum(bool(one.damage) for one in group)
    noted = sum(bool(one.notes) for one in group)
    told = [f"{damaged} damaged"] if damaged else []
    told += [f"{noted} with notes"] if noted else []
    return ", ".join(told) or "ok"


def _size(size: int, out: Output) -> Cell:
    return size_text(size) if out.terminal else size


def _times(group: Sequence[Overview], out: Output) -> tuple[Cell, Cell]:
    firsts = [one.first_timestamp for one in group if one.first_timestamp >= 0]
    lasts = [one.last_timestamp for one in group if one.last_timestamp >= 0]
    first, last = min(firsts, default=-1), max(lasts, default=-1)
    if out.json:
        return (first if firsts else None), (last if lasts else None)
    return time_text(first), time_text(last)
