"""Batches -> Arrow record batches.

1. Cut the table into chunks of whole batches, bounded in rows and bytes.
2. Decompress what is compressed in the chunk; the chunk ends early when that gets large.
3. Check the checksums, if the scan has not, and the counts against the bytes; then allocate the columns that are
   asked for.
4. One kernel call for each run of uncompressed batches, one for each decompressed batch.
5. Spread the facts of the batches over their records.

Memory is bounded by `max_rows` and `max_bytes` (or one batch, if that is larger), not by the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import CompressionError, CountMismatchError, InvalidInputError, UnknownCodecError
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

_HOT_BYTES = 2 << 20  # decompressed at a time: it should still be in the processor's cache when it is decoded
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
    chunks = list(decoder.chunks(table, max_rows=1 << 62, max_bytes=_COLUMN_LIMIT, hot_bytes=_COLUMN_LIMIT))
    if len(chunks) > 1:
        raise InvalidInputError("more than 2 GiB of records do not fit one record batch; use iter_record_batches")
    if not chunks:
        return pa.RecordBatch.from_pylist([], schema=projection.schema)
    return chunks[0]


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
) -> Iterator[pa.RecordBatch]:
    """The records of `table`'s batches as record batches of about `max_rows` rows or `max_bytes` bytes at most.

    A batch is never split, so one that is larger by itself comes alone. `columns` names what to decode (see
    `records.schema`); a batch whose payload expands past `max_decompressed` bytes is a CompressionError.
    """
    decoder = _Decoder(buffer, topic, partition, Projection.of(columns), origin, source, max_decompressed)
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


@dataclass(frozen=True, slots=True)
class _Payload:
    """A decompressed batch: its bytes, how many records they hold, and, in magic 0/1, the last inner offset."""

    data: Buffer
    size: int
    count: int
    last: int = 0


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
        # Most topics have no headers: none are counted, and no room is made for them, until one turns up.
        self._headers_seen = False

    def chunks(
        self, table: BatchTable, *, max_rows: int, max_bytes: int, hot_bytes: int = _HOT_BYTES
    ) -> Iterator[pa.RecordBatch]:
        """Decode `table` chunk by chunk."""
        self._check_bounds(table)
        start = 0
        rows = np.cumsum(np.clip(table.count, 0, None))
        sizes = np.cumsum(table.size)
        compressed = table.codec != 0
        while start < len(table):
            stop = _cut(rows, sizes, start, max_rows, max_bytes)
            payloads: list[_Payload | None] | None = None
            if compressed[start:stop].any():
                stop = _cut(rows, sizes, start, max_rows, min(max_bytes, hot_bytes))
                self._verify(table[start:stop])
                payloads = self._decompress(table[start:stop], max_rows, min(max_bytes, hot_bytes))
                stop = start + len(payloads)
            chunk = self._decode(table[start:stop], payloads)
            if chunk.num_rows:
                yield chunk
            start = stop

    def _verify(self, table: BatchTable) -> None:
        """Checksums first of all: what fails them is not worth decompressing."""
        if self._check_crc:
            bad = _scan.verify(self._view, table.rows, self._origin)
            if bad >= 0:
                self._fail(table, bad, Fault.CHECKSUM)

    def _check_bounds(self, table: BatchTable) -> None:
        begin = table.position - self._origin
        if len(table) and (int(begin.min()) < 0 or int((begin + table.size).max()) > len(self._view)):
            raise ValueError("a batch of the table lies outside the buffer")

    def _fail(self, table: BatchTable, batch: int, code: int) -> NoReturn:
        raise fault_error(
            code,
            position=int(table.position[batch]),
            offset=int(table.base_offset[batch]),
            source=self._source,
        )

    # -- decompression ------------------------------------------------------------------------------------------

    def _decompress(self, table: BatchTable, max_rows: int, max_bytes: int) -> list[_Payload | None]:
        """Payloads of the compressed batches from the start of `table`, as many as stay within bounds."""
        payloads: list[_Payload | None] = []
        budget, rows_left = max_bytes, max_rows
        for batch, row in enumerate(table.rows.tolist()):
            if row[6] & 7 == 0:
                payload = None
                budget -= row[1]
                rows_left -= row[12]
            else:
                payload = self._payload(row)
                budget -= payload.size
                rows_left -= payload.count
            if (budget < 0 or rows_left < 0) and batch:
                break
            payloads.append(payload)
        return payloads

    def _payload(self, row: list[int]) -> _Payload:
        """Decompress the batch that `row` describes."""
        position, size, base_offset, magic, attributes, count = (*row[0:3], row[5], row[6], row[12])
        codec = attributes & 7
        where = {"position": position, "offset": base_offset, "source": self._source}
        if codec > Codec.ZSTD or (magic < 2 and codec == Codec.ZSTD):
            raise UnknownCodecError(f"unknown compression codec {codec} in magic {magic}", **where)
        if magic == 2 and count == 0:
            return _Payload(b"", 0, 0)
        start = position - self._origin
        body = self._view[start : start + size]
        compressed = body[HEADER_SIZE:] if magic == 2 else self._wrapper_value(body, magic, where)
        try:
            data = decompress(Codec(codec), compressed, magic=magic, limit=self._max_decompressed)
        except CompressionError as error:
            raise CompressionError(error.reason, **where) from error
        length = len(data)
        if magic == 2:
            if count < 0 or count * _MIN_RECORD_SIZE > length:
                raise CountMismatchError(f"a batch of {length} bytes cannot hold {count} records", **where)
            return _Payload(data, length, count)
        messages, last = _kernel.count_messages(data)
        if messages < 0:
            raise fault_error(-messages, position=position, offset=base_offset, source=self._source)
        return _Payload(data, length, messages, last)

    @staticmethod
    def _wrapper_value(message: memoryview, magic: int, where: dict[str, object]) -> memoryview:
        """The value of a magic 0 or 1 message: the compressed set of the messages it wraps."""
        at = 26 if magic == 1 else 18
        end = len(message)
        for field in ("key", "value"):
            if at + 4 > end:
                raise CountMismatchError("a compressed message has no value", **where)  # type: ignore[arg-type]
            length = int.from_bytes(message[at : at + 4], "big", signed=True)
            at += 4
            if length > end - at or (length < 0 and field == "value"):
                raise CountMismatchError(  # type: ignore[arg-type]
                    f"a compressed message's {field} length {length} is impossible", **where
                )
            if field == "key":
                at += max(0, length)
        return message[at : at + length]

    # -- decoding -----------------------------------------------------------------------------------------------

    def _decode(self, table: BatchTable, payloads: list[_Payload | None] | None) -> pa.RecordBatch:
        """One chunk: all of `table`, with the payloads of its compressed batches."""
        counts, sizes = self._measure(table, payloads)
        columns = ChunkColumns(self._projection, int(counts.sum()), int(sizes.sum()))
        if columns.wants_headers:
            columns.allocate_headers(self._count_headers(table, payloads) if self._headers_seen else 0)
        target = columns.kernel_columns()
        for first, last, kind in _runs(table):
            rows = table.rows[first:last]
            if kind == _RUN_V2:
                code = target.take_run(self._view, rows, self._origin, self._check_crc and payloads is None)
            elif kind == _RUN_MESSAGES:
                if payloads is None:
                    self._verify(table[first:last])
                code = target.take_messages(self._view, rows, self._origin)
            else:
                code = self._take_payloads(target, table, payloads or [], first, last)
                first = 0
            if code == Fault.NO_ROOM and columns.wants_headers and not self._headers_seen:
                self._headers_seen = True
                return self._decode(table, payloads)
            if code:
                self._fail(table, first + target.fault_batch, code)
        return self._assemble(table, counts, columns, target)

    @staticmethod
    def _take_payloads(
        target: _kernel.Columns, table: BatchTable, payloads: list[_Payload | None], first: int, last: int
    ) -> int:
        for batch in range(first, last):
            payload = payloads[batch]
            if payload is None or not payload.count:
                continue
            if table.rows[batch, 5] == 2:
                code = target.take_payload(payload.data, table.rows, batch)
            else:
                code = target.take_message_set(payload.data, table.rows, batch, payload.count, payload.last)
            if code:
                return code
        return 0

    def _measure(self, table: BatchTable, payloads: list[_Payload | None] | None) -> tuple[Int64s, Int64s]:
        """Records and bytes of each batch, checked against each other before anything is allocated."""
        counts = table.count.copy()
        sizes = np.where(table.magic == 2, table.size - HEADER_SIZE, table.size)
        if payloads:
            for batch, payload in enumerate(payloads):
                if payload is not None:
                    counts[batch], sizes[batch] = payload.count, payload.size
        bad = (counts < 0) | (counts * _MIN_RECORD_SIZE > sizes)
        if bad.any():
            batch = int(np.argmax(bad))
            raise CountMismatchError(
                f"a batch of {sizes[batch]} bytes cannot hold {counts[batch]} records",
                position=int(table.position[batch]),
                offset=int(table.base_offset[batch]),
                source=self._source,
            )
        if int(sizes.sum()) > _COLUMN_LIMIT:
            raise InvalidInputError(
                f"the records at offset {table.base_offset[0]} take more than 2 GiB and do not fit an Arrow column"
            )
        return counts, sizes

    def _count_headers(self, table: BatchTable, payloads: list[_Payload | None] | None) -> int:
        total = 0
        for first, last, kind in _runs(table):
            if kind == _RUN_V2:
                found, code = _kernel.count_headers_in_run(self._view, table.rows[first:last], self._origin)
                if code:
                    self._fail(table, first + found, -code)
                total += found
            elif kind == _RUN_PAYLOADS:
                for batch in range(first, last):
                    payload = (payloads or [])[batch]
                    if payload is None or table.rows[batch, 5] != 2:
                        continue
                    found = _kernel.count_headers(payload.data, 0, payload.size, payload.count)
                    if found < 0:
                        self._fail(table, batch, -found)
                    total += found
        return total

    def _assemble(
        self, table: BatchTable, counts: Int64s, columns: ChunkColumns, target: _kernel.Columns
    ) -> pa.RecordBatch:
        n = target.rows
        facts = BatchFacts(table, counts, columns.offsets)
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


def _cut(rows: Int64s, sizes: Int64s, start: int, max_rows: int, max_bytes: int) -> int:
    """Where a chunk that begins at batch `start` ends, by running totals: within bounds, but one batch at least."""
    row_limit = (rows[start - 1] if start else 0) + max_rows
    byte_limit = (sizes[start - 1] if start else 0) + max_bytes
    stop = min(np.searchsorted(rows, row_limit, side="right"), np.searchsorted(sizes, byte_limit, side="right"))
    return max(int(stop), start + 1)


_RUN_V2, _RUN_MESSAGES, _RUN_PAYLOADS = range(3)


def _runs(table: BatchTable) -> list[tuple[int, int, int]]:
    """Stretches (first, last, kind) of batches that are decoded alike."""
    kinds = np.where(table.codec != 0, _RUN_PAYLOADS, np.where(table.magic == 2, _RUN_V2, _RUN_MESSAGES))
    cuts = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(table)]
    return [(a, b, int(kinds[a])) for a, b in zip(cuts, cuts[1:], strict=False) if b > a]


def _round_up(rows: int) -> int:
    """A round number of rows, so that constant columns of chunks of many sizes come from one."""
    return 1 << max(10, (rows - 1).bit_length())
