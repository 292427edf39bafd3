"""A whole segment that was made elsewhere becomes the log's next one, without being copied.

1. The batches are stamped where they lie: base offsets from the log end on, and the leader epoch; neither is
   covered by a checksum. The file is synced.
2. The time index is linked into the directory first: where the file system cannot do that (another one), the
   answer is no, and nothing has happened. A name is never replaced.
3. The leader epoch is written down, the active segment is sealed (one that is empty goes), the offset index
   and last the log are linked: from then on the segment is there. Indexes tell offsets relative to the base,
   so they are right as they are.
4. A new active segment begins after it, with a snapshot of the producers' state, and readers see both.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.config import LogConfig
from tidelog.log.append.validation import stamp
from tidelog.log.segments.segments import LogSegments
from tidelog.log.state import LogState
from tidelog.records.batches import BatchTable, Column
from tidelog.segment import SealedSegment
from tidelog.storage import CANNOT_LINK, Directory, File
from tidelog.storage.names import MAPPED_INDEXES, SEGMENT_FILES, FileKind, Transient, format_segment_file

__all__ = ["link_segment"]

_FAR_APART = 60_000
"""From this mean size of a batch on, its stamp is written and not mapped.

Kernels keep a file in folios of up to megabytes, and a mapping dirties a folio whole: the sync writes nearly
every byte again. A write dirties one block of it, but is a call, and a piece of its own for the disk. They
take equally long at about this size; the batches that the sink makes without a codec are larger.
"""
_STAMP = np.dtype([("base_offset", ">i8"), ("length", ">i4"), ("leader_epoch", ">i4")])
"""What of a batch's header no checksum covers."""
_LENGTH_END = 12


def link_segment(state: LogState, staged: Directory, rows: npt.NDArray[np.int64], leader_epoch: int) -> bool:
    """Link the segment of base offset 0 in `staged`, whose batches are `rows`; False if that cannot be.

    With the lock held. The batches are sound, of magic 2, without producers, and such as the log stores them.
    """
    base_offset = state.view.offsets.log_end.message_offset
    next_offset = base_offset + int((rows[:, Column.LAST_OFFSET] - rows[:, Column.BASE_OFFSET] + 1).sum())
    _stamp(staged, rows, base_offset, leader_epoch)
    if state.active.base_offset != base_offset:
        for kind in SEGMENT_FILES:
            state.directory.unlink(format_segment_file(base_offset, kind))
    elif state.active.size:
        return False  # a log that ends where its last segment begins holds nothing there
    with state.directory.lock:
        probe = format_segment_file(base_offset, FileKind.TIME_INDEX, Transient.CLEANED)
        state.directory.unlink(probe)
        try:
            _link(state, staged, FileKind.TIME_INDEX, probe)
        except OSError as error:
            if error.errno in CANNOT_LINK:
                return False
            raise
        with state.changing_files("linking a segment into"):
            state.epochs.assign(leader_epoch, base_offset)
            segments, offsets = state.view
            active = state.active
            if active.base_offset == base_offset:
                active.rename_to(Transient.DELETED)
                state.later("delete-file", active.delete)
                kept = list(segments)[:-1]
            else:
                kept = [*list(segments)[:-1], active.seal()]
            state.directory.unlink(probe)
            for kind in (*MAPPED_INDEXES, FileKind.LOG):
                _link(state, staged, kind, format_segment_file(base_offset, kind))
            linked = SealedSegment.open(state.directory, base_offset)
            created = state.create_segment(next_offset)
            state.active = created
            state.producers.update_map_end_offset(next_offset)
            state.snapshots.take(state.producers, sync=False)
            state.directory.sync()
    listed = LogSegments((*kept, linked, created))
    state.publish(listed, offsets.appended(state.end_at(next_offset)))
    return True


def _link(state: LogState, staged: Directory, kind: FileKind, name: str) -> None:
    state.directory.fs.link(staged.file(format_segment_file(0, kind)), state.directory.file(name))


def _stamp(staged: Directory, rows: npt.NDArray[np.int64], base_offset: int, leader_epoch: int) -> None:
    """Give the batches their offsets and leader epoch, in place, and sync them."""
    file = staged.open(format_segment_file(0, FileKind.LOG), writable=True)
    try:
        if rows[:, Column.SIZE].mean() >= _FAR_APART:
            _write_stamps(file, rows, base_offset, leader_epoch)
        else:
            _map_and_stamp(file, rows, base_offset, leader_epoch)
        file.sync()
    finally:
        file.close()


def _map_and_stamp(file: File, rows: npt.NDArray[np.int64], base_offset: int, leader_epoch: int) -> None:
    mapping = file.map_writable()
    try:
        view = mapping.buffer
        table = BatchTable(rows.copy())
        stamp(view, table, LogConfig(), next_offset=base_offset, leader_epoch=leader_epoch, now_ms=0)
        view.release()
        mapping.flush()
    finally:
        mapping.close()


def _write_stamps(file: File, rows: npt.NDArray[np.int64], base_offset: int, leader_epoch: int) -> None:
    """The same by a write for each batch: pages between two headers stay as they are on the disk."""
    counts = rows[:, Column.LAST_OFFSET] - rows[:, Column.BASE_OFFSET] + 1
    stamps = np.zeros(len(rows), _STAMP)
    stamps["base_offset"] = base_offset + np.cumsum(counts) - counts
    stamps["length"] = rows[:, Column.SIZE] - _LENGTH_END
    stamps["leader_epoch"] = leader_epoch
    written = memoryview(stamps.tobytes())
    for number, position in enumerate(rows[:, Column.POSITION].tolist()):
        file.pwrite(written[number * _STAMP.itemsize : (number + 1) * _STAMP.itemsize], position)
