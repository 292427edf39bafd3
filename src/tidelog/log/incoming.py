"""What an append is given, made into batches: bytes the log may stamp, and the table of their headers.

bytes            ready batches; checked against their checksums. A client's must be whole to the last one;
                 a leader may send a follower the beginning of a further batch, which is left out
EncodedBatches   ready batches whose headers are known
Arrow, records   encoded here, in batches of the log's size and codec
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypedDict, Union, cast

import numpy as np
import pyarrow as pa

from tidelog.config import LogConfig
from tidelog.errors import InvalidInputError, TornBatchError
from tidelog.records.batches import BatchTable, scan_batches
from tidelog.records.builder import DEFAULT_BATCH_BYTES, EncodedBatches, encode_batches
from tidelog.records.record import Record, to_arrow
from tidelog.types import Codec

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["AppendOptions", "Batches", "Incoming", "batches_of", "received_batches"]

Incoming: TypeAlias = Union["Buffer", EncodedBatches, pa.RecordBatch, pa.Table, Iterable[Record]]
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


def batches_of(records: Incoming, config: LogConfig, now_ms: int, options: AppendOptions) -> Batches:
    """The batches of a leader's append, in memory of their own that may be written to."""
    if isinstance(records, (bytes, bytearray, memoryview)):
        _refuse_options(options)
        data = bytearray(records)
        return Batches(data, _scan(data, torn_tail=False))
    if isinstance(records, EncodedBatches):
        _refuse_options(options)
        return Batches(bytearray(records.data), _from_zero(BatchTable(records.table.rows.copy())))
    if isinstance(records, (pa.RecordBatch, pa.Table)):
        return _encode(records, config, now_ms, options)
    if isinstance(records, Record):
        return _encode(to_arrow([records]), config, now_ms, options)
    if isinstance(records, Iterable):
        return _encode(to_arrow(cast(Iterable[Record], records)), config, now_ms, options)
    return batches_of(memoryview(records).cast("B"), config, now_ms, options)


def received_batches(data: Buffer) -> Batches:
    """The batches of a follower's append, as they came."""
    return Batches(data, _scan(data, torn_tail=True))


def _refuse_options(options: AppendOptions) -> None:
    if options:
        raise InvalidInputError(f"{', '.join(options)}: ready batches say that themselves")


def _encode(
    columns: pa.RecordBatch | pa.Table, config: LogConfig, now_ms: int, options: AppendOptions
) -> Batches:
    chosen = options.copy()
    codec = chosen["codec"] = config.target_codec(Codec(chosen.get("codec", Codec.NONE)))
    chosen.setdefault("level", config.compression_level(codec))
    chosen.setdefault("max_batch_bytes", min(DEFAULT_BATCH_BYTES, config.max_message_bytes))
    encoded = encode_batches(columns, now_ms=now_ms, **chosen)
    return Batches(encoded.data, _from_zero(encoded.table))


def _from_zero(table: BatchTable) -> BatchTable:
    """The encoder counts offsets on from batch to batch; what is to be given offsets begins at 0 in each."""
    rows = table.rows
    rows[:, 3] -= rows[:, 2]
    rows[:, 2] = 0
    return table


def _scan(data: Buffer, *, torn_tail: bool) -> BatchTable:
    """All batches of `data`, checked; what is wrong with one is raised."""
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
    return BatchTable(np.concatenate([table.rows for table in tables]))
