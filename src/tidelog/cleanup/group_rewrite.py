"""One group of segments rewritten into one `.cleaned` segment, in whatever directory it is to be made.

It is complete and on the disk when this returns, and keeps the time of the group's last file, by which
tombstones of magic 0 and 1 are judged. Of a lone segment of which everything stays there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.cleanup.aborted import CleanedTransactions
from tidelog.cleanup.cleaned import Cleaned
from tidelog.cleanup.filtering import BatchRules
from tidelog.cleanup.offset_map import KeyOffsets
from tidelog.cleanup.rewriting import Rewriter, RewriteStats
from tidelog.cleanup.segment_bounds import Bounded
from tidelog.config import LogConfig
from tidelog.segment import SealedSegment
from tidelog.storage import Directory

__all__ = ["GroupRules", "Rewritten", "rewrite_group"]


@dataclass(frozen=True, slots=True)
class GroupRules:
    """What the groups of one round are rewritten by; all of it can be shipped."""

    config: LogConfig
    batches: BatchRules
    legacy_horizon_ms: int
    """Tombstones of magic 0 and 1 in files that are not younger than this go."""


class Rewritten(NamedTuple):
    """What became of a group."""

    cleaned: SealedSegment | None
    """What is to take its place; None if it can stay."""
    stats: RewriteStats


def rewrite_group(
    group: Sequence[Bounded],
    keys: KeyOffsets,
    rules: GroupRules,
    transactions: CleanedTransactions,
    *,
    into: Directory,
    step: Callable[[int], None] | None = None,
) -> Rewritten:
    """Write a group's `.cleaned` segment into a directory; what an earlier attempt has left there goes.

    `transactions` knows the aborted ones that reach into the group, and moves on. Raises what is wrong with
    the bytes, IndexOffsetOverflowError where offsets reach too far, and what the step raises: then nothing
    is left behind.
    """
    cleaned = Cleaned(group, rules.config, rules.batches.now_ms, into)
    try:
        rewriter = Rewriter(keys, rules.batches, cleaned.append, step)
        for one in group:
            rewriter.rewrite(
                one.segment.buffer(),
                transactions,
                keep_legacy_deletes=one.segment.mtime_ms > rules.legacy_horizon_ms,
                offsets=one.offsets,
                source=one.segment.path,
            )
        stats = rewriter.stats
        sealed = cleaned.finish(transactions.take_kept(), changed=not stats.changed_nothing)
    except BaseException:
        cleaned.abandon()
        raise
    return Rewritten(sealed, stats)
