"""Bytes <-> record batches: every format Kafka has written, as Arrow columns or single records.

batches         headers of a run of batches, scanned and checked
decode          batches -> Arrow
builder         Arrow -> batches
record          one record at a time, both ways
schema          the columns there are
control         markers and KRaft control records
compression     payloads, both ways
legacy_builder  magic 0 and 1, written
finding         a batch in the middle of a log, without an index
"""

from __future__ import annotations

from tidelog.protocol.control_records import parse_control
from tidelog.records.batches import BatchScan, BatchTable, scan_batches, walk_batches
from tidelog.records.builder import DEFAULT_BATCH_BYTES, BatchOptions, EncodedBatches, encode_batches
from tidelog.records.control_batches import encode_end_txn_marker, encode_kraft_control
from tidelog.records.decode import decode_batches, iter_record_batches, read_record_batches
from tidelog.records.legacy_builder import encode_legacy_records
from tidelog.records.record import Header, Record, StoredRecord, decode_records, encode_records
from tidelog.records.schema import ALL_COLUMNS, BATCH_FACTS, RECORD_COLUMNS, Projection

__all__ = [
    "ALL_COLUMNS",
    "BATCH_FACTS",
    "DEFAULT_BATCH_BYTES",
    "RECORD_COLUMNS",
    "BatchOptions",
    "BatchScan",
    "BatchTable",
    "EncodedBatches",
    "Header",
    "Projection",
    "Record",
    "StoredRecord",
    "decode_batches",
    "decode_records",
    "encode_batches",
    "encode_end_txn_marker",
    "encode_kraft_control",
    "encode_legacy_records",
    "encode_records",
    "iter_record_batches",
    "parse_control",
    "read_record_batches",
    "scan_batches",
    "walk_batches",
]
