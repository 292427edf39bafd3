"""Single records, for people who have one: `Record` to write, `StoredRecord` as read back.

They are different types because they know different things: a record to write has no offset yet and may leave
its timestamp to the log; a stored one has both, and what its batch says about it. Columns (`records.builder`,
`records.decode`) are the way for many records; these functions go through the same kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.records.batches import walk_batches
from tidelog.records.builder import BatchOptions, encode_batches
from tidelog.records.decode import iter_record_batches
from tidelog.records.schema import HEADERS_TYPE
from tidelog.types import TimestampType

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "STORED_COLUMNS",
    "Header",
    "Record",
    "StoredRecord",
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
        """What one would write to have it again."""
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


def encode_records(records: Iterable[Record], **options: Unpack[BatchOptions]) -> bytes:
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


def to_arrow(records: Iterable[Record]) -> pa.RecordBatch:
    """Records as the columns that `encode_batches` takes."""
    rows = list(records)
    try:
        headers = [
            [{"key": header.key, "value": header.value} for header in row.headers] if row.headers else None
            for row in rows
        ]
    except AttributeError as error:
        raise InvalidInputError(f"a record's headers is not what it should be: {error}") from error
    columns = {
        "key": ([row.key for row in rows], pa.binary()),
        "value": ([row.value for row in rows], pa.binary()),
        "timestamp": ([row.timestamp for row in rows], pa.int64()),
        "headers": (headers, HEADERS_TYPE),
    }
    arrays = []
    for name, (values, kind) in columns.items():
        try:
            arrays.append(pa.array(values, kind))
        except (pa.ArrowException, OverflowError, TypeError) as error:
            raise InvalidInputError(f"a record's {name} is not what it should be: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def from_arrow(batch: pa.RecordBatch) -> Iterator[StoredRecord]:
    """The rows of a decoded record batch (see `records.schema`).

    `offset`, `timestamp` (or `timestamp_ms`), `timestampType`, `key` and `value` must be there; fields whose
    columns were not decoded keep their defaults, columns that are no fields are passed over.
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
