"""Control records as batches that are ready to be appended."""

from __future__ import annotations

from typing import Unpack

import pyarrow as pa

from tidelog.protocol.control_records import (
    ControlRecord,
    EndTxnMarker,
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    control_fields,
)
from tidelog.records.builder import BatchOptions, encode_batches
from tidelog.records.columns import binary_array, int_array

__all__ = ["encode_end_txn_marker", "encode_kraft_control"]


def encode_end_txn_marker(
    marker: EndTxnMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The control batch that ends a producer's transaction, ready to be appended."""
    return _control_batch(
        marker,
        timestamp,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )


def encode_kraft_control(
    record: LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | KRaftVoters,
    *,
    timestamp: int,
    leader_epoch: int,
    base_offset: int = 0,
) -> bytes:
    """A control batch of the Raft quorum (metadata log, snapshots), ready to be appended."""
    return _control_batch(record, timestamp, base_offset=base_offset, leader_epoch=leader_epoch)


def _control_batch(record: ControlRecord, timestamp: int, **options: Unpack[BatchOptions]) -> bytes:
    key, value = control_fields(record)
    arrays = [binary_array([key]), binary_array([value]), int_array([timestamp])]
    columns = pa.RecordBatch.from_arrays(arrays, ["key", "value", "timestamp"])
    options["control"] = True
    return bytes(encode_batches(columns, **options))
