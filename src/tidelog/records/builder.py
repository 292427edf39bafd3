"""Arrow columns -> ready v2 batches.

1. Take the columns apart (`records.inputs`) and bound the bytes they can take.
2. One kernel call cuts the rows into batches and writes them; without compression that is all.
3. Else each batch's records are compressed, and a second kernel call writes headers and checksums.

Uncompressed, that is byte for byte what Kafka's MemoryRecordsBuilder writes for the same records in the same
batches; compressed, Kafka reads the same records from it (the compressors differ).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import (
    InvalidInputError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
    TidelogError,
)
from tidelog.kernels import encode as _kernel
from tidelog.records.batches import HEADER_SIZE, BatchTable, Column
from tidelog.records.compressed_batches import compress_batches
from tidelog.records.inputs import InputRecords
from tidelog.types import Codec, TimestampType

__all__ = ["DEFAULT_BATCH_BYTES", "BatchOptions", "EncodedBatches", "encode_batches"]

DEFAULT_BATCH_BYTES = 64 * 1024
"""Where a batch is cut, before compression: one LZ4 block, four times the `batch.size` of Kafka's producer,
far below the default `max.message.bytes`. Larger ones compress better, smaller ones are searched faster."""

_INT32_MAX = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1

_NO_ROOM, _TOO_LARGE, _BAD_TIMESTAMP, _NULL_HEADER_KEY, _BAD_COLUMN = range(
    1, 6
)  # faults of kernels/encode.py

Int64s = npt.NDArray[np.int64]


class BatchOptions(TypedDict, total=False):
    """The keyword arguments of `encode_batches`, for functions that pass them on."""

    base_offset: int
    codec: Codec
    level: int | None
    max_batch_bytes: int
    max_batch_records: int
    timestamp_type: TimestampType
    now_ms: int | None
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool
    delete_horizon_ms: int | None


@dataclass(frozen=True, slots=True)
class EncodedBatches:
    """Batches ready to be appended: their bytes, and their headers with positions in those bytes."""

    data: memoryview
    table: BatchTable

    def __len__(self) -> int:
        """How many batches."""
        return len(self.table)

    def __bytes__(self) -> bytes:
        """A copy of all bytes."""
        return bytes(self.data)

    def __iter__(self) -> Iterator[memoryview]:
        """The bytes of each batch."""
        for position, size in self.table.rows[:, : Column.BASE_OFFSET].tolist():
            yield self.data[position : position + size]


def encode_batches(
    columns: pa.RecordBatch | pa.Table,
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    max_batch_bytes: int = DEFAULT_BATCH_BYTES,
    max_batch_records: int = _INT32_MAX,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    now_ms: int | None = None,
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    delete_horizon_ms: int | None = None,
) -> EncodedBatches:
    """Records in `columns` (see `records.inputs`) as v2 batches, offsets counted from `base_offset`.

    A batch is cut before the record that would make it larger than `max_batch_bytes` uncompressed bytes,
    header included, or would be one more than `max_batch_records`; a record larger than that comes alone.
    Sequence numbers count on from batch to batch, and from 2^31-1 to 0. `now_ms` (default: the clock) stamps
    records without a timestamp and, with LOG_APPEND_TIME, is the append time of all. `level` is the codec's
    (see `records.compression`). With `control` the records are control records (see `records.control`).
    `delete_horizon_ms` is what the cleaner stamps on batches with tombstones or markers.

    Raises InvalidInputError and its kinds, naming column and row.
    """
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    _check("max_batch_bytes", max_batch_bytes, 1, _INT32_MAX)
    _check("max_batch_records", max_batch_records, 1, _INT32_MAX)
    _check("now_ms", now, -1, _INT64_MAX)
    _check_producer(producer_id, producer_epoch, base_sequence, transactional, control)
    records = InputRecords.of(columns, now)
    template = np.zeros(Column.WIDTH, dtype=np.int64)
    largest = _INT64_MAX - max(0, records.count - 1)
    template[Column.BASE_OFFSET] = _check("base_offset", base_offset, 0, largest)
    template[Column.LEADER_EPOCH] = _check("leader_epoch", leader_epoch, -1, _INT32_MAX)
    has_horizon = delete_horizon_ms is not None
    template[Column.ATTRIBUTES] = _attributes(codec, timestamp_type, transactional, control, has_horizon)
    template[Column.BASE_TIMESTAMP] = _check("delete_horizon_ms", delete_horizon_ms or 0, 0, _INT64_MAX)
    template[Column.MAX_TIMESTAMP] = now
    template[Column.PRODUCER_ID] = producer_id
    template[Column.PRODUCER_EPOCH] = producer_epoch
    template[Column.BASE_SEQUENCE] = base_sequence
    if not records.count:
        return EncodedBatches(memoryview(b""), BatchTable.joined(()))
    plain = _encode(records, template, max_batch_records, max_batch_bytes, sealed=codec == Codec.NONE)
    return plain if codec == Codec.NONE else _compressed(plain, level)


def _encode(
    records: InputRecords, template: Int64s, max_records: int, max_bytes: int, *, sealed: bool
) -> EncodedBatches:
    """All records in uncompressed batches; without headers if not `sealed`."""
    batches = _most_batches(records, max_records, max_bytes)
    rows = np.empty((batches, Column.WIDTH), dtype=np.int64)
    buffer = pa.allocate_buffer(records.max_size + HEADER_SIZE * batches)
    out = np.frombuffer(buffer, dtype=np.uint8)
    found, used, fault, row = _kernel.encode(
        records.kernel, template, max_records, max_bytes, sealed, out, rows
    )
    if fault:
        raise _fault_error(fault, row)
    return EncodedBatches(out.data[:used], BatchTable(rows[:found]))


def _most_batches(records: InputRecords, max_records: int, max_bytes: int) -> int:
    """A bound: those cut by count, and those cut by size, any two of which are larger than `max_bytes`."""
    if max_bytes <= 4 * HEADER_SIZE:
        return records.count
    by_count = records.count // max_records + 1
    by_size = 2 * records.max_size // (max_bytes - 2 * HEADER_SIZE) + 1
    return min(records.count, by_count + by_size)


def _compressed(plain: EncodedBatches, level: int | None) -> EncodedBatches:
    """The same batches with their records compressed."""
    every = np.ones(len(plain.table), dtype=np.bool_)
    return EncodedBatches(compress_batches(plain.data, plain.table, every, level), plain.table)


def _attributes(
    codec: Codec, timestamp_type: TimestampType, transactional: bool, control: bool, horizon: bool
) -> int:
    if timestamp_type == TimestampType.NO_TIMESTAMP_TYPE:
        raise InvalidInputError("v2 batches have a timestamp type: CREATE_TIME or LOG_APPEND_TIME")
    return (
        Codec(codec) | TimestampType(timestamp_type) << 3 | transactional << 4 | control << 5 | horizon << 6
    )


def _check(name: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise InvalidInputError(f"{name} is {value}; it must lie in {low}..{high}")
    return value


def _check_producer(
    producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool, control: bool
) -> None:
    """The rules of Kafka's builder."""
    _check("producer_id", producer_id, -1, _INT64_MAX)
    _check("producer_epoch", producer_epoch, -1, (1 << 15) - 1)
    _check("base_sequence", base_sequence, -1, _INT32_MAX)
    if transactional and producer_id < 0:
        raise InvalidInputError("a transactional batch needs a producer id")
    if producer_id >= 0 and producer_epoch < 0:
        raise InvalidInputError("a batch with a producer id needs a producer epoch")
    if producer_id >= 0 and base_sequence < 0 and not control:
        raise InvalidInputError("a batch with a producer id needs a base sequence")


def _fault_error(fault: int, row: int) -> TidelogError:
    if fault == _TOO_LARGE:
        return RecordTooLargeError(f"row {row}: the record does not fit a batch of {_INT32_MAX} bytes")
    if fault == _BAD_TIMESTAMP:
        return InvalidTimestampError(
            f"column 'timestamp', row {row}: a negative timestamp other than -1 (none)"
        )
    if fault == _NULL_HEADER_KEY:
        return InvalidRecordError(f"column 'headers', row {row}: a header without a key")
    if fault == _BAD_COLUMN:
        return InvalidInputError(f"row {row}: a column's offsets do not fit its data; it is not valid Arrow")
    raise RuntimeError(f"kernel ran out of room at row {row}: this is a bug in tidelog")
