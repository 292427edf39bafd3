"""What an append is given, made into batches: bytes, and the table of their headers.

bytes            ready batches. A client's must be whole to the last one; a leader may send a follower the
                 beginning of a further batch, which is left out
EncodedBatches   ready batches whose headers are known
Arrow, records   encoded here, in batches of the log's size and codec. Whatever hands itself out as Arrow
                 (pandas, Polars, DuckDB) counts as Arrow; `as_record` says what counts as a record
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypedDict, Union, cast

import pyarrow as pa

from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError, TornBatchError
from tidelog.records.batches import BatchTable, scan_batches
from tidelog.records.builder import DEFAULT_BATCH_BYTES, EncodedBatches, encode_batches
from tidelog.records.record import Record, RecordLike, StoredRecord, to_arrow
from tidelog.types import Codec

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "AppendOptions",
    "Batches",
    "Incoming",
    "as_columns",
    "encoded_batches",
    "ready_bytes",
    "received_batches",
    "scan_all",
]

Incoming: TypeAlias = Union["Buffer", EncodedBatches, pa.RecordBatch, pa.Table, Iterable[RecordLike]]
"""Whatever a leader can append."""

_SCAN_BATCHES = 1 << 16


class AppendOptions(TypedDict, total=False):
    """How records that are no batches yet are encoded: options of `encode_batches`."""

    codec: Codec
    level: int | None
    max_batch_bytes: int
    max_batch_records: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool


class Batches(NamedTuple):
    """Batches one after the other, and the table of their headers; positions are those in `data`."""

    data: Buffer
    table: BatchTable


def as_columns(records: Incoming) -> pa.RecordBatch | pa.Table | EncodedBatches | memoryview:
    """Columns to be encoded, or ready batches."""
    if isinstance(records, (pa.RecordBatch, pa.Table, EncodedBatches)):
        return records
    if isinstance(records, Record):
        return to_arrow([records])
    if hasattr(records, "__arrow_c_stream__"):
        return pa.table(records)
    if isinstance(records, (str, Mapping, StoredRecord)):
        raise InvalidInputError("append takes a list of records: put the record into a list")
    if isinstance(records, Iterable) and not isinstance(records, (bytes, bytearray, memoryview)):
        return to_arrow(cast(Iterable[RecordLike], records))
    return memoryview(cast("Buffer", records)).cast("B")


def ready_bytes(records: Incoming) -> memoryview:
    """The bytes of ready batches; InvalidInputError for records that are none yet."""
    given = as_columns(records)
    if isinstance(given, EncodedBatches):
        return given.data
    if not isinstance(given, memoryview):
        raise InvalidInputError("records without offsets cannot be appended with the offsets they have")
    return given


def encoded_batches(
    columns: pa.RecordBatch | pa.Table, config: LogConfig, now_ms: int, options: AppendOptions
) -> EncodedBatches:
    """Columns as batches of the log's size and codec, unless `options` say otherwise."""
    chosen = options.copy()
    codec = chosen["codec"] = config.target_codec(Codec(chosen.get("codec", Codec.NONE)))
    chosen.setdefault("level", config.compression_level(codec))
    chosen.setdefault("max_batch_bytes", min(DEFAULT_BATCH_BYTES, config.max_message_bytes))
    return encode_batches(columns, now_ms=now_ms, **chosen)


def received_batches(data: Buffer) -> BatchTable:
    """The batches of a follower's append, as they came."""
    return scan_all(data, torn_tail=True)


def scan_all(data: Buffer, *, torn_tail: bool = False) -> BatchTable:
    """All batches of `data`, checked against their checksums; what is wrong with one is raised.

    With `torn_tail` a last batch that is not whole is left out instead.
    """
    scan = scan_batches(data, max_batches=_SCAN_BATCHES)
    tables = [scan.table]
    size = memoryview(data).nbytes
    while scan.fault is None and scan.end < size and len(scan.table):
        scan = scan_batches(data, start=scan.end, max_batches=_SCAN_BATCHES)
        tables.append(scan.table)
    if scan.fault is not None and not (torn_tail and isinstance(scan.fault, TornBatchError)):
        raise scan.fault
    if len(tables) == 1:
        return tables[0]
    return BatchTable.joined(table.rows for table in tables)
