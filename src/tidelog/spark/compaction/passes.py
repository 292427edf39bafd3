"""The two passes of a partition's rounds, done by tasks: what the driver does.

1. First pass: the segments up to the round's end, in parts of neighbours. Their maps are merged by one task;
   here, if they are small.
2. What each part does to open transactions is folded, oldest first: so each segment's beginning is known.
3. Second pass: the groups that the local cleaner makes, spread over tasks.
4. The driver puts the new segments in the places of the old ones, oldest first.

A group whose offsets reach too far ends the round behind those before it, as in the local cleaner.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from tidelog.cleanup.aborted import MetData
from tidelog.cleanup.rewriting import RewriteStats
from tidelog.cleanup.rounds import MappedRange, Round
from tidelog.cleanup.segment_bounds import Bounded, bounded
from tidelog.errors import IndexOffsetOverflowError
from tidelog.index import AbortedTxn
from tidelog.spark.compaction.staged_segments import swap_in, sweep
from tidelog.spark.compaction.tasks import (
    GroupDone,
    GroupSplit,
    MappedPart,
    Maps,
    MapSplit,
    MapWork,
    Merged,
    MergeSplit,
    MergeWork,
    RewriteSplit,
    RewriteWork,
    SegmentSplit,
)
from tidelog.spark.runtime.jobs import pack

__all__ = ["DistributedPasses", "Run"]

Run = Callable[[Callable[[int, Any], Any], Sequence[Any]], list[Any]]
"""Has tasks do a work on splits; what each answered, in the splits' order."""


class DistributedPasses:
    """Passes done by the tasks of `run`, each of about `share_bytes`, each with a map of `dedupe_bytes`.

    `staging` is a directory that each round makes again; `gate` is held while segments take their places.
    """

    def __init__(
        self,
        run: Run,
        staging: Path,
        *,
        share_bytes: int,
        dedupe_bytes: int,
        load_factor: float = 0.9,
        gate: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._run = run
        self._staging = staging
        self._share = share_bytes
        self._memory = (dedupe_bytes, load_factor)
        self._gate = nullcontext() if gate is None else gate
        self._keys = ""
        self._segments: dict[int, SegmentSplit] = {}
        self._met: dict[int, MetData] = {}

    def map(self, round_: Round) -> MappedRange:
        """Map the dirty part, and find out where transactions are open."""
        sweep(self._staging)
        self._staging.mkdir(parents=True)
        segments = _segments(round_)
        self._segments = {one.base_offset: one for one in segments}
        parts = [MapSplit(round_.log.path, round_.start, one.items) for one in pack(segments, self._share)]
        maps = Maps(*self._memory, secrets.token_bytes(16))
        mapped: list[MappedPart] = self._run(MapWork(str(self._staging), maps), parts)
        self._met = _met(parts, mapped)
        split = MergeSplit(tuple(zip(parts, mapped, strict=True)))
        merge = MergeWork(str(self._staging), maps)
        merged: Merged = merge(0, split) if merge.is_quick(split) else self._run(merge, [split])[0]
        self._keys = merged.file
        return MappedRange(merged.end_offset, merged.records, merged.keys)

    def rewrite(self, round_: Round, end_offset: int) -> RewriteStats:
        """Have the groups rewritten, and put them in their places."""
        groups = round_.groups(end_offset)
        bins = pack([self._group(group) for group in groups], self._share)
        work = RewriteWork(str(self._staging), self._keys, round_.rules())
        answers: list[list[GroupDone]] = self._run(
            work, [RewriteSplit(round_.log.path, one.items) for one in bins]
        )
        stats = RewriteStats()
        for one, answer in zip(bins, answers, strict=True):
            for group, done in zip(groups[one.first :], answer, strict=False):
                if done.overflow is not None:
                    raise IndexOffsetOverflowError(done.overflow)
                stats += done.stats
                self._swap(round_, group, done)
        sweep(self._staging)
        return stats

    def _group(self, group: Sequence[Bounded]) -> GroupSplit:
        splits = tuple(self._segments[one.segment.base_offset] for one in group)
        return GroupSplit(splits, self._met[splits[0].base_offset])

    def _swap(self, round_: Round, group: Sequence[Bounded], done: GroupDone) -> None:
        if done.staged is not None:
            with self._gate:
                old = [one.segment for one in group]
                swap_in(round_.log, Path(done.staged), [old[0].base_offset], old)


def _segments(round_: Round) -> list[SegmentSplit]:
    """All segments below the round's end."""
    log = round_.log
    aborted = log.aborted_transactions(0, round_.end)
    ends = [txn.last_offset for txn in aborted]
    return [
        SegmentSplit(
            segment.base_offset,
            end,
            segment.size,
            end > round_.start,
            _overlapping(aborted, ends, segment.base_offset, end),
        )
        for segment, end in bounded(log.segments, log.segments.values(0, round_.end))
    ]


def _overlapping(
    aborted: Sequence[AbortedTxn], ends: Sequence[int], start: int, end: int
) -> tuple[AbortedTxn, ...]:
    """Those of a log's aborted transactions, by their last offsets, that reach into [start, end)."""
    found = []
    for txn in aborted[bisect_left(ends, start) :]:
        if txn.first_offset < end:
            found.append(txn)
        if txn.last_stable_offset >= end:
            break
    return tuple(found)


def _met(parts: Sequence[MapSplit], mapped: Sequence[MappedPart]) -> dict[int, MetData]:
    """By base offset, whose data was met before a segment; as far as no map was full."""
    now, found = MetData(), {}
    for part, done in zip(parts, mapped, strict=True):
        for one, span in zip(part.segments, done.spans, strict=False):
            found[one.base_offset] = now
            now = span.after(now)
        if done.full:
            found[part.segments[len(done.spans)].base_offset] = now
            break
    return found
