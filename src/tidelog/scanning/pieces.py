"""Pieces of many log files, read into one buffer, and the batches in them.

1. The pieces are read one after the other, so that the batches of one follow those of the one before.
2. Their headers are scanned in one call. Where a piece ends inside a batch, or has something else in it that
   is none, the scan goes on at the next piece: a piece is `whole`, or it is to be looked at by itself.
3. What depends on neighbours (whether offsets grow as they must) is decided for all pieces at once.

Nothing is raised and nothing is explained here: whoever finds a piece that is out of the ordinary reads it
again in the usual way, which does both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.records.batches import BatchTable, Column, scan_batches
from tidelog.storage.stretches import Stretch, read_stretches

__all__ = ["Bools", "Int64s", "Pieces", "read_pieces"]

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of files, one after the other in one buffer."""

    data: memoryview
    table: BatchTable
    """Their batches; a position is one in the buffer."""
    owner: Int64s
    """Which piece each of the batches lies in."""
    whole: Bools
    """Which pieces were all there, and are whole batches from their start to their end."""

    def last_offsets(self) -> Int64s:
        """The last offset in each piece; -1 where there is no batch."""
        found = np.full(len(self.whole), -1, np.int64)
        found[self.owner] = self.table.last_offset  # of equal indexes the last one counts
        return found

    def first_last_offsets(self) -> Int64s:
        """The last offset of the first batch in each piece; -1 where there is no batch."""
        found = np.full(len(self.whole), -1, np.int64)
        found[self.owner[::-1]] = self.table.last_offset[::-1]
        return found

    def in_order(self, floors: Int64s, limits: Int64s, *, follows: Bools | None = None) -> Bools:
        """Which pieces hold batches of magic 2 alone, with offsets that grow from `floors` on up to `limits`.

        Where pieces are given as `follows`, there may be no gap between batches, and where that is True for
        a piece none before the first of them.
        """
        table, owner = self.table, self.owner
        base, last = table.base_offset, table.last_offset
        is_first = np.ones(len(table), np.bool_)
        is_first[1:] = owner[1:] != owner[:-1]
        before = np.empty(len(table), np.int64)
        before[1:] = last[:-1]
        before[is_first] = floors[owner[is_first]] - 1
        odd = (base <= before) | (last < base) | (last >= limits[owner]) | (table.magic < 2)
        odd |= table.count < 0
        if follows is not None:
            odd |= (base != before + 1) & (~is_first | follows[owner])
        return self.without(odd)

    def without(self, odd: Bools) -> Bools:
        """Which pieces have none of these batches."""
        found = np.ones(len(self.whole), np.bool_)
        found[self.owner[odd]] = False
        return found


def read_pieces(wanted: Sequence[Stretch], *, check_crc: bool) -> Pieces:
    """Read pieces of files, of a byte at least each; what is not there leaves a piece that is not `whole`."""
    found = read_stretches(wanted)
    sizes = np.array([len(one) for one in found], np.int64)
    whole: Bools = sizes == np.array([one.size for one in wanted], np.int64)
    data = memoryview(b"".join(found))
    ends = np.cumsum(sizes)
    tables = []
    at = 0
    while at < len(data):
        scan = scan_batches(data, start=at, check_crc=check_crc)
        table, at = scan.table, scan.end
        owner = _piece_at(ends, table.position)
        across = table.position + table.size > ends[owner]
        if across.any():
            first = int(across.argmax())
            table, at = table[:first], int(table.position[first])
        if scan.fault is not None or across.any():
            torn = int(_piece_at(ends, np.array([at]))[0])
            whole[torn], at = False, int(ends[torn])
        tables.append(table.rows)
    rows = np.concatenate(tables) if tables else np.empty((0, Column.MARK + 2), np.int64)
    table = BatchTable(rows)
    return Pieces(data, table, _piece_at(ends, table.position), whole)


def _piece_at(ends: Int64s, positions: Int64s) -> Int64s:
    """The pieces that positions lie in."""
    return np.searchsorted(ends, positions, side="right")
