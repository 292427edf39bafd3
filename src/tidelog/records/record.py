"""Single records: `Record` to write, `StoredRecord` as read back.

They are different types because they know different things: a record to write has no offset yet and may leave
its timestamp to the log; a stored one has both, and what its batch says about it. Columns (`records.builder`,
`records.decode`) are the way for many records; these functions go through the same kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast

import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.records.batches import walk_batches
from tidelog.records.builder import BatchOptions, encode_batches
from tidelog.records.columns import binary_array, int_array
from tidelog.records.decode import iter_record_batches
from tidelog.records.schema import HEADERS_TYPE
from tidelog.types import TimestampType

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "STORED_COLUMNS",
    "Header",
    "Record",
    "RecordLike",
    "StoredRecord",
    "as_record",
    "decode_records",
    "encode_records",
    "from_arrow",
    "to_arrow",
]


@dataclass(frozen=True, slots=True)
class Header:
    """A record header; keys may repeat within a record."""

    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Record:
    """A record to write. `value` None is a tombstone, `timestamp` (ms) None lets the log stamp it."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as the log has it; -1 where its batch has no producer, sequence or leader epoch."""

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    control: bool = False
    topic: str = ""
    partition: int = 0

    def to_record(self) -> Record:
        """The record to write to get the same one again."""
        return Record(self.value, self.key, self.headers, self.timestamp)


STORED_COLUMNS = (
    "offset",
    "timestamp_ms",
    "timestampType",
    "key",
    "value",
    "headers",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "sequence",
    "transactional",
    "control",
    "topic",
    "partition",
)
"""The columns that hold all of a `StoredRecord`."""

_FIELDS = {
    "timestamp_ms": "timestamp",
    "timestampType": "timestamp_type",
}  # where they are not called the same
_WANTED = ("offset", "timestampType", "key", "value")  # fields without a default


def encode_records(records: Iterable[RecordLike], **options: Unpack[BatchOptions]) -> bytes:
    """The records as v2 batches, ready to be appended; the options are those of `encode_batches`."""
    return bytes(encode_batches(to_arrow(records), **options))


def decode_records(
    data: Buffer, *, topic: str = "", partition: int = 0, source: str | None = None
) -> Iterator[StoredRecord]:
    """Every record in `data`, whole batches of any format, control records included.

    Checksums are checked; damage raises a CorruptRecordError when it is reached.
    """
    for table in walk_batches(data, source=source):
        for batch in iter_record_batches(
            data, table, topic=topic, partition=partition, columns=STORED_COLUMNS, source=source
        ):
            yield from from_arrow(batch)


RecordLike: TypeAlias = Record | StoredRecord | Mapping[str, Any] | tuple[Any, ...] | bytes | str
"""What `as_record` takes for a record."""

_KEYS = ("value", "key", "headers", "timestamp")


def as_record(row: RecordLike) -> Record:
    """A record from a mapping, tuple, bytes or text; text becomes UTF-8.

    A mapping has the keys value, key, headers and timestamp; all are optional. A tuple is (key, value),
    (key, value, timestamp) or (key, value, timestamp, headers). Bytes or text alone are a value. Headers are
    `Header`s, pairs, or a mapping; a timestamp is milliseconds or a datetime with a time zone.
    """
    if isinstance(row, Record):
        return row
    if isinstance(row, StoredRecord):
        return row.to_record()
    if isinstance(row, (bytes, str)):
        return Record(_bytes(row))
    if isinstance(row, Mapping):
        unknown = [str(key) for key in row if key not in _KEYS]
        if unknown:
            raise InvalidInputError(f"a record has {', '.join(_KEYS)}, not {', '.join(unknown)}")
        fields = [row.get("key"), row.get("value"), row.get("timestamp"), row.get("headers")]
    elif isinstance(row, tuple) and 2 <= len(row) <= 4:
        fields = [*row, *[None] * (4 - len(row))]
    else:
        raise InvalidInputError(
            f"a record is a Record, a mapping, a tuple (key, value[, timestamp[, headers]]), bytes or text; "
            f"not {type(row).__name__}"
        )
    key, value, timestamp, headers = fields
    return Record(_bytes(value), _bytes(key), _headers(headers), _milliseconds(timestamp))


def _bytes(field: Any) -> Any:
    return field.encode() if isinstance(field, str) else field


def _headers(given: Any) -> tuple[Header, ...]:
    pairs = given.items() if isinstance(given, Mapping) else given or ()
    try:
        return tuple(pair if isinstance(pair, Header) else Header(pair[0], _bytes(pair[1])) for pair in pairs)
    except (TypeError, IndexError, KeyError) as error:
        raise InvalidInputError(f"headers are pairs of key and value, not {given!r}: {error}") from error


def _milliseconds(timestamp: Any) -> int | None:
    if isinstance(timestamp, datetime):
        if timestamp.tzinfo is None:
            raise InvalidInputError(f"{timestamp} has no time zone; set tzinfo")
        return round(timestamp.timestamp() * 1000)
    return cast("int | None", timestamp)


def to_arrow(records: Iterable[RecordLike]) -> pa.RecordBatch:
    """Records as the columns that `encode_batches` takes; see `as_record` for what counts as one."""
    rows = [row if type(row) is Record else as_record(row) for row in records]
    try:
        headers = [
            [{"key": header.key, "value": header.value} for header in row.headers] if row.headers else None
            for row in rows
        ]
    except AttributeError as error:
        raise InvalidInputError(f"a record's headers is not valid: {error}") from error
    columns: dict[str, tuple[list[Any], pa.DataType]] = {
        "key": ([row.key for row in rows], pa.binary()),
        "value": ([row.value for row in rows], pa.binary()),
        "timestamp": ([row.timestamp for row in rows], pa.int64()),
        "headers": (headers, HEADERS_TYPE),
    }
    arrays = []
    for name, (values, kind) in columns.items():
        try:
            arrays.append(_column(values, kind))
        except (pa.ArrowException, OverflowError, TypeError) as error:
            raise InvalidInputError(f"a record's {name} is not valid: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """As `pyarrow.array`, which imports pandas at its first use: done without it where values are plain."""
    types = set(map(type, values)) - {type(None)}
    if kind == pa.binary() and types <= {bytes}:
        return binary_array(values)
    if kind == pa.int64() and types <= {int}:
        return int_array(values)
    return pa.nulls(len(values), kind) if not types else pa.array(values, kind)


def from_arrow(batch: pa.RecordBatch) -> Iterator[StoredRecord]:
    """The rows of a decoded record batch (see `records.schema`).

    `offset`, `timestamp` (or `timestamp_ms`), `timestampType`, `key` and `value` must be there; fields whose
    columns were not decoded keep their defaults, columns that are no fields are skipped.
    """
    names = set(batch.schema.names)
    missing = [name for name in _WANTED if name not in names]
    if missing or not names & {"timestamp", "timestamp_ms"}:
        raise InvalidInputError(f"a record needs the columns {', '.join(missing or ['timestamp'])}")
    columns: dict[str, list[Any]] = {
        _FIELDS.get(name, name): batch.column(name).to_pylist() for name in STORED_COLUMNS if name in names
    }
    if "timestamp" not in columns:
        micros = batch.column("timestamp").view(pa.int64())
        columns["timestamp"] = [time // 1000 for time in micros.to_pylist()]
    columns["timestamp_type"] = [TimestampType(kind) for kind in columns["timestamp_type"]]
    if "headers" in columns:
        columns["headers"] = [
            tuple(Header(pair["key"], pair["value"]) for pair in pairs) if pairs else ()
            for pairs in columns["headers"]
        ]
    fields = list(columns)
    for values in zip(*columns.values(), strict=True):
        yield StoredRecord(**dict(zip(fields, values, strict=True)))
