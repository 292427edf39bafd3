"""A leader's append, checked: headers and records, and rewritten where it must be (`rewriting`).

Headers may lie: like Kafka, the log looks at every record of a client's (or coordinator's) batch, inside
compressed ones, too, and finds their smallest and largest timestamps, those without a key, and whether they
are sound. One kernel call does so for all uncompressed batches, together with the check of the headers
(`kernels.append_checks`). Only when something is amiss are records decoded, to say what.

What was encoded here is known to be sound, and its headers are true: only what the topic's config forbids is
looked at.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.config import LogConfig
from tidelog.errors import (
    ChecksumError,
    CompressionError,
    InvalidInputError,
    InvalidRecordError,
    UnknownCodecError,
)
from tidelog.kernels.append_checks import check
from tidelog.kernels.record_summary import sum_up, sum_up_payload
from tidelog.log.append.conversion import convert, rewrite
from tidelog.log.append.incoming import (
    AppendOptions,
    Batches,
    Incoming,
    as_columns,
    encoded_batches,
    scan_all,
)
from tidelog.log.append.info import AppendOrigin
from tidelog.log.append.validation import TARGETS, analyze, check_records, needs_rewrite, refusal
from tidelog.records.batches import HEADER_SIZE, MIN_BATCH_SIZE, BatchTable, Column
from tidelog.records.builder import EncodedBatches
from tidelog.records.compression import MAX_DECOMPRESSED, decompress
from tidelog.records.decode import decode_batches
from tidelog.records.payloads import Payloads
from tidelog.types import Codec, TimestampType

__all__ = ["CheckedBatches", "check_append"]

Int64s = npt.NDArray[np.int64]

_INT64_MAX = (1 << 63) - 1
_LOG_APPEND_TIME = 0x08
_MAX_ROWS = 1 << 17
_CODECS = tuple(Codec)
_LENGTH_END, _MESSAGE_HEADER = 12, 18


class CheckedBatches(NamedTuple):
    """Batches that a leader may stamp and write."""

    data: bytearray | memoryview
    table: BatchTable
    largest: Int64s
    """The largest timestamp of each batch."""
    has_producer_ids: bool


class _Found(NamedTuple):
    """What the kernel says of an append: its last numbers."""

    source_codec: Codec
    has_producer_ids: bool
    rewrites: int
    smallest: int
    newest: int
    keyless: int


def check_append(
    records: Incoming,
    config: LogConfig,
    origin: AppendOrigin,
    leader_epoch: int,
    now_ms: int,
    options: AppendOptions,
) -> CheckedBatches:
    """The batches of a leader's append, in memory of their own, as they are to be stored.

    Refuses what `validation` refuses, and records that are not sound (CorruptRecordError).
    """
    given = records if isinstance(records, (bytes, bytearray)) else as_columns(records)
    if isinstance(given, (pa.RecordBatch, pa.Table)):
        has_keys = not (config.compact and _lacks_keys(given))
        encoded = encoded_batches(given, config, now_ms, options)
        return _check_encoded(encoded, config, origin, leader_epoch, now_ms, has_keys)
    if options:
        raise InvalidInputError(f"{', '.join(options)}: ready batches say that themselves")
    if isinstance(given, EncodedBatches):
        copy = EncodedBatches(memoryview(bytearray(given.data)), BatchTable(given.table.rows.copy()))
        return _check_encoded(copy, config, origin, leader_epoch, now_ms, not config.compact)
    return _check_ready(bytearray(given), config, origin, leader_epoch, now_ms)


def _check_ready(
    data: bytearray, config: LogConfig, origin: AppendOrigin, leader_epoch: int, now_ms: int
) -> CheckedBatches:
    """Ready batches, of which nothing is known."""
    size = len(data)
    is_one = 12 + int.from_bytes(data[8:12]) == size
    capacity = 1 if is_one else min(size // MIN_BATCH_SIZE + 1, _MAX_ROWS)
    rows = np.empty((capacity, 16), dtype=np.int64)
    largest = np.empty(capacity, dtype=np.int64)
    by_log = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    (
        n,
        stop,
        stopped,
        fault,
        taken,
        last,
        _,
        _,
        codec,
        _,
        with_producer,
        rewrites,
        bad,
        smallest,
        newest,
        keyless,
    ) = check(
        data,
        rows,
        largest,
        origin,
        leader_epoch,
        config.max_message_bytes,
        TARGETS[config.compression_type],
        by_log,
    )
    if stopped or stop < size:
        return _check_long(data, config, origin, leader_epoch, now_ms)
    if fault:
        raise refusal(fault, rows[taken].tolist(), config, leader_epoch, last)
    if n < capacity:
        rows, largest = rows[:n], largest[:n]
    table = BatchTable(rows)
    if bad >= 0:
        _raise_unsound(Batches(data, table), bad)
    found = _Found(_CODECS[codec], with_producer, rewrites, smallest, newest, keyless)
    if codec or rewrites or not _are_allowed(found, config, now_ms):
        return _check_further(Batches(data, table), largest, found, config, now_ms)
    return CheckedBatches(data, table, largest, with_producer)


def _check_long(
    data: bytearray, config: LogConfig, origin: AppendOrigin, leader_epoch: int, now_ms: int
) -> CheckedBatches:
    """The same in several steps, for very many batches, and to say what is wrong with a bad one."""
    batches = Batches(data, scan_all(data))
    info = analyze(batches.table, config, origin, leader_epoch)
    largest = np.empty(len(batches.table), dtype=np.int64)
    bad, *summary = sum_up(data, batches.table.rows, 0, largest)
    if bad >= 0:
        _raise_unsound(batches, bad)
    found = _Found(info.source_codec, info.has_producer_ids, info.rewrites, *summary)
    return _check_further(batches, largest, found, config, now_ms)


def _check_further(
    batches: Batches, largest: Int64s, found: _Found, config: LogConfig, now_ms: int
) -> CheckedBatches:
    """Go on where the kernel has not looked: into compressed batches, and into those that must be refused."""
    if batches.table.rows[0, Column.MAGIC] < 2:
        return _check_messages(batches, found.source_codec, config, now_ms)
    inside = _Inside(batches, largest)
    found = found._replace(
        smallest=min(found.smallest, inside.smallest),
        newest=max(found.newest, inside.newest),
        keyless=found.keyless + inside.keyless,
    )
    if not _are_allowed(found, config, now_ms):
        _check_columns(batches, config, now_ms)
    anew = needs_rewrite(batches.table, config) | inside.out_of_order
    if anew.any():
        batches = rewrite(batches, anew, config, now_ms)
        largest = np.where(anew, batches.table.max_timestamp, largest)
    return CheckedBatches(_writable(batches), batches.table, largest, found.has_producer_ids)


def _check_messages(batches: Batches, codec: Codec, config: LogConfig, now_ms: int) -> CheckedBatches:
    """Messages of magic 0 and 1, which become one batch."""
    _check_wrapped(batches)
    _check_columns(batches, config, now_ms)
    batches = convert(batches, codec, config, now_ms)
    largest = batches.table.max_timestamp.copy()
    return CheckedBatches(_writable(batches), batches.table, largest, False)


def _check_wrapped(batches: Batches) -> None:
    """Look at the messages inside of compressed ones, which lose their checksums when they become a batch.

    Like Kafka, refuse those whose checksum does not match, whose magic is not the wrapper's, or which are
    compressed themselves.
    """
    payloads = Payloads(memoryview(batches.data), 0, None, MAX_DECOMPRESSED)
    for index in np.flatnonzero(batches.table.codec != 0).tolist():
        row: list[int] = batches.table.rows[index].tolist()
        inside = memoryview(payloads.payload(row))
        odd = ""
        for message in _messages_in(inside):
            if message[17] & 7:
                odd = odd or "that are compressed themselves"
            elif message[16] != row[Column.MAGIC]:
                odd = odd or f"of magic {message[16]}, which is not its own"
            elif zlib.crc32(message[16:]) != int.from_bytes(message[12:16]):
                raise ChecksumError(
                    "the checksum of a message in this one does not match", **payloads.where(row)
                )
        if odd:
            raise InvalidRecordError(f"the message at position {row[Column.POSITION]} wraps messages {odd}")


def _messages_in(payload: memoryview) -> Iterator[memoryview]:
    """The whole messages of a set, up to one that is not; what that means is for the decoder to say."""
    position = 0
    while position + _MESSAGE_HEADER <= len(payload):
        end = position + _LENGTH_END + int.from_bytes(payload[position + 8 : position + _LENGTH_END])
        if not position + _MESSAGE_HEADER <= end <= len(payload):
            return
        yield payload[position:end]
        position = end


def _check_encoded(
    encoded: EncodedBatches,
    config: LogConfig,
    origin: AppendOrigin,
    leader_epoch: int,
    now_ms: int,
    has_keys: bool,
) -> CheckedBatches:
    """Batches that our own encoder has made: it has checked them, and their headers are true."""
    rows = encoded.table.rows
    rows[:, Column.LAST_OFFSET] -= rows[
        :, Column.BASE_OFFSET
    ]  # the encoder counts offsets on from batch to batch
    rows[:, Column.BASE_OFFSET] = 0
    batches = Batches(encoded.data, encoded.table)
    info = analyze(encoded.table, config, origin, leader_epoch)
    largest = encoded.table.max_timestamp.copy()
    newest = int(largest.max(initial=-1))
    found = _Found(info.source_codec, info.has_producer_ids, info.rewrites, 0, newest, not has_keys)
    if not _are_allowed(found, config, now_ms):
        _check_columns(batches, config, now_ms)
    if info.rewrites:
        anew = needs_rewrite(batches.table, config)
        batches = rewrite(batches, anew, config, now_ms)
        largest = batches.table.max_timestamp.copy()
    return CheckedBatches(_writable(batches), batches.table, largest, info.has_producer_ids)


def _writable(batches: Batches) -> bytearray | memoryview:
    data = batches.data
    return data if isinstance(data, (bytearray, memoryview)) else bytearray(data)


def _lacks_keys(columns: pa.RecordBatch | pa.Table) -> bool:
    return "key" not in columns.schema.names or columns.column("key").null_count > 0


def _are_allowed(found: _Found, config: LogConfig, now_ms: int) -> bool:
    """Whether the topic takes records with such timestamps and keys; if not sure, no."""
    if found.keyless and config.compact:
        return False
    return config.message_timestamp_type is not TimestampType.CREATE_TIME or (
        found.smallest >= now_ms - config.message_timestamp_before_max_ms
        and found.newest <= now_ms + config.message_timestamp_after_max_ms
    )


class _Inside:
    """What the records inside compressed batches say."""

    def __init__(self, batches: Batches, largest: Int64s) -> None:
        self.smallest, self.newest, self.keyless = _INT64_MAX, -1, 0
        table = batches.table
        self.out_of_order = np.zeros(len(table), dtype=np.bool_)
        view = memoryview(batches.data)
        for index in np.flatnonzero(table.codec != 0).tolist():
            row: list[int] = table.rows[index].tolist()
            at, size, base_offset = row[:3]
            attributes, base_timestamp, newest = row[Column.ATTRIBUTES : Column.MAX_TIMESTAMP + 1]
            try:
                payload = decompress(attributes & 7, view[at + HEADER_SIZE : at + size])
            except (CompressionError, UnknownCodecError) as error:
                raise type(error)(error.reason, position=at, offset=base_offset) from error
            stamped = newest if attributes & _LOG_APPEND_TIME else -1
            sound, smallest, newest, keyless, in_order = sum_up_payload(
                payload, row[Column.COUNT], base_timestamp, stamped
            )
            if not sound:
                _raise_unsound(batches, index)
            largest[index] = newest
            self.smallest, self.newest = min(self.smallest, smallest), max(self.newest, newest)
            self.keyless += keyless
            self.out_of_order[index] = not in_order


def _raise_unsound(batches: Batches, index: int) -> NoReturn:
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
