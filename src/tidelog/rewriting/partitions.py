"""A partition's rewriting: the tasks, and the swap of what they made into the log.

The tasks come from a rehearsed opening of the log (`manager.upkeep.rehearsal`): its producers, open
transactions and segments are known, and nothing has changed. The swap opens it for good:

1. If the active segment is among those that change, the log is rolled: its end is then the base offset of a
   new, empty segment, however many of the last records go.
2. Segment by segment, oldest first, the new files come into the partition as `.cleaned`, and the log puts
   them in the old one's place (`.cleaned` -> `.swap` -> in place), as after compaction.
3. The log is closed cleanly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidelog.cleanup.filtering import ActiveProducers
from tidelog.config import LogConfig
from tidelog.doctor.quarantine import QUARANTINE
from tidelog.layout.partitions import check_files
from tidelog.log import Log
from tidelog.manager.upkeep.rehearsal import Rehearsal
from tidelog.rewriting.batches import Needed
from tidelog.rewriting.segments import SegmentDone, SegmentTask
from tidelog.segment import SealedSegment
from tidelog.storage import FileSystem
from tidelog.storage.attributes import read_attributes, restore_attributes
from tidelog.storage.names import SEGMENT_FILES, FileKind, Transient, format_segment_file
from tidelog.types import TopicPartition

__all__ = ["STAGING", "OpenedAt", "PartitionPlan", "plan_partition", "swap_in"]

STAGING = f"{QUARANTINE}/staged"
"""Where new segments of a partition are made, in its directory."""

_NEVER_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class OpenedAt:
    """What the root's checkpoints say about a log."""

    log_start_offset: int
    recovery_point: int

    def open(self, fs: FileSystem, path: str, config: LogConfig, *, rehearsed: bool = False) -> Log:
        """The log, closed cleanly as it was; all of it is below the high watermark.

        No producer expires: that is for the broker to decide, by its own clock and configuration. A log that
        is `rehearsed` is not looked into, which would copy it: its indexes are of no concern.
        """
        log = Log.open(
            path,
            config,
            clean=True,
            log_start_offset=self.log_start_offset,
            recovery_point=self.recovery_point,
            fs=fs,
            producer_id_expiration_ms=_NEVER_MS,
            as_kafka=rehearsed,
        )
        log.update_high_watermark(log.log_end_offset)
        return log


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """A partition and the tasks that rewrite it."""

    partition: TopicPartition
    path: str
    config: LogConfig
    opened_at: OpenedAt
    tasks: Sequence[SegmentTask]
    active_base_offset: int
    log_end_offset: int
    size_bytes: int

    @property
    def staging(self) -> str:
        """Where its new segments are made."""
        return f"{self.path}/{STAGING}"


def plan_partition(
    fs: FileSystem,
    path: str,
    partition: TopicPartition,
    config: LogConfig,
    opened_at: OpenedAt,
    *,
    write: bool,
    with_digests: bool = False,
) -> PartitionPlan:
    """The tasks of a partition; without `write` they only count."""
    check_files(fs, path)
    rehearsal = Rehearsal(fs)
    try:
        log = opened_at.open(rehearsal, path, config, rehearsed=True)
        try:
            needed = Needed(
                ActiveProducers.of(log.active_producers), log.log_end_offset, log.last_stable_offset
            )
            segments = list(log.segments)
            ends = [one.base_offset for one in segments[1:]] + [log.log_end_offset]
            tasks = [
                SegmentTask(
                    path,
                    segment.base_offset,
                    end,
                    segment.size,
                    fs.stat(f"{path}/{format_segment_file(segment.base_offset, FileKind.LOG)}").mtime_ms,
                    tuple(segment.txn_index.all_aborted_txns()),
                    config,
                    needed,
                    f"{path}/{STAGING}" if write else None,
                    with_digests,
                )
                for segment, end in zip(segments, ends, strict=True)
                if segment.size
            ]
            return PartitionPlan(
                partition,
                path,
                config,
                opened_at,
                tasks,
                segments[-1].base_offset,
                log.log_end_offset,
                sum(task.size for task in tasks),
            )
        finally:
            log.close_handlers()
    finally:
        rehearsal.close()


def swap_in(fs: FileSystem, plan: PartitionPlan, done: Sequence[SegmentDone]) -> None:
    """Put the segments that were made in the places of the old ones; the log is closed when this returns."""
    changed = {one.base_offset: one.staged for one in done if one.staged is not None}
    with plan.opened_at.open(fs, plan.path, plan.config) as log:
        if log.segments.last.base_offset in changed:
            log.roll()
        log.flush(active=False)
        for base_offset, staged in sorted(changed.items()):
            assert staged is not None
            _bring(fs, staged, plan.path, base_offset)
            log.directory.sync()
            new = SealedSegment.open(log.directory, base_offset, transient=Transient.CLEANED)
            old = log.segments.at(base_offset)
            assert old is not None
            log.replace_segments([new], [old])


def _bring(fs: FileSystem, staged: str, path: str, base_offset: int) -> None:
    """Move a segment's files into the partition, for the old one's owner."""
    owned = read_attributes(fs, f"{path}/{format_segment_file(base_offset, FileKind.LOG)}")
    for kind in SEGMENT_FILES:
        name = format_segment_file(base_offset, kind, Transient.CLEANED)
        if fs.exists(f"{path}/{name}"):
            fs.unlink(f"{path}/{name}")
        if not fs.exists(f"{staged}/{name}"):
            continue
        made = read_attributes(fs, f"{staged}/{name}")
        restore_attributes(fs, f"{staged}/{name}", replace(owned, mtime_ns=made.mtime_ns))
        fs.rename(f"{staged}/{name}", f"{path}/{name}")
