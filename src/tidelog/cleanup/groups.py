"""One group of segments rewritten into one `.cleaned` segment, in whatever directory it is to be made.

It is complete and on the disk when this returns, and keeps the time of the group's last file, by which
tombstones of magic 0 and 1 are judged. Of a lone segment of which everything stays there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.cleanup.aborted import CleanedTransactions
from tidelog.cleanup.filtering import BatchRules
from tidelog.cleanup.offset_map import KeyOffsets
from tidelog.cleanup.rewriting import Rewriter, RewriteStats
from tidelog.cleanup.segment_bounds import Bounded
from tidelog.config import LogConfig
from tidelog.segment import ActiveSegment, SealedSegment, Segment
from tidelog.storage import Directory
from tidelog.storage.names import MAPPED_INDEXES, SEGMENT_FILES, FileKind, Transient, format_segment_file

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
    base_offset, last = group[0].segment.base_offset, group[-1].segment
    _remove(into, base_offset)
    cleaned = ActiveSegment.create(
        into,
        base_offset,
        rules.config,
        clock=lambda: rules.batches.now_ms,
        transient=Transient.CLEANED,
    )
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
        for txn in transactions.take_kept():
            cleaned.txn_index.append(txn)
        sealed = cleaned.seal()
        if len(group) == 1 and rewriter.stats.changed_nothing and _same_indexes(sealed, last):
            sealed.delete()
            return Rewritten(None, rewriter.stats)
        _finish(sealed, last.mtime_ms)
    except BaseException:
        with suppress(OSError):
            cleaned.abandon()
            _remove(into, base_offset)
        raise
    return Rewritten(sealed, rewriter.stats)


def _remove(directory: Directory, base_offset: int) -> None:
    for kind in SEGMENT_FILES:
        directory.unlink(format_segment_file(base_offset, kind, Transient.CLEANED))


def _finish(sealed: SealedSegment, mtime_ms: int) -> None:
    """Bring the segment to the disk, with the time of the files that it stands for."""
    sealed.flush()
    directory = sealed.directory
    with directory.lock:
        for kind in (FileKind.LOG, *MAPPED_INDEXES):
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
