"""Cutting a log's end off: a follower that has diverged, or a log that starts anew.

Readers see the shorter log first; then files go. The segment that holds the target becomes the active one,
and everything behind the target goes with the leader epochs that start there, the transactions in the index,
and the producers' state, which is rebuilt up to it (`producer_loading`).

A truncation is on the disk when it returns: the cut file and indexes, the names of segments and snapshots
that went, the epochs. Until then nothing is written behind the target, so nothing that is acknowledged later
can meet old records at its offsets after a power cut. No flush runs meanwhile (`flushing`).
"""

from __future__ import annotations

from tidelog.errors import InvalidInputError
from tidelog.log.flushing import sync_changes
from tidelog.log.offsets import LogOffsetMetadata, LogOffsets
from tidelog.log.producers.loading import rebuild_producers
from tidelog.log.segments.deletion import delete_files, mark_deleted
from tidelog.log.segments.segments import LogSegments
from tidelog.log.state import LogState
from tidelog.segment import ActiveSegment, SealedSegment

__all__ = ["truncate_fully_and_start_at", "truncate_to"]


def truncate_to(state: LogState, target: int) -> bool:
    """Remove everything at or after `target`; whether there was anything."""
    if target < 0:
        raise InvalidInputError(f"cannot truncate to offset {target}")
    segments, offsets = state.view
    if target >= offsets.log_end.message_offset:
        # An epoch may have begun at the log end without anything written in it.
        with state.changing_files("writing the epochs of"):
            state.epochs.truncate_from_end(offsets.log_end.message_offset)
        return False
    if segments.first.base_offset > target:
        truncate_fully_and_start_at(state, target)
        return True
    gone = [segment for segment in segments if segment.base_offset > target]
    last = list(segments)[-len(gone) - 1]
    found = last.translate_offset(target)
    end = LogOffsetMetadata(target, last.base_offset, last.size if found is None else found.position)
    with state.sync_lock, state.changing_files("truncating"):
        active = _activated(state, last)
        left = LogSegments((*(one for one in segments if one.base_offset < last.base_offset), active))
        state.active = active
        state.publish(left, offsets.with_log_end(end))
        state.note_cut(target)
        delete_files(state, gone)
        if gone:  # recovery looks at the last segment, wherever its point is: it must be this one
            state.directory.sync()
        active.truncate_to(target)
        state.epochs.truncate_from_end(target)
        _reload_producers(state, target)
        sync_changes(state, target + 1)
    state.publish_offsets(state.refresh_unstable(state.view.offsets))
    return True


def _activated(state: LogState, segment: object) -> ActiveSegment:
    if isinstance(segment, ActiveSegment):
        return segment
    if not isinstance(segment, SealedSegment):
        raise InvalidInputError(f"{segment!r} cannot be written")
    return ActiveSegment.reopen(segment, state.config, clock=state.now_ms, jitter_ms=state.draw_jitter_ms())


def truncate_fully_and_start_at(
    state: LogState, new_offset: int, log_start_offset: int | None = None
) -> None:
    """Remove everything; the log goes on at `new_offset`, its start, if no earlier one is given."""
    start = new_offset if log_start_offset is None else log_start_offset
    if not 0 <= start <= new_offset:
        raise InvalidInputError(f"a log that goes on at {new_offset} cannot start at {start}")
    old = list(state.view.segments)
    with state.sync_lock, state.changing_files("truncating"):
        delete = mark_deleted(state, old)
        state.directory.sync()  # else a power cut could leave the new segment inside of an old one
        active = state.create_segment(new_offset)
        state.active = active
        end = LogOffsetMetadata(new_offset, new_offset, 0)
        state.publish(LogSegments([active]), LogOffsets(start, None, end, end))
        state.note_cut(new_offset)
        state.later("delete-file", delete)
        state.epochs.clear()
        state.snapshots.delete(state.producers.truncate_fully_and_start_at(new_offset))
        _reload_producers(state, new_offset)
        sync_changes(state, new_offset + 1)
    state.publish_offsets(state.refresh_unstable(state.view.offsets))


def _reload_producers(state: LogState, end_offset: int) -> None:
    rebuild_producers(
        state.producers,
        state.snapshots,
        state.view.segments,
        log_start_offset=state.view.offsets.log_start,
        last_offset=end_offset,
        now_ms=state.now_ms,
    )
