"""What an append must be like to be taken, and what the log must do to its batches. Decisions over batch
headers and record columns; nothing is written here but offsets into the append's own bytes (`stamp`).

1. `analyze` walks the headers (one kernel call) and refuses the append at the first batch that breaks a rule:

    origin          client  coordinator  raft leader  replication   error
    leader epoch       -         -        the log's        -        InvalidRecordError
    base offset        0         -           -             -        InvalidRecordError
    max.message.bytes  yes       yes         yes           -        RecordTooLargeError
    codec exists       yes       yes         yes          yes       UnknownCodecError
    offsets grow       -         -           yes          yes       OffsetsOutOfOrderError
    one magic          yes       yes         -             -        InvalidRecordError
    count = offsets    yes       yes         -             -        InvalidRecordError
    no control batch   yes       -           -             -        InvalidRecordError
    sequence if id     yes       -           -             -        InvalidRecordError
    not LogAppendTime  yes       yes         -             -        InvalidTimestampError

   A follower drops batches of an epoch above the leader's it follows, with all that come after: that leader
   had lost its place when it sent them. (Kafka takes one v2 batch in a client's append; here each of
   several is treated alike.)
2. Leaders look at the records, too: `check_records` wants keys on a compacted topic and timestamps within
   [now - message.timestamp.before.max.ms, now + message.timestamp.after.max.ms].
3. Leaders rewrite batches whose magic is not 2, or whose codec is not what `compression.type` says
   (`needs_rewrite`; uncompressed control batches stay), and check their sizes again. All others are stamped
   in place: base offset and leader epoch, which the checksum does not cover, and the largest timestamp or
   the log's time, which it does.
4. The whole append must fit a segment (`check_append_size`); taken offsets must not lie below the log end
   (`check_offsets`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.config import LogConfig
from tidelog.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    OffsetsOutOfOrderError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    TidelogError,
    UnexpectedAppendOffsetError,
    UnknownCodecError,
)
from tidelog.kernels import appends as _kernel
from tidelog.log.append.info import NO_TIMESTAMP, AppendOrigin, LogAppendInfo
from tidelog.log.offsets import UNKNOWN_OFFSET
from tidelog.records.batches import BatchTable
from tidelog.types import Codec, TimestampType

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "TARGETS",
    "analyze",
    "check_append_size",
    "check_batch_sizes",
    "check_offsets",
    "check_records",
    "check_timestamp",
    "needs_rewrite",
    "refusal",
    "stamp",
]

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_MAGIC_V2 = 2
TARGETS = {"producer": -1, "uncompressed": 0} | {codec.label: int(codec) for codec in Codec if codec}
"""What `compression.type` means to the kernels: the codec that batches are stored in, -1 for their own."""
_CODECS = tuple(Codec)
_NONE_GIVEN: Int64s = np.empty(0, dtype=np.int64)
_INT64 = np.iinfo(np.int64)


def analyze(batches: BatchTable, config: LogConfig, origin: AppendOrigin, leader_epoch: int) -> LogAppendInfo:
    """Check the headers of an append (their checksums are checked by the scan) and sum them up."""
    rows = batches.rows
    fault, taken, last_offset, last_epoch, max_timestamp, codec, size, with_producer, rewrites = (
        _kernel.analyze(
            rows,
            origin,
            leader_epoch,
            config.max_message_bytes,
            TARGETS[config.compression_type],
            config.message_timestamp_type is TimestampType.LOG_APPEND_TIME,
        )
    )
    if fault:
        raise refusal(fault, rows[taken].tolist(), config, leader_epoch, last_offset)
    if not taken:
        return LogAppendInfo(UNKNOWN_OFFSET, -1, -1, NO_TIMESTAMP, Codec.NONE, 0, 0, -1, False, 0)
    _, _, first_base, first_last, _, first_magic, *_ = rows[0].tolist()
    return LogAppendInfo(
        first_base if first_magic >= _MAGIC_V2 else UNKNOWN_OFFSET,
        last_offset,
        last_epoch,
        max_timestamp,
        _CODECS[codec],
        size,
        taken,
        first_last,
        with_producer,
        rewrites,
    )


def refusal(
    fault: int, row: list[int], config: LogConfig, leader_epoch: int, previous_offset: int
) -> TidelogError:
    """The error for a fault of the kernel, numbered as there."""
    position, size, base, last, epoch, magic, attributes, _, _, producer_id, _, sequence, count, *_ = row
    match fault:
        case 1:
            return InvalidRecordError(
                f"a batch of leader epoch {epoch} in an append of leader epoch {leader_epoch}"
            )
        case 2:
            return InvalidRecordError(f"a batch to be given offsets has base offset {base} instead of 0")
        case 3:
            return RecordTooLargeError(
                f"a batch of {size} bytes; max.message.bytes is {config.max_message_bytes}"
            )
        case 4:
            what = f"unknown compression codec {attributes & 7} in magic {magic}"
            return UnknownCodecError(what, position=position, offset=base)
        case 5:
            return OffsetsOutOfOrderError(
                f"a batch that ends at offset {last} follows one at {previous_offset}"
            )
        case 6:
            return InvalidRecordError(f"a batch of magic {magic} after one of another magic")
        case 7:
            return InvalidRecordError(f"a batch with the offset range [{base}, {last}]")
        case 8:
            return InvalidRecordError(f"a batch that reports {count} records")
        case 9:
            return InvalidRecordError(f"a batch of {count} records has the offset range [{base}, {last}]")
        case 10:
            return InvalidRecordError("a client may not write control records")
        case 11:
            return InvalidRecordError(f"a batch of producer {producer_id} has the sequence {sequence}")
        case _:
            return InvalidTimestampError("a producer may not set the timestamp type to LogAppendTime")


def check_timestamp(timestamp: int, config: LogConfig, now_ms: int) -> None:
    """Refuse a timestamp out of range; a trusted header's largest will do where nothing limits the past."""
    if timestamp == NO_TIMESTAMP or config.message_timestamp_type is not TimestampType.CREATE_TIME:
        return
    low, high = _bounds(config, now_ms)
    if not low <= timestamp <= high:
        raise InvalidTimestampError(
            f"timestamp {timestamp} is out of range; it should be within [{low}, {high}]"
        )


def check_records(timestamps: Int64s | None, has_key: Bools | None, config: LogConfig, now_ms: int) -> None:
    """Refuse records that their topic does not allow; None for a column that need not be looked at.

    A timestamp out of range anywhere is the error, even where keys are missing too.
    """
    keyless = ~has_key if has_key is not None and config.compact else None
    if timestamps is not None and config.message_timestamp_type is TimestampType.CREATE_TIME:
        low, high = _bounds(config, now_ms)
        bad = ((timestamps < low) | (timestamps > high)) & (timestamps != NO_TIMESTAMP)
        if keyless is not None:
            bad &= ~keyless
        if bad.any():
            first = int(np.argmax(bad))
            late = InvalidTimestampError(
                f"{int(bad.sum())} timestamps are out of range, first {int(timestamps[first])} of record "
                f"{first}; they should be within [{low}, {high}]"
            )
            late.records = np.flatnonzero(bad if keyless is None else bad | keyless).tolist()
            raise late
    if keyless is not None and keyless.any():
        first = int(np.argmax(keyless))
        refused = InvalidRecordError(
            f"{int(keyless.sum())} records without a key on a compacted topic, first record {first}"
        )
        refused.records = np.flatnonzero(keyless).tolist()
        raise refused


def _bounds(config: LogConfig, now_ms: int) -> tuple[int, int]:
    low = now_ms - config.message_timestamp_before_max_ms
    high = now_ms + config.message_timestamp_after_max_ms
    return max(low, int(_INT64.min)), min(high, int(_INT64.max))


def needs_rewrite(batches: BatchTable, config: LogConfig) -> Bools:
    """Which batches a leader must write again, because their magic or codec is not what the log stores."""
    rewrite: Bools = batches.magic != _MAGIC_V2
    target = TARGETS[config.compression_type]
    if target >= 0:
        plain_control = batches.is_control & (batches.codec == Codec.NONE)
        rewrite |= (batches.codec != target) & ~plain_control
    return rewrite


def check_batch_sizes(batches: BatchTable, config: LogConfig) -> None:
    """Refuse a batch that has grown too large by being rewritten."""
    largest = int(batches.size.max(initial=0))
    if largest > config.max_message_bytes:
        raise RecordTooLargeError(
            f"a batch of {largest} bytes, as it is stored; max.message.bytes is {config.max_message_bytes}"
        )


def check_append_size(size: int, config: LogConfig) -> None:
    """Refuse an append that no segment could hold."""
    if size > config.max_segment_bytes:
        raise RecordBatchTooLargeError(
            f"an append of {size} bytes; segment.bytes is {config.max_segment_bytes}"
        )


def check_offsets(info: LogAppendInfo, log_end_offset: int) -> None:
    """Refuse offsets taken as given that lie below the log end."""
    first = info.first_or_last_offset_of_first_batch
    if first < log_end_offset:
        which = "first offset" if info.first_offset != UNKNOWN_OFFSET else "last offset of the first batch"
        raise UnexpectedAppendOffsetError(
            f"{which} {first} is below the next offset {log_end_offset} (last offset of the append: "
            f"{info.last_offset})"
        )


def stamp(
    buffer: Buffer,
    batches: BatchTable,
    config: LogConfig,
    *,
    next_offset: int,
    leader_epoch: int,
    now_ms: int,
    origin: int = 0,
    max_timestamps: Int64s | None = None,
) -> int:
    """Give v2 batches their offsets, leader epoch and time, in the bytes and in the table; the next offset.

    `buffer` is writable and holds the batches at their positions less `origin`. `max_timestamps` are the
    batches' largest record timestamps where they were looked at; without them the headers are believed.
    With `message.timestamp.type=LogAppendTime` every batch gets `now_ms`.
    """
    by_log = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    given = _NONE_GIVEN if max_timestamps is None else max_timestamps
    return _kernel.stamp(
        buffer, batches.rows, origin, next_offset, leader_epoch, now_ms if by_log else NO_TIMESTAMP, given
    )
