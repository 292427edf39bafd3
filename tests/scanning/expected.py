"""Golden records in the words of our columns, and what a committed reader may see of them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.golden import GoldenPartition
from tidelog.storage.names import parse_partition_directory

__all__ = ["committed_offsets", "records", "rows", "visible"]

_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def records(partition: GoldenPartition) -> list[dict[str, Any]]:
    """Kafka's records from the log start on."""
    return [record for record in partition.records() if record["offset"] >= partition.log_start]


def rows(partition: GoldenPartition, *, control: bool = True) -> list[dict[str, Any]]:
    """The records as rows of the eight columns of Spark's connector."""
    name = parse_partition_directory(partition.name).topic_partition
    return [
        {
            "key": _bytes(record["key"]),
            "value": _bytes(record["value"]),
            "topic": name.topic,
            "partition": name.partition,
            "offset": record["offset"],
            "timestamp": _EPOCH + timedelta(milliseconds=record["timestamp"]),
            "timestampType": _TYPES[record["timestamp_type"]],
            "headers": [_header(header) for header in record["headers"]] or None,
        }
        for record in records(partition)
        if control or not record["control"]
    ]


def visible(partition: GoldenPartition, stable_offset: int) -> set[int]:
    """Offsets that a consumer sees that reads committed data."""
    return {offset for offset in committed_offsets(partition) if offset < stable_offset}


def committed_offsets(partition: GoldenPartition) -> set[int]:
    """Offsets of data whose transaction, if it has one, was committed: the producer's next marker says so."""
    kept: set[int] = set()
    waiting: dict[int, list[int]] = {}
    for record in records(partition):
        if record["control"]:
            is_commit = base64.b64decode(record["key"])[3] == 1
            offsets = waiting.pop(record["producer_id"], [])
            kept.update(offsets if is_commit else ())
        elif record["transactional"]:
            waiting.setdefault(record["producer_id"], []).append(record["offset"])
        else:
            kept.add(record["offset"])
    return kept


def _header(header: Any) -> dict[str, Any]:
    key, value = header if isinstance(header, list) else (header["key"], header["value"])
    return {"key": key, "value": _bytes(value)}


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
