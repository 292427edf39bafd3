"""Batches -> Arrow record batches.

1. Cut the table into chunks of whole batches, bounded in rows and bytes, and allocate the columns asked for.
2. Fill them, run by run of batches that are decoded alike: one kernel call for a run of uncompressed batches and of
   LZ4 batches, one for each batch that another codec has decompressed. Checksums are taken on the way.
3. The chunk ends early where the next batch does not fit, which only decompression can tell. A batch that does not
   fit an empty chunk is decompressed, measured and decoded alone.
4. Spread the facts of the batches over their records.

Memory is bounded by `max_rows` and `max_bytes` (or one batch, if that is larger), not by the input.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NoReturn, TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import (
    CompressionError,
    CountMismatchError,
    InvalidInputError,
    RecordOverrunError,
    UnknownCodecError,
)
from tidelog.kernels import decode as _kernel
from tidelog.kernels import scan as _scan
from tidelog.records.batches import HEADER_SIZE, BatchTable, walk_batches
from tidelog.records.columns import ChunkColumns, constant_int, constant_string
from tidelog.records.compression import MAX_DECOMPRESSED, decompress
from tidelog.records.facts import BatchFacts
from tidelog.records.faults import Fault, fault_error
from tidelog.records.schema import Projection
from tidelog.types import Codec

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["decode_batches", "iter_record_batches", "read_record_batches"]

MAX_ROWS = 1 << 17
MAX_BYTES = 16 << 20

_VERIFY_BATCHES = 64  # checksums are taken this far ahead of decompression, so that it finds the bytes in the cache
_SCRATCH_BYTES = 1 << 18
_HEADERS_PER_ROW = 4  # room for headers in a chunk of a topic that has them; more of them end the chunk early
_MIN_RECORD_SIZE = 7  # length, attributes, two deltas, key length, value length, header count: one byte each
_COLUMN_LIMIT = (1 << 31) - 1  # Arrow's binary columns count bytes in int32

Int64s = npt.NDArray[np.int64]


def decode_batches(
    buffer: Buffer,
    table: BatchTable,
    *,
    topic: str = "",
    partition: int = 0,
    columns: Iterable[str] | None = None,
    origin: int = 0,
    source: str | None = None,
) -> pa.RecordBatch:
    """All records of `table`'s batches, which lie in `buffer` at their positions less `origin`, as one record batch.

    For more than a few megabytes use `iter_record_batches`, which keeps memory flat.
    """
    projection = Projection.of(columns)
    decoder = _Decoder(buffer, topic, partition, projection, origin, source, MAX_DECOMPRESSED)
    chunks = list(decoder.chunks(table, max_rows=MAX_ROWS, max_bytes=MAX_BYTES))
    if len(chunks) == 1:
        return chunks[0]
    if sum(chunk.nbytes for chunk in chunks) > _COLUMN_LIMIT:
        raise InvalidInputError("more than 2 GiB of records do not fit one record batch; use iter_record_batches")
    return pa.concat_batches(chunks) if chunks else pa.RecordBatch.from_pylist([], schema=projection.schema)


def iter_record_batches(
    buffer: Buffer,
    table: BatchTable,
    *,
    topic: str = "",
    partition: int = 0,
    columns: Iterable[str] | None = None,
    origin: int = 0,
    source: str | None = None,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
    max_decompressed: int = MAX_DECOMPRESSED,
    check_crc: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The records of `table`'s batches as record batches of about `max_rows` rows or `max_bytes` bytes at most.

    A batch is never split, so one that is larger by itself comes alone. `columns` names what to decode (see
    `records.schema`); a batch whose payload expands past `max_decompressed` bytes is a CompressionError.
    With `check_crc` the batches' checksums are taken on the way, for a table that was scanned without.
    """
    decoder = _Decoder(
        buffer, topic, partition, Projection.of(columns), origin, source, max_decompressed, check_crc
    )
    yield from decoder.chunks(table, max_rows=max_rows, max_bytes=min(max_bytes, _COLUMN_LIMIT))


def read_record_batches(
    buffer: Buffer,
    *,
    start: int = 0,
    end: int | None = None,
    topic: str = "",
    partition: int = 0,
    columns: Iterable[str] | None = None,
    origin: int = 0,
    source: str | None = None,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
    max_decompressed: int = MAX_DECOMPRESSED,
) -> Iterator[pa.RecordBatch]:
    """Scan buffer[start:end], check it and decode it, in one pass over its bytes: the fast way to read a file."""
    decoder = _Decoder(buffer, topic, partition, Projection.of(columns), origin, source, max_decompressed, True)
    for table in walk_batches(buffer, start=start, end=end, origin=origin, check_crc=False, source=source):
        yield from decoder.chunks(table, max_rows=max_rows, max_bytes=min(max_bytes, _COLUMN_LIMIT))


class _Decoder:
    """One decoding: where the bytes are and what is wanted of them."""

    def __init__(
        self,
        buffer: Buffer,
        topic: str,
        partition: int,
        projection: Projection,
        origin: int,
        source: str | None,
        max_decompressed: int,
        check_crc: bool = False,
    ) -> None:
        self._view = memoryview(buffer).cast("B")
        self._topic = topic
        self._partition = partition
        self._projection = projection
        self._origin = origin
        self._source = source
        self._max_decompressed = max_decompressed
        self._check_crc = check_crc
        self._scratch = np.empty(0, dtype=np.uint8)
        # Most topics have no headers: none are counted, and no room is made for them, until one turns up.
        self._headers_seen = False

    def chunks(self, table: BatchTable, *, max_rows: int, max_bytes: int) -> Iterator[pa.RecordBatch]:
        """Decode `table` chunk by chunk."""
        self._check_table(table)
        start = 0
        rows = np.cumsum(np.clip(table.count, 0, None))
        sizes = np.cumsum(table.size)
        while start < len(table):
            part = table[start : _cut(rows, sizes, start, max_rows, max_bytes)]
            taken, chunk = self._chunk(part, max_rows, max_bytes)
            if not taken:
                taken, chunk = 1, self._single(part[:1])
            if chunk is not None and chunk.num_rows:
                yield chunk
            start += taken

    def _chunk(self, part: BatchTable, max_rows: int, max_bytes: int) -> tuple[int, pa.RecordBatch | None]:
        """As many batches of `part` as fit a chunk (none: the first alone is too large), and their records."""
        plain = not (part.codec != 0).any()
        capacity = int(part.count.sum()) if (part.magic == 2).all() or plain else max_rows
        size = int(part.size.sum()) if plain else max_bytes
        if size > max_bytes or capacity > max_rows:
            return 0, None
        columns = ChunkColumns(self._projection, capacity, size)
        if columns.wants_headers:
            columns.allocate_headers(_HEADERS_PER_ROW * capacity if self._headers_seen else 0)
        return self._fill(part, columns)

    def _single(self, part: BatchTable) -> pa.RecordBatch:
        """One batch, however large: measured first, then decoded."""
        row = part.rows[0].tolist()
        where = self._where(row)
        payload: Buffer | None = None
        start, magic, count = row[0] - self._origin, row[5], row[12]
        size = row[1] - HEADER_SIZE if magic == 2 else row[1]
        if row[6] & 7:
            self._verify(part)
            payload = self._payload(row)
            size = len(payload)
            if magic < 2:
                count = self._messages(payload, where)[0]
        if count * _MIN_RECORD_SIZE > size:
            raise CountMismatchError(f"a batch of {size} bytes cannot hold {count} records", **where)
        if size > _COLUMN_LIMIT:
            raise InvalidInputError(f"the batch at offset {row[2]} takes over 2 GiB and does not fit an Arrow column")
        columns = ChunkColumns(self._projection, count, size)
        if columns.wants_headers:
            found = 0
            if magic == 2 and payload is not None:
                found = _kernel.count_headers(payload, 0, size, count)
            elif magic == 2:
                found = _kernel.count_headers(self._view, start + HEADER_SIZE, start + row[1], count)
            if found < 0:
                self._fail(part, 0, -found)
            columns.allocate_headers(found)
        return self._fill(part, columns, payload)[1]

    def _fill(
        self, part: BatchTable, columns: ChunkColumns, payload: Buffer | None = None
    ) -> tuple[int, pa.RecordBatch]:
        """Decode `part` into `columns` until it is full; how many batches went in, and their records.

        `payload` is that of the only batch, if it has been decompressed before.
        """
        target = columns.kernel_columns(part.rows)
        counts = part.count.copy()
        for first, last, kind in _runs(part):
            if kind == _Run.PLAIN:
                code = target.take_run(self._view, self._origin, first, last, self._check_crc)
            elif kind == _Run.MESSAGES:
                self._verify(part[first:last])
                code = target.take_messages(self._view, self._origin, first, last)
            elif kind == _Run.WRAPPERS:
                code = self._take_wrappers(target, part, first, last, counts)
            elif payload is not None:
                code = target.take_payload(payload, 0)
            elif kind == _Run.LZ4:
                code = self._take_lz4(target, part, first, last)
            else:
                code = self._take_payloads(target, part, first, last)
            if code == Fault.NO_ROOM:
                self._headers_seen = True
                done = target.fault_batch
                return done, self._assemble(part[:done], counts[:done], columns, target)
            if code:
                self._fail(part, target.fault_batch, code)
        return len(part), self._assemble(part, counts, columns, target)

    def _take_lz4(self, target: _kernel.Columns, part: BatchTable, first: int, last: int) -> int:
        """LZ4 batches, decompressed by the kernel itself; those in an unusual form take the slow way."""
        while first < last:
            code = target.take_lz4_run(self._view, self._origin, first, last, self._scratch, self._check_crc)
            if code == Fault.SCRATCH_FULL and len(self._scratch) < self._max_decompressed:
                size = max(_SCRATCH_BYTES, 4 * len(self._scratch))
                self._scratch = np.empty(min(size, self._max_decompressed), dtype=np.uint8)
                first = target.fault_batch
            elif code in (Fault.UNUSUAL, Fault.SCRATCH_FULL):
                first = target.fault_batch
                code = self._take_payloads(target, part, first, first + 1)
                first += 1
            elif not code:
                return 0
            if code not in (0, Fault.SCRATCH_FULL):
                return code
        return 0

    def _take_payloads(self, target: _kernel.Columns, part: BatchTable, first: int, last: int) -> int:
        """Compressed v2 batches, one by one through their codec's library."""
        rows = part.rows[first:last].tolist()
        for at, row in enumerate(rows):
            if at % _VERIFY_BATCHES == 0:
                self._verify(part[first + at : min(last, first + at + _VERIFY_BATCHES)])
            if row[12]:
                code = target.take_payload(self._payload(row), first + at)
                if code:
                    return code
        return 0

    def _take_wrappers(
        self, target: _kernel.Columns, part: BatchTable, first: int, last: int, counts: Int64s
    ) -> int:
        """Compressed magic 0 and 1 messages; `counts` takes how many each of them held."""
        self._verify(part[first:last])
        for batch in range(first, last):
            row = part.rows[batch].tolist()
            payload = self._payload(row)
            counts[batch], inner_last = self._messages(payload, self._where(row))
            code = target.take_message_set(payload, batch, int(counts[batch]), inner_last)
            if code:
                return code
        return 0

    def _payload(self, row: list[int]) -> bytes | memoryview:
        """The decompressed records of the batch that `row` describes."""
        start = row[0] - self._origin
        magic = row[5]
        data = self._view[start + HEADER_SIZE : start + row[1]] if magic == 2 else self._wrapped(row)
        try:
            return decompress(row[6] & 7, data, magic=magic, limit=self._max_decompressed)
        except (CompressionError, UnknownCodecError) as error:
            raise type(error)(error.reason, **self._where(row)) from error

    def _wrapped(self, row: list[int]) -> memoryview:
        """The value of a magic 0 or 1 message: the compressed set of the messages it wraps."""
        start = row[0] - self._origin
        message = self._view[start : start + row[1]]
        at = 26 if row[5] == 1 else 18
        for field in ("key", "value"):
            length = int.from_bytes(message[at : at + 4], "big", signed=True) if at + 4 <= len(message) else -2
            at += 4
            if length < -1 or length > len(message) - at or (length < 0 and field == "value"):
                raise RecordOverrunError(f"a compressed message has no sound {field}", **self._where(row))
            if field == "key":
                at += max(0, length)
        return message[at : at + length]

    @staticmethod
    def _messages(payload: Buffer, where: _Where) -> tuple[int, int]:
        """How many messages a decompressed set holds, and the offset of the last."""
        messages, last = _kernel.count_messages(payload)
        if messages < 0:
            raise fault_error(-messages, position=where["position"], offset=where["offset"], source=where["source"])
        return messages, last

    def _verify(self, part: BatchTable) -> None:
        """Take the checksums, if the scan has not: what fails them is not worth decompressing."""
        if self._check_crc:
            bad = _scan.verify(self._view, part.rows, self._origin)
            if bad >= 0:
                self._fail(part, bad, Fault.CHECKSUM)

    def _check_table(self, table: BatchTable) -> None:
        begin = table.position - self._origin
        if len(table) and (int(begin.min()) < 0 or int((begin + table.size).max()) > len(self._view)):
            raise ValueError("a batch of the table lies outside the buffer")
        bad = (table.count < 0) | ((table.codec == 0) & (table.count * _MIN_RECORD_SIZE > table.size))
        if bad.any():
            batch = int(np.argmax(bad))
            row = table.rows[batch].tolist()
            raise CountMismatchError(
                f"a batch of {row[1]} bytes cannot hold {row[12]} records", **self._where(row)
            )

    def _where(self, row: list[int]) -> _Where:
        return {"position": row[0], "offset": row[2], "source": self._source}

    def _fail(self, part: BatchTable, batch: int, code: int) -> NoReturn:
        row = part.rows[batch].tolist()
        raise fault_error(code, position=row[0], offset=row[2], source=self._source)

    def _assemble(
        self, part: BatchTable, counts: Int64s, columns: ChunkColumns, target: _kernel.Columns
    ) -> pa.RecordBatch:
        n = target.rows
        facts = BatchFacts(part, counts, columns.offsets)
        arrays = []
        for name in self._projection.columns:
            if name == "topic":
                arrays.append(constant_string(self._topic, _round_up(n)).slice(0, n))
            elif name == "partition":
                arrays.append(constant_int(self._partition, _round_up(n)).slice(0, n))
            elif name in columns.NAMES:
                arrays.append(columns.array(name, target))
            else:
                arrays.append(facts.array(name))
        return pa.RecordBatch.from_arrays(arrays, schema=self._projection.schema)


class _Where(TypedDict):
    """Where a batch is, for errors."""

    position: int
    offset: int
    source: str | None


class _Run(enum.IntEnum):
    """Batches that are decoded alike."""

    PLAIN = 0
    MESSAGES = 1
    WRAPPERS = 2
    LZ4 = 3
    PAYLOADS = 4


def _runs(table: BatchTable) -> list[tuple[int, int, int]]:
    """Stretches (first, last, kind) of batches that are decoded alike."""
    codec, old = table.codec, table.magic < 2
    kinds = np.where(
        codec == 0,
        np.where(old, _Run.MESSAGES, _Run.PLAIN),
        np.where(old, _Run.WRAPPERS, np.where(codec == Codec.LZ4, _Run.LZ4, _Run.PAYLOADS)),
    )
    cuts = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(table)]
    return [(a, b, int(kinds[a])) for a, b in zip(cuts, cuts[1:], strict=False) if b > a]


def _cut(rows: Int64s, sizes: Int64s, start: int, max_rows: int, max_bytes: int) -> int:
    """Where a chunk that begins at batch `start` ends, by running totals: within bounds, but one batch at least."""
    row_limit = (rows[start - 1] if start else 0) + max_rows
    byte_limit = (sizes[start - 1] if start else 0) + max_bytes
    stop = min(np.searchsorted(rows, row_limit, side="right"), np.searchsorted(sizes, byte_limit, side="right"))
    return max(int(stop), start + 1)


def _round_up(rows: int) -> int:
    """A round number of rows, so that constant columns of chunks of many sizes come from one."""
    return 1 << max(10, (rows - 1).bit_length())
