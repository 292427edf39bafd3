"""What compacting logs at rest would do, by a look at their files: nothing is locked or changed.

It refuses what compaction refuses, except a root that another process has open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidelog.cleanup.selection import LogFacts, LogToClean, plan_cleaning, when_rolled
from tidelog.config import LogConfig
from tidelog.errors import TidelogError
from tidelog.layout.partitions import check_files
from tidelog.layout.roots import Checkpoint, Offsets, look_at, read_checkpoint
from tidelog.log import Log
from tidelog.manager.upkeep.compacting import Compaction, check_compactable, compaction_config
from tidelog.manager.upkeep.rehearsal import Rehearsal
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
    plan: LogToClean | None
    """None where it would fail."""
    segments: int = 0
    size_bytes: int = 0
    error: str | None = None

    @property
    def end_offset(self) -> int:
        """Up to where it would be clean."""
        plan = self.plan
        if plan is None:
            return 0
        return plan.first_uncleanable_offset if plan.cleanable_bytes else plan.first_dirty_offset


def plan_at_rest(request: Compaction) -> Iterator[PlannedCompaction]:
    """Look at one log after the other; the clean ones are told too, those that are not compacted are not."""
    at_rest = holder_of(request.root) is None
    if request.fs.exists(f"{request.root}/{META_PROPERTIES_FILE}") and at_rest:
        check_compactable(request.fs, look_at(request.fs, request.root))
    return _plans(request, at_rest=at_rest)


def _plans(request: Compaction, *, at_rest: bool) -> Iterator[PlannedCompaction]:
    image = request.image()
    checkpoints = {kind: read_checkpoint(request.fs, request.root, kind) for kind in Checkpoint}
    for name in request.names:
        partition = parse_partition_directory(name).topic_partition
        try:
            config = compaction_config(request, partition, image)
            if config is None:
                continue
            if at_rest:
                _try_opening(request, name, config, checkpoints)
            planned = _plan(request, name, config, checkpoints)
        except (TidelogError, OSError) as error:
            if request.by_name and len(request.names) == 1:
                raise
            planned = PlannedCompaction(partition, None, error=str(error))
        if planned is not None:
            yield planned


def _try_opening(
    request: Compaction, name: str, config: LogConfig, checkpoints: Mapping[Checkpoint, Offsets]
) -> None:
    """Open a log as compacting it does; nothing is changed."""
    path, partition = f"{request.root}/{name}", parse_partition_directory(name).topic_partition
    check_files(request.fs, path)
    rehearsal = Rehearsal(request.fs)
    try:
        Log.open(
            path,
            config,
            clean=True,
            log_start_offset=checkpoints[Checkpoint.LOG_STARTS].get(partition, 0),
            recovery_point=checkpoints[Checkpoint.RECOVERY_POINTS].get(partition, 0),
            fs=rehearsal,
        ).close_handlers()
    finally:
        rehearsal.close()


def _plan(
    request: Compaction, name: str, config: LogConfig, checkpoints: Mapping[Checkpoint, Offsets]
) -> PlannedCompaction | None:
    (found,) = find_partitions(f"{request.root}/{name}")
    if not found.segments:
        return None
    partition = parse_partition_directory(name).topic_partition
    segments, ends = look_steadily(found, lambda one: (segment_views(one), log_ends(one)))
    end = ends.log_end
    stable = min(ends.last_stable, checkpoints[Checkpoint.HIGH_WATERMARKS].get(partition, end))
    facts = when_rolled(LogFacts(segments, config, ends.log_start, stable, end))
    cleaned = None if request.from_start else checkpoints[Checkpoint.CLEANED].get(partition)
    plan = plan_cleaning(facts, cleaned, request.now_ms)
    return PlannedCompaction(partition, plan, len(segments), sum(one.size for one in segments))
