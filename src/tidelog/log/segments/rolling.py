"""Ending the active segment and beginning the next one.

1. `rolls` decides, before an append is written, over facts that cost nothing to have (`needs_roll`).
2. The new segment begins at the append's first offset, or the log end. Files that lie there are strays of a
   crash and are removed. An active segment that is empty and begins there already is replaced by a fresh one.
3. The old segment is sealed: final time entry, indexes trimmed. The state of the producers up to the new
   segment is written as its snapshot, so that recovery of the new segment can begin there.
4. The view with the new segment is published. What was rolled is flushed later (`scheduling`).
"""

from __future__ import annotations

from tidelog.errors import LogError
from tidelog.index.base import MAX_RELATIVE_OFFSET
from tidelog.log.append.info import LogAppendInfo
from tidelog.log.flushing import flush_below
from tidelog.log.segments.rolls import RollFacts, should_roll
from tidelog.log.segments.segments import LogSegments
from tidelog.log.state import LogState
from tidelog.segment import ActiveSegment
from tidelog.storage.names import SEGMENT_FILES, Transient, format_segment_file

__all__ = ["needs_roll", "roll", "stays"]


def needs_roll(state: LogState, info: LogAppendInfo, now_ms: int) -> bool:
    """Whether the active segment must roll before this append."""
    active = state.active
    reason = should_roll(
        RollFacts(
            state.max_segment_bytes,
            state.max_segment_ms,
            info.valid_bytes,
            info.max_timestamp,
            info.last_offset,
            active.base_offset,
            active.size,
            active.first_batch_timestamp,
            active.created_ms,
            active.jitter_ms,
            active.index_full,
            now_ms,
        )
    )
    return reason is not None


def stays(state: LogState, size: int, last_offset: int, max_timestamp: int) -> bool:
    """Whether it is plain to see that the active segment need not roll before this append (`rolls`)."""
    active = state.active
    first = active.first_batch_timestamp
    return (
        active.size <= state.max_segment_bytes - size
        and first >= 0
        and max_timestamp - first <= state.max_segment_ms - active.jitter_ms
        and not active.index_full
        and last_offset - active.base_offset <= MAX_RELATIVE_OFFSET
    )


def roll(state: LogState, expected_next_offset: int = 0) -> ActiveSegment:
    """Begin a new segment at `expected_next_offset` or the log end, whichever is larger; it is answered."""
    segments, offsets = state.view
    end_offset = offsets.log_end.message_offset
    base_offset = max(expected_next_offset, end_offset)
    active = state.active
    if base_offset < active.base_offset or (base_offset == active.base_offset and active.size):
        raise LogError(
            f"cannot begin a segment at {base_offset} in {state.directory.path}: the active one begins at "
            f"{active.base_offset} and holds {active.size} bytes"
        )
    with state.changing_files("rolling"):
        if base_offset == active.base_offset:
            created, listed = _replace_empty(state, segments, active)
        else:
            _remove_strays(state, base_offset)
            sealed = active.seal()
            created = state.create_segment(base_offset)
            listed = segments.with_rolled(sealed, created)
        state.active = created
        state.producers.update_map_end_offset(base_offset)
        state.snapshots.take(state.producers, sync=False)
    state.publish(listed, offsets.with_log_end(state.end_at(end_offset)))
    if state.scheduler is not None:
        state.scheduler.schedule_once("flush-log", lambda: flush_below(state, base_offset))
    return created


def _replace_empty(
    state: LogState, segments: LogSegments, empty: ActiveSegment
) -> tuple[ActiveSegment, LogSegments]:
    empty.rename_to(Transient.DELETED)
    created = state.create_segment(empty.base_offset)
    state.later("delete-file", empty.delete)
    return created, segments.with_last(created)


def _remove_strays(state: LogState, base_offset: int) -> None:
    for kind in SEGMENT_FILES:
        state.directory.unlink(format_segment_file(base_offset, kind))
