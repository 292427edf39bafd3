"""Salvage takes the same memory, however long the log is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidelog.records import encode_batches

pytestmark = pytest.mark.slow

PEAK = """
import sys, threading
from pathlib import Path
from tidelog.manager.upkeep.salvaging import salvage_partitions
from tidelog.scanning.partitions import list_partitions
from tidelog.storage import LOCAL

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) * 1024

def salvage(source, target):
    return list(salvage_partitions(LOCAL, list_partitions(source), target))

salvage(sys.argv[1], sys.argv[3] + "-small")
before = peak = anonymous()
done = threading.Event()

def watch():
    global peak
    while not done.wait(0.002):
        peak = max(peak, anonymous())

watcher = threading.Thread(target=watch)
watcher.start()
(saved,) = salvage(sys.argv[2], sys.argv[3] + "-large")
done.set()
watcher.join()
print(peak - before, len(saved.losses))
"""


def make_log(directory: Path, batches: int) -> None:
    """A log of batches of 1 MB, every eighth damaged."""
    directory.mkdir(parents=True)
    values = np.random.default_rng(1).bytes(1000)
    table = pa.table({"value": pa.array([values] * 1000, pa.binary())})
    one = bytearray(bytes(encode_batches(table, max_batch_bytes=1 << 30)))
    with (directory / f"{0:020d}.log").open("wb") as file:
        for number in range(batches):
            one[:8] = (1000 * number).to_bytes(8, "big")
            data = bytearray(one)
            data[5000] ^= number % 8 == 0
            file.write(data)


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    make_log(tmp_path / "small" / "topic-0", 9)
    make_log(tmp_path / "large" / "topic-0", 160)
    command = [sys.executable, "-c", PEAK, tmp_path / "small", tmp_path / "large", tmp_path / "saved"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    peak, losses = map(int, done.stdout.split())
    assert losses == 20
    assert peak < 48 << 20
