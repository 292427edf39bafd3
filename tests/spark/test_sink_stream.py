"""Streams into a root: every row once, whatever is killed or run again on the way."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from tests.spark.conftest import Source, forget_a_torn_start
from tests.spark.test_sink import nothing_is_staged, save, values
from tidelog.storage import LOCAL
from tidelog.storage.write_journal import read_journal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_input(directory: Path, start: int, count: int) -> None:
    """A file with rows of numbers, there at once."""
    directory.mkdir(exist_ok=True)
    lines = "".join(json.dumps({"key": f"k{n}", "value": str(n)}) + "\n" for n in range(start, start + count))
    (directory / f".{start}.tmp").write_text(lines)
    (directory / f".{start}.tmp").rename(directory / f"{start:08}.json")


def run_stream(spark: SparkSession, tmp_path: Path, **options: Any) -> int:
    """Write what is there; how many batches that took."""
    stream = spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1)
    writer = stream.json(str(tmp_path / "input")).writeStream.format("tidelog").trigger(availableNow=True)
    for name, value in {"topic": "t", "partitions": 2, **options}.items():
        writer = writer.option(name, value)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(tmp_path / "root"))
    query.awaitTermination()
    return len([one for one in query.recentProgress if one.numInputRows])


def numbers_in(source: Source, root: Path) -> list[int]:
    found = values(source, root)
    for partition in {number for number, _, _ in found}:
        offsets = [offset for number, offset, _ in found if number == partition]
        assert offsets == list(range(len(offsets)))
    return sorted(int(value) for _, _, value in found)


def test_a_stream_writes_every_row_once(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    for start in (0, 100, 200):
        write_input(tmp_path / "input", start, 100)
    assert run_stream(spark, tmp_path) == 3
    write_input(tmp_path / "input", 300, 100)
    run_stream(spark, tmp_path)
    assert numbers_in(source, tmp_path / "root") == list(range(400))
    assert nothing_is_staged(tmp_path / "root")
    (committed,) = read_journal(LOCAL, tmp_path / "root").committed.values()
    assert committed == 3


def test_output_modes(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    """`complete` appends the whole result, as the connector does: what others wrote stays. Spark lets no
    Python sink have `update`.
    """
    save(spark.sql("SELECT 'theirs' AS value"), tmp_path / "root", topic="t")
    for start in (0, 100):
        write_input(tmp_path / "input", start, 10)
    stream = spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1)
    counted = stream.json(str(tmp_path / "input")).selectExpr("'all' AS key").groupBy("key").count()
    writer = counted.selectExpr("key", "string(count) AS value").writeStream.format("tidelog")
    writer = writer.option("topic", "t").trigger(availableNow=True)

    def run(mode: Any) -> None:
        checkpoint = str(tmp_path / f"checkpoint-{mode}")
        query = writer.outputMode(mode).option("checkpointLocation", checkpoint).start(str(tmp_path / "root"))
        query.awaitTermination()

    run("complete")
    assert [value for _, _, value in values(source, tmp_path / "root")] == ["theirs", "10", "20"]
    with pytest.raises(Exception, match=r"(?i)update"):
        run("update")
    assert len(values(source, tmp_path / "root")) == 3


def test_a_batch_that_spark_runs_again_adds_nothing(
    spark: SparkSession, source: Source, tmp_path: Path
) -> None:
    """Spark notes that a batch is done after its commit; if it dies in between, the batch comes again."""
    for start in (0, 100):
        write_input(tmp_path / "input", start, 100)
    run_stream(spark, tmp_path)
    commits = tmp_path / "checkpoint" / "commits"
    for name in ("1", ".1.crc"):
        (commits / name).unlink(missing_ok=True)
    run_stream(spark, tmp_path)
    assert numbers_in(source, tmp_path / "root") == list(range(200))
    assert nothing_is_staged(tmp_path / "root")


def test_two_queries_write_to_one_root_in_turn(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    write_input(tmp_path / "input", 0, 50)
    run_stream(spark, tmp_path)
    shutil.rmtree(tmp_path / "checkpoint")  # another query
    run_stream(spark, tmp_path)
    assert numbers_in(source, tmp_path / "root") == sorted([*range(50), *range(50)])
    assert len(read_journal(LOCAL, tmp_path / "root").committed) == 2


def test_small_writes_leave_no_more_segments_than_a_large_one(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(0, 300, 1, 1).selectExpr("cast(id as string) value")
    for _ in range(12):
        save(rows, tmp_path / "many", topic="t", segment__bytes=1 << 20)
    save(spark.range(0, 3600, 1, 1).selectExpr("cast(id as string) value"), tmp_path / "one", topic="t")
    counts = []
    for name in ("many", "one"):
        with tidelog.open(tmp_path / name) as store:
            counts.append(len(store.partition("t").log.segments))
    assert counts == [1, 1]


# ---- killed drivers

DRIVER = """
import sys
import tidelog.spark
from tests.spark.conftest import SETTINGS
base = sys.argv[1]
spark = tidelog.spark.session("local[2]", config=SETTINGS)
spark.sparkContext.setLogLevel("OFF")
stream = spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1)
writer = stream.json(base + "/input").writeStream.format("tidelog").trigger(availableNow=True)
writer = writer.option("topic", "t").option("partitions", 3).option("recover", True)
query = writer.option("checkpointLocation", base + "/checkpoint").start(base + "/root")
query.awaitTermination()
"""


def kill_streams(tmp_path: Path, kills: int) -> int:
    """Drivers killed, with all their workers, somewhere in one of their next batches; how many there are."""
    dice = random.Random(3)
    batches, command = 0, [sys.executable, "-c", DRIVER, str(tmp_path)]
    for _ in range(kills):
        while batches < published(tmp_path) + 8:  # more than a driver comes to do
            write_input(tmp_path / "input", 40 * batches, 40)
            batches += 1
        wanted = published(tmp_path) + dice.randrange(3)
        forget_a_torn_start(tmp_path / "checkpoint")
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as driver:
            try:
                deadline = time.monotonic() + 240
                while published(tmp_path) < wanted and time.monotonic() < deadline and driver.poll() is None:
                    time.sleep(0.02)
                time.sleep(dice.uniform(0, 1.5))
                assert driver.poll() is None, "it ended before it was killed"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()
                time.sleep(0.2)
    return batches


def published(tmp_path: Path) -> int:
    """How many batches were published."""
    return read_journal(LOCAL, tmp_path / "root").sequence


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "kills", [pytest.param(6, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.soak)]
)
def test_streams_killed_at_random_write_every_row_once(
    spark: SparkSession, source: Source, tmp_path: Path, kills: int
) -> None:
    batches = kill_streams(tmp_path, kills)
    forget_a_torn_start(tmp_path / "checkpoint")
    run_stream(spark, tmp_path, partitions=3, recover=True)
    assert numbers_in(source, tmp_path / "root") == list(range(40 * batches))
