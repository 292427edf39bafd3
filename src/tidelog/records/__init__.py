"""Bytes <-> record batches: every format Kafka has written, as Arrow columns or single records."""

from __future__ import annotations

from tidelog.records.batches import BatchScan, BatchTable, scan_batches, walk_batches
from tidelog.records.decode import decode_batches, iter_record_batches, read_record_batches
from tidelog.records.schema import ALL_COLUMNS, BATCH_FACTS, RECORD_COLUMNS, Projection

__all__ = [
    "ALL_COLUMNS",
    "BATCH_FACTS",
    "RECORD_COLUMNS",
    "BatchScan",
    "BatchTable",
    "Projection",
    "decode_batches",
    "iter_record_batches",
    "read_record_batches",
    "scan_batches",
    "walk_batches",
]
