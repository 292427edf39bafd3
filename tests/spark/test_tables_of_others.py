"""`export` to tables that others have made, restored or set up in their own way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import tidelog
from tests.spark.in_process import LocalSpark
from tests.spark.test_tables import Kind, make_topic, numbers, values
from tidelog.errors import InvalidInputError
from tidelog.records import Record

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
COLUMNS: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "key": pa.binary(),
    "value": pa.string(),
    "value_invalid": pa.binary(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(HEADER),
}
SPARK: Any = LocalSpark()


@pytest.fixture(params=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    return Kind(request.param, tmp_path)


def make_table(kind: Kind, required: tuple[str, ...] = (), **configuration: str) -> None:
    """An unpartitioned table, as another would make it; `required` columns must not be null."""
    more = {name: pa.string() for name in required if name not in COLUMNS}
    schema = pa.schema(
        [pa.field(name, of, nullable=name not in required) for name, of in (COLUMNS | more).items()]
    )
    if kind.is_iceberg:
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("test", **kind.options)
        catalog.create_namespace_if_not_exists("db")
        catalog.create_table("db.events", schema)
    else:
        DeltaTable.create(kind.target, schema, configuration=configuration)


def append(kind: Kind, first: int, end: int) -> None:
    with tidelog.open(kind.directory / "log", background=False) as store:
        store.partition("events").append([Record(value) for value in numbers(first, end)])


def export(kind: Kind, **more: Any) -> int:
    """How many records were exported."""
    report = kind.export(SPARK, kind.directory / "log", value_format="string", **more).toArrow()
    return sum(report["records"].to_pylist())


def test_a_table_without_partitions_is_read_back(kind: Kind) -> None:
    make_topic(kind.directory / "log", 10)
    make_table(kind, required=("topic", "partition", "offset"))
    assert export(kind) == 10
    append(kind, 10, 20)
    assert export(kind) == 10
    assert values(kind) == list(range(20))
    assert kind.polars().collect().height == 20
    merged = tidelog.spark.merge_files(SPARK, kind.target, format=kind.format, table_options=kind.options)
    assert merged.toArrow()["files_before"].to_pylist() == [2]
    assert values(kind) == list(range(20))


@pytest.mark.parametrize(
    ("column", "why"), [("region", "records do not have it"), ("key", "records may lack it")]
)
def test_columns_that_must_not_be_null_are_kept_so(kind: Kind, column: str, why: str) -> None:
    make_topic(kind.directory / "log", 10)
    make_table(kind, required=(column,))
    with pytest.raises(InvalidInputError, match=f"column {column} of .* must not be null, and {why}"):
        export(kind)
    assert kind.read().num_rows == 0
