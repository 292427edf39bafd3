"""Streaming queries: every record once, through stops, restarts and kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.golden import GOLDEN
from tests.spark.conftest import Source, forget_a_torn_start
from tests.spark.writer import LogWriter, main
from tidelog.types import Codec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


def stream(spark: SparkSession, path: Path, **options: Any) -> Any:
    reader = spark.readStream.format("tidelog")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(str(path))


def to_parquet(frame: Any, out: Path, **trigger: Any) -> Any:
    return (
        frame.selectExpr("CAST(value AS STRING) AS value", "partition", "offset")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(**trigger)
        .start(str(out / "data"))
    )


def written(spark: SparkSession, out: Path) -> list[int]:
    if not (out / "data" / "_spark_metadata").exists():
        return []
    frame = spark.read.schema("value string").parquet(str(out / "data"))
    return sorted(int(row.value) for row in frame.collect())


def test_available_now_takes_all_and_then_only_what_is_new(spark: SparkSession, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log", "events", 0, batches_per_segment=2)
    out = tmp_path / "out"
    written_up_to = 0
    for codec in (Codec.NONE, Codec.ZSTD):
        for _ in range(3):
            writer.append([str(written_up_to + n).encode() for n in range(20)], codec=codec)
            written_up_to += 20
        frame = stream(spark, tmp_path / "log", startingOffsets="earliest", maxOffsetsPerTrigger=25)
        query = to_parquet(frame, out, availableNow=True)
        assert query.awaitTermination(60)
        assert written(spark, out) == list(range(written_up_to))
        assert len([p for p in query.recentProgress if p["numInputRows"]]) == 3


def test_a_query_stopped_and_restarted_while_another_thread_writes(
    spark: SparkSession, tmp_path: Path
) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    LogWriter(log, "events", 0)
    writer = threading.Thread(target=main, args=(log, 100, 0.06))
    writer.start()
    for pause_s in (1.5, 2.0, 0.0):
        frame = stream(spark, log, startingOffsets="earliest", subscribePattern="events")
        query = to_parquet(frame, out, processingTime="50 milliseconds")
        if pause_s:
            time.sleep(pause_s)
        else:
            writer.join()
            deadline = time.monotonic() + 60
            while len(written(spark, out)) < 1000 and time.monotonic() < deadline:
                time.sleep(0.3)
        assert query.exception() is None
        query.stop()
    assert written(spark, out) == list(range(1000))


def test_the_streams_schema_and_errors(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    frame = stream(spark, GOLDEN / "clean", subscribe="golden-none", includeHeaders=True)
    assert frame.isStreaming
    assert frame.schema == source(GOLDEN / "clean", includeHeaders=True).schema
    bad = stream(spark, GOLDEN / "clean", subscribe="golden-none", endingOffsets="latest")
    query = bad.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(Exception, match="option endingOffsets: not valid in a streaming query"):
        query.awaitTermination(60)


def test_a_query_that_was_killed_while_it_began_goes_on_as_troubleshooting_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    LogWriter(log, "events", 0).append([str(n).encode() for n in range(20)])
    torn = out / "checkpoint/offsets/.0.e94db53d-ecdb-4b7f-b98a-fe4056813b33.tmp"
    torn.parent.mkdir(parents=True)
    torn.touch()
    query = to_parquet(stream(spark, log, startingOffsets="earliest"), out, availableNow=True)
    with pytest.raises(Exception, match="STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY"):
        query.awaitTermination(60)
    forget_a_torn_start(out / "checkpoint")
    query = to_parquet(stream(spark, log, startingOffsets="earliest"), out, availableNow=True)
    assert query.awaitTermination(60)
    assert written(spark, out) == list(range(20))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "kills", [pytest.param(6, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.soak)]
)
def test_a_query_killed_again_and_again_while_another_process_writes(
    spark: SparkSession, tmp_path: Path, kills: int
) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    log.mkdir()
    batches = 200 * kills
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "tests.spark.writer", str(log), str(batches), "0.05"]
    writer = subprocess.Popen(command, cwd=ROOT, env=environment)
    chance = random.Random(7)
    try:
        for _ in range(kills):
            driver = _start_driver(log, out, environment)
            time.sleep(chance.uniform(0.3, 3.0))
            _kill(driver)
        assert writer.wait(900) == 0
        driver = _start_driver(log, out, environment)
        deadline = time.monotonic() + 900
        while len(written(spark, out)) < batches * 10 and time.monotonic() < deadline:
            assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-4000:]
            time.sleep(2)
        _kill(driver)
    finally:
        writer.kill()
        writer.wait()
    assert written(spark, out) == list(range(batches * 10))


def _start_driver(log: Path, out: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    forget_a_torn_start(out / "checkpoint")
    with (out.parent / "driver.log").open("wb") as said:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.stream_driver", str(log), str(out)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
        )
    assert driver.stdout is not None
    try:
        assert driver.stdout.readline().strip() == "started"
    except BaseException:
        _kill(driver)
        raise
    return driver


def _kill(driver: subprocess.Popen[str]) -> None:
    """Ends the driver, its JVM and its Python workers: they are one process group."""
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    if driver.stdout is not None:
        driver.stdout.close()
