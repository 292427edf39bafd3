"""`export` to tables that others have made, restored or set up in their own way."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import tidelog
import tidelog.spark
from tests.spark.in_process import LocalSpark
from tests.spark.test_tables import Kind, make_topic, numbers, values
from tests.spark.writer import LogWriter
from tidelog.errors import DataLossError, InvalidInputError
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


def test_times_of_any_year_are_exported(kind: Kind) -> None:
    """Of clocks that count microseconds, say."""
    times = [0, 253_402_300_799_999, 253_402_300_800_000, 1_700_000_000_000_000]
    writer = LogWriter(kind.directory / "log", "events", 0)
    for number, time in enumerate(times):
        writer.append(numbers(number, number + 1), timestamp=time)
    assert export(kind) == len(times)
    writer.append(numbers(len(times), 10))
    assert export(kind) == 10 - len(times)
    assert values(kind) == list(range(10))
    found = kind.polars().filter(pl.col("timestamp") > datetime(9999, 12, 31, tzinfo=UTC))
    assert found.select("offset").collect()["offset"].sort().to_list() == [1, 2, 3]
    tidelog.spark.merge_files(SPARK, kind.target, format=kind.format, table_options=kind.options)
    assert values(kind) == list(range(10))


def test_files_without_the_columns_of_an_export_are_not_merged(tmp_path: Path) -> None:
    kind = Kind("iceberg", tmp_path)
    make_topic(kind.directory / "log", 1)
    assert export(kind) == 1
    with kind.iceberg().update_schema() as update:
        update.rename_column("offset", "number")
    with pytest.raises(InvalidInputError, match=r"has no column offset"):
        tidelog.spark.merge_files(SPARK, kind.target, format="iceberg", table_options=kind.options)


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


def test_a_delta_table_with_rules_that_files_would_not_keep_is_refused(tmp_path: Path) -> None:
    make_topic(tmp_path / "log", 10)
    rules = {"delta.columnMapping.mode": "name", "delta.setTransactionRetentionDuration": "interval 1 days"}
    for number, (name, value) in enumerate(rules.items()):
        other = Kind("delta", tmp_path / str(number))
        other.directory.mkdir()
        make_table(other, **{name: value})
        with pytest.raises(InvalidInputError, match=f"has {name}, which an export cannot keep"):
            other.export(SPARK, tmp_path / "log", value_format="string")
    kind = Kind("delta", tmp_path)
    make_table(kind)
    DeltaTable(kind.target).alter.add_constraint({"few": "offset < 5"})
    with pytest.raises(InvalidInputError, match=r"has delta\.constraints\.few"):
        export(kind)
    assert kind.read().num_rows == 0


def test_rows_that_a_restore_has_removed_are_told(tmp_path: Path) -> None:
    kind = Kind("delta", tmp_path)
    make_topic(tmp_path / "log", 10)
    export(kind)
    exported = DeltaTable(kind.target).version()
    append(kind, 10, 20)
    export(kind)
    kind.write_as_another(kind.read().slice(0, 1))
    DeltaTable(kind.target).restore(exported + 1)
    append(kind, 20, 30)
    assert export(kind) == 10, "the restored version has all that was exported"
    DeltaTable(kind.target).restore(exported)
    kind.write_as_another(kind.read().slice(0, 1))
    append(kind, 30, 40)
    with pytest.raises(DataLossError, match=r"was restored to an older version by its version 6: rows"):
        export(kind)
    assert export(kind, fail_on_data_loss=False) == 10
    append(kind, 40, 50)
    assert export(kind) == 10
    assert sorted(set(values(kind))) == [*range(10), *range(30, 50)]


@pytest.mark.parametrize("format", ["parquet", "delta", "iceberg"])
def test_a_log_that_was_cut_back_and_grew_again_is_not_spliced(format: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    make_topic(log, 100)
    kind = Kind(format, tmp_path)
    options = kind.options or None

    def run(**more: Any) -> int:
        more |= {"format": format, "value_format": "string", "table_options": options}
        report = tidelog.spark.export(SPARK, log, kind.target, **more).toArrow()
        return sum(report["records"].to_pylist())

    assert run() == 100
    with tidelog.open(log, background=False) as store:
        store.truncate_partition("events", 0, 0)
    with pytest.raises(DataLossError, match="it was cut back or replaced"):
        run()
    assert run(fail_on_data_loss=False) == 0
    append(kind, 0, 160)
    assert run() == 160, "all that is new, though the log is longer than it was"
