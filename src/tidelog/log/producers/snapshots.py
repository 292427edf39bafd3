"""Producer snapshot files, `<offset>.snapshot`: the producers' states after every record below that offset.

    at  size  field                                 at  size  field (of entry i, from 10 + 46 i)
     0     2  version = 1                            0     8  producer id
     2     4  CRC-32C of all below                   8     2  producer epoch
     6     4  number of entries                     10     4  last sequence, -1: none
    10    46  each entry                            14     8  last offset, -1: no batch is kept
                                                    22     4  offset delta of the last batch
                                                    26     8  last timestamp (of a batch or a marker)
                                                    34     4  coordinator epoch, -1: none
                                                    38     8  first offset of the open transaction, -1: none

All numbers are big-endian. Of a producer's five batches only the last is kept, so a batch sent again is known
as a duplicate after a restart only if it was the last.

The order of entries means nothing; it is that of the hash map in which Kafka keeps them, so that equal states
make equal files: by bucket of a table of 16, 32, 64... (the first that is filled to three quarters at most),
and within a bucket by arrival.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence

from tidelog.errors import InvalidIndexError
from tidelog.log.producers.sequences import BatchMetadata, ProducerState
from tidelog.records.checksums import crc32c

__all__ = ["decode_snapshot", "encode_snapshot", "out_of_range_snapshots", "stray_snapshots"]

VERSION = 1

_HEADER = struct.Struct(">hIi")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_END = 6


def encode_snapshot(producers: Collection[ProducerState]) -> bytes:
    """The snapshot file of these states."""
    body = bytearray(_COUNT.pack(len(producers)))
    for state in _hash_map_order(producers):
        last = state.batches[-1] if state.batches else BatchMetadata(-1, -1, 0, -1)
        body += _ENTRY.pack(
            state.producer_id,
            state.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            state.last_timestamp,
            state.coordinator_epoch,
            -1 if state.txn_first_offset is None else state.txn_first_offset,
        )
    return struct.pack(">hI", VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, source: str) -> list[ProducerState]:
    """The states in a snapshot file, in its order; `source` names it in errors.

    A file that is cut, has another version, a wrong checksum or bytes left over raises InvalidIndexError:
    drop it and rebuild the state from an older snapshot and the log.
    """
    if len(data) < _HEADER.size:
        raise InvalidIndexError(f"{source} ends inside its header: {len(data)} bytes")
    version, stored_crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise InvalidIndexError(f"{source} has version {version}, but only {VERSION} is known")
    crc = crc32c(data, _CRC_END)
    if crc != stored_crc:
        raise InvalidIndexError(f"{source} has checksum {crc:#010x}, but states {stored_crc:#010x}")
    if count < 0 or _HEADER.size + count * _ENTRY.size != len(data):
        raise InvalidIndexError(f"{source} announces {count} producers in {len(data) - _HEADER.size} bytes")
    return [_state(*entry) for entry in _ENTRY.iter_unpack(data[_HEADER.size :])]


def _state(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> ProducerState:
    last = BatchMetadata(last_sequence, last_offset, offset_delta, timestamp)
    return ProducerState(
        producer_id,
        epoch,
        coordinator_epoch,
        timestamp,
        txn_first_offset if txn_first_offset >= 0 else None,
        (last,) if last_offset >= 0 else (),
    )


def _hash_map_order(producers: Collection[ProducerState]) -> Iterable[ProducerState]:
    if len(producers) < 2:
        return producers
    table = 16
    while len(producers) > table * 3 // 4:
        table *= 2

    def bucket(state: ProducerState) -> int:
        folded = (state.producer_id ^ (state.producer_id >> 32)) & 0xFFFFFFFF
        return (folded ^ (folded >> 16)) & (table - 1)

    return sorted(producers, key=bucket)


def out_of_range_snapshots(offsets: Iterable[int], log_start_offset: int, log_end_offset: int) -> list[int]:
    """Which snapshots say nothing about a log of [log_start_offset, log_end_offset)."""
    return [offset for offset in offsets if not log_start_offset < offset <= log_end_offset]


def stray_snapshots(offsets: Sequence[int], segment_base_offsets: Sequence[int]) -> list[int]:
    """Which snapshots belong to no segment and can go; both in ascending order.

    A segment has the snapshot of its base offset. The largest of the others stays if it lies above the last
    segment's base: it was written when the log was closed.
    """
    bases = set(segment_base_offsets)
    strays = [offset for offset in offsets if offset not in bases]
    if not segment_base_offsets:
        return strays[:-1]
    newest = bisect_right(strays, segment_base_offsets[-1])
    return strays if newest == len(strays) else strays[:-1]
