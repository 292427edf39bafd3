"""The chosen batches as a new log, byte for byte and with their offsets.

Segments begin where those of the winner do, and before its start where those of the others do. Indexes,
leader epochs and producer snapshots are made by the log itself.
"""

from __future__ import annotations

import dataclasses
import struct
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from tidelog.config import LogConfig
from tidelog.errors import DataLossError
from tidelog.log import Log
from tidelog.manager.reconciling.choosing import History
from tidelog.manager.reconciling.copies import Copy, Int64s, Row
from tidelog.scanning.volumes import FileView
from tidelog.storage import FileSystem

__all__ = ["LogWriter", "pieces", "segment_starts"]

_PIECE_BYTES = 8 << 20
_INT_MAX = (1 << 31) - 1
_LONG_MAX = (1 << 63) - 1
_EPOCH_AT = 12


def segment_starts(history: History, log_start: int) -> list[int]:
    """Where segments of the new log begin."""
    starts: list[int] = []
    reached = _LONG_MAX
    for number in history.order:
        copy = history.copies[number]
        bases = [base for base in copy.segment_bases if base < min(reached, history.agreed[number])]
        starts += bases
        reached = min([reached, *bases])
    return sorted({base for base in starts if base > log_start})


def pieces(rows: Int64s, cuts: Sequence[int]) -> Iterator[Int64s]:
    """Rows whose bytes lie one behind the other, a few megabytes together; none reaches over a cut."""
    if not len(rows):
        return
    ends = rows[:, Row.POSITION] + rows[:, Row.SIZE]
    breaks = (rows[1:, Row.POSITION] != ends[:-1]) | (rows[1:, Row.COPY] != rows[:-1, Row.COPY])
    breaks |= (rows[1:, Row.SEGMENT] != rows[:-1, Row.SEGMENT]) | (rows[1:, Row.STRAY] != 0)
    breaks |= rows[:-1, Row.STRAY] != 0
    of_cut = np.array(cuts, np.int64).searchsorted(rows[:, Row.BASE], side="right")
    breaks |= of_cut[1:] != of_cut[:-1]
    starts = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(rows)]
    for first, stop in pairwise(starts):
        while first < stop:
            limit = int(rows[first, Row.POSITION]) + _PIECE_BYTES
            last = max(first + 1, first + int(ends[first:stop].searchsorted(limit, side="right")))
            yield rows[first:last]
            first = last


class LogWriter:
    """A new log that takes batches of copies."""

    def __init__(
        self,
        fs: FileSystem,
        path: str,
        copies: Sequence[Copy],
        *,
        first_offset: int,
        cuts: Sequence[int],
        topic_id: uuid.UUID | None,
        epochs: Iterable[tuple[int, int]] = (),
    ) -> None:
        """`cuts` are where segments begin, `epochs` the leader epochs and where they begin."""
        config = dataclasses.replace(
            LogConfig(), internal_segment_bytes=_INT_MAX, segment_ms=_LONG_MAX, max_message_bytes=_INT_MAX
        )
        self.log = Log.open(path, config, clean=True, log_start_offset=first_offset, topic_id=topic_id, fs=fs)
        self._copies = {copy.number: copy for copy in copies}
        self._cuts = list(cuts)
        self._epochs = list(epochs)
        self._views: dict[int, tuple[int, FileView]] = {}

    def write(self, rows: Int64s) -> None:
        """Append chosen batches."""
        for piece in pieces(rows, self._cuts):
            base = int(piece[0, Row.BASE])
            self._begin_at(base)
            self.log.append_as_follower(self._bytes(piece))

    def _begin_at(self, offset: int) -> None:
        """Roll and begin epochs that lie before the next batch."""
        while self._epochs and self._epochs[0][1] <= offset:
            epoch, start = self._epochs.pop(0)
            if epoch >= 0:
                self.log.assign_epoch_start_offset(epoch, start)
        cut = -1
        while self._cuts and self._cuts[0] <= offset:
            cut = self._cuts.pop(0)
        if cut > self.log.segments.last.base_offset:
            self.log.roll(max(cut, self.log.log_end_offset))

    def _bytes(self, piece: Int64s) -> bytearray | memoryview:
        copy, segment = int(piece[0, Row.COPY]), int(piece[0, Row.SEGMENT])
        known = self._views.get(copy)
        if known is None or known[0] != segment:
            one = self._copies[copy]
            known = segment, one.partition.log_view(one.segments[segment].facts)
            self._views[copy] = known
        position = int(piece[0, Row.POSITION])
        size = int(piece[-1, Row.POSITION] + piece[-1, Row.SIZE]) - position
        data = known[1].read(position, size)
        if len(data) < size:
            raise DataLossError(f"{self._copies[copy].name} has changed since it was looked through")
        if not piece[0, Row.STRAY]:
            return data
        mended = bytearray(data)
        struct.pack_into(">i", mended, _EPOCH_AT, int(piece[0, Row.EPOCH]))
        return mended

    def close(self, end: int) -> int:
        """Let the log go on at `end`, if it has less; where it ends then."""
        if end > self.log.log_end_offset:
            self.log.roll(end)
        found = self.log.log_end_offset
        self.log.close()
        return found

    def abandon(self) -> None:
        """Release the files: the log will not be used."""
        self.log.close_handlers()
