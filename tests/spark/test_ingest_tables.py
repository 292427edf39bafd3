"""`ingest` from Delta and Iceberg tables: what each version has added, once."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
import tidelog.spark
from tests.golden import GOLDEN
from tests.spark.test_tables import Kind, kind, rows
from tidelog.errors import DataLossError, InvalidInputError
from tidelog.spark import Columns, FileSource
from tidelog.tables.changes import AddedFile
from tidelog.tables.opening import open_history
from tidelog.tables.rows import read_rows
from tidelog.tables.table import TableFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["kind"]

CLEAN = GOLDEN / "clean"


def numbers(first: int, end: int, **more: Any) -> pa.Table:
    texts = [str(n) for n in range(first, end)]
    return pa.table({"key": [f"k{n}" for n in texts], "value": texts, **more})


def write(kind: Kind, table: pa.Table, mode: str = "append", partition_by: list[str] | None = None) -> None:
    """Write as another would, with the table's own library; the table is made if it is not there."""
    from deltalake import write_deltalake

    if not kind.is_iceberg:
        write_deltalake(kind.target, table, mode=mode, partition_by=partition_by, schema_mode="merge")
        return
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("test", **kind.options)
    catalog.create_namespace_if_not_exists("db")
    there = catalog.create_table_if_not_exists("db.events", table.schema)
    if there.current_snapshot() is None:
        with there.update_spec() as spec:
            for name in partition_by or []:
                spec.add_identity(name)
    with there.update_schema() as update:
        update.union_by_name(table.schema)
    (there.append if mode == "append" else there.overwrite)(table)


def delete(kind: Kind, what: str) -> None:
    from deltalake import DeltaTable

    if kind.is_iceberg:
        kind.iceberg().delete(what)
    else:
        DeltaTable(kind.target).delete(what)


def source(kind: Kind) -> FileSource:
    return FileSource(kind.format, kind.target, kind.options)


def ingest(spark: SparkSession, kind: Kind, **more: Any) -> int:
    """How many records a run has added."""
    given = {"topic": "events", **more}
    report = tidelog.spark.ingest(spark, source(kind), kind.directory / "root", **given).toArrow()
    return sum(report["records"].to_pylist())


def found(kind: Kind, column: str = "value") -> list[Any]:
    return tidelog.scan(kind.directory / "root", topics=["events"]).read_all()[column].to_pylist()


def values(kind: Kind) -> list[int]:
    return sorted(int(value) for value in found(kind))


def test_each_version_is_taken_once(spark: SparkSession, kind: Kind) -> None:
    write(kind, numbers(0, 5))
    write(kind, numbers(5, 10))
    assert ingest(spark, kind) == 10
    assert ingest(spark, kind) == 0
    for first in (10, 20):
        write(kind, numbers(first, first + 10))
    assert ingest(spark, kind, files_at_a_time=1) == 20
    assert values(kind) == list(range(30))
    write(kind, numbers(30, 40))
    write(kind, numbers(40, 50))
    assert ingest(spark, kind) == 20
    assert ingest(spark, kind) == 0
    assert values(kind) == list(range(50))


def test_an_exported_table_comes_back_as_it_was(spark: SparkSession, kind: Kind) -> None:
    topics = ["golden-none", "golden-zstd"]
    kind.export(spark, CLEAN, topics=topics)
    assert ingest(spark, kind, topic=None) == kind.read().num_rows
    read = (
        spark.read.format("tidelog")
        .option("includeHeaders", "true")
        .load(str(kind.directory / "root"))
        .toArrow()
    )
    wanted, names = rows(kind.read()), ("topic", "partition", "key", "value", "timestamp", "headers")
    if kind.is_iceberg:  # pyiceberg reads a null list of structs as an empty one
        wanted = [row | {"headers": row["headers"] or None} for row in wanted]
    assert [{name: row[name] for name in names} for row in rows(read)] == [
        {name: row[name] for name in names} for row in wanted
    ]
    kind.export(spark, CLEAN, topics=["golden-multi"])
    more = kind.read().num_rows - len(wanted)
    assert more > 0
    assert ingest(spark, kind, topic=None) == more


def test_versions_that_rewrite_rows(spark: SparkSession, kind: Kind) -> None:
    write(kind, numbers(0, 10))
    assert ingest(spark, kind) == 10
    write(kind, numbers(10, 20))
    delete(kind, "value = '13'")
    write(kind, numbers(20, 30))
    with pytest.raises(InvalidInputError, match=r"version .* has removed or rewritten rows, which topics"):
        ingest(spark, kind)
    assert values(kind) == list(range(20)), "what came before it was taken"
    with pytest.raises(InvalidInputError, match="has removed or rewritten rows"):
        ingest(spark, kind)
    assert ingest(spark, kind, on_change="skip") == 10
    assert values(kind) == list(range(30))
    delete(kind, "value = '25'")
    assert ingest(spark, kind, on_change="take") == 9, "the rest of the file that had 25"
    with pytest.raises(InvalidInputError, match="on_change is one of fail, skip, take, not 'ignore'"):
        ingest(spark, kind, on_change="ignore")


def test_merged_files_are_not_taken_again(spark: SparkSession, kind: Kind) -> None:
    if kind.is_iceberg:
        pytest.skip("pyiceberg does not merge files")
    from deltalake import DeltaTable

    for first in range(0, 30, 10):
        write(kind, numbers(first, first + 10))
    assert ingest(spark, kind) == 30
    DeltaTable(kind.target).optimize.compact()
    assert ingest(spark, kind) == 0
    write(kind, numbers(30, 40))
    assert ingest(spark, kind) == 10
    (position,) = (kind.directory / ".tidelog-ingest").glob("*/position.json")
    assert json.loads(position.read_text())["at"]["version"] == "3"


def test_a_batch_that_was_not_published_is_taken_by_the_next_run(
    spark: SparkSession, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidelog.spark.ingesting.from_tables import TableIngest

    for first in range(0, 40, 10):
        write(kind, numbers(first, first + 10))
    take, calls = TableIngest._take, []

    def die(self: TableIngest, number: int, files: Any) -> None:
        calls.append(number)
        if len(calls) == 3:
            raise RuntimeError("killed")
        take(self, number, files)

    monkeypatch.setattr(TableIngest, "_take", die)
    with pytest.raises(RuntimeError, match="killed"):
        ingest(spark, kind, files_at_a_time=1)
    assert len(values(kind)) == 20
    assert ingest(spark, kind, files_at_a_time=1) == 20
    assert values(kind) == list(range(40))


def test_expressions_partition_columns_and_new_columns(spark: SparkSession, kind: Kind) -> None:
    day = pa.array([date(2026, 11, 15)] * 3, pa.date32())
    write(kind, numbers(0, 3, region=["a b/c%d", "a b/c%d", "ü="], day=day), partition_by=["region", "day"])
    write(kind, numbers(3, 4, region=["x"], day=day[:1], more=[1.5]))
    at = "cast(day as timestamp)"
    columns = Columns(value="concat(value, ' ', coalesce(region, '-'), ' ', coalesce(more, 0))", timestamp=at)
    assert ingest(spark, kind, columns=columns) == 4
    assert sorted(found(kind)) == [b"0 a b/c%d 0.0", b"1 a b/c%d 0.0", b"2 \xc3\xbc= 0.0", b"3 x 1.5"]
    write(
        kind,
        numbers(4, 5, region=pa.array([None], pa.string()), day=pa.array([None], pa.date32()), more=[2.5]),
    )
    write(kind, numbers(5, 6, region=["a b/c%d"], day=day[:1], more=[2.5]))
    assert ingest(spark, kind, columns=columns) == 2
    assert sorted(found(kind))[-1] == b"5 a b/c%d 2.5"
    assert datetime(2026, 11, 15, tzinfo=UTC) in found(kind, "timestamp")


def test_a_table_that_was_replaced_or_cut_off_is_refused(spark: SparkSession, kind: Kind) -> None:
    for first in range(0, 30, 10):
        write(kind, numbers(first, first + 10))
        if first == 0:
            ingest(spark, kind)
    if kind.is_iceberg:
        old = [one.snapshot_id for one in kind.iceberg().snapshots()[:-1]]
        kind.iceberg().maintenance.expire_snapshots().by_ids(old).commit()
    else:
        from deltalake import DeltaTable

        DeltaTable(kind.target).create_checkpoint()
        for log in Path(kind.target, "_delta_log").glob("*.json"):
            log.unlink()  # as the cleanup does when they are old enough
    with pytest.raises(InvalidInputError, match="no longer tells what was added after version"):
        ingest(spark, kind)
    shutil.rmtree(kind.location)
    if kind.is_iceberg:
        from pyiceberg.catalog import load_catalog

        load_catalog("test", **kind.options).drop_table("db.events")
    with pytest.raises(InvalidInputError, match=r"is not a Delta table|there is no Iceberg table"):
        ingest(spark, kind)
    write(kind, numbers(0, 1))
    with pytest.raises(InvalidInputError, match="is another table than the one that was ingested"):
        ingest(spark, kind)
    assert ingest(spark, kind, name="other") == 1
    assert values(kind) == [0, *range(10)]


def test_a_table_that_was_put_back_to_an_older_state_is_refused(spark: SparkSession, kind: Kind) -> None:
    """From a backup, say: what it adds from then on has the numbers of versions that were ingested."""
    write(kind, numbers(0, 10))
    shutil.copytree(kind.directory, f"{kind.directory}-backup")
    write(kind, numbers(10, 20))
    assert ingest(spark, kind) == 20
    for entry in kind.directory.iterdir():
        if (Path(f"{kind.directory}-backup") / entry.name).exists():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    shutil.copytree(f"{kind.directory}-backup", kind.directory, dirs_exist_ok=True)
    with pytest.raises(InvalidInputError, match="ingest under another name to take the whole table again"):
        ingest(spark, kind)


def test_renamed_columns_of_iceberg_are_found_by_id(spark: SparkSession, tmp_path: Path) -> None:
    kind = Kind("iceberg", tmp_path)
    inner = pa.array(
        [{"a": 1, "b": [{"c": "x"}]}, None],
        pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.string())])))]),
    )
    write(kind, pa.table({"old": ["v0", "v1"], "s": inner}))
    with kind.iceberg().update_schema() as update:
        update.rename_column("old", "value")
        update.rename_column("s.a", "aa")
        update.rename_column("s.b.element.c", "cc")
        update.add_column(("s", "d"), _long())
    history = open_history(TableFormat.ICEBERG, kind.target, kind.options)
    whole = history.whole()
    assert whole is not None
    (batch,) = read_rows(whole.files[0], history.columns())
    assert batch.to_pylist() == [
        {"value": "v0", "s": {"aa": 1, "b": [{"cc": "x"}], "d": None}},
        {"value": "v1", "s": None},
    ]
    assert ingest(spark, kind) == 2


def _long() -> Any:
    from pyiceberg.types import LongType

    return LongType()


def test_a_file_that_is_gone_or_damaged_is_told(tmp_path: Path) -> None:
    columns = pa.schema([pa.field("value", pa.string())])
    with pytest.raises(DataLossError, match=r"x.parquet is gone: the table refers to it"):
        next(read_rows(AddedFile(str(tmp_path / "x.parquet"), 1), columns))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no file")
    with pytest.raises(InvalidInputError, match=r"bad.parquet cannot be read"):
        next(read_rows(AddedFile(str(tmp_path / "bad.parquet"), 12), columns))
    pq.write_table(pa.table({"value": [["a"]]}), tmp_path / "list.parquet")
    with pytest.raises(InvalidInputError, match=r"list.parquet cannot be read"):
        next(read_rows(AddedFile(str(tmp_path / "list.parquet"), 12), columns))


def test_times_that_spark_wrote_as_int96_are_those_of_any_century(tmp_path: Path) -> None:
    times = pa.array([-62_135_596_800_000_000, 0, 253_402_300_799_999_999, None], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"at": times}), tmp_path / "int96.parquet", use_deprecated_int96_timestamps=True)
    columns = pa.schema([pa.field("at", times.type)])
    (batch,) = read_rows(AddedFile(str(tmp_path / "int96.parquet"), 1), columns)
    assert batch.column(0).equals(times)
