"""Bytes <-> record batches: every format Kafka has written, as Arrow columns or single records.

batches         headers of a run of batches, scanned and checked
decode          batches -> Arrow
builder         Arrow -> batches
record          one record at a time, both ways
schema          the columns there are
control_batches markers and KRaft control records, ready to be appended
compression     payloads, both ways
legacy_builder  magic 0 and 1, written
finding         a batch in the middle of a log, without an index
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_names

if TYPE_CHECKING:
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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ALL_COLUMNS": "tidelog.records.schema",
        "BATCH_FACTS": "tidelog.records.schema",
        "BatchOptions": "tidelog.records.builder",
        "BatchScan": "tidelog.records.batches",
        "BatchTable": "tidelog.records.batches",
        "DEFAULT_BATCH_BYTES": "tidelog.records.builder",
        "EncodedBatches": "tidelog.records.builder",
        "Header": "tidelog.records.record",
        "Projection": "tidelog.records.schema",
        "RECORD_COLUMNS": "tidelog.records.schema",
        "Record": "tidelog.records.record",
        "StoredRecord": "tidelog.records.record",
        "decode_batches": "tidelog.records.decode",
        "decode_records": "tidelog.records.record",
        "encode_batches": "tidelog.records.builder",
        "encode_end_txn_marker": "tidelog.records.control_batches",
        "encode_kraft_control": "tidelog.records.control_batches",
        "encode_legacy_records": "tidelog.records.legacy_builder",
        "encode_records": "tidelog.records.record",
        "iter_record_batches": "tidelog.records.decode",
        "parse_control": "tidelog.protocol.control_records",
        "read_record_batches": "tidelog.records.decode",
        "scan_batches": "tidelog.records.batches",
        "walk_batches": "tidelog.records.batches",
    },
)
