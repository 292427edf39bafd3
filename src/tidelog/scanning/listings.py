"""Listings of partition directories, kept from look to look by whoever follows growing logs.

Segments come and go rarely; batches come all the time, into the last segment. So a directory is listed again
only when its own time of change says that a name in it was added, removed or replaced. The last segment is
asked for its length at every look: it is the only one that is written to.

A time of change has the grain of a clock's tick, so a change right after a listing may leave it as it is. A
listing is therefore kept only if it was taken so long after that time was seen first that a change would have
made another one. Nothing depends on two machines' clocks.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.scanning.partitions import Partition, SegmentFacts
from tidelog.storage import FileState
from tidelog.storage.local import state_of
from tidelog.storage.names import FileKind

__all__ = ["Listings"]

_TICK_NS = 50_000_000
"""More than a tick of any kernel's clock."""
_COARSE_TICK_NS = 2_500_000_000
"""More than the grain of file systems that keep whole seconds."""


@dataclass(slots=True)
class _Listing:
    """What a directory held at a look."""

    state: FileState
    first_seen_ns: int
    """When the directory was first seen in this state."""
    listed_ns: int
    topic_id: uuid.UUID | None
    kinds: Mapping[int, frozenset[FileKind]]
    segments: tuple[SegmentFacts, ...]
    missing_logs: tuple[int, ...]

    @property
    def is_sure(self) -> bool:
        """Whether a change after the listing would have changed the state."""
        tick = _TICK_NS if self.state.changed_ns % 1_000_000_000 else _COARSE_TICK_NS
        return self.listed_ns - self.first_seen_ns > tick


class Listings:
    """The directories of partitions as they were seen last."""

    def __init__(self) -> None:
        self._known: dict[str, _Listing] = {}

    def is_as_listed(self, partition: Partition) -> bool:
        """Whether the directory of a partition that was looked at has surely not changed since."""
        known = self._known.get(partition.url)
        try:
            return known is not None and known.is_sure and state_of(partition.url) == known.state
        except OSError:
            return False

    def look(self, partition: Partition) -> None:
        """List a partition that has not been looked at, from memory where its directory has not changed."""
        if "://" in partition.url:
            return
        now = time.monotonic_ns()
        try:
            state = state_of(partition.url)
        except OSError:
            return  # what is wrong with it is found when it is listed
        known = self._known.get(partition.url)
        if known is not None and known.state == state:
            if known.is_sure and partition.recall(
                known.topic_id, known.kinds, known.segments, known.missing_logs
            ):
                known.segments = partition.segments
                return
            first_seen = known.first_seen_ns
        else:
            first_seen = now
        segments = partition.segments  # with the topic's id, which is looked up before
        if partition.unfinished:  # so that it is told at every look
            self._known.pop(partition.url, None)
            return
        self._known[partition.url] = _Listing(
            state,
            first_seen,
            now,
            partition.topic_id,
            partition.file_kinds,
            segments,
            partition.missing_logs,
        )
