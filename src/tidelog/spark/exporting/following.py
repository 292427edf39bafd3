"""`export --follow`: one run after the other, until it is told to stop.

1. A run exports what there is, and commits it.
2. The next one begins when some seconds have passed since the beginning of the last, or as soon as the logs
   have grown by so many bytes.

Each run is an ordinary one: it is in the target whole or not at all, wherever the process is killed. A run
that finds another export at work is tried again when the next one is due.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from tidelog.errors import LogLockedError
from tidelog.scanning.volumes import local_path
from tidelog.spark.source.offsets import log_ends, select_partitions
from tidelog.spark.source.options import SourceOptions
from tidelog.spark.source.topic_ids import for_each
from tidelog.types import TopicPartition

__all__ = ["FollowedRun", "behind", "follow", "log_bytes"]

_POLL_S = 0.5

Ends = Mapping[TopicPartition, int]
"""Where what is visible of each partition ends."""


@dataclass(frozen=True, slots=True)
class FollowedRun:
    """What a run added, and what had been appended meanwhile."""

    records: int
    files: int
    bytes_written: int
    seconds: float
    behind: int
    """Records that were appended while it ran: the next run exports them."""
    refused: str | None = None
    """Why the run added nothing: another export was at work."""


def follow(
    run: Callable[[], Sequence[Mapping[str, Any]]],
    options: SourceOptions,
    *,
    every_s: float,
    every_bytes: int | None = None,
    stop: Event,
) -> Iterator[FollowedRun]:
    """Runs until `stop` is set; `run` exports what `options` select and answers the reports of its splits."""
    reached: dict[TopicPartition, int] | None = None
    while not stop.is_set():
        began, size = time.monotonic(), log_bytes(options.paths)
        before = visible_ends(options)
        reached = before if reached is None else reached
        refused, rows = None, []
        try:
            rows = list(run())
        except LogLockedError as error:
            refused = str(error)
        else:
            reached = before
        yield FollowedRun(
            sum(row["records"] for row in rows),
            sum(len(row["files"]) for row in rows),
            sum(row["bytes_written"] for row in rows),
            time.monotonic() - began,
            behind(reached, rows, visible_ends(options)),
            refused,
        )
        while time.monotonic() - began < every_s and not stop.is_set():
            if every_bytes is not None and log_bytes(options.paths) - size >= every_bytes:
                break
            stop.wait(min(_POLL_S, max(began + every_s - time.monotonic(), 0)))


def visible_ends(options: SourceOptions) -> dict[TopicPartition, int]:
    """Where the partitions end for a reader now."""
    partitions = select_partitions(options)
    ends = for_each(partitions, lambda each: log_ends(each, options).visible_end)
    return {each.topic_partition: end for each, end in zip(partitions, ends, strict=True)}


def behind(before: Ends, rows: Sequence[Mapping[str, Any]], after: Ends) -> int:
    """How many offsets a run has not reached: it took what was there `before` it, and what it reports."""
    reached = dict(before)
    for row in rows:
        name = TopicPartition(row["topic"], row["partition"])
        if row["last_offset"] is not None:
            reached[name] = max(reached.get(name, 0), row["last_offset"] + 1)
    return sum(max(end - reached.get(name, 0), 0) for name, end in after.items())


def log_bytes(paths: Sequence[str]) -> int:
    """The size of all segments below directories of this machine; what is elsewhere does not count."""
    total = 0
    for path in map(local_path, paths):
        if "://" not in path:
            total += sum(file.stat().st_size for file in Path(path).glob("**/*.log") if file.is_file())
    return total
