"""Writers that are killed, and what is safe from a power cut; `tests.durability` cuts whole lives."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tidelog
from tests.durability.stores import CONFIG, ROOTS
from tidelog.records import Record
from tidelog.testing.crash import CrashFileSystem


def test_only_a_synced_append_is_safe() -> None:
    fs = CrashFileSystem()
    store = tidelog.open(ROOTS, config=CONFIG, fs=fs, background=False)
    store.create_topic("t")
    partition = store.partition("t")
    partition.append([Record(b"synced")], sync=True)
    partition.append([Record(b"not synced")])
    ends = set()
    for seed in range(30):
        after = tidelog.open(
            ROOTS, config=CONFIG, fs=fs.crash(seed=seed), background=False, recover=True
        ).partition("t")
        record = after.read_record(0)
        assert record is not None
        assert record.value == b"synced"
        ends.add(after.log_end_offset)
    assert ends == {1, 2}


# ---- kill -9

WRITER = """
import json, sys
import tidelog
from tidelog.records import Record
from tidelog.testing.crash import CrashFileSystem
root, seed = sys.argv[1], int(sys.argv[2])
from tidelog.manager import BrokerConfig
store = tidelog.open([root + "/a", root + "/b"], recover=True, config=BrokerConfig.from_properties({
    "log.index.size.max.bytes": "2000", "log.index.interval.bytes": "200",
    "log.flush.offset.checkpoint.interval.ms": "20", "log.initial.task.delay.ms": "5"}))
if "t" not in store.topics:
    store.create_topic("t", 2, {"internal.segment.bytes": 4000, "retention.ms": -1})
number = 0
while True:
    partition = store.partition("t", number % 2)
    first = partition.log_end_offset
    values = [f"{seed} {first + i}".encode() for i in range(5)]
    partition.append([Record(value, timestamp=1) for value in values], sync=number % 3 == 0)
    line = {"partition": number % 2, "first": first, "count": 5, "sync": number % 3 == 0}
    sys.stdout.write(json.dumps(line) + "\\n")
    sys.stdout.flush()
    number += 1
    if number % 40 == 0:
        store.move_partition("t", 0, root + ("/a" if number % 80 else "/b"))
"""


def kill_writers(tmp_path: Path, kills: int) -> None:
    """Writers killed one after the other; each goes on where the last was killed."""
    dice = random.Random(9)
    written: dict[tuple[int, int], bytes] = {}
    for seed in range(kills):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline()]
            time.sleep(dice.random() * 0.1)
            os.kill(writer.pid, signal.SIGKILL)
            lines += writer.stdout.readlines()
        acknowledged = [json.loads(line) for line in lines if line.endswith(b"\n")]
        assert acknowledged
        for one in acknowledged:
            for offset in range(one["first"], one["first"] + one["count"]):
                written[one["partition"], offset] = f"{seed} {offset}".encode()
        # The system survives a kill, and with it every write that returned.
        with tidelog.open([tmp_path / "a", tmp_path / "b"], recover=True) as store:
            assert not store.offline_partitions
            for (number, offset), value in written.items():
                record = store.partition("t", number).read_record(offset)
                assert record is not None
                assert record.value == value
            ends = {number: store.partition("t", number).log_end_offset for number in range(2)}
            for number in range(2):
                store.partition("t", number).append([Record(f"{seed} {ends[number]}".encode())])
                written[number, ends[number]] = f"{seed} {ends[number]}".encode()


def test_killed_writers_lose_nothing(tmp_path: Path) -> None:
    kill_writers(tmp_path, 3)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_fifty_killed_writers_lose_nothing(tmp_path: Path) -> None:
    kill_writers(tmp_path, 50)
