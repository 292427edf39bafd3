"""Iceberg tables of a REST catalog: the same promises as with a catalog in SQLite."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

import tidelog.spark
from tests.conftest import REQUIRE_ORACLE
from tests.oracle import OracleUnavailableError
from tests.spark.in_process import LocalSpark
from tests.spark.rest_catalog import running_catalog
from tests.spark.test_tables import numbers
from tests.spark.writer import LogWriter
from tidelog.errors import LogLockedError

SPARK: Any = LocalSpark()


class Rest:
    """A topic of three partitions, and tables that it is exported to."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.options = {"type": "rest", "uri": url}
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
def test_tables_of_a_rest_catalog(tmp_path: Path) -> None:
    try:
        with running_catalog(tmp_path) as url:
            check(Rest(tmp_path, url))
    except OracleUnavailableError as why:
        if os.environ.get(REQUIRE_ORACLE) == "1":
            pytest.fail(f"{REQUIRE_ORACLE}=1, but {why}", pytrace=False)
        pytest.skip(str(why))


def check(rest: Rest) -> None:
    for _ in range(3):  # the first makes the table
        rest.append()
        with ThreadPoolExecutor(3) as pool:
            added = list(pool.map(rest.export_or_not, ["all"] * 3))
        assert sum(added) in (0, 15)
        rest.export("all")
        assert rest.rows("all") == rest.written()
    merged = tidelog.spark.merge_files(
        SPARK, "test.db.all", format="iceberg", table_options=rest.options
    ).toArrow()
    assert merged["files_before"].to_pylist() == [9]
    assert rest.export("all") == 0
    rest.export("keyed", by_key=True, buckets=2)
    rest.append()
    assert rest.export("keyed", by_key=True) == 15
    assert rest.rows("keyed") == [row for row in rest.written() if row[1] >= 15]
    source = ("iceberg", "test.db.all", rest.options)
    for expected in (45, 15):
        report = tidelog.spark.ingest(SPARK, source, rest.directory / "copy", options={"partitions": 3})
        assert sum(report.toArrow()["records"].to_pylist()) == expected
        rest.export("all")
