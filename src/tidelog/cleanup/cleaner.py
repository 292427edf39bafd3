"""The cleaner: a log's dirty part mapped, its segments rewritten, the new ones swapped in.

A round, as Kafka's cleaner does one:

1. the keys of the dirty part, [first dirty offset, upper bound), go into the offset map, as many as it takes;
2. all segments up to where the map tells are grouped, so that small ones become one (`grouping`);
3. each group is rewritten into a `.cleaned` segment, which is flushed and takes the group's place. It keeps
   the time of the group's last file, by which tombstones of magic 0 and 1 are judged. A lone segment of which
   everything stays is left where it is.

The first dirty offset of the next round is where the map ended. `clean_log` does rounds until the upper bound
is reached: what does not fit the map takes more rounds, not more memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from tidelog.cleanup.aborted import CleanedTransactions
from tidelog.cleanup.filtering import ActiveProducers, BatchRules
from tidelog.cleanup.grouping import group_segments_by_size
from tidelog.cleanup.mapping import map_keys
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.cleanup.rewriting import Rewriter, RewriteStats
from tidelog.errors import InvalidInputError
from tidelog.index import AbortedTxn
from tidelog.log import Log
from tidelog.segment import ActiveSegment, SealedSegment, Segment
from tidelog.storage.names import FileKind, Transient, format_segment_file

__all__ = ["CleanProgress", "CleanReport", "CleanStage", "clean_log", "clean_round"]

_KINDS = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)


class CleanStage(Enum):
    """What a round is doing."""

    MAPPING = "mapping keys"
    REWRITING = "rewriting"


@dataclass(frozen=True, slots=True)
class CleanProgress:
    """How far a round is, in bytes read; the total is of this stage."""

    stage: CleanStage
    done: int
    total: int


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

    @property
    def records_kept(self) -> int:
        """Records that second passes kept."""
        return self.stats.records_kept

    @property
    def keyless(self) -> int:
        """Records without a key that went."""
        return self.stats.keyless

    @property
    def tombstones_dropped(self) -> int:
        """Tombstones that went since their horizon had come."""
        return self.stats.tombstones_dropped

    @property
    def markers_dropped(self) -> int:
        """Transaction markers that went."""
        return self.stats.markers_dropped

    @property
    def batches_rewritten(self) -> int:
        """Batches written anew."""
        return self.stats.batches_rewritten

    @property
    def batches_copied(self) -> int:
        """Batches copied as they were."""
        return self.stats.batches_copied


def clean_log(
    log: Log,
    offset_map: OffsetMap,
    *,
    first_dirty_offset: int,
    upper_bound: int,
    now_ms: int,
    throttle: Callable[[int], None] | None = None,
    check: Callable[[], None] | None = None,
    progress: Callable[[CleanProgress], None] | None = None,
    checkpoint: Callable[[int], None] | None = None,
) -> CleanReport:
    """Clean a log up to `upper_bound`, or the start of its segment, in as many rounds as it takes.

    `throttle` is told bytes read and written and may wait; `check` is called before each run of batches and
    may raise to stop: then the segments that were swapped in by then stay, and all others are as they were.
    `checkpoint` is told the end offset of each round when it is over. Raises CorruptRecordError for damage.
    """
    reports: list[CleanReport] = []
    begin = first_dirty_offset
    while True:
        report = clean_round(
            log,
            offset_map,
            first_dirty_offset=begin,
            upper_bound=upper_bound,
            now_ms=now_ms,
            throttle=throttle,
            check=check,
            progress=progress,
        )
        reports.append(report)
        if checkpoint is not None and report.rounds:
            checkpoint(report.end_offset)
        if report.end_offset >= report.upper_bound or report.end_offset <= begin:
            return _joined(reports)
        begin = report.end_offset


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
    log: Log,
    offset_map: OffsetMap,
    *,
    first_dirty_offset: int,
    upper_bound: int,
    now_ms: int,
    throttle: Callable[[int], None] | None = None,
    check: Callable[[], None] | None = None,
    progress: Callable[[CleanProgress], None] | None = None,
) -> CleanReport:
    """One round of `clean_log`: `end_offset` is below the upper bound if the map did not take all keys."""
    if first_dirty_offset < 0:
        raise InvalidInputError(f"{first_dirty_offset} is no offset to begin to clean at")
    return _Round(log, offset_map, now_ms, _Steps(throttle, check, progress)).run(
        first_dirty_offset, _segment_start(log, upper_bound)
    )


def _segment_start(log: Log, offset: int) -> int:
    """The start of the segment that holds `offset`, at most that of the active one."""
    segments = log.segments
    found = segments.floor(min(offset, segments.last.base_offset))
    return segments.first.base_offset if found is None else found.base_offset


class _Steps:
    """Who is told of each step."""

    def __init__(
        self,
        throttle: Callable[[int], None] | None,
        check: Callable[[], None] | None,
        progress: Callable[[CleanProgress], None] | None,
    ) -> None:
        self._throttle = throttle
        self._check = check
        self._progress = progress
        self._now = CleanProgress(CleanStage.MAPPING, 0, 0)

    def begin(self, stage: CleanStage, total: int) -> None:
        """Another stage begins."""
        self._now = CleanProgress(stage, 0, total)
        self.step(0)

    def step(self, size: int) -> None:
        """So many bytes are about to be read, or were written."""
        if self._check is not None:
            self._check()
        if self._throttle is not None and size:
            self._throttle(size)
        if self._progress is not None:
            self._now = replace(self._now, done=min(self._now.done + size, self._now.total))
            self._progress(self._now)


class _Round:
    """One round on one log."""

    def __init__(self, log: Log, offset_map: OffsetMap, now_ms: int, steps: _Steps) -> None:
        self._log = log
        self._map = offset_map
        self._now_ms = now_ms
        self._steps = steps
        self._config = log.config
        self._stats = RewriteStats()
        self._transactions = CleanedTransactions()

    def run(self, start: int, end: int) -> CleanReport:
        """Clean [start, end)."""
        began = time.perf_counter()
        before = self._log.segments
        legacy_horizon_ms = self._legacy_horizon_ms(start)
        read = self._map_range(start, end) if start < end else 0
        end_offset = self._map.latest_offset + 1 if start < end else start
        if start < end:
            self._rewrite(end_offset, end, legacy_horizon_ms)
        after = self._log.segments
        return CleanReport(
            first_dirty_offset=start,
            end_offset=end_offset,
            upper_bound=end,
            segments_before=len(before),
            segments_after=len(after),
            bytes_before=before.size_in_bytes,
            bytes_after=after.size_in_bytes,
            records_before=self._stats.records_read,
            records_after=self._stats.records_kept,
            records_read=read,
            keys_mapped=self._map.size if start < end else 0,
            stats=self._stats,
            rounds=int(start < end),
            elapsed_s=time.perf_counter() - began,
        )

    def _legacy_horizon_ms(self, start: int) -> int:
        """Tombstones of magic 0 and 1 in files that are not younger than this go."""
        clean = self._log.segments.values(0, start)
        return clean[-1].mtime_ms - self._config.delete_retention_ms if clean else 0

    # First pass

    def _map_range(self, start: int, end: int) -> int:
        """Fill the map; how many records were read."""
        self._map.clear()
        dirty = self._log.segments.values(start, end)
        self._steps.begin(CleanStage.MAPPING, sum(segment.size for segment in dirty))
        transactions = CleanedTransactions(self._log.aborted_transactions(start, end))
        records = 0
        for index, segment in enumerate(dirty):
            following = index + 1 < len(dirty)
            found = segment.translate_offset(start)
            mapped = map_keys(
                segment.buffer(),
                self._map,
                start_offset=start,
                next_offset=dirty[index + 1].base_offset if following else end,
                base_offset=segment.base_offset,
                position=segment.size if found is None else found.position,
                transactions=transactions,
                source=segment.path,
                step=self._steps.step,
            )
            records += mapped.records
            if mapped.full:
                break
        return records

    # Second pass

    def _rewrite(self, end_offset: int, upper_bound: int, legacy_horizon_ms: int) -> None:
        segments = self._log.segments.values(0, end_offset)
        groups = group_segments_by_size(
            segments,
            max_size=self._config.max_segment_bytes,
            max_index_size=self._config.segment_index_bytes,
            first_uncleanable_offset=upper_bound,
        )
        self._steps.begin(CleanStage.REWRITING, sum(segment.size for segment in segments))
        for group in groups:
            present = self._log.segments  # retention may have deleted the oldest meanwhile
            left = [segment for segment in group if segment.base_offset in present]
            if left:
                self._rewrite_group(left, upper_bound, legacy_horizon_ms)

    def _rewrite_group(self, group: Sequence[Segment], upper_bound: int, legacy_horizon_ms: int) -> None:
        """Write a group's `.cleaned` segment and put it in the group's place."""
        cleaned = self._create(group[0].base_offset)
        try:
            rules = BatchRules(
                self._now_ms,
                self._config.delete_retention_ms,
                upper_bound,
                ActiveProducers.of(self._log.active_producers),
            )
            rewriter = Rewriter(self._map, rules, cleaned.append, self._steps.step)
            for segment in group:
                offsets = range(segment.base_offset, self._end_of(segment))
                self._transactions.add(self._log.aborted_transactions(offsets.start, offsets.stop))
                rewriter.rewrite(
                    segment.buffer(),
                    self._transactions,
                    keep_legacy_deletes=segment.mtime_ms > legacy_horizon_ms,
                    offsets=offsets,
                    source=segment.path,
                )
            self._note_aborted(cleaned, self._transactions.take_kept())
            sealed = cleaned.seal()
            self._stats += rewriter.stats
            if len(group) == 1 and rewriter.stats.changed_nothing and _same_indexes(sealed, group[0]):
                sealed.delete()
                return
            self._finish(sealed, group[-1].mtime_ms)
        except BaseException:
            with suppress(OSError):
                cleaned.abandon()
                self._delete_cleaned(group[0].base_offset)
            raise
        self._log.replace_segments([sealed], group)

    def _end_of(self, segment: Segment) -> int:
        """Where the next segment begins."""
        following = self._log.segments.higher(segment.base_offset)
        return segment.next_offset() if following is None else following.base_offset

    def _create(self, base_offset: int) -> ActiveSegment:
        """A new `.cleaned` segment; what an earlier attempt has left goes."""
        self._delete_cleaned(base_offset)
        return ActiveSegment.create(
            self._log.directory,
            base_offset,
            self._config,
            clock=lambda: self._now_ms,
            transient=Transient.CLEANED,
        )

    def _delete_cleaned(self, base_offset: int) -> None:
        for kind in _KINDS:
            self._log.directory.unlink(format_segment_file(base_offset, kind, Transient.CLEANED))

    def _note_aborted(self, cleaned: ActiveSegment, aborted: Sequence[AbortedTxn]) -> None:
        for txn in aborted:
            cleaned.txn_index.append(txn)

    def _finish(self, sealed: SealedSegment, mtime_ms: int) -> None:
        """Bring the segment to the disk, with the time of the files that it stands for."""
        sealed.flush()
        directory = self._log.directory
        with directory.lock:
            for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
                name = format_segment_file(sealed.base_offset, kind, Transient.CLEANED)
                directory.fs.set_mtime(directory.file(name), mtime_ms)


def _same_indexes(cleaned: Segment, old: Segment) -> bool:
    """Whether the indexes of a segment whose batches are the old one's have as many entries, too."""
    try:
        return (
            cleaned.offset_index.entries == old.offset_index.entries
            and cleaned.time_index.entries == old.time_index.entries
            and cleaned.txn_index.all_aborted_txns() == old.txn_index.all_aborted_txns()
        )
    except FileNotFoundError:
        return False
