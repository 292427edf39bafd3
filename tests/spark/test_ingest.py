"""`ingest`: files and frames into topics, once, however often it is run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
import tidelog.spark
from tests.cli.command import COMMAND
from tests.spark.conftest import Source, rows
from tidelog.errors import InvalidInputError
from tidelog.spark import Columns, FileSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_parquet(path: Path, start: int, count: int) -> None:
    path.parent.mkdir(exist_ok=True)
    table = pa.table(
        {"id": range(start, start + count), "name": [f"n{i}" for i in range(start, start + count)]}
    )
    pq.write_table(table, path)


def test_files_are_taken_once_and_new_ones_later(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    write_parquet(tmp_path / "in" / "a.parquet", 0, 100)
    write_parquet(tmp_path / "in" / "b.parquet", 100, 100)
    files = FileSource("parquet", str(tmp_path / "in"))
    columns = Columns(key="cast(id as string)")
    counts = []
    for _ in range(2):
        report = tidelog.spark.ingest(
            spark, files, tmp_path / "root", topic="t", columns=columns, options={"partitions": 3}
        )
        counts.append(sum(row["records"] for row in report.toArrow().to_pylist()))
    write_parquet(tmp_path / "in" / "c.parquet", 200, 50)
    report = tidelog.spark.ingest(spark, files, tmp_path / "root", topic="t", columns=columns)
    counts.append(sum(row["records"] for row in report.toArrow().to_pylist()))
    assert counts == [200, 0, 50]
    found = rows(source(tmp_path / "root"))
    values = sorted((json.loads(row["value"]) for row in found), key=lambda value: value["id"])
    assert values == [{"id": i, "name": f"n{i}"} for i in range(250)]
    assert all(row["key"].decode() == str(json.loads(row["value"])["id"]) for row in found)


def test_a_frame_under_a_name_is_taken_once(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    frame = spark.range(30).selectExpr("id value", "'t' topic", "id % 2 partition")
    for name in ("x", "x", None):
        tidelog.spark.ingest(spark, frame, tmp_path / "root", name=name, options={"partitions": 2})
    found = rows(source(tmp_path / "root"))
    assert len(found) == 60
    assert all(int(row["value"]) % 2 == row["partition"] for row in found)


def test_errors_are_ours(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3).selectExpr("id value")
    with pytest.raises(InvalidInputError, match="name a topic"):
        tidelog.spark.ingest(spark, frame, tmp_path / "root")
    with pytest.raises(InvalidInputError, match="'t' has 1 partitions; a record names partition 5"):
        tidelog.spark.ingest(spark, frame, tmp_path / "root", topic="t", columns=Columns(partition="5"))
    with pytest.raises(InvalidInputError, match="no name for an ingest"):
        tidelog.spark.ingest(
            spark, FileSource("parquet", str(tmp_path)), tmp_path / "root", topic="t", name="../x"
        )
    with pytest.raises(InvalidInputError, match=r"DATA_SOURCE_NOT_FOUND.*nonsense"):
        tidelog.spark.ingest(spark, FileSource("nonsense", str(tmp_path)), tmp_path / "root", topic="t")
    with pytest.raises(InvalidInputError, match="UNABLE_TO_INFER_SCHEMA"):
        tidelog.spark.ingest(spark, FileSource("parquet", str(tmp_path)), tmp_path / "root", topic="t")
    assert not (tmp_path / "root").exists()


def run_slowly(*args: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command, which starts a Spark of its own."""
    return subprocess.run(
        [COMMAND, *map(str, args)], capture_output=True, timeout=280, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    write_parquet(tmp_path / "in" / "a.parquet", 0, 100)
    command = ["ingest", tmp_path / "in", tmp_path / "root", "--format", "parquet", "--topic", "t"]
    command += ["--key", "cast(id as string)", "--partitions", "2", "--spark", "local[1]", "--json"]
    tried = run_slowly(*command, "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert not (tmp_path / "root").exists()
    written = [run_slowly(*command) for _ in range(2)]
    assert [answer.returncode for answer in written] == [0, 0]
    lines = [json.loads(line) for line in written[0].stdout.splitlines()]
    assert sum(line["records"] for line in lines if "records" in line) == 100
    with tidelog.open(tmp_path / "root") as store:
        assert sum(partition.log_end_offset for partition in store) == 100
