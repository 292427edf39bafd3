"""The cleaner: a log's dirty part mapped, its segments rewritten, the new ones swapped in.

A round, as Kafka's cleaner does one:

1. the keys of the dirty part, [first dirty offset, upper bound), go into the offset map, as many as it takes;
2. all segments up to where the map tells are grouped, so that small ones become one (`grouping`);
3. each group is rewritten into a `.cleaned` segment, which is flushed and takes the group's place. It keeps
   the time of the group's last file, by which tombstones of magic 0 and 1 are judged. A lone segment of which
   everything stays is left where it is.

The first dirty offset of the next round is where the map ended. `clean_log` does rounds until the upper bound
is reached: what does not fit the map takes more rounds, not more memory.

A record may go only when the later one of its key is safe, and that may lie in a segment which was rolled but
not flushed: all of them are flushed first. Kafka's cleaner stops at a segment whose offsets reach too far,
lets the log split it and starts again at its next turn; so does this.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tidelog.cleanup.progress import CleanProgress, CleanStage
from tidelog.cleanup.rewriting import RewriteStats
from tidelog.cleanup.rounds import LocalPasses, MappedRange, Passes, Round
from tidelog.errors import IndexOffsetOverflowError, InvalidInputError
from tidelog.log import Log

__all__ = ["CleanProgress", "CleanReport", "CleanStage", "LocalPasses", "clean_log", "clean_round"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CleanReport:
    """What cleaning did."""

    first_dirty_offset: int
    end_offset: int
    """Up to here the log is clean: the next first dirty offset, for the cleaner's checkpoint."""
    upper_bound: int
    segments_before: int
    segments_after: int
    bytes_before: int
    bytes_after: int
    records_before: int
    """Records in the segments that were rewritten (of the last round)."""
    records_after: int
    records_read: int
    """Records read by the first passes."""
    keys_mapped: int
    stats: RewriteStats
    """What the second passes did, summed up."""
    rounds: int
    elapsed_s: float


def clean_log(
    log: Log,
    passes: Passes,
    *,
    first_dirty_offset: int,
    upper_bound: int,
    now_ms: int,
    checkpoint: Callable[[int], None] | None = None,
) -> CleanReport:
    """Clean a log up to `upper_bound`, or the start of its segment, in as many rounds as it takes.

    `checkpoint` is told the end offset of each round. A segment whose offsets reach too far is split, and
    cleaning starts again. Raises CorruptRecordError for damage, and what a hook of the passes raises.
    """
    log.flush(active=False)
    reports: list[CleanReport] = []
    begin = first_dirty_offset
    while True:
        try:
            report = clean_round(
                log, passes, first_dirty_offset=begin, upper_bound=upper_bound, now_ms=now_ms
            )
        except IndexOffsetOverflowError as error:
            _logger.warning("%s: %s", log.path, error)
            if not _split(log):
                raise
            reports, begin = [], first_dirty_offset
            continue
        reports.append(report)
        if checkpoint is not None and report.rounds:
            checkpoint(report.end_offset)
        if report.end_offset >= report.upper_bound or report.end_offset <= begin:
            return _joined(reports)
        begin = report.end_offset


def _split(log: Log) -> bool:
    """Split what reaches too far in the sealed segments; whether there was any."""
    far = [segment for segment in list(log.segments)[:-1] if segment.has_overflow]
    for segment in far:
        log.split_overflowed_segment(segment)
    return bool(far)


def _joined(reports: Sequence[CleanReport]) -> CleanReport:
    """Several rounds as one report."""
    first, last = reports[0], reports[-1]
    stats = first.stats
    for report in reports[1:]:
        stats = stats + report.stats
    return replace(
        last,
        first_dirty_offset=first.first_dirty_offset,
        segments_before=first.segments_before,
        bytes_before=first.bytes_before,
        records_before=max(report.records_before for report in reports),
        records_read=sum(report.records_read for report in reports),
        keys_mapped=sum(report.keys_mapped for report in reports),
        stats=stats,
        rounds=sum(report.rounds for report in reports),
        elapsed_s=sum(report.elapsed_s for report in reports),
    )


def clean_round(
    log: Log, passes: Passes, *, first_dirty_offset: int, upper_bound: int, now_ms: int
) -> CleanReport:
    """One round of `clean_log`: `end_offset` is below the upper bound if the map did not take all keys."""
    start = first_dirty_offset
    if start < 0:
        raise InvalidInputError(f"{start} is not an offset to start cleaning at")
    began = time.perf_counter()
    end = _segment_start(log, upper_bound)
    before = log.segments
    mapped, stats = MappedRange(start, 0, 0), RewriteStats()
    if start < end:
        round_ = Round.of(log, start, end, now_ms)
        mapped = passes.map(round_)
        stats = passes.rewrite(round_, mapped.end_offset)
    after = log.segments
    return CleanReport(
        first_dirty_offset=start,
        end_offset=mapped.end_offset,
        upper_bound=end,
        segments_before=len(before),
        segments_after=len(after),
        bytes_before=before.size_in_bytes,
        bytes_after=after.size_in_bytes,
        records_before=stats.records_read,
        records_after=stats.records_kept,
        records_read=mapped.records,
        keys_mapped=mapped.keys,
        stats=stats,
        rounds=int(start < end),
        elapsed_s=time.perf_counter() - began,
    )


def _segment_start(log: Log, offset: int) -> int:
    """The start of the segment that holds `offset`, at most that of the active one."""
    segments = log.segments
    return segments.from_floor(min(offset, segments.last.base_offset))[0].base_offset
