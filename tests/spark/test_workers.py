"""Workers of PySpark's own daemon, started as Spark starts them; the tasks are ours."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S, wait_until

pytest.importorskip("pyspark")

WORKER = """
import struct

def main(infile, outfile):
    {first}
    try:
        task = infile.read(4)
        if len(task) < 4:
            raise EOFError("no task")
        outfile.write(task)
    except EOFError:
        outfile.write(b"what went wrong")
        raise SystemExit(-1)
"""
"""It reports errors to Spark, as PySpark's workers do."""


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a short name: that of a socket has at most 107 bytes."""
    return tmp_path_factory.mktemp("w")


@contextmanager
def started(place: Path, first: str) -> Iterator[subprocess.Popen[bytes]]:
    """PySpark's daemon, whose workers do `first` at each task."""
    (place / "pyspark_worker_of_tests.py").write_text(WORKER.format(first=first))
    process = subprocess.Popen(
        [sys.executable, "-m", "pyspark.daemon", "pyspark_worker_of_tests"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ
        | {
            "PYTHONPATH": str(place),
            "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_DIR": str(place),
            "SPARK_REUSE_WORKER": "1",
        },
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def told(place: Path, first: str, tasks: int) -> bytes:
    """What a daemon prints whose worker has run tasks and is then left by Spark."""
    with started(place, first) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        (size,) = struct.unpack(">i", process.stdout.read(4))
        with socket.socket(socket.AF_UNIX) as spark:
            spark.settimeout(PATIENCE_S)
            spark.connect(process.stdout.read(size).decode())
            worker = struct.unpack(">i", spark.recv(4))[0]
            for number in range(tasks):
                task = struct.pack(">i", number)
                spark.sendall(task)
                assert spark.recv(4) == task, "the same worker runs one task after the other"
        wait_until(lambda: not Path(f"/proc/{worker}").exists(), "the end of the worker")
        process.stdin.close()
        printed = process.stderr.read() if process.stderr is not None else b""
        process.wait(PATIENCE_S)
        return printed


def test_a_worker_that_ran_something_of_tidelog_ends_without_a_word(place: Path) -> None:
    assert told(place, "import tidelog.spark", tasks=2) == b""


def test_any_other_worker_prints_a_traceback(place: Path) -> None:
    """If this fails, PySpark has mended it, and `spark.runtime.workers` can go."""
    assert b"BrokenPipeError" in told(place, "pass", tasks=2)


def test_elsewhere_nothing_is_changed() -> None:
    from tidelog.spark.runtime.workers import end_quietly_when_idle

    before = dict(vars(sys.modules["__main__"]))
    end_quietly_when_idle()
    assert vars(sys.modules["__main__"]) == before
