"""What Kafka wrote is decoded to what Kafka's own reader decodes, whichever way and on both twins."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from tests.golden import GoldenPartition, golden_partition, golden_partitions
from tests.kernels_twin import TWINS, use_twin
from tidelog.records import (
    ALL_COLUMNS,
    RECORD_COLUMNS,
    decode_batches,
    iter_record_batches,
    read_record_batches,
    scan_batches,
    walk_batches,
)
from tidelog.records.schema import Projection
from tidelog.types import TimestampType

NAMES = [partition.name for partition in golden_partitions()]
PLAIN = ("offset", "position", "magic", "codec", "base_offset", "leader_epoch", "producer_id")
PLAIN += ("producer_epoch", "sequence", "transactional", "control")


@cache
def logs(name: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in golden_partition(name).logs())


@cache
def expected(name: str) -> pa.Table:
    """The partition's records as Kafka tells them, in all our columns."""
    partition = golden_partition(name)
    records = partition.records()
    topic, _, number = partition.name.rpartition("-")
    columns: dict[str, list[Any]] = {column: [record[column] for record in records] for column in PLAIN}
    columns["key"] = [_bytes(record["key"]) for record in records]
    columns["value"] = [_bytes(record["value"]) for record in records]
    columns["headers"] = [
        [{"key": name, "value": _bytes(data)} for name, data in record["headers"]] or None
        for record in records
    ]
    columns["timestamp_ms"] = [record["timestamp"] for record in records]
    columns["timestamp"] = [record["timestamp"] * 1000 for record in records]
    kinds = {kind.label: int(kind) for kind in TimestampType}
    columns["timestampType"] = [kinds[record["timestamp_type"]] for record in records]
    columns["topic"] = [topic] * len(records)
    columns["partition"] = [int(number)] * len(records)
    return pa.table(
        {column: columns[column] for column in ALL_COLUMNS}, schema=Projection(ALL_COLUMNS).schema
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def decoded(name: str, columns: tuple[str, ...] = ALL_COLUMNS, **bounds: int) -> pa.Table:
    topic, _, number = name.rpartition("-")
    chunks = [
        chunk
        for data in logs(name)
        for chunk in read_record_batches(data, topic=topic, partition=int(number), columns=columns, **bounds)
    ]
    return pa.Table.from_batches(chunks, schema=Projection(columns).schema)


@pytest.mark.parametrize("which", TWINS)
@pytest.mark.parametrize("partition", golden_partitions(), ids=lambda partition: partition.name)
def test_records_equal_what_kafkas_reader_decodes(partition: GoldenPartition, which: str) -> None:
    with use_twin(which):
        table = decoded(partition.name)
    table.validate(full=True)
    assert table.equals(expected(partition.name))


def test_golden_data_holds_every_format_and_codec() -> None:
    seen: set[tuple[int, str]] = set()
    for name in NAMES:
        pairs = expected(name).select(["magic", "codec"]).to_pydict()
        seen |= set(zip(pairs["magic"], pairs["codec"], strict=True))
    codecs = ("none", "gzip", "snappy", "lz4")
    assert seen == {(magic, codec) for magic in (0, 1, 2) for codec in codecs} | {(2, "zstd")}


@pytest.mark.parametrize("column", ALL_COLUMNS)
def test_one_column_alone_is_the_same_column(column: str) -> None:
    for name in NAMES:
        assert decoded(name, (column,)).equals(expected(name).select([column]))


@pytest.mark.parametrize(
    "columns",
    [
        RECORD_COLUMNS,
        ("key", "value", "offset", "timestamp"),
        ("value", "key"),
        ("headers", "offset"),
        ("key", "headers"),
        ("timestamp", "timestamp_ms"),
        ("sequence", "timestamp_ms"),
        (),
    ],
)
def test_columns_in_any_selection_and_order(columns: tuple[str, ...]) -> None:
    for name in NAMES:
        table = decoded(name, columns)
        assert table.equals(expected(name).select(list(columns)))
        assert table.num_rows == expected(name).num_rows


@pytest.mark.parametrize(
    "bounds", [{"max_rows": 1}, {"max_rows": 7}, {"max_bytes": 600}, {"max_bytes": 9000}]
)
def test_small_chunks_hold_the_same_records(bounds: dict[str, int]) -> None:
    for name in NAMES:
        assert decoded(name, **bounds).equals(expected(name))


@pytest.mark.parametrize("name", NAMES)
def test_every_way_to_decode_answers_the_same(name: str) -> None:
    topic, _, number = name.rpartition("-")
    options: dict[str, Any] = {"topic": topic, "partition": int(number), "columns": ALL_COLUMNS}
    whole = [decode_batches(data, scan_batches(data).require(), **options) for data in logs(name)]
    assert pa.Table.from_batches(whole).equals(expected(name))
    walked = [
        chunk
        for data in logs(name)
        for table in walk_batches(data, max_batches=3)
        for chunk in iter_record_batches(data, table, **options)
    ]
    assert pa.Table.from_batches(walked).equals(expected(name))


@pytest.mark.parametrize("name", NAMES)
def test_part_of_a_file_is_decoded_at_its_own_positions(name: str) -> None:
    data = logs(name)[-1]
    table = scan_batches(data).require()
    middle = table[len(table) // 2 :]
    start = int(middle.position[0])
    topic, _, number = name.rpartition("-")
    options: dict[str, Any] = {"topic": topic, "partition": int(number), "columns": ALL_COLUMNS}
    part = pa.Table.from_batches(read_record_batches(data[start:], origin=start, **options))
    assert part.equals(expected(name).slice(expected(name).num_rows - part.num_rows))
    assert part.num_rows
    assert pa.Table.from_batches(read_record_batches(data, start=start, **options)).equals(part)
    assert pa.Table.from_batches([decode_batches(data, middle, **options)]).equals(part)
