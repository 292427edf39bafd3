"""Getting a log onto the disk, and the recovery point that says how far it is there.

Each segment knows whether it is on the disk as it is (`Segment.is_synced`), and the directory knows it of
its names. A flush syncs whatever is not, in the segments it was asked for, and then moves the recovery point
to the end of what it has covered. That is the log end of the moment when it began, or an earlier offset: the
recovery point is never above the log end.

Flushes of one log exclude each other, truncations and closing (`LogState.sync_lock`): what a flush has seen
is still there when it ends. Appends and rolls continue in the meantime, and leave what they change dirty. A
flush that waited for another one finds most of its work done.

A sync that fails takes the log offline, for good: see `storage.directory`.
"""

from __future__ import annotations

from tidelog.log.state import LogState

__all__ = ["flush", "flush_below", "sync_changes"]


def flush(state: LogState, *, active: bool = True) -> None:
    """Flush everything up to the log end; without `active`, an active segment that is empty is left out."""
    with state.sync_lock:
        state.check_writable()
        end = state.view.offsets.log_end.message_offset
        sync_changes(state, end + 1 if active else end)


def flush_below(state: LogState, offset: int) -> None:
    """Flush the segments that begin below `offset`; nothing to do for a log that is closed in the
    meantime.
    """
    with state.sync_lock:
        if not state.is_closed:
            state.check_writable()
            sync_changes(state, offset)


def sync_changes(state: LogState, reach: int) -> None:
    """Sync what has changed in the segments that begin below `reach`, and the names; with the sync lock held.

    Whoever holds the log's lock, too, so that nothing is written in the meantime, has everything on the disk
    then.
    """
    segments, offsets = state.view
    with state.changing_files("flushing"):
        for segment in segments.values(state.synced_below, reach):
            segment.flush()
        state.snapshots.sync()
        if not state.directory.is_synced:
            state.directory.sync()
    state.last_flush_ms = state.now_ms()
    state.note_synced(segments, min(reach, offsets.log_end.message_offset))
