"""Segments whose offsets reach too far from their base offset, cut into some that can be indexed.

An index tells offsets relative to the segment's base offset, in 31 bits. Old versions of Kafka could compact
segments into one that holds offsets further away than that. Such a segment is split where it is met: when it
is recovered, and when it is compacted.

1. Each new segment begins with a batch, is named by the first offset of that batch, and takes batches for as
   long as their offsets can be told. Bytes are copied as they are.
2. The indexes are those that an append of these batches makes; aborted transactions go where their marker is.
3. When all are on the disk as `.cleaned`, with the time of the old file, they take its place (`deletion`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from tidelog.config import LogConfig
from tidelog.errors import IndexOffsetOverflowError, InvalidIndexError, InvalidInputError, TidelogError
from tidelog.index import AbortedTxn, TimeIndex
from tidelog.index.base import MAX_RELATIVE_OFFSET
from tidelog.log.segments.deletion import replace_segments
from tidelog.log.state import LogState
from tidelog.records.batches import BatchTable, scan_batches
from tidelog.segment import ActiveSegment, SealedSegment, Segment
from tidelog.storage.names import Transient

__all__ = ["Split", "split_overflowed_segment", "split_segment"]

_RUN = 4096
_MAGIC_V2 = 2


class Split(NamedTuple):
    """What a segment was split into."""

    segments: list[SealedSegment]
    """The new segments, complete as `.cleaned` files."""
    size: int
    """How many bytes of the old one are in them."""
    fault: TidelogError | None
    """What is wrong with the bytes behind, if there are any."""


def split_segment(segment: Segment, config: LogConfig, clock: Callable[[], int]) -> Split:
    """Write the segments that a segment is to be split into; it stays as it is.

    Batches are framed but their checksums are not taken. What cannot be framed is not copied.
    """
    writer = _Writer(segment, config, clock)
    try:
        return writer.run()
    except BaseException:
        writer.discard()
        raise


def split_overflowed_segment(state: LogState, segment: Segment) -> list[SealedSegment]:
    """Split a segment of an open log, and let its parts take its place; the parts.

    With the lock held. A segment with damage that ends its batches is left as it is, and the damage raised.
    """
    if not segment.has_overflow:
        raise InvalidInputError(f"the offsets of {segment!r} fit its indexes; it is not split")
    split = split_segment(segment, state.config, state.now_ms)
    if split.fault is not None:
        for part in split.segments:
            part.delete()
        raise split.fault
    replace_segments(state, split.segments, [segment])
    return split.segments


class _Writer:
    def __init__(self, segment: Segment, config: LogConfig, clock: Callable[[], int]) -> None:
        self._segment = segment
        self._config = _with_room(config, segment.size)
        self._clock = clock
        self._parts: list[ActiveSegment] = []
        self._sealed: list[SealedSegment] = []
        self._position = 0

    def run(self) -> Split:
        view = self._segment.buffer()
        fault: TidelogError | None = None
        while fault is None and self._position < len(view):
            scan = scan_batches(
                view, start=self._position, max_batches=_RUN, check_crc=False, source=self._segment.path
            )
            self._take(view, scan.table)
            fault = scan.fault
        self._share_aborted_txns()
        mtime_ms = self._segment.mtime_ms
        for part in self._parts:
            sealed = part.seal()
            self._sealed.append(sealed)
            sealed.flush()
            sealed.directory.fs.set_mtime(sealed.path, mtime_ms)
        return Split(self._sealed, self._position, fault)

    def discard(self) -> None:
        """Remove what was written."""
        for part in (*self._sealed, *self._parts[len(self._sealed) :]):
            part.delete()

    def _take(self, view: memoryview, table: BatchTable) -> None:
        """Copy a run of batches, in as many parts as it needs."""
        while len(table):
            if not self._parts or self._fitting(table) == 0:
                self._begin(table)
            taken = self._fitting(table)
            if not taken:
                raise IndexOffsetOverflowError(
                    f"the batch at position {self._position} of {self._segment.path} spans more than "
                    "2^31 - 1 offsets"
                )
            run = table[:taken]
            self._parts[-1].append(view[int(run.position[0]) : run.end], run)
            self._position = run.end
            table = table[taken:]

    def _fitting(self, table: BatchTable) -> int:
        """How many batches at the head of `table` the present part can hold."""
        far = table.last_offset - self._parts[-1].base_offset > MAX_RELATIVE_OFFSET
        return int(far.argmax()) if far.any() else len(table)

    def _begin(self, table: BatchTable) -> None:
        base_offset, last_offset, position = (
            int(column[0]) for column in (table.base_offset, table.last_offset, table.position)
        )
        if table.magic[0] < _MAGIC_V2:  # a wrapper has the offset of its last message
            found = self._segment.translate_offset(last_offset, position)
            base_offset = base_offset if found is None else found.offset
        self._parts.append(
            ActiveSegment.create(
                self._segment.directory,
                base_offset,
                self._config,
                clock=self._clock,
                transient=Transient.CLEANED,
            )
        )

    def _share_aborted_txns(self) -> None:
        for txn in self._aborted_txns():
            holding = [part for part in self._parts if part.base_offset <= txn.last_offset]
            if holding:
                holding[-1].txn_index.append(txn)

    def _aborted_txns(self) -> list[AbortedTxn]:
        """Those noted in the old segment; an index that makes no sense is for recovery to rebuild."""
        index = self._segment.txn_index
        try:
            index.sanity_check()
        except InvalidIndexError:
            return []
        return index.all_aborted_txns()


def _with_room(config: LogConfig, size: int) -> LogConfig:
    """The configuration with indexes that are large enough for a segment of that many bytes."""
    entries = size // (config.index_interval_bytes + 1) + 2
    return replace(
        config, segment_index_bytes=max(config.segment_index_bytes, entries * TimeIndex.ENTRY_SIZE)
    )
