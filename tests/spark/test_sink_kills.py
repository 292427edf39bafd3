"""Writes that are killed, for real: the commit at each of its steps, tasks at random. Then Kafka reads it."""

from __future__ import annotations

import base64
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidelog
from tests.manager.publishing import contents
from tests.manager.test_boot import consumed
from tests.spark.conftest import require_spark
from tidelog.storage import LOCAL
from tidelog.storage.write_journal import read_journal
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tests.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

COMMITTER = """
import os, signal, sys
from tests.manager.publishing import CONFIG, open_root, publish_values
from tests.manager.publishing import tasks
from tidelog.config import LogConfig
from tidelog.storage import LOCAL
from tidelog.testing.faults import CHANGES, FaultyFileSystem

base, last, links = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "links"
count = 0

def rule(call):
    global count
    if call.operation in CHANGES:
        count += 1
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)

fs = FaultyFileSystem(LOCAL, rule)
config = LogConfig.from_properties({"internal.segment.bytes": 500}) if links else None
with open_root(base + "/root", fs) as store:
    new = tasks(str(last))
    publish_values(store, fs, base + f"/staging/{last}", new, query="q", batch=0, log_config=config)
print(count)
"""


def commit_until(base: Path, last: int, how: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", COMMITTER, str(base), str(last), how]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("how", ["appends", "links"])
def test_a_commit_killed_at_each_step_is_whole_or_nothing(oracle: Oracle, tmp_path: Path, how: str) -> None:
    from tests.manager.publishing import added, joined, prepare, tasks

    (tmp_path / "whole").mkdir()
    before = prepare(LOCAL, str(tmp_path / "whole" / "root"))
    whole = commit_until(tmp_path / "whole", 0, how)
    steps = int(whole.stdout)
    outcomes = []
    stride = max(steps // 40, 1)
    for last in range(1, steps + 1, stride):
        base = tmp_path / str(last)
        base.mkdir()
        prepare(LOCAL, str(base / "root"))
        killed = commit_until(base, last, how)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        with tidelog.open(base / "root", recover=True) as store:
            found = contents(store)
            is_there = read_journal(LOCAL, base / "root").has("q", 0)
            new = added(tasks(str(last)))
            wanted = joined(before, new) if is_there else before
            assert found == wanted
        outcomes.append(is_there)
        if last % (8 * stride) == 1:
            check_with_kafkas_log(oracle, base / "root", found, base / "kafka")
    assert not outcomes[0]
    assert outcomes[-1]
    assert outcomes == sorted(outcomes)


def check_with_kafkas_log(
    oracle: Oracle, root: Path, found: dict[TopicPartition, list[bytes]], into: Path
) -> None:
    """Kafka's own log class recovers every partition without a change, and finds what we find."""
    for name, values in found.items():
        directory = root / str(name)
        recovered = oracle.recover(directory, into)
        logs = sorted(path for path in directory.glob("*.log") if path.stat().st_size)
        for log in logs:
            assert (recovered / log.name).read_bytes() == log.read_bytes()
        read = oracle.decode(*logs) if logs else []
        assert [row["offset"] for row in read] == list(range(len(values)))
        assert [base64.b64decode(row["value"]) for row in read] == values


TASKS = """
import json, os, random, sys
import tidelog.spark
from tests.spark.conftest import SETTINGS

base, rounds = sys.argv[1], int(sys.argv[2])
settings = SETTINGS | {"spark.speculation": "true", "spark.speculation.multiplier": "1.1",
                       "spark.speculation.quantile": "0.1"}
spark = tidelog.spark.session("local[2,8]", config=settings)
spark.sparkContext.setLogLevel("OFF")

def make(round_number):
    def unlucky(batches):
        from pyspark import TaskContext
        context = TaskContext.get()
        dice = random.Random(f"{round_number} {context.partitionId()} {context.attemptNumber()}")
        dies = context.attemptNumber() < 3 and dice.random() < 0.4
        after = dice.randrange(3)
        for number, batch in enumerate(batches):
            if dies and number >= after:
                os._exit(9)
            yield batch
        if dies:
            os._exit(9)
    return unlucky

spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
for number in range(rounds):
    df = spark.range(number * 1000, number * 1000 + 1000, 1, 5).selectExpr(
        "cast(id as string) value", "if(id % 3 = 0, null, cast(id as string)) key")
    df = df.mapInArrow(make(number), "value string, key string")
    writer = df.write.format("tidelog").mode("append").option("topic", "t").option("partitions", 3)
    writer.save(base + "/root")
print("done")
"""


@pytest.mark.parametrize("rounds", [6, pytest.param(20, marks=pytest.mark.soak)])
def test_tasks_killed_at_random_write_every_row_once(oracle: Oracle, tmp_path: Path, rounds: int) -> None:
    require_spark()
    command = [sys.executable, "-c", TASKS, str(tmp_path), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert done.stdout.strip().endswith("done"), done.stderr[-3000:]
    root = tmp_path / "root"
    with tidelog.open(root) as store:
        found = contents(store)
    everything = [int(value) for values in found.values() for value in values]
    assert sorted(everything) == list(range(rounds * 1000))
    for values in found.values():
        assert [int(value) for value in values] == sorted(int(value) for value in values)
    assert not list((tmp_path / ".tidelog-staging-root").iterdir())
    check_with_kafkas_log(oracle, root, found, tmp_path / "kafka")
    with oracle.broker(root) as broker:
        for name, values in found.items():
            read = consumed(broker.address, name.topic, name.partition, len(values))
            assert [value for _, _, value, _ in read] == values
    with tidelog.open(root) as store:
        assert {name: values for name, values in contents(store).items() if name.topic == "t"} == found
