"""Single records: to write, read back, and the way over Arrow."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any

import pyarrow as pa
import pytest

from tests.golden import golden_partition
from tidelog.errors import ChecksumError, InvalidInputError, TornBatchError
from tidelog.records.batches import scan_batches
from tidelog.records.decode import decode_batches
from tidelog.records.record import (
    Header,
    Record,
    StoredRecord,
    decode_records,
    encode_records,
    from_arrow,
    to_arrow,
)
from tidelog.types import Codec, TimestampType

NOW = 1_700_000_000_000
RECORDS = [
    Record(b"value", b"key", (Header("a", b"1"), Header("a", None)), NOW),
    Record(None, b"tombstone"),
    Record(b"", headers=(Header("größe", b""),), timestamp=NOW - 5),
]


def _plain(record: StoredRecord) -> dict[str, Any]:
    """A stored record in the words of the golden files."""
    fields = dataclasses.asdict(record)
    fields["timestamp_type"] = record.timestamp_type.label
    for name in ("key", "value"):
        fields[name] = _base64(fields[name])
    fields["headers"] = [[header.key, _base64(header.value)] for header in record.headers]
    del fields["topic"], fields["partition"]
    return fields


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


@pytest.mark.parametrize(
    "name",
    [
        "golden-txn-0",
        "golden-zstd-0",
        "golden-appendtime-0",
        "golden-unicode.topic_name-with-dash-0",
        "legacy-v1-lz4-0",
        "legacy-v0-gzip-0",
    ],
)
def test_reads_kafkas_records(name: str) -> None:
    partition = golden_partition(name)
    found = [record for log in partition.logs() for record in decode_records(log.read_bytes())]
    expected = partition.records()
    wanted = _plain(found[0]).keys()
    assert [_plain(record) for record in found] == [{key: row[key] for key in wanted} for row in expected]


@pytest.mark.parametrize("codec", Codec)
def test_written_and_read_back(codec: Codec) -> None:
    data = encode_records(
        RECORDS,
        codec=codec,
        base_offset=10,
        leader_epoch=4,
        now_ms=NOW + 1,
        producer_id=7,
        producer_epoch=2,
        base_sequence=30,
        transactional=True,
    )
    assert isinstance(data, bytes)
    found = list(decode_records(data, topic="t", partition=3))
    assert [record.to_record() for record in found] == [
        RECORDS[0],
        dataclasses.replace(RECORDS[1], timestamp=NOW + 1),
        RECORDS[2],
    ]
    assert found[1] == StoredRecord(
        offset=11,
        timestamp=NOW + 1,
        timestamp_type=TimestampType.CREATE_TIME,
        key=b"tombstone",
        value=None,
        headers=(),
        leader_epoch=4,
        producer_id=7,
        producer_epoch=2,
        sequence=31,
        transactional=True,
        control=False,
        topic="t",
        partition=3,
    )


def test_damage_is_raised_when_it_is_reached() -> None:
    first, second = encode_records(RECORDS[:1]), bytearray(encode_records(RECORDS[1:], base_offset=1))
    second[-1] ^= 1
    records = decode_records(first + second, source="x.log")
    assert next(records).offset == 0
    with pytest.raises(ChecksumError, match=rf"x\.log, position {len(first)}, offset 1"):
        next(records)
    with pytest.raises(TornBatchError):
        list(decode_records(first[:-1]))


def test_a_record_to_write_is_a_value() -> None:
    record = Record(b"v")
    assert (record.key, record.headers, record.timestamp) == (None, (), None)
    assert record == Record(b"v")
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.__setattr__("value", b"w")


@pytest.mark.parametrize(
    ("column", "wrong"),
    [
        ("value", 5),
        ("key", 1.5),
        ("timestamp", 1 << 63),
        ("timestamp", "now"),
        ("headers", [("key", b"")]),
    ],
)
def test_wrong_types_are_named(column: str, wrong: Any) -> None:
    record = dataclasses.replace(Record(b""), **{column: wrong})
    with pytest.raises(InvalidInputError, match=f"a record's {column} is not"):
        encode_records([RECORDS[0], record])


def test_from_arrow_takes_the_columns_that_are_there() -> None:
    data = encode_records(RECORDS[:1], now_ms=NOW)
    table = scan_batches(data).require()
    (full,) = from_arrow(decode_batches(data, table, topic="t"))
    assert (full.timestamp, full.topic, full.producer_id) == (NOW, "t", -1)
    few = decode_batches(data, table, columns=["offset", "timestamp_ms", "timestampType", "key", "value"])
    (record,) = from_arrow(few)
    assert (record.timestamp, record.headers) == (NOW, ())
    for missing in ("offset", "key", "value", "timestampType"):
        with pytest.raises(InvalidInputError, match=missing):
            list(from_arrow(few.drop_columns([missing])))
    with pytest.raises(InvalidInputError, match="timestamp"):
        list(from_arrow(few.drop_columns(["timestamp_ms"])))


def test_to_arrow_has_the_columns_that_the_encoder_takes() -> None:
    batch = to_arrow(RECORDS)
    assert batch.schema.names == ["key", "value", "timestamp", "headers"]
    assert batch.column("timestamp").to_pylist() == [NOW, None, NOW - 5]
    assert to_arrow(iter([])).num_rows == 0
    assert isinstance(batch, pa.RecordBatch)
