"""Iceberg tables of the other catalogs: the same promises as with one in SQLite, and errors in a sentence."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

import tidelog.spark
from tests.conftest import REQUIRE_ORACLE
from tests.oracle import OracleUnavailableError
from tests.ports import free_port
from tests.spark.catalogs import CATALOGS, Properties
from tests.spark.in_process import LocalSpark
from tests.spark.test_tables import numbers
from tests.spark.writer import LogWriter
from tidelog.errors import InvalidInputError, LogLockedError, MissingLibraryError, TableCatalogError
from tidelog.tables.opening import open_history, open_table
from tidelog.tables.table import TableFormat

SPARK: Any = LocalSpark()


class Exported:
    """A topic of three partitions, and tables that it is exported to."""

    def __init__(self, directory: Path, options: Properties) -> None:
        self.directory = directory
        self.options = options
        self.writers = [LogWriter(directory / "log", "events", partition) for partition in range(3)]

    def append(self) -> None:
        for writer in self.writers:
            at = writer.next_offset
            writer.append(numbers(at, at + 5), keys=numbers(0, 5))

    def export(self, name: str, **more: Any) -> int:
        how = {"format": "iceberg", "table_options": self.options, "value_format": "string", **more}
        report = tidelog.spark.export(SPARK, self.directory / "log", f"test.db.{name}", **how)
        return sum(report.toArrow()["records"].to_pylist())

    def export_or_not(self, name: str) -> int:
        try:
            return self.export(name)
        except LogLockedError:
            return 0

    def rows(self, name: str) -> list[tuple[int, int]]:
        found = load_catalog("test", **self.options).load_table(f"db.{name}").scan().to_arrow()
        return sorted(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True))

    def written(self) -> list[tuple[int, int]]:
        ends = enumerate(writer.next_offset for writer in self.writers)
        return [(partition, offset) for partition, end in ends for offset in range(end)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["rest", "glue", pytest.param("hive", marks=pytest.mark.soak)])
def test_tables_of_catalogs(name: str, tmp_path: Path) -> None:
    try:
        with CATALOGS[name](tmp_path) as options:
            check(Exported(tmp_path, options))
    except OracleUnavailableError as why:
        if os.environ.get(REQUIRE_ORACLE) == "1":
            pytest.fail(f"{REQUIRE_ORACLE}=1, but {why}", pytrace=False)
        pytest.skip(str(why))


def check(tables: Exported) -> None:
    for _ in range(3):  # the first makes the table
        tables.append()
        with ThreadPoolExecutor(3) as pool:
            added = list(pool.map(tables.export_or_not, ["all"] * 3))
        assert sum(added) in (0, 15)
        tables.export("all")
        assert tables.rows("all") == tables.written()
    merged = tidelog.spark.merge_files(
        SPARK, "test.db.all", format="iceberg", table_options=tables.options
    ).toArrow()
    assert merged["files_before"].to_pylist() == [9]
    assert tables.export("all") == 0
    tables.export("keyed", by_key=True, buckets=2)
    tables.append()
    assert tables.export("keyed", by_key=True) == 15
    assert tables.rows("keyed") == [row for row in tables.written() if row[1] >= 15]
    source = ("iceberg", "test.db.all", tables.options)
    for expected in (45, 15):
        report = tidelog.spark.ingest(SPARK, source, tables.directory / "copy", options={"partitions": 3})
        assert sum(report.toArrow()["records"].to_pylist()) == expected
        tables.export("all")


@pytest.mark.parametrize(("kind", "library"), [("hive", "thrift"), ("glue", "boto3")])
def test_a_catalog_whose_library_is_missing(kind: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for known in [one for one in sys.modules if one in (library, f"pyiceberg.catalog.{kind}")]:
        monkeypatch.delitem(sys.modules, known)
    for name in (library, f"{library}.protocol", f"{library}.Thrift"):
        monkeypatch.setitem(sys.modules, name, None)
    options = {"type": kind, "uri": "thrift://127.0.0.1:1"}
    for opened in (open_table, open_history):
        with pytest.raises(MissingLibraryError, match=rf"catalog mine: .*pip install 'pyiceberg\[{kind}\]'"):
            opened(TableFormat.ICEBERG, "mine.db.table", options)


@pytest.mark.parametrize("kind", ["hive", "glue", "rest", "sql"])
def test_a_catalog_that_does_not_answer(kind: str, tmp_path: Path) -> None:
    port = free_port()
    uris = {"hive": f"thrift://127.0.0.1:{port}", "sql": f"sqlite:///{tmp_path}/none/catalog.db"}
    url = f"http://127.0.0.1:{port}"
    glue = {"region": "us-east-1", "access-key-id": "a", "secret-access-key": "b", "endpoint": url}
    options = {"type": kind, "uri": uris.get(kind, url)} | {f"glue.{k}": v for k, v in glue.items()}
    options |= {"glue.max-retries": "1"}
    for opened in (open_table, open_history):
        with pytest.raises(TableCatalogError, match="catalog mine does not answer, or refuses to: "):
            opened(TableFormat.ICEBERG, "mine.db.table", options)


def test_a_catalog_that_lacks_a_setting(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", "events", 0)
    writer.append(numbers(0, 5))
    for kind, lacks in (("hive", "uri"), ("rest", "URI"), ("glue", "region"), ("sql", "location")):
        options = {"type": kind, **({"uri": f"sqlite:///{tmp_path}/c.db"} if kind == "sql" else {})}
        with pytest.raises((InvalidInputError, TableCatalogError), match=rf"catalog mine.*{lacks}"):
            tidelog.spark.export(
                SPARK, tmp_path / "log", "mine.db.table", format="iceberg", table_options=options
            )
