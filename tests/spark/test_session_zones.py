"""`timestamp_ntz` columns are read in the session's time zone, as Spark's own cast does it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.spark.conftest import Source
from tidelog.errors import InvalidInputError
from tidelog.spark.sink.time_zones import in_zone, parse_zone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = [
    datetime(2024, 1, 1, 12),
    datetime(2024, 7, 1, 12, 0, 0, 123456),
    datetime(2024, 3, 31, 2, 30),  # never was in Berlin
    datetime(2024, 10, 27, 2, 30),  # was twice
    datetime(1969, 12, 31, 23, 59),
]


def read(zone: str | None, unit: str = "us") -> list[datetime]:
    batch = pa.RecordBatch.from_pydict({"timestamp": pa.array(LOCAL, pa.timestamp(unit))})
    (found,) = in_zone(iter([batch]), zone)
    assert found.column("timestamp").type == pa.timestamp(unit, "UTC")
    return [one.astimezone(UTC) for one in found.column("timestamp").to_pylist()]


def test_a_zone_with_summer_time() -> None:
    berlin = [
        datetime(2024, 1, 1, 11, tzinfo=UTC),
        datetime(2024, 7, 1, 10, 0, 0, 123456, tzinfo=UTC),
        datetime(2024, 3, 31, 1, 30, tzinfo=UTC),
        datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
        datetime(1969, 12, 31, 22, 59, tzinfo=UTC),
    ]
    assert read("Europe/Berlin") == berlin
    assert read("Europe/Berlin", "ns") == berlin


@pytest.mark.parametrize(
    ("name", "hours"),
    [("UTC", 0), ("Z", 0), ("+02:00", 2), ("GMT-3", -3), ("UTC+05:30", 5.5), ("-0800", -8)],
)
def test_zones_that_are_an_offset(name: str, hours: float) -> None:
    assert read(name) == [one.replace(tzinfo=UTC) - timedelta(hours=hours) for one in LOCAL]


def test_other_columns_stay() -> None:
    batch = pa.RecordBatch.from_pydict({"timestamp": pa.array([1, None]), "value": [b"a", b"b"]})
    assert list(in_zone(iter([batch]), "Europe/Berlin")) == [batch]
    aware = pa.RecordBatch.from_pydict({"timestamp": pa.array([LOCAL[0], None], pa.timestamp("us", "UTC"))})
    assert list(in_zone(iter([aware]), "Europe/Berlin")) == [aware]


def test_a_zone_that_is_not_known() -> None:
    with pytest.raises(InvalidInputError, match="'Mars/Olympus' is not known"):
        parse_zone("Mars/Olympus")
    assert parse_zone(None) is not None


def test_a_write_follows_the_session(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.createDataFrame([(one,) for one in LOCAL], "local timestamp_ntz")
        records = frame.selectExpr("string(local) AS value", "local AS timestamp")
        records.write.format("tidelog").mode("append").option("topic", "t").save(str(tmp_path / "root"))
        wanted = frame.selectExpr("string(local) AS value", "unix_millis(cast(local AS timestamp)) AS ms")
        found = source(tmp_path / "root").selectExpr("string(value) AS value", "unix_millis(timestamp) AS ms")
        assert sorted(found.collect()) == sorted(wanted.collect())
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
