"""What a leader checks of the records themselves, and what it must write anew.

Headers may lie: like Kafka, the log looks at every record of a client's (or coordinator's) batch, inside
compressed ones, too. One kernel call does so for all uncompressed batches: it tells their smallest and
largest timestamps, the records without a key, and whether they are sound. Only when something is amiss are
they decoded, to say what.

A batch is written anew where its codec is not the one that the log stores, or where a compressed batch's
offsets do not count on from 0 (old clients); messages of magic 0 and 1, all of an append's, become one batch.
The control bit stays, and so do the producer's id, epoch and sequence.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.config import LogConfig
from tidelog.errors import InvalidRecordError
from tidelog.kernels.contents import sum_up, sum_up_payload
from tidelog.log.appends import LogAppendInfo
from tidelog.log.incoming import Batches
from tidelog.log.validation import check_batch_sizes, check_records, needs_rewrite
from tidelog.records.batches import HEADER_SIZE, BatchTable
from tidelog.records.builder import EncodedBatches, encode_batches
from tidelog.records.compression import decompress
from tidelog.records.decode import decode_batches
from tidelog.types import Codec, TimestampType

__all__ = ["check_contents"]

Int64s = npt.NDArray[np.int64]

_MAX_BATCH = (1 << 31) - 1
_INT64_MAX = (1 << 63) - 1
_LOG_APPEND_TIME = 0x08


def check_contents(
    batches: Batches, info: LogAppendInfo, config: LogConfig, now_ms: int
) -> tuple[Batches, Int64s]:
    """The batches as they are to be stored, and the largest timestamp of each of them.

    Refuses records that their topic does not allow (InvalidRecordError, InvalidTimestampError) or that are
    not sound (CorruptRecordError).
    """
    data, table = batches
    if table.rows[0, 5] < 2:
        return _convert(batches, info, config, now_ms)
    largest = np.empty(len(table), dtype=np.int64)
    bad, smallest, newest, keyless = sum_up(data, table.rows, 0, largest)
    if bad >= 0:
        _raise_unsound(batches, bad)
    rewrite = needs_rewrite(table, config) if info.rewrites else None
    if info.source_codec is not Codec.NONE:
        inside = _Inside(batches, largest)
        smallest, newest = min(smallest, inside.smallest), max(newest, inside.newest)
        keyless += inside.keyless
        if inside.out_of_order.any():
            rewrite = inside.out_of_order if rewrite is None else rewrite | inside.out_of_order
    if (keyless and config.compact) or not _in_range(smallest, newest, config, now_ms):
        _check_columns(batches, config, now_ms)
    if rewrite is not None:
        batches = _rewrite(batches, rewrite, config, now_ms)
        check_batch_sizes(batches.table, config)
        largest = np.where(rewrite, batches.table.max_timestamp, largest)
    return batches, largest


def _in_range(smallest: int, largest: int, config: LogConfig, now_ms: int) -> bool:
    if config.message_timestamp_type is not TimestampType.CREATE_TIME or smallest == _INT64_MAX:
        return True
    return (
        smallest >= now_ms - config.message_timestamp_before_max_ms
        and largest <= now_ms + config.message_timestamp_after_max_ms
    )


class _Inside:
    """What the records inside compressed batches say."""

    def __init__(self, batches: Batches, largest: Int64s) -> None:
        self.smallest, self.newest, self.keyless = _INT64_MAX, -1, 0
        table = batches.table
        self.out_of_order = np.zeros(len(table), dtype=np.bool_)
        view = memoryview(batches.data)
        for index in np.flatnonzero(table.codec != 0).tolist():
            at, size, _, _, _, _, attributes, base_timestamp, newest, _, _, _, count, *_ = table.rows[
                index
            ].tolist()
            payload = decompress(attributes & 7, view[at + HEADER_SIZE : at + size])
            stamped = newest if attributes & _LOG_APPEND_TIME else -1
            sound, smallest, newest, keyless, in_order = sum_up_payload(
                payload, count, base_timestamp, stamped
            )
            if not sound:
                _raise_unsound(batches, index)
            largest[index] = newest
            self.smallest, self.newest = min(self.smallest, smallest), max(self.newest, newest)
            self.keyless += keyless
            self.out_of_order[index] = not in_order


def _raise_unsound(batches: Batches, index: int) -> None:
    """Raise what is wrong with the records of a batch."""
    one = batches.table[index : index + 1]
    decode_batches(batches.data, one, columns=("offset", "timestamp_ms", "key", "value", "headers"))
    raise InvalidRecordError(f"the batch at position {int(one.position[0])} holds records that are not sound")


def _check_columns(batches: Batches, config: LogConfig, now_ms: int) -> None:
    """Decode what the rules look at, and raise what breaks them."""
    columns = ("timestamp_ms", "key") if config.compact else ("timestamp_ms",)
    for one in batches.table:
        records = decode_batches(batches.data, one, columns=columns)
        has_key = np.asarray(records.column("key").is_valid()) if config.compact else None
        check_records(records.column("timestamp_ms").to_numpy(), has_key, config, now_ms)


def _rewrite(batches: Batches, which: npt.NDArray[np.bool_], config: LogConfig, now_ms: int) -> Batches:
    """The batches with those marked written anew."""
    view = memoryview(batches.data)
    parts: list[memoryview] = []
    rows: list[Int64s] = []
    for one, anew in zip(batches.table, which.tolist(), strict=True):
        row = one.rows[0]
        if anew:
            encoded = _encode(batches, one, config.target_codec(Codec(int(one.codec[0]))), config, now_ms)
            parts.append(encoded.data)
            rows.append(encoded.table.rows[0])
        else:
            parts.append(view[int(row[0]) : int(row[0] + row[1])])
            rows.append(row)
    table = np.stack(rows)
    table[:, 0] = np.cumsum(table[:, 1]) - table[:, 1]
    return Batches(bytearray().join(parts), BatchTable(table))


def _convert(batches: Batches, info: LogAppendInfo, config: LogConfig, now_ms: int) -> tuple[Batches, Int64s]:
    """Messages of magic 0 and 1 as one batch of magic 2."""
    columns = ("timestamp_ms", "key")
    records = decode_batches(batches.data, batches.table, columns=columns)
    has_key = np.asarray(records.column("key").is_valid())
    check_records(records.column("timestamp_ms").to_numpy(), has_key, config, now_ms)
    encoded = _encode(batches, batches.table, config.target_codec(info.source_codec), config, now_ms)
    check_batch_sizes(encoded.table, config)
    return Batches(encoded.data, encoded.table), encoded.table.max_timestamp.copy()


def _encode(
    batches: Batches, table: BatchTable, codec: Codec, config: LogConfig, now_ms: int
) -> EncodedBatches:
    """The records of these batches as one batch of magic 2, of the producer of the first."""
    names = ("key", "value", "timestamp_ms", "headers")
    records = decode_batches(batches.data, table, columns=names)
    columns = pa.RecordBatch.from_arrays(records.columns, names=["key", "value", "timestamp", "headers"])
    first = table[:1]
    is_new = bool(first.magic[0] >= 2)
    return encode_batches(
        columns,
        codec=codec,
        level=config.compression_level(codec),
        max_batch_bytes=_MAX_BATCH,
        now_ms=now_ms,
        producer_id=int(first.producer_id[0]),
        producer_epoch=int(first.producer_epoch[0]),
        base_sequence=int(first.base_sequence[0]),
        transactional=is_new and bool(first.is_transactional[0]),
        control=is_new and bool(first.is_control[0]),
    )
