"""A round of cleaning and who does its two passes: this process (`LocalPasses`), or somebody else.

A round decides: which segments are dirty, which become one, by what rules. The passes do: they fill a map of
keys, and rewrite groups. Passes that are done elsewhere leave what those here leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, Unpack

from tidelog.cleanup.aborted import CleanedTransactions
from tidelog.cleanup.filtering import ActiveProducers, BatchRules
from tidelog.cleanup.group_rewrite import GroupRules, rewrite_group
from tidelog.cleanup.grouping import group_segments_by_size
from tidelog.cleanup.mapping import map_segments
from tidelog.cleanup.offset_map import OffsetMap
from tidelog.cleanup.progress import CleanStage, Hooks, Steps
from tidelog.cleanup.rewriting import RewriteStats
from tidelog.cleanup.segment_bounds import Bounded, bounded
from tidelog.log import Log

__all__ = ["LocalPasses", "MappedRange", "Passes", "Round"]


@dataclass(frozen=True, slots=True)
class Round:
    """One round on one log: [start, end) is mapped, and everything that the map tells of rewritten."""

    log: Log
    start: int
    end: int
    now_ms: int
    legacy_horizon_ms: int

    @classmethod
    def of(cls, log: Log, start: int, end: int, now_ms: int) -> Self:
        """The round over [start, end); tombstones of old formats are judged by the last clean file."""
        clean = log.segments.values(0, start)
        horizon_ms = clean[-1].mtime_ms - log.config.delete_retention_ms if clean else 0
        return cls(log, start, end, now_ms, horizon_ms)

    def dirty(self) -> list[Bounded]:
        """The segments to be mapped."""
        segments = self.log.segments
        return bounded(segments, segments.values(self.start, self.end))

    def groups(self, end_offset: int) -> list[list[Bounded]]:
        """The segments below `end_offset`, where the map ended, in groups of those that become one."""
        segments, config = self.log.segments, self.log.config
        groups = group_segments_by_size(
            segments.values(0, end_offset),
            max_size=config.max_segment_bytes,
            max_index_size=config.segment_index_bytes,
            first_uncleanable_offset=self.end,
        )
        return [bounded(segments, group) for group in groups]

    def rules(self) -> GroupRules:
        """What groups are rewritten by, now."""
        config = self.log.config
        producers = ActiveProducers.of(self.log.active_producers)
        batches = BatchRules(self.now_ms, config.delete_retention_ms, self.end, producers)
        return GroupRules(config, batches, self.legacy_horizon_ms)


class MappedRange(NamedTuple):
    """What a first pass did."""

    end_offset: int
    """How far the map tells: the first offset that it does not."""
    records: int
    """Records read."""
    keys: int


class Passes(Protocol):
    """The two passes of rounds, in turn."""

    def map(self, round_: Round) -> MappedRange:
        """Map the keys of the round's dirty part, as many as there is memory for."""

    def rewrite(self, round_: Round, end_offset: int) -> RewriteStats:
        """Rewrite the groups below `end_offset` by that map, and put what is made in their places."""


class LocalPasses:
    """Both passes in this process, with one map of keys."""

    def __init__(self, offset_map: OffsetMap, **hooks: Unpack[Hooks]) -> None:
        self._map = offset_map
        self._steps = Steps(hooks)

    def map(self, round_: Round) -> MappedRange:
        """Fill the map."""
        self._map.clear()
        dirty = round_.dirty()
        self._steps.begin(CleanStage.MAPPING, sum(one.segment.size for one in dirty))
        mapped = map_segments(
            dirty,
            self._map,
            start_offset=round_.start,
            transactions=CleanedTransactions(round_.log.aborted_transactions(round_.start, round_.end)),
            step=self._steps.step,
        )
        return MappedRange(self._map.latest_offset + 1, mapped.records, self._map.size)

    def rewrite(self, round_: Round, end_offset: int) -> RewriteStats:
        """Rewrite group after group; each takes its place before the next begins."""
        log, stats, transactions = round_.log, RewriteStats(), CleanedTransactions()
        groups = round_.groups(end_offset)
        self._steps.begin(CleanStage.REWRITING, sum(one.segment.size for group in groups for one in group))
        for group in groups:
            present = log.segments  # retention may have deleted the oldest meanwhile
            left = [one for one in group if one.segment.base_offset in present]
            if not left:
                continue
            transactions.add(log.aborted_transactions(left[0].offsets.start, left[-1].end))
            done = rewrite_group(
                left, self._map, round_.rules(), transactions, into=log.directory, step=self._steps.step
            )
            stats += done.stats
            if done.cleaned is not None:
                log.replace_segments([done.cleaned], [one.segment for one in left])
        return stats
