"""What compacting logs at rest would do, by a look at their files: nothing is locked, opened or changed.

It refuses what compaction refuses, except a root that another process has open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.cleanup.selection import LogFacts, LogToClean, plan_cleaning, when_rolled
from tidelog.layout.roots import Checkpoint, look_at, read_checkpoint
from tidelog.manager.upkeep.compacting import Compaction, check_compactable, compaction_config
from tidelog.scanning.fetching import log_ends
from tidelog.scanning.partitions import find_partitions, look_steadily
from tidelog.scanning.views import segment_views
from tidelog.storage.lock import holder_of
from tidelog.storage.names import META_PROPERTIES_FILE, parse_partition_directory
from tidelog.types import TopicPartition

__all__ = ["PlannedCompaction", "plan_at_rest"]


@dataclass(frozen=True, slots=True)
class PlannedCompaction:
    """A compacted log, and what of it would be cleaned once its active segment is rolled."""

    partition: TopicPartition
    plan: LogToClean
    segments: int
    size_bytes: int

    @property
    def end_offset(self) -> int:
        """Up to where it would be clean."""
        plan = self.plan
        return plan.first_uncleanable_offset if plan.cleanable_bytes else plan.first_dirty_offset


def plan_at_rest(request: Compaction) -> Iterator[PlannedCompaction]:
    """Look at one log after the other; the clean ones are told too, those that are not compacted are not."""
    if request.fs.exists(f"{request.root}/{META_PROPERTIES_FILE}") and holder_of(request.root) is None:
        check_compactable(request.fs, look_at(request.fs, request.root))
    return _plans(request)


def _plans(request: Compaction) -> Iterator[PlannedCompaction]:
    image = request.image()
    marks, cleaned = (
        read_checkpoint(request.fs, request.root, kind)
        for kind in (Checkpoint.HIGH_WATERMARKS, Checkpoint.CLEANED)
    )
    for name in request.names:
        partition = parse_partition_directory(name).topic_partition
        config = compaction_config(request, partition, image)
        if config is None:
            continue
        (found,) = find_partitions(f"{request.root}/{name}")
        if not found.segments:
            continue
        segments, ends = look_steadily(found, lambda one: (segment_views(one), log_ends(one)))
        end = ends.log_end
        stable = min(ends.last_stable, marks.get(partition, end))
        facts = when_rolled(LogFacts(segments, config, ends.log_start, stable, end))
        plan = plan_cleaning(facts, None if request.from_start else cleaned.get(partition), request.now_ms)
        yield PlannedCompaction(partition, plan, len(segments), sum(one.size for one in segments))
