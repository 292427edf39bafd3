"""Stores on a simulated disk: how they are configured, opened and read."""

from __future__ import annotations

from typing import Any

import tidelog
from tests.durability.model import Found
from tests.manager.stores import SIMULATED
from tidelog.manager import BrokerConfig, Partition, Store
from tidelog.records import decode_records
from tidelog.types import FetchIsolation

__all__ = ["CONFIG", "NOW", "ROOTS", "read_all", "recovered"]

ROOTS = ("/a", "/b", "/c")
NOW = 1_700_000_000_000

CONFIG = BrokerConfig.from_properties(
    {
        **SIMULATED,
        "log.cleaner.enable": "false",  # it is done when it is noted
        "log.cleaner.dedupe.buffer.size": str(1 << 20),
    }
)


def recovered(*arguments: Any, **options: Any) -> Store:
    """Open a store that may have been left in disorder."""
    return tidelog.open(*arguments, recover=True, **options)


def read_all(partition: Partition) -> dict[int, Found]:
    """Every record and marker of a partition by offset; they come in order."""
    found: dict[int, Found] = {}
    offset, last = partition.log_start_offset, -1
    end = partition.log_end_offset
    while offset < end:
        fetched = partition.read(offset, 1 << 20, FetchIsolation.LOG_END)
        batches = fetched.batches()
        if not len(batches):
            break  # a segment survived whose predecessor's unsynced end did not
        for record in decode_records(fetched.data[: batches.end]):
            if record.offset >= offset:
                assert record.offset > last, f"{partition}: offset {record.offset} comes after {last}"
                last = record.offset
                found[last] = Found(last, record.value, record.key, record.producer_id, record.control)
        offset = int(batches.last_offset[-1]) + 1
    return found
