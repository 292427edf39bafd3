"""A large segment walked in pieces, anywhere and in any order, and its indexes made from what they found.

Which batch gets an index entry follows from all batches before it, but only from a few numbers of each; what
takes time is to read and check all bytes. So:

1. `cut` divides a segment at so many bytes, whatever lies there: an index that says where batches begin is
   what may be missing or wrong.
2. `scan_piece` finds the first batch that begins in its piece (`records.finding`), walks from there to the
   first batch that begins after it, checks everything, and packs the tables of headers.
3. `join` puts the tables of all pieces together. The first begins at 0 and each must begin where the one
   before it ends; then they are the very batches that one walk through the whole would have found. A guess in
   step 2 that was wrong, and damage, leave a gap or an overlap: then there is no joined table.
4. `reindex_segment` makes the indexes from the joined table, or walks the segment itself if there is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tidelog.manager.upkeep.reindexing import ReindexTask
from tidelog.records.batches import BatchTable, Column, scan_batches
from tidelog.records.finding import find_batch
from tidelog.storage import FileSystem, map_file
from tidelog.storage.names import FileKind

__all__ = ["ReindexPiece", "cut", "join", "scan_piece"]

_RUN = 1 << 16
_COLUMNS = 16
_USED = 14
_MAX_RELATIVE = (1 << 31) - 1
_CODEC = "zstd"


@dataclass(frozen=True, slots=True)
class ReindexPiece:
    """The batches of a segment that begin in [start, end) of its log."""

    task: ReindexTask
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.end - self.start


def cut(task: ReindexTask, piece_bytes: int) -> list[ReindexPiece]:
    """A segment in pieces of about so many bytes; one where it is small."""
    count = max(task.size // piece_bytes, 1)
    cuts = [task.size * number // count for number in range(count + 1)]
    return [ReindexPiece(task, start, end) for start, end in pairwise(cuts)]


def scan_piece(fs: FileSystem, piece: ReindexPiece) -> Iterator[bytes]:
    """The tables of a piece's batches, in order, packed; they end early at damage."""
    place = piece.task.place
    view = map_file(fs, place.path(FileKind.LOG))
    stop = place.base_offset + _MAX_RELATIVE + 1 if place.next_base is None else place.next_base
    offsets = range(place.base_offset, stop)
    end = min(piece.end, len(view))
    start = find_batch(view, piece.start, end, offsets) if piece.start else 0
    while start is not None and start < end:
        scan = scan_batches(view, start=start, end=end, max_batches=_RUN)
        if len(scan.table):
            yield _pack(scan.table)
        start = scan.end
        if scan.fault is not None:  # the last batch reaches into the next piece, or there is damage
            over = scan_batches(view, start=start, max_batches=1)
            if over.fault is None:
                yield _pack(over.table)
            return


def join(fs: FileSystem, task: ReindexTask, packed: Sequence[bytes]) -> BatchTable | None:
    """All batches of a segment from the tables of its pieces, in any order; None if they do not fit."""
    tables = sorted((_unpack(data) for data in packed), key=lambda rows: int(rows[0, Column.POSITION]))
    if not tables:
        return None
    rows = np.concatenate(tables)
    begins, ends = rows[:, Column.POSITION], rows[:, Column.POSITION] + rows[:, Column.SIZE]
    size = len(map_file(fs, task.place.path(FileKind.LOG)))
    fits = begins[0] == 0 and ends[-1] == size and np.array_equal(begins[1:], ends[:-1])
    return BatchTable(rows) if fits else None


def _pack(table: BatchTable) -> bytes:
    """A table in few bytes: neighbours differ little."""
    rows = np.diff(table.rows[:, :_USED], axis=0, prepend=np.zeros((1, _USED), np.int64))
    data = np.ascontiguousarray(rows.T).tobytes()
    packed: bytes = pa.compress(data, codec=_CODEC, asbytes=True)
    return len(table).to_bytes(4, "big") + packed


def _unpack(packed: bytes) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    count = int.from_bytes(packed[:4], "big")
    data = pa.decompress(packed[4:], count * _USED * 8, codec=_CODEC, asbytes=True)
    rows = np.zeros((count, _COLUMNS), np.int64)
    np.cumsum(np.frombuffer(data, np.int64).reshape(_USED, count).T, axis=0, out=rows[:, :_USED])
    return rows
