"""Headers of a run of batches as a table, and the scan that fills it.

Record batch, magic 2 (all numbers big-endian):

    at  size  field                     at  size  field
     0     8  base offset               27     8  base timestamp, or the delete horizon if bit 6 is set
     8     4  length (of all below)     35     8  max timestamp
    12     4  partition leader epoch    43     8  producer id
    16     1  magic = 2                 51     2  producer epoch
    17     4  CRC-32C of all below      53     4  base sequence
    21     2  attributes                57     4  record count
    23     4  last offset delta         61        records

    attributes: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon

The checksum does not cover base offset, length and leader epoch: they are stamped at append without a new
one.

Message, magic 0 and 1: offset 8, size 4, CRC-32 4 (of all below), magic 1, attributes 1, [timestamp 8 in
magic 1], key length 4, key, value length 4, value. In the table each top-level message is a row of its own;
a compressed one (a wrapper) counts as one record until it is decoded, and its offset is that of the last
message in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from tidelog.errors import CorruptRecordError, TidelogError
from tidelog.kernels import scan as _kernel
from tidelog.records import checksums as _checksums
from tidelog.records.faults import Fault, fault_error

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "HEADER_SIZE",
    "BatchScan",
    "BatchTable",
    "Column",
    "first_disorder",
    "scan_batches",
    "walk_batches",
]

HEADER_SIZE = 61
"""Bytes of a v2 batch before its first record."""

MIN_BATCH_SIZE = 26
"""Bytes of the smallest top-level message of any format (magic 0, no key, no value)."""

Int64s = npt.NDArray[np.int64]

assert _checksums  # imported for its effect: it gives the scan kernel its hardware CRC


class Column:
    """The columns of a table of batches, for those who work on its rows as numbers."""

    POSITION = 0
    SIZE = 1
    BASE_OFFSET = 2
    LAST_OFFSET = 3
    LEADER_EPOCH = 4
    MAGIC = 5
    ATTRIBUTES = 6
    BASE_TIMESTAMP = 7
    MAX_TIMESTAMP = 8
    PRODUCER_ID = 9
    PRODUCER_EPOCH = 10
    BASE_SEQUENCE = 11
    COUNT = 12
    CRC = 13
    MARK = 14
    """For whoever works on the table; the scan leaves it as it is."""
    WIDTH = 16
    """How many numbers a row has; the last one is not used."""


class _Field:
    """One field of all batches."""

    def __init__(self, index: int, doc: str) -> None:
        self._index = index
        self.__doc__ = doc

    def __get__(self, table: BatchTable, owner: type[BatchTable]) -> Int64s:
        return table.rows[:, self._index]


class BatchTable:
    """Batch headers, one row a batch; each field is a numpy array over all of them."""

    __slots__ = ("rows",)

    def __init__(self, rows: Int64s) -> None:
        self.rows = rows

    @classmethod
    def joined(cls, rows: Iterable[Int64s]) -> Self:
        """The rows of several tables as one; an empty table of none."""
        return cls(np.concatenate([np.empty((0, Column.WIDTH), dtype=np.int64), *rows]))

    def __len__(self) -> int:
        """How many batches."""
        return len(self.rows)

    def __getitem__(self, key: slice) -> BatchTable:
        """Some of the batches."""
        return BatchTable(self.rows[key])

    def __iter__(self) -> Iterator[BatchTable]:
        """Batch by batch, as tables of one row."""
        return (BatchTable(self.rows[i : i + 1]) for i in range(len(self.rows)))

    def __repr__(self) -> str:
        """How many batches of which offsets."""
        if not len(self):
            return "BatchTable(empty)"
        return f"BatchTable({len(self)} batches, offsets {self.base_offset[0]}..{self.last_offset[-1]})"

    position = _Field(Column.POSITION, "Byte position in the file.")
    size = _Field(Column.SIZE, "Whole size in bytes, with offset and length fields.")
    base_offset = _Field(
        Column.BASE_OFFSET, "Offset of the first record (of a magic 0/1 wrapper: of the last)."
    )
    last_offset = _Field(Column.LAST_OFFSET, "Offset of the last record, removed ones counted.")
    leader_epoch = _Field(Column.LEADER_EPOCH, "Partition leader epoch, -1 in magic 0/1.")
    magic = _Field(Column.MAGIC, "Format version: 0, 1 or 2.")
    attributes = _Field(Column.ATTRIBUTES, "The attributes as stored.")
    base_timestamp = _Field(Column.BASE_TIMESTAMP, "Base timestamp, or the delete horizon.")
    max_timestamp = _Field(Column.MAX_TIMESTAMP, "Largest timestamp, -1 in magic 0.")
    producer_id = _Field(Column.PRODUCER_ID, "Producer id, -1 for none.")
    producer_epoch = _Field(Column.PRODUCER_EPOCH, "Producer epoch, -1 for none.")
    base_sequence = _Field(Column.BASE_SEQUENCE, "Sequence of the first record, -1 for none.")
    count = _Field(Column.COUNT, "Number of records (1 in magic 0/1).")
    crc = _Field(Column.CRC, "Stored checksum.")

    @property
    def offset_count(self) -> Int64s:
        """How many offsets each batch covers, removed records counted."""
        return self.last_offset - self.base_offset + 1

    @property
    def codec(self) -> Int64s:
        """Codec id of each batch; values over 4 do not exist and are refused at decoding."""
        return self.attributes & 0x07

    @property
    def timestamp_type(self) -> Int64s:
        """0 create time, 1 log append time, -1 none (magic 0)."""
        return np.where(self.magic == 0, -1, (self.attributes >> 3) & 1)

    @property
    def is_transactional(self) -> npt.NDArray[np.bool_]:
        """Which batches belong to a transaction."""
        return self._flag(0x10)

    @property
    def is_control(self) -> npt.NDArray[np.bool_]:
        """Which batches hold control records."""
        return self._flag(0x20)

    @property
    def has_delete_horizon(self) -> npt.NDArray[np.bool_]:
        """Which batches keep a delete horizon in place of their base timestamp."""
        return self._flag(0x40)

    def _flag(self, bit: int) -> npt.NDArray[np.bool_]:
        """Which batches have an attribute that only v2 knows."""
        if not np.bitwise_or.reduce(self.attributes) & bit:  # nearly always: one look at a column is enough
            return np.zeros(len(self), dtype=np.bool_)
        flags: npt.NDArray[np.bool_] = ((self.attributes & bit) != 0) & (self.magic == 2)
        return flags

    @property
    def end(self) -> int:
        """Position just after the last batch."""
        return int(self.rows[-1, Column.POSITION] + self.rows[-1, Column.SIZE])


def first_disorder(
    table: BatchTable, floor: int, limit: int = (1 << 63) - 1, *, follows: bool = True
) -> int | None:
    """The first batch whose offsets cannot be right: they come after those before it, within [floor, limit).

    No checksum covers a base offset: only its neighbours tell that it is wrong. Where two batches are at odds
    it is the first of them if it alone leaves a gap, else the second. `follows` says whether `floor` is where
    the batch before the table ended, or just no offset can be lower.
    """
    if not len(table):
        return None
    base, last = table.base_offset, table.last_offset
    if base[0] >= floor and last[-1] < limit and (last >= base).all() and (base[1:] > last[:-1]).all():
        return None  # nearly always: a window is looked at in little time
    # The base offset of a compressed message of magic 0 or 1 is not known before it is decoded.
    first = np.where(table.magic < 2, last, base)
    before = np.concatenate(([floor - 1], last[:-1]))
    bad = (first <= before) | (last < first) | (last >= limit)
    if not bad.any():
        return None
    at = int(bad.argmax())
    if (
        at >= (1 if follows else 2)
        and last[at] >= first[at] > before[at - 1]
        and first[at - 1] > before[at - 1] + 1
    ):
        return at - 1
    return at


@dataclass(frozen=True, slots=True)
class BatchScan:
    """A scan's answer: the sound batches, where it stopped, and what was wrong there (None: nothing)."""

    table: BatchTable
    end: int
    fault: CorruptRecordError | None

    def require(self) -> BatchTable:
        """The table, or the fault as an exception."""
        if self.fault is not None:
            raise self.fault
        return self.table


def scan_batches(
    buffer: Buffer,
    *,
    start: int = 0,
    end: int | None = None,
    origin: int = 0,
    max_batches: int = 1 << 16,
    check_crc: bool = True,
    source: str | None = None,
) -> BatchScan:
    """Read and check the batch headers in buffer[start:end], at most `max_batches` of them, in one kernel
    call.

    `origin` is the file position of the buffer's first byte; `source` names the file in errors. A bad batch
    is answered as `fault`, not raised. `start` outside the buffer is the caller's mistake and a ValueError.
    """
    view = memoryview(buffer).cast("B")
    end = len(view) if end is None else end
    most = max(1, min(max_batches, (end - start) // MIN_BATCH_SIZE + 1))
    rows = np.empty((most, Column.WIDTH), dtype=np.int64)
    n, stop, code = _kernel.scan(view, start, end, origin, rows, check_crc)
    if not code:
        return BatchScan(BatchTable(rows[:n]), stop, None)
    enough = stop - origin + 17 <= end
    offset = int(rows[n, Column.BASE_OFFSET]) if enough and n < len(rows) else None
    fault = fault_error(
        code,
        position=stop,
        offset=offset,
        source=source,
        reason=_torn_reason(code, rows, n, stop - origin, end),
    )
    return BatchScan(BatchTable(rows[:n]), stop, _as_corrupt(fault))


def _torn_reason(code: int, rows: Int64s, n: int, at: int, end: int) -> str | None:
    if code != Fault.TORN:
        return None
    if end - at < 17:
        return f"the data ends inside a batch header: {end - at} bytes left"
    return f"the data ends inside a batch: {end - at} bytes left"


def _as_corrupt(error: TidelogError) -> CorruptRecordError:
    if not isinstance(error, CorruptRecordError):  # scanning has no other faults
        raise error
    return error


def walk_batches(
    buffer: Buffer,
    *,
    start: int = 0,
    end: int | None = None,
    origin: int = 0,
    max_batches: int = 1 << 12,
    check_crc: bool = True,
    source: str | None = None,
) -> Iterator[BatchTable]:
    """Batches of buffer[start:end] in tables of `max_batches` rows; a fault is raised when reached."""
    end = memoryview(buffer).nbytes if end is None else end
    while start < end:
        scan = scan_batches(
            buffer,
            start=start,
            end=end,
            origin=origin,
            max_batches=max_batches,
            check_crc=check_crc,
            source=source,
        )
        if len(scan.table):
            yield scan.table
        if scan.fault is not None:
            raise scan.fault
        start = scan.end - origin
