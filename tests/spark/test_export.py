"""`export`: every record once in Parquet, run after run, also after kills."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import tidelog.spark
from tests.golden import GOLDEN, golden_partition
from tests.scanning import expected
from tests.spark.conftest import golden_copy
from tests.spark.writer import LogWriter, main
from tidelog.errors import ChecksumError, DataLossError, InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
CLEAN = GOLDEN / "clean"


def exported(target: Path) -> list[dict[str, Any]]:
    table = ds.dataset(target, partitioning="hive").to_table()
    rows = table.to_pylist()
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def values(target: Path) -> list[int]:
    return sorted(int(row["value"]) for row in exported(target))


def test_golden_topics_arrive_whole(spark: SparkSession, tmp_path: Path) -> None:
    topics = ["golden-none", "golden-txn", "golden-trimmed", "golden-zstd"]
    report = tidelog.spark.export(spark, CLEAN, tmp_path, topics=topics, include_headers=True).toArrow()
    visible = expected.visible(golden_partition("golden-txn-0"), 1390)
    wanted = [
        row
        for topic in sorted(topics)
        for row in expected.rows(golden_partition(f"{topic}-0"), control=False)
        if topic != "golden-txn" or row["offset"] in visible
    ]
    found = exported(tmp_path)
    assert [{name: row[name] for name in wanted[0]} for row in found] == wanted
    assert all(row["date"] == str(row["timestamp"].date()) for row in found)
    assert sum(report["records"].to_pylist()) == len(wanted)
    assert spark.read.parquet(str(tmp_path)).count() == len(wanted), "Spark reads it too"
    required = [field.name for field in ds.dataset(tmp_path).schema if not field.nullable]
    assert required == ["offset", "timestampType"]
    again = tidelog.spark.export(spark, CLEAN, tmp_path, topics=topics, include_headers=True)
    assert again.count() == 0
    assert len(exported(tmp_path)) == len(wanted)


def test_runs_go_on_where_the_last_one_ended(spark: SparkSession, tmp_path: Path) -> None:
    log, target = tmp_path / "log", tmp_path / "out"
    writers = [LogWriter(log, "events", 0, batches_per_segment=3)]
    count = 0
    for run in range(3):
        for writer in writers:
            for _ in range(4):
                writer.append([str(count + n).encode() for n in range(10)])
                count += 10
        report = tidelog.spark.export(spark, log, target, value_format="string").toArrow()
        assert sum(report["records"].to_pylist()) == 40 * len(writers)
        assert values(target) == list(range(count))
        writers.append(LogWriter(log, "events", run + 1))
    commits = sorted((target / "_tidelog/commits").iterdir())
    assert len(commits) == 3


def test_json_values_become_columns(spark: SparkSession, tmp_path: Path) -> None:
    log, target = tmp_path / "log", tmp_path / "out"
    writer = LogWriter(log, "events", 0)
    writer.append([json.dumps({"id": n, "name": f"n{n}", "x": [n / 2]}).encode() for n in range(50)])
    tidelog.spark.export(spark, log, target, value_format="json")
    writer.append([b'{"id":50,"new":null}', b"broken", b'{"id":"text"}'])
    report = tidelog.spark.export(spark, log, target, value_format="json").toArrow()
    assert report["invalid_values"].to_pylist() == [2]
    found = exported(target)
    assert [row["value"] and row["value"]["id"] for row in found] == [*range(51), None, None]
    assert [row["value_invalid"] for row in found[-3:]] == [None, b"broken", b'{"id":"text"}']
    frame = spark.read.parquet(str(target))
    assert frame.where("value.id >= 40").selectExpr("sum(value.id) AS s").first()["s"] == sum(range(40, 51))
    given = tidelog.spark.export(
        spark, log, tmp_path / "given", value_format="json", schema="id INT, name STRING"
    )
    assert given.count() == 1
    assert ds.dataset(tmp_path / "given").schema.field("value").type == pa.struct(
        [("id", pa.int32()), ("name", pa.string())]
    )
    writer.append([b"{}"])
    with pytest.raises(InvalidInputError, match="has values of events under another schema"):
        tidelog.spark.export(spark, log, tmp_path / "given", value_format="json", schema="id INT")


def test_damage_fails_the_run_or_is_skipped_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    directory, target = golden_copy("golden-none-0", tmp_path), tmp_path / "out"
    log = directory / f"{480:020}.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 0xFF
    log.write_bytes(data)
    with pytest.raises(ChecksumError, match="position 0, offset 480") as failed:
        tidelog.spark.export(spark, directory, target, value_format="string")
    assert str(log) in str(failed.value)
    assert [path.name for path in target.iterdir()] == ["_tidelog"], "nothing was added"
    assert not (target / "_tidelog/staging").exists()
    # nor does the way of a run that added nothing bind the next
    report = tidelog.spark.export(spark, directory, target, fail_on_data_loss=False).toArrow()
    assert sum(report["bytes_skipped"].to_pylist()) > 0
    records = expected.records(golden_partition("golden-none-0"))
    assert [row["offset"] for row in exported(target)] == [
        record["offset"] for record in records if record["base_offset"] != 480
    ]


def test_retention_and_replaced_logs_between_runs(spark: SparkSession, tmp_path: Path) -> None:
    log, target = tmp_path / "log", tmp_path / "out"
    writer = LogWriter(log, "events", 0, batches_per_segment=1)
    for n in range(5):
        writer.append([str(n).encode()] * 3)
    tidelog.spark.export(spark, log, target, value_format="string")
    (writer.directory / f"{12:020}.log").unlink()
    with pytest.raises(DataLossError, match="events-0 was exported up to offset 15, but its log ends at 12"):
        tidelog.spark.export(spark, log, target, value_format="string")


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"value_format": "xml"}, "value_format is one of .*json.* or Values.*not 'xml'"),
        ({"schema": "a INT"}, "a schema means something for json values only"),
        ({"isolation": "none"}, "isolation is read_uncommitted or read_committed"),
        ({"topics": "nosuch"}, "no topic nosuch under"),
        ({"target": "nonsense://bucket/x"}, "Protocol not known: nonsense"),
        ({"path": "/nowhere"}, "option path: /nowhere does not exist"),
    ],
)
def test_bad_requests(spark: SparkSession, tmp_path: Path, keywords: dict[str, Any], message: str) -> None:
    request = {"path": CLEAN, "target": tmp_path / "out"} | keywords
    with pytest.raises(InvalidInputError, match=message):
        tidelog.spark.export(spark, **request)
    assert not list((tmp_path / "out").glob("topic=*"))


def test_an_export_is_made_one_way(spark: SparkSession, tmp_path: Path) -> None:
    LogWriter(tmp_path / "log", "events", 0).append([b"1"])
    tidelog.spark.export(spark, tmp_path / "log", tmp_path / "out", value_format="string")
    with pytest.raises(InvalidInputError, match="was exported with values 'string', not 'bytes'"):
        tidelog.spark.export(spark, tmp_path / "log", tmp_path / "out")


def test_a_task_that_is_tried_again_leaves_nothing_behind(spark: SparkSession, tmp_path: Path) -> None:
    """Two attempts at the same split write files of their own; one of them is published."""
    from tidelog.scanning.partitions import find_partitions
    from tidelog.scanning.ranges import OffsetRange
    from tidelog.scanning.splits import plan_splits
    from tidelog.spark.exporting.directory import ExportTarget, StagedFile
    from tidelog.spark.exporting.parquet import ParquetSettings
    from tidelog.spark.exporting.tasks import ExportWork
    from tidelog.spark.runtime.jobs import Bin
    from tidelog.tables.table import Done
    from tidelog.values.decoding import ValueDecoder

    (partition,) = find_partitions(CLEAN / "golden-none-0")
    (split,) = plan_splits([OffsetRange(partition, 0, 1560)])
    held = ExportTarget(tmp_path)
    columns = ("key", "value", "offset", "timestamp")
    work = ExportWork(
        str(tmp_path), held.staging, columns, {"golden-none": ValueDecoder()}, ParquetSettings(), True
    )
    held.place.write(f"{held.staging}/000000-99-0", b"half a file of an attempt that died")
    (report,) = work(0, Bin(0, (split,)))
    files = [StagedFile(f["staged"], f["path"]) for f in report["files"]]
    held.commit(Done({partition.topic_partition: 1560}), files)
    held.release()
    assert len(exported(tmp_path)) == 1560
    assert not (tmp_path / "_tidelog/staging").exists()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("runs", "batches"),
    [
        pytest.param(5, 1500, marks=pytest.mark.slow, id="five"),
        pytest.param(20, 6000, marks=pytest.mark.soak, id="twenty"),
    ],
)
def test_an_export_killed_again_and_again_while_the_log_grows(
    tmp_path: Path, runs: int, batches: int
) -> None:
    log, target = tmp_path / "log", tmp_path / "out"
    LogWriter(log, "events", 0)
    writer = threading.Thread(target=main, args=(log, batches, 0.03))
    writer.start()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    chance = random.Random(3)
    finished = 0
    for _ in range(runs):
        driver = _start(log, target, environment)
        try:
            driver.communicate(timeout=chance.uniform(0.5, 8.0))
            finished += driver.returncode == 0
        except subprocess.TimeoutExpired:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.communicate()
        shown = values(target) if list(target.glob("topic=*")) else []
        assert len(shown) == len(set(shown)), "a record came twice"
        time.sleep(0.2)
    writer.join()
    for _ in range(2):
        driver = _start(log, target, environment)
        driver.communicate(timeout=300)
        assert driver.returncode == 0
    assert values(target) == list(range(batches * 10))
    assert finished < runs, "no run was killed"


def _start(log: Path, target: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.export_driver", str(log), str(target)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert driver.stdout is not None
    assert driver.stdout.readline().strip() == "started"
    return driver


def test_a_source_that_is_not_there_leaves_no_trace(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="does not exist"):
        tidelog.spark.export(spark, tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()
