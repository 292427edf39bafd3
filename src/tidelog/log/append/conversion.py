"""Batches that a leader cannot store as they came, rewritten.

A batch is rewritten where its codec is not the one that the log stores, or where a compressed batch's offsets
do not count on from 0 (old clients); messages of magic 0 and 1, all of an append's, become one batch. The
control bit stays, and so do the producer's id, epoch and sequence.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.config import LogConfig
from tidelog.log.append.incoming import Batches
from tidelog.log.append.validation import check_batch_sizes
from tidelog.records.batches import BatchTable, Column
from tidelog.records.builder import EncodedBatches, encode_batches
from tidelog.records.decode import decode_batches
from tidelog.types import Codec

__all__ = ["convert", "rewrite"]

_MAX_BATCH = (1 << 31) - 1


def rewrite(batches: Batches, which: npt.NDArray[np.bool_], config: LogConfig, now_ms: int) -> Batches:
    """The batches with those marked rewritten; RecordTooLargeError if one has grown too large."""
    view = memoryview(batches.data)
    parts: list[memoryview] = []
    rows: list[npt.NDArray[np.int64]] = []
    for one, anew in zip(batches.table, which.tolist(), strict=True):
        row = one.rows[0]
        if anew:
            encoded = _encode(batches, one, config.target_codec(Codec(int(one.codec[0]))), config, now_ms)
            parts.append(encoded.data)
            rows.append(encoded.table.rows[0])
        else:
            parts.append(view[int(row[Column.POSITION]) : int(row[Column.POSITION] + row[Column.SIZE])])
            rows.append(row)
    table = BatchTable(np.stack(rows))
    table.position[:] = np.cumsum(table.size) - table.size
    written = Batches(bytearray().join(parts), table)
    check_batch_sizes(written.table, config)
    return written


def convert(batches: Batches, source_codec: Codec, config: LogConfig, now_ms: int) -> Batches:
    """Messages of magic 0 and 1 as one batch of magic 2."""
    encoded = _encode(batches, batches.table, config.target_codec(source_codec), config, now_ms)
    check_batch_sizes(encoded.table, config)
    return Batches(encoded.data, encoded.table)


def _encode(
    batches: Batches, table: BatchTable, codec: Codec, config: LogConfig, now_ms: int
) -> EncodedBatches:
    """The records of these batches as one batch of magic 2, of the producer of the first."""
    names = ("key", "value", "timestamp_ms", "headers")
    records = decode_batches(batches.data, table, columns=names)
    columns = pa.RecordBatch.from_arrays(records.columns, names=["key", "value", "timestamp", "headers"])
    first = table[:1]
    return encode_batches(
        columns,
        codec=codec,
        level=config.compression_level(codec),
        max_batch_bytes=_MAX_BATCH,
        now_ms=now_ms,
        producer_id=int(first.producer_id[0]),
        producer_epoch=int(first.producer_epoch[0]),
        base_sequence=int(first.base_sequence[0]),
        transactional=bool(first.is_transactional[0]),
        control=bool(first.is_control[0]),
    )
