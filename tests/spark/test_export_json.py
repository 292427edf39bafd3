"""JSON values in exports: what the schema does not hold stays whole, or widens it; files are one table."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

import tidelog
import tidelog.spark
from tidelog.errors import InvalidInputError
from tidelog.records import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGIN_MS = 1_700_000_000_000


class Lake:
    """A topic, and its export."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self.root = directory / "root"
        self.target = directory / "lake"

    def append(self, *values: bytes) -> None:
        with tidelog.open(self.root, create=True) as store:
            if "t" not in store.topics:
                store.create_topic("t")
            records = [Record(value, timestamp=BEGIN_MS) for value in values]
            store.partition("t", 0).append(records)

    def export(self, **options: Any) -> int:
        """How many values were invalid."""
        rows = tidelog.spark.export(
            self._spark, self.root, self.target, topics="t", value_format="json", **options
        )
        return sum(row.invalid_values for row in rows.collect())

    def read(self) -> list[tuple[Any, Any]]:
        """All values and what was invalid, in order, by Spark."""
        table = self._spark.read.option("mergeSchema", "true").parquet(str(self.target))
        found = table.orderBy("offset").select("value", "value_invalid").toArrow().to_pylist()
        return [(row["value"], row["value_invalid"]) for row in found]

    def schema(self) -> Any:
        kept = json.loads((self.target / "_tidelog/export.json").read_bytes())
        from tidelog.spark.exporting.schema_evolution import from_text

        return from_text(kept["schemas"]["t"])


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path)


def test_a_field_first_seen_later_is_kept_whole_or_widens_the_schema(lake: Lake) -> None:
    lake.append(b'{"a":1}', b'{"a":2}')
    assert lake.export() == 0
    lake.append(b'{"a":3,"price":9.5}')
    assert lake.export() == 1
    assert lake.read()[2:] == [(None, b'{"a":3,"price":9.5}')]
    lake.append(b'{"a":4,"price":9.5}', b'{"a":5,"x":{"y":[1]}}', b'{"a":6,"price":"dear"}')
    assert lake.export(evolve=True) == 1
    found = lake.read()
    assert found[:2] == [
        ({"a": 1, "price": None, "x": None}, None),
        ({"a": 2, "price": None, "x": None}, None),
    ]
    assert found[3:] == [
        ({"a": 4, "price": 9.5, "x": None}, None),
        ({"a": 5, "price": None, "x": {"y": [1]}}, None),
        (None, b'{"a":6,"price":"dear"}'),
    ]
    assert lake.export(evolve=True) == 0
    assert len(lake.read()) == 6


def test_a_wider_type_reaches_the_files_that_are_there(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidelog.spark.exporting.directory import ExportTarget

    lake.append(b'{"a":1,"n":null}', b'{"a":2}')
    assert lake.export(evolve=True) == 0
    lake.append(b'{"a":2.5,"n":7}')
    commit = ExportTarget.commit

    def die(self: ExportTarget, *_: Any) -> None:
        raise OSError("killed")

    monkeypatch.setattr(ExportTarget, "commit", die)
    with pytest.raises(OSError, match="killed"):
        lake.export(evolve=True)
    monkeypatch.setattr(ExportTarget, "commit", commit)
    assert lake.export() == 0  # the schema is wide by now; the older file is still to be written again
    wanted = [{"a": 1.0, "n": None}, {"a": 2.0, "n": None}, {"a": 2.5, "n": 7}]
    assert [value for value, _ in lake.read()] == wanted
    files = ds.dataset(str(lake.target), format="parquet", partitioning="hive")
    assert [row["value"]["a"] for row in files.to_table().sort_by("offset").to_pylist()] == [1.0, 2.0, 2.5]
    assert json.loads((lake.target / "_tidelog/export.json").read_bytes())["rewrite"] == []


def test_a_schema_that_was_given(lake: Lake) -> None:
    ddl = "i INT, d DATE, t TIMESTAMP, n DECIMAL(6,2), m MAP<STRING,INT>, s ARRAY<STRUCT<x: DOUBLE>>"
    value = (
        b'{"i":1,"d":"2024-02-29","t":"2024-01-01T00:00:00Z","n":12.5,"m":{"k":1},"s":[{"x":1},{"x":null}]}'
    )
    lake.append(value, b'{"i":3000000000}')
    assert lake.export(schema=ddl) == 1
    (first, _), (_, invalid) = lake.read()
    assert invalid == b'{"i":3000000000}'
    assert first == {
        "i": 1,
        "d": date(2024, 2, 29),
        "t": datetime(2024, 1, 1, tzinfo=UTC),
        "n": Decimal("12.50"),
        "m": [("k", 1)],
        "s": [{"x": 1.0}, {"x": None}],
    }
    lake.append(b"{}")
    with pytest.raises(InvalidInputError, match="another schema: evolve it"):
        lake.export(schema="i BIGINT")
    lake.append(b'{"i":3000000001,"m":{"k":null}}')
    assert lake.export(schema=ddl, evolve=True) == 0
    assert [value and value["i"] for value, _ in lake.read()] == [1, None, None, 3000000001]
    assert lake.export(schema=ddl) == 0


@pytest.mark.parametrize("ddl", ["v VARIANT", "m MAP<INT,STRING>", "i INTERVAL DAY", "i INTT", "i INT,,"])
def test_a_schema_that_json_cannot_be_is_refused(lake: Lake, ddl: str) -> None:
    lake.append(b"{}")
    with pytest.raises(InvalidInputError, match="schema"):
        lake.export(schema=ddl)


def test_evolving_is_for_json(lake: Lake, spark: SparkSession) -> None:
    lake.append(b"{}")
    with pytest.raises(InvalidInputError, match="json values only"):
        tidelog.spark.export(spark, lake.root, lake.target, evolve=True)
