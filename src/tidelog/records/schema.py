"""The columns a record can be read as, and their Arrow types.

The first eight are those of Spark's Kafka connector, names and types as it has them. The rest are facts of
the batch that a record lies in; `timestamp_ms` is the timestamp as stored, also where it does not fit
microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import pyarrow as pa

from tidelog.errors import InvalidInputError

__all__ = ["ALL_COLUMNS", "BATCH_FACTS", "HEADERS_TYPE", "RECORD_COLUMNS", "Projection", "column_type"]

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

_RECORD_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}

_FACT_TYPES: dict[str, pa.DataType] = {
    "timestamp_ms": pa.int64(),
    "base_offset": pa.int64(),
    "position": pa.int64(),
    "producer_id": pa.int64(),
    "producer_epoch": pa.int32(),
    "sequence": pa.int32(),
    "leader_epoch": pa.int32(),
    "transactional": pa.bool_(),
    "control": pa.bool_(),
    "codec": pa.string(),
    "magic": pa.int32(),
}

RECORD_COLUMNS = tuple(_RECORD_TYPES)
"""Columns of Spark's Kafka connector, `headers` last."""

BATCH_FACTS = tuple(_FACT_TYPES)
"""Columns that tell about the record's batch."""

ALL_COLUMNS = RECORD_COLUMNS + BATCH_FACTS

_TYPES = _RECORD_TYPES | _FACT_TYPES


def column_type(name: str) -> pa.DataType:
    """The type of a column."""
    return _TYPES[name]


@dataclass(frozen=True)
class Projection:
    """Which columns to decode, in which order."""

    columns: tuple[str, ...] = RECORD_COLUMNS

    @classmethod
    def of(cls, columns: Iterable[str] | None) -> Projection:
        """The projection on `columns`; None means those of Spark's connector."""
        return _checked(RECORD_COLUMNS if columns is None else tuple(columns))

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of what is decoded."""
        return pa.schema([pa.field(name, _TYPES[name]) for name in self.columns])

    def wants(self, *names: str) -> bool:
        """Is one of `names` asked for?"""
        return any(name in self.columns for name in names)

    @cached_property
    def needs_offsets(self) -> bool:
        """Are the records' offsets needed, be it for another column?"""
        return self.wants("offset", "sequence", "base_offset")

    @cached_property
    def needs_timestamps(self) -> bool:
        """Are the records' timestamps needed?"""
        return self.wants("timestamp", "timestamp_ms")


@lru_cache(maxsize=64)
def _checked(names: tuple[str, ...]) -> Projection:
    for name in names:
        if name not in _TYPES:
            raise InvalidInputError(f"unknown column {name!r}; there are {', '.join(ALL_COLUMNS)}")
    if len(set(names)) != len(names):
        raise InvalidInputError(f"a column is named twice in {', '.join(names)}")
    return Projection(names)
