"""Segments that go, and segments that take the place of others.

A segment that goes is taken out of the view first, then its files (and the snapshot of its base offset) are
given the suffix `.deleted`, and after `file.delete.delay.ms` they are removed. Whoever reads it by then
keeps what is mapped; what a crash leaves is removed at the next open.

Segments are replaced so that a crash at any moment leaves the old or the new ones (`leftovers` finishes it):

1. the new ones are complete as `.cleaned`;   2. they are renamed `.swap`, the newest first;
3. readers see the new ones; the old ones go;   4. `.swap` is taken off the new names, of logs first.

Each step is on the disk before the next begins, because a disk need not keep the order of renames: a `.swap`
file without the `.cleaned` ones that are still to follow would look complete, and an index that came before
its log in step 4 would look like one of the old segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tidelog.errors import InvalidInputError
from tidelog.log.state import LogState
from tidelog.segment import ActiveSegment, SealedSegment, Segment
from tidelog.storage import Directory
from tidelog.storage.names import Transient

__all__ = [
    "delete_files",
    "delete_segments",
    "exchange_files",
    "mark_deleted",
    "raise_log_start",
    "replace_segments",
]


def delete_files(state: LogState, segments: Sequence[Segment], *, keep_snapshots: Iterable[int] = ()) -> None:
    """Remove the files of segments that are in nobody's view, and their snapshots unless they are kept."""
    delete = mark_deleted(state, segments, keep_snapshots=keep_snapshots)
    if segments:
        state.later("delete-file", delete)


def mark_deleted(
    state: LogState, segments: Sequence[Segment], *, keep_snapshots: Iterable[int] = ()
) -> Callable[[], None]:
    """Give the files of segments the suffix `.deleted`; what is to be called `later` to remove them."""
    kept = set(keep_snapshots)
    going = [
        segment.base_offset
        for segment in segments
        if segment.base_offset not in kept and state.producers.remove_snapshot(segment.base_offset)
    ]
    for segment in segments:
        segment.rename_to(Transient.DELETED)
    names = state.snapshots.mark_deleted(going)

    def delete() -> None:
        for segment in segments:
            segment.delete()
        for name in names:
            state.directory.unlink(name)

    return delete


def delete_segments(state: LogState, segments: Iterable[Segment]) -> int:
    """Delete the oldest segments, which must lie below the high watermark; the log start moves after them.

    The active segment cannot be among them: roll first.
    """
    listed = state.view.segments
    gone = sorted(segments, key=lambda segment: segment.base_offset)
    oldest = list(listed)[: len(gone)]
    if [id(one) for one in gone] != [id(one) for one in oldest]:
        raise InvalidInputError(f"only the oldest segments of {state.directory.path} can be deleted")
    if len(gone) >= len(listed):
        raise InvalidInputError(f"the active segment of {state.directory.path} cannot be deleted")
    if not gone:
        return 0
    start = listed.base_offsets[len(gone)]
    raise_log_start(state, start)
    state.publish(listed.replaced(gone, ()), state.view.offsets)
    with state.changing_files("deleting segments of"):
        delete_files(state, gone)
        # The names are gone for good before a checkpoint leaves the log start to the first segment.
        state.directory.sync()
    return len(gone)


def raise_log_start(state: LogState, start: int) -> bool:
    """Raise the log start, which must not pass the high watermark; whether it moved.

    The recovery point stays: nothing was flushed. If it moved along, as Kafka's does, segments that still lie
    below the log start would never be flushed; after a power cut one of them could be found damaged, past the
    recovery point that was written down last, and everything after it would be cut.
    """
    before = state.view.offsets
    after = before.with_log_start(start)
    if after is before:
        return False
    state.publish_offsets(after)
    with state.changing_files("writing the epochs of"):
        state.epochs.truncate_from_start(start)
    state.producers.on_log_start_offset_incremented(start)
    state.publish_offsets(state.refresh_unstable(after))
    return True


def replace_segments(state: LogState, new: Sequence[SealedSegment], old: Sequence[Segment]) -> None:
    """Put `new`, complete as `.cleaned` files, in the place of `old`.

    Of `old`, the oldest may have been deleted since the caller looked (by retention): the rest is replaced.
    Where all were, there is nothing to replace, and the new ones go. They go too where others cannot be
    replaced, because they were cut off or are being written.
    """
    segments = state.view.segments
    present = [segment for segment in old if segment.base_offset >= segments.first.base_offset]
    missing = [segment.base_offset for segment in present if segments.at(segment.base_offset) is not segment]
    added = sorted(new, key=lambda segment: segment.base_offset)
    refused = missing or any(isinstance(segment, ActiveSegment) for segment in present)
    if refused or (old and not present):
        for segment in added:
            segment.delete()
        if not refused:
            return
        raise InvalidInputError(
            f"segments {missing or 'being written'} of {state.directory.path} cannot be replaced"
        )

    def retire() -> None:
        state.publish(segments.replaced(present, added), state.view.offsets)
        delete_files(state, present, keep_snapshots=[segment.base_offset for segment in added])

    with state.changing_files("swapping segments of"):
        for segment in added:
            segment.flush()
        exchange_files(state.directory, added, retire)


def exchange_files(directory: Directory, added: Sequence[SealedSegment], retire: Callable[[], None]) -> None:
    """Steps 2 to 4 for `added`, oldest first; `retire` takes the old ones' names away."""
    directory.sync()
    for segment in reversed(added):
        segment.rename_to(Transient.SWAP)
        directory.sync()
    retire()
    directory.sync()
    for segment in added:
        segment.rename_to(Transient.NONE, log_first=True)
    directory.sync()
