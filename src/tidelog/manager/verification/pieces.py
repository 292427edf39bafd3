"""A large segment checked in pieces, anywhere and in any order, and the pieces put together.

1. `plan_pieces` cuts a segment at entries of its offset index.
2. `verify_piece` checks the batches of a piece, and the index entries that belong to them, by the very checks
   of `segment`. It answers a few numbers: is all as it should be, and what the neighbours must fit.
3. `stitch` compares neighbours: offsets continue growing, and no time entry of a later piece is below a
   timestamp of an earlier one, and no abort without an entry ends a transaction with records before it.

Pieces only say whether a segment is sound. Where they do not fit, or one has something to tell, the segment
is to be checked whole, so that what is found reads the same wherever it was looked for. An index that is
wrong about where batches begin only costs that second look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tidelog.manager.verification.findings import UNREADABLE
from tidelog.manager.verification.partition import SegmentSummary
from tidelog.manager.verification.segment import (
    CHECKS,
    OFFSET_ENTRY,
    TIME_ENTRY,
    TXN_ENTRY,
    CheckedSegment,
    SegmentPlace,
    bad_offsets,
    scan_log,
)
from tidelog.storage import FileReader, FileSystem, read_file
from tidelog.storage.names import FileKind

__all__ = ["Piece", "PieceFacts", "plan_pieces", "stitch", "verify_piece"]

_NO_TIME = (1 << 63) - 1
_LAST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes [start, end) of a segment's log."""

    place: SegmentPlace
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.end - self.start

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the segment."""
        return self.size == self.place.size


@dataclass(frozen=True, slots=True)
class PieceFacts:
    """What a piece comes to. Only `sound` means anything where it is False."""

    sound: bool
    first_offset: int = -1
    """Of the first batch; -1 where that is not known (magic 0 and 1)."""
    last_offset: int = -1
    largest_timestamp: int = -1
    earliest_entry: int = _NO_TIME
    """The smallest timestamp of a time entry that says what the largest one is up to its offset."""
    epochs: Mapping[int, int] | None = None
    begun: frozenset[int] = frozenset()
    """Producers with records behind their last marker in the piece."""
    ended: frozenset[int] = frozenset()
    """Producers with a marker in the piece."""
    unlisted: frozenset[int] = frozenset()
    """Those whose first marker is an abort of which the transaction index knows nothing."""


def plan_pieces(fs: FileSystem, place: SegmentPlace, piece_bytes: int) -> list[Piece]:
    """A segment in pieces of about so many bytes; whole where it is small or its index is of no help."""
    cuts = [0, place.size]
    if place.size >= 2 * piece_bytes and FileKind.OFFSET_INDEX in place.kinds:
        try:
            data = read_file(fs, place.path(FileKind.OFFSET_INDEX))
        except UNREADABLE:  # the check of the whole segment tells why
            data = b""
        entries = np.frombuffer(data, OFFSET_ENTRY, count=len(data) // OFFSET_ENTRY.itemsize)
        positions = np.unique(entries["position"].astype(np.int64))
        wanted = np.arange(piece_bytes, place.size - piece_bytes // 2, piece_bytes)
        nearest = np.searchsorted(positions, wanted)
        middle = np.unique(positions[nearest[nearest < len(positions)]])
        cuts[1:1] = middle[(middle > 0) & (middle < place.size)].tolist()
    return [Piece(place, start, end) for start, end in pairwise(cuts)]


def verify_piece(fs: FileSystem, piece: Piece, *, deep: bool = False) -> PieceFacts:
    """Check a piece of a segment. A file that cannot be read is no sound piece."""
    try:
        return _verify_piece(fs, piece, deep)
    except UNREADABLE:
        return PieceFacts(False)


def _verify_piece(fs: FileSystem, piece: Piece, deep: bool) -> PieceFacts:
    place = piece.place
    log = place.path(FileKind.LOG)
    found = scan_log(FileReader.open(fs, log), piece.start, piece.end, log, deep)
    table = found.table
    if found.fault is not None or not len(table):
        return PieceFacts(False)
    first, last = int(table.base_offset[0]), int(table.last_offset[-1])
    before = place.base_offset if piece.start == 0 else first
    next_base = place.next_base if piece.end == place.size else None
    if any(bad_offsets(table, log, before, next_base)):
        return PieceFacts(False)
    facts = CheckedSegment.of(table, found.aborts, place.base_offset, piece.end, piece.end, [])
    if not _indexes_fit(fs, piece, facts):
        return PieceFacts(False)
    return PieceFacts(
        True,
        first if table.magic[0] == 2 else -1,
        last,
        int(table.max_timestamp.max()),
        _earliest(fs, piece, facts),
        facts.epoch_starts,
        *_transactions(fs, place, facts),
    )


def stitch(place: SegmentPlace, pieces: Sequence[PieceFacts]) -> SegmentSummary | None:
    """A segment from its pieces in order; None if it has to be checked whole."""
    if not all(piece.sound for piece in pieces):
        return None
    epochs: dict[int, int] = {}
    last, largest = place.base_offset - 1, -1
    begun: frozenset[int] = frozenset()
    for piece in pieces:
        if 0 <= piece.first_offset <= last or piece.earliest_entry < largest or piece.unlisted & begun:
            return None
        begun = (begun - piece.ended) | piece.begun
        last, largest = piece.last_offset, max(largest, piece.largest_timestamp)
        for epoch, first in (piece.epochs or {}).items():
            epochs.setdefault(epoch, first)
    return SegmentSummary(place.size, last + 1, epochs)


def _indexes_fit(fs: FileSystem, piece: Piece, facts: CheckedSegment) -> bool:
    """Whether the entries of the piece fit it; the first piece looks at each index as a whole, too."""
    place = piece.place
    for kind, check in CHECKS.items():
        path = place.path(kind)
        if kind not in place.kinds and kind is not FileKind.TXN_INDEX:
            return False
        data = read_file(fs, path) if kind in place.kinds else b""
        if piece.start == 0 and not _is_orderly(kind, data):
            return False
        if any(check(_own(kind, data, piece, facts), path, facts, place.is_last)):
            return False
    return True


def _is_orderly(kind: FileKind, data: bytes) -> bool:
    """Whether an index is made of whole entries that make sense and grow."""
    dtype, *keys = _FORMS[kind]
    if len(data) % dtype.itemsize:
        return False
    entries = np.frombuffer(data, dtype)
    if kind is FileKind.TXN_INDEX:
        odd = (entries["version"] != 0) | (entries["first"] > entries["last"])
        if odd.any():
            return False
    return all((np.diff(entries[key].astype(np.int64)) > 0).all() for key in keys)


def _own(kind: FileKind, data: bytes, piece: Piece, facts: CheckedSegment) -> bytes:
    """The entries that a piece has to answer for: first and last take what lies outside, too."""
    dtype = _FORMS[kind][0]
    entries = np.frombuffer(data, dtype, count=len(data) // dtype.itemsize)
    if kind is FileKind.OFFSET_INDEX:
        keys, low, high = entries["position"].astype(np.int64), piece.start, piece.end - 1
    else:
        name, base = ("last", 0) if kind is FileKind.TXN_INDEX else ("offset", facts.base_offset)
        keys, low, high = entries[name].astype(np.int64) + base, int(facts.first[0]), int(facts.last[-1])
    low = low if piece.start else -_LAST
    high = high if piece.end < piece.place.size else _LAST
    return entries[(keys >= low) & (keys <= high)].tobytes()


def _transactions(
    fs: FileSystem, place: SegmentPlace, facts: CheckedSegment
) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
    """The producers that have begun a transaction, ended one, and aborted one without an entry."""
    markers = np.flatnonzero(facts.control & (facts.producer >= 0))
    data = np.flatnonzero(facts.in_transaction)
    last_marker = dict(zip(facts.producer[markers].tolist(), markers.tolist(), strict=True))
    first_marker = dict(zip(facts.producer[markers][::-1].tolist(), markers[::-1].tolist(), strict=True))
    last_data = dict(zip(facts.producer[data].tolist(), data.tolist(), strict=True))
    begun = frozenset(who for who, at in last_data.items() if at > last_marker.get(who, -1))
    if not len(facts.aborts):
        return begun, frozenset(last_marker), frozenset()
    known = FileKind.TXN_INDEX in place.kinds
    index = read_file(fs, place.path(FileKind.TXN_INDEX)) if known else b""
    entries = np.frombuffer(index, TXN_ENTRY, count=len(index) // TXN_ENTRY.itemsize)
    listed = np.isin(facts.last[facts.aborts], entries["last"].astype(np.int64))
    unlisted = set(facts.aborts[~listed].tolist())
    return (
        begun,
        frozenset(last_marker),
        frozenset(who for who, at in first_marker.items() if at in unlisted),
    )


def _earliest(fs: FileSystem, piece: Piece, facts: CheckedSegment) -> int:
    """The smallest timestamp among the time entries at the last offset of a batch of the piece."""
    data = read_file(fs, piece.place.path(FileKind.TIME_INDEX))
    entries = np.frombuffer(_own(FileKind.TIME_INDEX, data, piece, facts), TIME_ENTRY)
    offsets: npt.NDArray[np.int64] = entries["offset"].astype(np.int64) + facts.base_offset
    exact = np.isin(offsets, facts.last)
    return int(entries["timestamp"][exact].min()) if exact.any() else _NO_TIME


_FORMS: Mapping[FileKind, tuple[np.dtype[np.void], *tuple[str, ...]]] = {
    FileKind.OFFSET_INDEX: (OFFSET_ENTRY, "offset", "position"),
    FileKind.TIME_INDEX: (TIME_ENTRY, "timestamp"),
    FileKind.TXN_INDEX: (TXN_ENTRY, "last"),
}
"""An index's entries, and which of their fields must grow."""
