"""What a group of segments becomes: a `.cleaned` segment, or nothing if a lone one can stay as it is.

A lone segment can stay if all its batches stay, and its indexes have as many entries as new ones would. That
is known at its end. So its batches are not written until one changes: then those before it follow from the
segment itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tidelog.cleanup.segment_bounds import Bounded
from tidelog.cleanup.unpacking import runs
from tidelog.config import LogConfig
from tidelog.index import AbortedTxn
from tidelog.records.batches import BatchTable
from tidelog.segment import ActiveSegment, SealedSegment
from tidelog.segment.entry_counts import EntryCounts
from tidelog.storage import Directory
from tidelog.storage.names import MAPPED_INDEXES, SEGMENT_FILES, FileKind, Transient, format_segment_file

__all__ = ["Cleaned"]


class Cleaned:
    """Takes what stays of a group, in order. What an earlier attempt has left in the directory goes."""

    def __init__(self, group: Sequence[Bounded], config: LogConfig, now_ms: int, into: Directory) -> None:
        self._last = group[-1].segment
        self._base_offset = group[0].segment.base_offset
        self._config = config
        self._now_ms = now_ms
        self._into = into
        self._waiting = 0  # bytes of the lone segment that stay and were not written
        self._may_stay = len(group) == 1
        self._offsets = group[0].offsets
        self._counts = EntryCounts(self._base_offset, config.index_interval_bytes)
        self._segment: ActiveSegment | None = None
        self._remove()

    def append(self, data: memoryview, batches: BatchTable, changed: bool) -> None:
        """Take batches; `changed` says whether any was changed so far, these included."""
        if self._may_stay and not changed and self._counts.add(batches):
            self._waiting += len(data)
        else:
            self._written().append(data, batches)

    def finish(self, aborted: Sequence[AbortedTxn], *, changed: bool) -> SealedSegment | None:
        """The segment, on the disk, with the time of the group's last file; None if the old one can stay."""
        if self._may_stay and not changed and self._has_same_indexes(aborted):
            return None
        cleaned = self._written()
        for txn in aborted:
            cleaned.txn_index.append(txn)
        sealed = cleaned.seal()
        sealed.flush()
        with self._into.lock:
            for kind in (FileKind.LOG, *MAPPED_INDEXES):
                name = format_segment_file(self._base_offset, kind, Transient.CLEANED)
                self._into.fs.set_mtime(self._into.file(name), self._last.mtime_ms)
        return sealed

    def abandon(self) -> None:
        """Leave nothing behind, as far as that can be done."""
        with suppress(OSError):
            if self._segment is not None:
                self._segment.abandon()
            self._remove()

    def _written(self) -> ActiveSegment:
        """The new segment, with what has waited."""
        if self._segment is None:
            self._may_stay = False
            self._segment = ActiveSegment.create(
                self._into,
                self._base_offset,
                self._config,
                clock=lambda: self._now_ms,
                transient=Transient.CLEANED,
            )
            if self._waiting:
                self._write_waiting(self._segment)
        return self._segment

    def _write_waiting(self, cleaned: ActiveSegment) -> None:
        view, position = self._last.buffer()[: self._waiting], 0
        for table in runs(view, 0, self._last.path, self._offsets):
            cleaned.append(view[position : table.end], table)
            position = table.end

    def _has_same_indexes(self, aborted: Sequence[AbortedTxn]) -> bool:
        """Whether the old segment's indexes have as many entries as new ones would."""
        old = self._last
        try:
            return (
                self._counts.offsets == old.offset_index.entries
                and self._counts.times == old.time_index.entries
                and list(aborted) == list(old.txn_index.all_aborted_txns())
            )
        except FileNotFoundError:
            return False

    def _remove(self) -> None:
        for kind in SEGMENT_FILES:
            self._into.unlink(format_segment_file(self._base_offset, kind, Transient.CLEANED))
