"""Cutting a log's end off: a follower that has diverged, or a log that starts again.

1. The producers' state is rebuilt up to the target (`producers.loading`): a transaction whose marker goes is
   open again, and no committed read may see its records from the moment on at which the marker is not there.
2. Readers see the shorter log; the segment that holds the target becomes the active one.
3. Files go, and everything behind the target with them: leader epochs, transactions in the index.

A truncation is on the disk when it returns: the cut file and indexes, the names of segments and snapshots
that went, the epochs. Until then nothing is written behind the target, so nothing that is acknowledged later
can meet old records at its offsets after a power cut. No flush runs in the meantime (`flushing`).
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
    kept = [segment for segment in segments if segment.base_offset <= target]
    last = kept[-1]
    found = last.translate_offset(target)
    end = LogOffsetMetadata(target, last.base_offset, last.size if found is None else found.position)
    with state.sync_lock, state.changing_files("truncating"):
        _reload_producers(state, LogSegments(kept), target)
        active = _activated(state, last)
        state.active = active
        state.publish(LogSegments((*kept[:-1], active)), state.refresh_unstable(offsets.with_log_end(end)))
        state.note_cut(target)
        delete_files(state, gone)
        if gone:  # recovery looks at the last segment, wherever its point is: it must be this one
            state.directory.sync()
        active.truncate_to(target)
        state.epochs.truncate_from_end(target)
        sync_changes(state, target + 1)
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
    """Remove everything; the log continues at `new_offset`, its start, if no earlier one is given."""
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
        _reload_producers(state, state.view.segments, new_offset)
        sync_changes(state, new_offset + 1)


def _reload_producers(state: LogState, segments: LogSegments, end_offset: int) -> None:
    """Make the producers' state that of a log of these segments; as it was, where that cannot be read.

    What lies below the log start counts, as it does when the log start is raised: a crash may bring it back.
    """
    producers = state.producers.renewed(state.producers.snapshot_offsets)
    rebuild_producers(
        producers,
        state.snapshots,
        segments,
        log_start_offset=segments.first.base_offset,
        last_offset=end_offset,
        now_ms=state.now_ms,
    )
    state.producers = producers
