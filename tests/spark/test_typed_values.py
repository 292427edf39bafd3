"""Avro values in the Spark source and in exports."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow.parquet as pq
import pytest

import tidelog
import tidelog.spark
from tests.spark.test_tables import Kind
from tests.values.avro_cases import encode, frame
from tests.values.test_scan import FIRST, KEY, LAYOUTS, SECOND, root, row, schemas
from tidelog import Record, Values
from tidelog.errors import InvalidInputError
from tidelog.spark import ParquetSettings
from tidelog.spark.source.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["root"]


def check(rows: list[dict[str, Any]], count: int = 200) -> None:
    """Every record once, as what it is."""
    assert len(rows) == count
    for one in rows:
        number = 2 * one["offset"] + one["partition"]
        assert one["value"] == row(number)
        assert (one["value_invalid"] is not None) == (number % 10 == 8) == (one["value_error"] is not None)


def test_the_source_reads_typed_values(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", {"3.avsc": KEY, "orders-key.avsc": KEY, **LAYOUTS["ids"]})
    options = {"subscribe": "orders", "valueFormat": "avro", "keyFormat": "avro", "schemas": str(where)}
    frame_ = spark.read.format("tidelog").options(**options).load(str(root))
    assert frame_.columns[:6] == ["key", "key_invalid", "key_error", "value", "value_invalid", "value_error"]
    check([one.asDict(recursive=True) for one in frame_.collect()])
    few = frame_.where("value.currency = 'USD' and partition = 0").selectExpr(
        "value_error", "value.id", "key"
    )
    found = few.orderBy("id").collect()
    assert [(one.id, one.key) for one in found] == [(n, f"k{n}") for n in range(0, 200, 2) if n % 10 != 8]


def test_a_stream_reads_typed_values(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", LAYOUTS["subjects"])
    stream = spark.readStream.format("tidelog").options(
        subscribe="orders", valueFormat="avro", schemas=str(where), startingOffsets="earliest"
    )
    query = (
        stream.load(str(root))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination(120)
    check([one.asDict(recursive=True) for one in spark.read.parquet(str(tmp_path / "out")).collect()])


def test_options_are_checked(tmp_path: Path) -> None:
    for options, said in (
        ({"valueFormat": "avro"}, "option schemas: valueFormat needs a directory"),
        ({"valueFormat": "thrift"}, "option valueFormat: must be bytes, "),
        (
            {"keyFormat": "avro", "schemas": "s", "framing": "glue"},
            "option framing: framing is confluent or plain",
        ),
        ({"valueFormats": "avro"}, "did you mean valueFormat"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            SourceOptions.parse({"path": "p", **options})
    registry = {"registry.basic.auth.user.info": "me:secret", "schemas": "http://127.0.0.1:1"}
    found = SourceOptions.parse({"path": "p", "valueFormat": "AVRO", **registry}).values
    assert found == Values("avro", "http://127.0.0.1:1", registry={"basic.auth.user.info": "me:secret"})


def test_an_export_gets_the_fields_that_come(spark: SparkSession, tmp_path: Path) -> None:
    """The first run knows one version; the next one, another: its field appears, and the type is wider."""
    data, lake = tmp_path / "data", tmp_path / "lake"
    old = [frame(7, encode({"id": n, "note": (1, "n")}, FIRST)) for n in range(20)]
    new = [frame(8, encode({"id": 1 << 40, "note": (0, None), "currency": "USD"}, SECOND))] * 10
    where = schemas(tmp_path / "schemas", {"orders-value/7.avsc": FIRST})
    with tidelog.open(data) as store:
        orders = store.create_topic("orders")
        orders[0].append([Record(one) for one in (*old, b"bad")])
    report = tidelog.spark.export(spark, data, lake, value_format=Values("avro", where)).collect()
    assert [one.invalid_values for one in report] == [1]
    schemas(where, {"orders-value/8.avsc": SECOND})
    with tidelog.open(data) as store:
        store["orders"][0].append([Record(one) for one in new])
    tidelog.spark.export(spark, data, lake, value_format=Values("avro", where)).collect()
    assert {str(pq.read_schema(one).field("value").type) for one in lake.rglob("topic=*/**/*.parquet")} == {
        "struct<id: int64, note: string, currency: string>"
    }
    rows = [one.asDict(recursive=True) for one in spark.read.parquet(str(lake)).orderBy("offset").collect()]
    assert [one["value"] for one in rows] == [
        *({"id": n, "note": "n", "currency": None} for n in range(20)),
        None,
        *[{"id": 1 << 40, "note": None, "currency": "USD"}] * 10,
    ]
    assert (rows[20]["value_invalid"], rows[20]["value_error"]) == (
        b"bad",
        "no magic byte and schema id before the value",
    )


def test_a_table_gets_typed_values(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", LAYOUTS["subjects"])
    values = Values("avro", where)
    tidelog.spark.export(spark, root, tmp_path / "table", format="delta", value_format=values).collect()
    check(pl.read_delta(str(tmp_path / "table")).to_dicts())
    assert not tidelog.spark.export(
        spark, root, tmp_path / "table", format="delta", value_format=values
    ).collect()


EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "b", "type": "boolean"},
        {"name": "i", "type": "int"},
        {"name": "f", "type": ["null", "float"]},
        {"name": "raw", "type": "bytes"},
        {"name": "four", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "list", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "map", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
        {"name": "any", "type": ["null", "int", "string"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "noon", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "nanos", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
        {"name": "here", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {
            "name": "span",
            "type": {"type": "fixed", "name": "Span", "size": 12, "logicalType": "duration"},
        },
    ],
}


def everything(number: int) -> bytes:
    value = {
        "b": True,
        "i": number,
        "f": (1, 0.5) if number % 2 else (0, None),
        "raw": b"\xff",
        "four": b"four",
        "kind": "AB"[number % 2],
        "list": [(1, number), (0, None)],
        "map": {"k": ["v", "w"]},
        "any": (number % 3, (None, 7, "seven")[number % 3]),
        "price": Decimal("12.40"),
        "day": date(2026, 1, 2),
        "noon": time(12, 0, 1),
        "at": datetime(2026, 1, 2, 3, tzinfo=UTC),
        "nanos": 1_700_000_000_000_000_001,
        "here": 1_700_000_000_000_000,
        "id": "12345678-1234-1234-1234-123456789abc",
        "span": bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]),
    }
    return frame(7, encode(value, EVERYTHING))


@pytest.mark.parametrize("format", ["parquet", "delta", "iceberg"])
def test_every_type_goes_into_a_table_run_by_run(spark: SparkSession, format: str, tmp_path: Path) -> None:
    """Also when the table's columns are there already."""
    kind, log = Kind(format, tmp_path), tmp_path / "log"
    where = schemas(tmp_path / "schemas", {"orders-value/7.avsc": EVERYTHING})
    for run in range(2):
        with tidelog.open(log) as store:
            topic = store["orders"] if run else store.create_topic("orders")
            topic[0].append([Record(everything(n)) for n in range(10 * run, 10 * run + 10)])
        kind.export(spark, log, value_format=Values("avro", where)).collect()
    if format == "parquet":
        found = [one.asDict(recursive=True) for one in spark.read.parquet(kind.target).collect()]
    else:
        found = kind.read().to_pylist()
    assert {one["value_error"] for one in found} == {None}
    values = {one["offset"]: one["value"] for one in found}
    assert [values[n]["i"] for n in range(20)] == list(range(20))
    last = values[19]
    assert (last["f"], last["raw"], last["four"], last["kind"]) == (0.5, b"\xff", b"four", "B")
    assert (last["list"], dict(last["map"])) == ([19, None], {"k": ["v", "w"]})
    assert (last["any"], values[18]["any"]) == ({"member_int": 7, "member_string": None}, None)
    assert (last["price"], last["day"], last["noon"]) == (Decimal("12.40"), date(2026, 1, 2), 43_201_000)
    assert last["nanos"] == 1_700_000_000_000_000_001
    assert last["here"] == datetime(2023, 11, 14, 22, 13, 20)
    assert last["span"] == {"months": 1, "days": 2, "milliseconds": 3}


@pytest.mark.parametrize("format", ["parquet", "delta", "iceberg"])
def test_keys_are_exported_as_columns(spark: SparkSession, root: Path, format: str, tmp_path: Path) -> None:
    kind = Kind(format, tmp_path)
    where = schemas(tmp_path / "schemas", {"orders-key/3.avsc": KEY, **LAYOUTS["subjects"]})
    how = {"value_format": Values("avro", where), "key_format": Values("avro", where)}
    kind.export(spark, root, **how).collect()
    with tidelog.open(root) as store:
        store["orders"][0].append([Record(None, key=b"bad")])
    kind.export(spark, root, **how).collect()
    if format == "parquet":
        found = [one.asDict(recursive=True) for one in spark.read.parquet(kind.target).collect()]
    else:
        found = kind.read().to_pylist()
    check([one for one in found if one["key"] is not None])
    assert all(one["key"] == f"k{2 * one['offset'] + one['partition']}" for one in found if one["key"])
    (bad,) = [one for one in found if one["key"] is None]
    assert (bad["key_invalid"], bad["key_error"]) == (b"bad", "no magic byte and schema id before the value")
    with tidelog.open(root) as store:
        store["orders"][0].append([Record(None, key=b"more")])
    with pytest.raises(InvalidInputError, match=r"was exported with keys 'avro', not None|column key of"):
        kind.export(spark, root, value_format=Values("avro", where))
    with pytest.raises(InvalidInputError, match="a table by key has keys as they are"):
        kind.export(spark, root, by_key=True, **how)
    with pytest.raises(InvalidInputError, match="rows are sorted by keys that are bytes"):
        kind.export(spark, root, settings=ParquetSettings(sort_by=("key",)), **how)


def test_fields_of_keys_come_and_types_widen(spark: SparkSession, tmp_path: Path) -> None:
    """In an Iceberg table, where types can; in Parquet, where older files are written again."""
    log = tmp_path / "log"
    where = schemas(tmp_path / "schemas", {"orders-key/7.avsc": FIRST})
    keys = Values("avro", where)
    kinds = [Kind("parquet", tmp_path), Kind("iceberg", tmp_path)]
    with tidelog.open(log) as store:
        key = frame(7, encode({"id": 1, "note": (0, None)}, FIRST))
        store.create_topic("orders")[0].append([Record(b"v", key=key)])
    for kind in kinds:
        kind.export(spark, log, key_format=keys).collect()
    schemas(where, {"orders-key/8.avsc": SECOND})
    with tidelog.open(log) as store:
        key = frame(8, encode({"id": 1 << 40, "note": (1, "n"), "currency": "CHF"}, SECOND))
        store["orders"][0].append([Record(b"v", key=key)])
    for kind in kinds:
        kind.export(spark, log, key_format=keys).collect()
    wanted = [{"id": 1, "note": None, "currency": None}, {"id": 1 << 40, "note": "n", "currency": "CHF"}]
    lake = spark.read.parquet(kinds[0].target).orderBy("offset")
    assert [one.key.asDict() for one in lake.collect()] == wanted
    assert [
        one["key"] for one in sorted(kinds[1].read().to_pylist(), key=lambda one: one["offset"])
    ] == wanted


def test_what_an_export_refuses(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", LAYOUTS["subjects"])
    with pytest.raises(InvalidInputError, match="schemas of their own"):
        tidelog.spark.export(spark, root, tmp_path / "lake", value_format=Values("avro", where), evolve=True)
    with pytest.raises(InvalidInputError, match=r"or Values\(\.\.\.\), not 'avro'"):
        tidelog.spark.export(spark, root, tmp_path / "lake", value_format="avro")
