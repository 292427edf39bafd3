"""Batches into chunks: Arrow record batches of bounded size.

1. `records.plan` cuts the table into chunks of whole batches and runs of batches that are decoded alike.
2. Allocate the columns of a chunk and fill them run by run: one kernel call for a run, or for each batch
   that a library has to decompress. Checksums are taken on the way.
3. The chunk ends early where the next batch does not fit, or is bad: what came before it is given out
   first, and the next chunk, which begins with it, raises. A batch that does not fit an empty chunk is
   decompressed, measured and decoded alone.
4. Spread the facts of the batches over their records.

Memory is bounded by `max_rows` and `max_bytes` (or one batch, if that is larger), not by the input.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import CorruptRecordError, InvalidInputError, TidelogError
from tidelog.kernels import decode as _decode
from tidelog.kernels import messages as _messages
from tidelog.kernels import scan as _scan
from tidelog.kernels.header_counts import count_headers
from tidelog.kernels.scratch import Scratch
from tidelog.records.batches import HEADER_SIZE, BatchTable, Column
from tidelog.records.columns import ChunkColumns, constant_int, constant_string
from tidelog.records.faults import Fault, fault_error
from tidelog.records.header_columns import BatchFacts
from tidelog.records.libraries import new_scratch
from tidelog.records.payloads import Payloads
from tidelog.records.plan import EXPANSION, MIN_RECORD_SIZE, ChunkPlan, Run, plan_chunk, plan_run
from tidelog.records.schema import Projection

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["COLUMN_LIMIT", "ChunkDecoder"]

COLUMN_LIMIT = (1 << 31) - 1
"""The most bytes of a column: Arrow's binary type counts them in int32."""

_VERIFY_BATCHES = (
    64  # checksums are taken this far ahead of a library, so that it finds the bytes in the cache
)
_SCRATCH_BYTES = 1 << 18
_SLACK = 32  # columns are allocated with so many bytes more
_HEADERS_PER_ROW = 4  # room for headers in a chunk of a topic that has them; more of them end the chunk early

Int64s = npt.NDArray[np.int64]


class ChunkDecoder:
    """One decoding: where the bytes are, what is wanted of them and within which bounds."""

    def __init__(
        self,
        buffer: Buffer,
        projection: Projection,
        *,
        topic: str,
        partition: int,
        origin: int,
        source: str | None,
        max_rows: int,
        max_bytes: int,
        max_decompressed: int,
        check_crc: bool,
    ) -> None:
        self._projection = projection
        self._topic = topic
        self._partition = partition
        self._source = source
        self._max_rows = max_rows
        self._max_bytes = min(max_bytes, COLUMN_LIMIT - _SLACK)
        self._max_decompressed = max_decompressed
        self._check_crc = check_crc
        self._scratch: Scratch | None = None
        # Most topics have no headers: none are counted, and no room is made for them, until one turns up.
        self._headers_seen = False
        self._expansion = EXPANSION
        self.look_at(buffer, origin)

    def look_at(self, buffer: Buffer, origin: int) -> None:
        """Decode from other bytes from now on, which lie at `origin` in the file."""
        self._view = memoryview(buffer).cast("B")
        self._origin = origin
        self._payloads = Payloads(self._view, origin, self._source, self._max_decompressed)

    def chunks(self, table: BatchTable) -> Iterator[pa.RecordBatch]:
        """Decode `table` chunk by chunk."""
        start = 0
        tried = None
        while start < len(table):
            plan = plan_chunk(
                table,
                start,
                max_rows=self._max_rows,
                max_bytes=self._max_bytes,
                expansion=self._expansion,
                origin=self._origin,
                buffer_size=len(self._view),
            )
            attempt = (plan, self._headers_seen)
            if plan.rows > self._max_rows or plan.size > self._max_bytes or attempt == tried:
                done, chunk = start + 1, self._single(table[start : start + 1])
            else:
                done, chunk = self._chunk(table, plan)
            if chunk.num_rows:
                yield chunk
            start, tried = done, attempt

    def _chunk(self, table: BatchTable, plan: ChunkPlan) -> tuple[int, pa.RecordBatch]:
        """Decode the batches of `plan` into its room: where that ended, and their records."""
        part = table[plan.start : plan.stop]
        headers = _HEADERS_PER_ROW * plan.rows if self._headers_seen else None
        columns = ChunkColumns(self._projection, part.rows, plan.rows, plan.size, headers)
        target = columns.kernel
        counts: dict[int, int] = {}
        fault, error = 0, None
        while target.batches < len(part) and not fault and not error:
            last, kind = plan_run(part, target.batches)
            try:
                fault = self._take(columns, part, last, kind, counts)
            except CorruptRecordError as caught:
                error = caught
        done = target.batches
        if target.packed:
            self._expansion = 16 * target.unpacked // target.packed + 1
        if fault == Fault.NO_ROOM:
            self._headers_seen = True
            if not done:
                self._expansion *= 2
        elif (fault or error) and not done:
            raise error or self._error(part, 0, fault)
        return plan.start + done, self._assemble(part[:done], counts, columns, plan.timestamp_type)

    def _single(self, part: BatchTable) -> pa.RecordBatch:
        """One batch, however large: measured first, then decoded."""
        row: list[int] = part.rows[0].tolist()
        start, magic, count = row[Column.POSITION] - self._origin, row[Column.MAGIC], row[Column.COUNT]
        payload: bytes | memoryview = self._view[start + HEADER_SIZE : start + row[Column.SIZE]]
        if self._verify(part, 0, 1) == 0:
            raise self._error(part, 0, Fault.CHECKSUM)
        if row[Column.ATTRIBUTES] & 7:
            payload = self._payloads.payload(row)
        size = len(payload)
        last = 0
        if magic < 2:
            count, last = self._payloads.count(row, payload) if row[Column.ATTRIBUTES] & 7 else (1, 0)
            size = max(size, row[Column.SIZE])
        elif not 0 <= count <= size // MIN_RECORD_SIZE:
            raise self._error(part, 0, Fault.COUNT_MISMATCH)
        if size > COLUMN_LIMIT - _SLACK:
            raise InvalidInputError(
                f"the batch at offset {row[Column.BASE_OFFSET]} takes over 2 GiB "
                "and does not fit an Arrow column"
            )
        headers = (
            count_headers(payload, 0, size, count) if self._projection.wants("headers") and magic == 2 else 0
        )
        if headers < 0:
            raise self._error(part, 0, -headers)
        columns = ChunkColumns(self._projection, part.rows, count, size, headers)
        if magic == 2:
            fault = _decode.take_payload(columns.kernel, payload)
        elif row[Column.ATTRIBUTES] & 7:
            fault = _messages.take_message_set(columns.kernel, payload, count, last)
        else:
            fault = _messages.take_messages(columns.kernel, self._view, self._origin, 1, False)
        if fault:
            raise self._error(part, 0, fault)
        return self._assemble(part, {0: count}, columns, -2)

    def _take(
        self, columns: ChunkColumns, part: BatchTable, last: int, kind: Run, counts: dict[int, int]
    ) -> int:
        """Decode batches of `part` up to `last`, a run of `kind`; 0 or the fault."""
        target, check = columns.kernel, self._check_crc
        if kind == Run.PLAIN:
            return _decode.take_plain(target, self._view, self._origin, last, check)
        if kind == Run.COMPRESSED:
            return self._take_compressed(columns, part, last)
        if kind == Run.PAYLOADS:
            return self._take_payloads(columns, part, last)
        if kind == Run.MESSAGES:
            return _messages.take_messages(target, self._view, self._origin, last, check)
        return self._take_wrappers(columns, part, last, counts)

    def _take_compressed(self, columns: ChunkColumns, part: BatchTable, last: int) -> int:
        """Batches that a kernel decompresses; those in an unusual form take the slow way."""
        target = columns.kernel
        scratch = self._scratch or self._more_scratch(_SCRATCH_BYTES)
        while True:
            fault = _decode.take_compressed(target, self._view, self._origin, last, self._check_crc, scratch)
            if fault == Fault.SCRATCH_FULL and scratch.room < self._max_decompressed:
                scratch = self._more_scratch(4 * scratch.room)
                continue
            if fault not in (Fault.SCRATCH_FULL, Fault.UNUSUAL):
                return fault
            fault = _decode.take_payload(target, self._payloads.payload(part.rows[target.batches].tolist()))
            if fault:
                return fault

    def _more_scratch(self, size: int) -> Scratch:
        self._scratch = new_scratch(min(size, self._max_decompressed))
        return self._scratch

    def _take_payloads(self, columns: ChunkColumns, part: BatchTable, last: int) -> int:
        """Batches one by one through their codec's library."""
        target = columns.kernel
        first = target.batches
        payload = self._payloads.payload
        for at, row in enumerate(part.rows[first:last].tolist()):
            if at % _VERIFY_BATCHES == 0:
                last_verified = self._verify(part, first + at, min(last, first + at + _VERIFY_BATCHES))
            if first + at >= last_verified:
                return Fault.CHECKSUM
            fault = _decode.take_payload(target, payload(row) if row[Column.COUNT] else b"")
            if fault:
                return fault
        return 0

    def _take_wrappers(
        self, columns: ChunkColumns, part: BatchTable, last: int, counts: dict[int, int]
    ) -> int:
        """Compressed magic 0 and 1 messages; `counts` takes how many each of them held."""
        for batch in range(columns.kernel.batches, last):
            if self._verify(part, batch, batch + 1) == batch:
                return Fault.CHECKSUM
            row = part.rows[batch].tolist()
            payload = self._payloads.payload(row)
            counts[batch], inner_last = self._payloads.count(row, payload)
            fault = _messages.take_message_set(columns.kernel, payload, counts[batch], inner_last)
            if fault:
                return fault
        return 0

    def _verify(self, part: BatchTable, first: int, last: int) -> int:
        """Take checksums, if the scan has not: the first batch that fails, or `last`."""
        if not self._check_crc:
            return last
        bad = _scan.verify(self._view, part.rows[first:last], self._origin)
        return last if bad < 0 else first + bad

    def _error(self, part: BatchTable, batch: int, fault: int) -> TidelogError:
        row = part.rows[batch].tolist()
        reason = None
        if fault == Fault.COUNT_MISMATCH:
            size, count = row[Column.SIZE], row[Column.COUNT]
            reason = f"a batch of {size} bytes does not hold the {count} records that it says"
        return fault_error(
            fault,
            position=row[Column.POSITION],
            offset=row[Column.BASE_OFFSET],
            source=self._source,
            reason=reason,
        )

    def _assemble(
        self, part: BatchTable, counts: dict[int, int], columns: ChunkColumns, timestamp_type: int
    ) -> pa.RecordBatch:
        """The chunk's record batch; `counts` tells how many records wrappers were found to hold."""
        rows = columns.kernel.rows
        facts = None
        arrays = []
        for name in self._projection.columns:
            if name in columns.NAMES:
                arrays.append(columns.array(name))
            elif name == "topic":
                arrays.append(constant_string(self._topic, rows))
            elif name == "partition":
                arrays.append(constant_int(self._partition, rows))
            elif name == "timestampType" and timestamp_type >= -1:
                arrays.append(constant_int(timestamp_type, rows))
            else:
                facts = facts or BatchFacts(part, counts, columns.offsets)
                arrays.append(facts.array(name))
        if not arrays:  # still so many rows
            return pa.RecordBatch.from_arrays([constant_int(0, rows)], ["rows"]).select([])
        return pa.RecordBatch.from_arrays(arrays, schema=self._projection.schema)
