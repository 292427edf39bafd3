"""Getting a log onto the disk, and the recovery point that says how far it is there.

The segments from the one that holds the recovery point on are flushed; if one of them is newer than that
point, its name has to be synced, too. Nothing is locked meanwhile: appends go on. The recovery point then
moves to the offset the flush was asked for, which all of it covers.
"""

from __future__ import annotations

from tidelog.errors import LogClosedError
from tidelog.log.state import LogState

__all__ = ["flush", "flush_below"]


def flush(state: LogState, *, active: bool = True) -> None:
    """Flush everything up to the log end; without `active`, only what lies in sealed segments."""
    view = state.view
    end = view.offsets.log_end.message_offset
    _flush(state, end, end + 1 if active else end)


def flush_below(state: LogState, offset: int) -> None:
    """Flush what lies below `offset`; nothing to do for a log that is closed meanwhile."""
    try:
        _flush(state, offset, offset)
    except LogClosedError:
        if not state.is_closed:
            raise


def _flush(state: LogState, offset: int, reach: int) -> None:
    state.check_readable()
    before, truncations = state.recovery_point, state.truncations
    if reach <= before:
        return
    segments = state.view.segments.values(before, reach)
    with state.changing_files("flushing"):
        for segment in segments:
            segment.flush()
        state.snapshots.sync()
        if any(segment.base_offset >= before for segment in segments):
            state.directory.sync()
    with state.lock:
        state.last_flush_ms = state.now_ms()
        if offset > state.recovery_point and truncations == state.truncations:
            state.move_recovery_point(offset)
