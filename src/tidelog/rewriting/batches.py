"""The batches of a window of bytes, edited.

1. Records are decoded as far as conditions ask, and each batch in which something is to change is marked.
2. Marked batches are unpacked, and a kernel writes what stays of their records (`kernels.editing`).
3. They are compressed and sealed. All others are copied as they are.

A batch of which no record stays goes, but for those whose headers the log needs (`Needed`). A batch that
comes out as it went in has not changed: to do it all again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tidelog.cleanup.filtering import ActiveProducers
from tidelog.cleanup.unpacking import Unpacker
from tidelog.errors import InvalidTimestampError
from tidelog.kernels.editing import edit
from tidelog.records.batches import HEADER_SIZE, BatchTable, Column
from tidelog.records.columns import numbers
from tidelog.records.compressed_batches import compress_batches
from tidelog.records.decode import iter_record_batches
from tidelog.records.faults import Fault
from tidelog.records.windows import Window
from tidelog.rewriting.edits import Edits

__all__ = ["BatchEditor", "EditStats", "EditedWindow", "Needed"]

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Acts = npt.NDArray[np.uint8]

_GOES, _REDACTED = 1, 2
_MOST_HEAD = 32  # bytes that a record can take more than it did, without what replaces something
_SHARED_BYTES = 64 << 10  # of messages that become one batch
_SHARED_OFFSETS = 1 << 30


@dataclass(frozen=True, slots=True)
class Needed:
    """Batches whose headers stay when their records are gone, as compaction has it. Can be shipped."""

    producers: ActiveProducers
    """Of each producer the last one, which has its last sequence number."""
    log_end_offset: int
    """The last one of the log."""
    first_unstable_offset: int
    """Those of transactions that are not decided yet: from here on."""

    def mask(self, table: BatchTable) -> Flags:
        """Which batches these are."""
        undecided = table.is_transactional & (table.last_offset >= self.first_unstable_offset)
        last = table.last_offset + 1 == self.log_end_offset
        found: Flags = self.producers.has_last(table) | undecided | last
        return found


@dataclass(frozen=True, slots=True)
class EditStats:
    """What was done to batches and records."""

    records_read: int = 0
    records_erased: int = 0
    records_redacted: int = 0
    records_retimed: int = 0
    batches_rewritten: int = 0
    batches_emptied: int = 0
    batches_dropped: int = 0

    def __add__(self, other: Self) -> EditStats:
        """Both."""
        names = [one.name for one in fields(EditStats)]
        return EditStats(*(getattr(self, name) + getattr(other, name) for name in names))


class EditedWindow(NamedTuple):
    """What became of a window's batches."""

    data: memoryview
    table: BatchTable
    """Their headers; positions begin at 0."""
    offsets: Int64s
    """The offsets of the records that were erased or redacted."""
    stats: EditStats


class _Decided(NamedTuple):
    """What is to become of the records of a window, batch after batch."""

    acts: Acts
    retimed: Flags
    offsets: Int64s
    ends: Int64s
    """Where the records of each batch end."""

    def of(self, first: int, last: int) -> slice:
        """The records of some batches."""
        return slice(int(self.ends[first - 1]) if first else 0, int(self.ends[last]))


class BatchEditor:
    """Edits the batches of one segment."""

    def __init__(self, edits: Edits, needed: Needed, source: str) -> None:
        self._edits = edits
        self._needed = needed
        self._source = source

    def edit(self, window: Window) -> tuple[EditedWindow | None, EditStats]:
        """The batches of a window with the edits made; None if none changes. And what was read and done."""
        table = window.table
        decided = self._decide(window)
        seen = EditStats(records_read=len(decided.acts) if decided else int(table.count.sum()))
        marked = self._marked(table, decided)
        if not marked.any():
            return None, seen
        made = _Made(window, Unpacker(window.data, self._source, window.origin), self._edits)
        needed = self._needed.mask(table)
        for first, last in self._groups(table, marked):
            if not marked[first]:
                made.copy(first, last)
                continue
            acts = None
            if decided is not None:
                part = decided.of(first, last)
                acts = decided.acts[part] if _concerns(decided, part) else None
            made.rewrite(first, last, acts, keep_header=bool(needed[first : last + 1].any()))
        done = made.finish(decided)
        return (done, seen + done.stats) if done is not None else (None, seen)

    def _decide(self, window: Window) -> _Decided | None:
        columns = self._edits.columns
        if not columns:
            return None
        table = window.table
        data = BatchTable(np.ascontiguousarray(table.rows[~table.is_control & (table.count > 0)]))
        parts: list[tuple[Int64s, Flags, Flags, Int64s]] = [
            (np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0, np.bool_), np.empty(0, np.int64))
        ]
        for batch in iter_record_batches(
            window.data, data, columns=columns, origin=window.origin, source=self._source
        ):
            positions = numbers(batch.column("position"))
            picked, mistimed = self._edits.picked(batch), self._edits.mistimed(batch)
            parts.append((positions, picked, mistimed, numbers(batch.column("offset")).copy()))
        positions, picked, mistimed, offsets = (np.concatenate(part) for part in zip(*parts, strict=True))
        acts = picked.astype(np.uint8) * np.uint8(_GOES if self._edits.erase else _REDACTED)
        ends = np.searchsorted(positions, table.position, side="right").astype(np.int64)
        return _Decided(acts, mistimed, offsets, ends)

    def _marked(self, table: BatchTable, decided: _Decided | None) -> Flags:
        """Which batches are written anew."""
        edits, legacy, control = self._edits, table.magic < 2, table.is_control
        marked = np.zeros(len(table), np.bool_)
        if edits.upgrade:
            marked |= legacy
        if edits.codec is not None:
            marked |= (table.codec != edits.codec) | (edits.level is not None)
        if decided is not None:
            concerned = (decided.acts != 0) | decided.retimed
            counts = np.concatenate(([0], np.cumsum(concerned)))[np.concatenate(([0], decided.ends))]
            marked |= np.diff(counts) > 0
        found: Flags = marked & ~control & (table.count > 0)
        return found

    def _groups(self, table: BatchTable, marked: Flags) -> Iterator[tuple[int, int]]:
        """The batches in groups (first, last): copied together, or written as one."""
        shared = marked & (table.magic < 2) & (table.codec == 0)
        starts = np.ones(len(table), np.bool_)
        starts[1:] = marked[1:] | marked[:-1]
        if shared.any():
            starts &= ~_joins(table, shared)
        firsts = np.flatnonzero(starts)
        lasts = np.append(firsts[1:], len(table)) - 1
        yield from zip(firsts.tolist(), lasts.tolist(), strict=True)


def _joins(table: BatchTable, shared: Flags) -> Flags:
    """Which messages go into the batch of the one before: alike, and neither too far nor too many."""
    stamped = (table.attributes & 0x08) != 0
    alike = shared.copy()
    alike[0] = False
    alike[1:] &= shared[:-1] & (table.magic[1:] == table.magic[:-1])
    alike[1:] &= table.attributes[1:] == table.attributes[:-1]
    alike[1:] &= ~stamped[1:] | (table.max_timestamp[1:] == table.max_timestamp[:-1])
    run = np.maximum.accumulate(np.where(alike, 0, np.arange(len(table))))
    part = (table.position - table.position[run]) // _SHARED_BYTES
    far = (table.base_offset - table.base_offset[run]) // _SHARED_OFFSETS
    alike[1:] &= (part[1:] == part[:-1]) & (far[1:] == far[:-1])
    return alike


def _concerns(decided: _Decided, part: slice) -> bool:
    return bool(decided.acts[part].any() or decided.retimed[part].any())


class _Made:
    """The new batches of a window, not compressed yet, with room for their headers."""

    def __init__(self, window: Window, unpacker: Unpacker, edits: Edits) -> None:
        self._window = window
        self._unpacker = unpacker
        self._edits = edits
        self._parts: list[bytes | memoryview] = []
        self._rows: list[Int64s] = []
        self._from: list[tuple[int, int]] = []  # the batches that each is made of
        self._new: list[bool] = []
        self._dropped: list[tuple[int, int]] = []

    def copy(self, first: int, last: int) -> None:
        """Take batches as they are."""
        rows = self._window.table.rows[first : last + 1].copy()
        start = int(rows[0, Column.POSITION]) - self._window.origin
        self._parts.append(self._window.data[start : start + int(rows[:, Column.SIZE].sum())])
        self._rows.append(rows)
        self._from += [(index, index) for index in range(first, last + 1)]
        self._new += [False] * len(rows)

    def rewrite(self, first: int, last: int, acts: Acts | None, *, keep_header: bool) -> None:
        """Write a batch, or messages that become one; `acts` are for its records."""
        row = self._window.table.rows[first].copy()
        if last > first:
            row[Column.SIZE] = self._window.table.rows[first : last + 1, Column.SIZE].sum()
            row[Column.COUNT] = last - first + 1
        payload, row = self._unpacker.unpack(row)
        if acts is None and row[Column.MAGIC] == 2:
            self._add(payload, row.copy(), first, last)
            return
        out, made = self._edited(payload, row, acts)
        if made[Column.COUNT]:
            self._add(out.data[HEADER_SIZE : int(made[Column.SIZE])], made, first, last)
        elif keep_header:
            self._add(b"", _emptied(row), first, last)
        else:
            self._dropped.append((first, last))

    def _edited(self, payload: memoryview, row: Int64s, acts: Acts | None) -> tuple[Acts, Int64s]:
        edits, count = self._edits, int(row[Column.COUNT])
        acts = np.zeros(count, np.uint8) if acts is None else np.ascontiguousarray(acts)
        new = edits.replacement or b""
        more = int((acts == _REDACTED).sum()) * 2 * (len(new) + 5)
        out = np.empty(HEADER_SIZE + len(payload) + _MOST_HEAD * (count + 1) + more, np.uint8)
        made = np.empty(16, np.int64)
        fault = edit(payload, row, acts, edits.redaction, new, new, *edits.times, out, made)
        if fault == Fault.BAD_TIMESTAMP:
            raise InvalidTimestampError(
                f"a negative timestamp other than -1 ({self._unpacker.source}, position "
                f"{row[Column.POSITION]}, offset {row[Column.BASE_OFFSET]}): clamp the timestamps"
            )
        if fault:
            raise self._unpacker.error(row.tolist(), fault)
        return out, made

    def _add(self, records: bytes | memoryview, row: Int64s, first: int, last: int) -> None:
        if self._edits.codec is not None and row[Column.COUNT]:
            row[Column.ATTRIBUTES] = (row[Column.ATTRIBUTES] & ~7) | self._edits.codec
        row[Column.SIZE] = HEADER_SIZE + len(records)
        self._parts += [bytes(HEADER_SIZE), records]
        self._rows.append(row.reshape(1, Column.WIDTH))
        self._from.append((first, last))
        self._new.append(True)

    def finish(self, decided: _Decided | None) -> EditedWindow | None:
        """Compress and seal what was written; None if it is what was there."""
        window = self._window
        if not self._rows:
            return EditedWindow(memoryview(b""), BatchTable.joined(()), *self._told(decided, []))
        rows = np.concatenate(self._rows)
        rows[:, Column.POSITION] = np.cumsum(rows[:, Column.SIZE]) - rows[:, Column.SIZE]
        rows[:, Column.MARK] = 0
        table = BatchTable(rows)
        plain = memoryview(bytearray().join(self._parts))
        data = compress_batches(plain, table, np.array(self._new), self._edits.level)
        changed = []
        for index in np.flatnonzero(self._new).tolist():
            first, last = self._from[index]
            at, size = int(rows[index, Column.POSITION]), int(rows[index, Column.SIZE])
            old = int(window.table.rows[first, Column.POSITION]) - window.origin
            if first != last or data[at : at + size] != window.data[old : old + size]:
                changed.append(index)
        if not changed and not self._dropped:
            return None
        return EditedWindow(
            data, table, *self._told(decided, [(self._from[one], rows[one]) for one in changed])
        )

    def _told(
        self, decided: _Decided | None, changed: list[tuple[tuple[int, int], Int64s]]
    ) -> tuple[Int64s, EditStats]:
        """The offsets that were erased or redacted, and what was done."""
        emptied = sum(int(row[Column.COUNT]) == 0 for _, row in changed)
        stats = EditStats(
            batches_rewritten=len(changed) - emptied,
            batches_emptied=emptied,
            batches_dropped=sum(last - first + 1 for first, last in self._dropped),
        )
        if decided is None:
            return np.empty(0, np.int64), stats
        concerned = np.zeros(len(decided.acts), np.bool_)
        for first, last in [*(group for group, _ in changed), *self._dropped]:
            concerned[decided.of(first, last)] = True
        acts = decided.acts * concerned
        counts = EditStats(
            records_erased=int((acts == _GOES).sum()),
            records_redacted=int((acts == _REDACTED).sum()),
            records_retimed=int((decided.retimed & concerned & (acts != _GOES)).sum()),
        )
        return decided.offsets[acts != 0], stats + counts


def _emptied(row: Int64s) -> Int64s:
    """The header of a batch without records."""
    made = row.copy()
    keep = 0x38 if row[Column.MAGIC] == 2 else 0x08
    made[Column.ATTRIBUTES] = row[Column.ATTRIBUTES] & keep
    made[Column.MAGIC] = 2
    made[Column.BASE_TIMESTAMP] = -1
    made[Column.COUNT] = 0
    return made
