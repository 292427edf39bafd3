"""The oldest PySpark that is supported: reading, writing and streaming are tested on it as on the newest.

The tests themselves run in a process of their own, with the older package in front of the installed one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.oracle.jars import Kafka

VERSION = "4.2.1"
FILES = ("test_batch.py", "test_streaming.py", "test_sink.py")
LIMIT_S = 900.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(LIMIT_S + 60)]


def older_pyspark() -> Path:
    """A directory with the older package, kept beside Kafka's jars; it appears by rename when complete."""
    directory = Kafka.obtain().cache / f"pyspark-{VERSION}"
    if not directory.is_dir():
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix="making-") as scratch:
            made = Path(scratch, directory.name)
            pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(made)]
            subprocess.run([*pip, f"pyspark=={VERSION}"], check=True, timeout=LIMIT_S)
            if not directory.is_dir():
                made.rename(directory)
    return directory


def test_reads_writes_and_streams_work_as_on_the_newest(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(older_pyspark())}
    for name in [name for name in environment if name.startswith("PYTEST")]:
        del environment[name]
    asked = [sys.executable, "-c", "import pyspark; print(pyspark.__version__)"]
    assert subprocess.check_output(asked, env=environment, text=True).strip() == VERSION
    here = Path(__file__).parent
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-n",
            "0",
            f"--basetemp={tmp_path / 'own'}",
        ]
        + [str(here / name) for name in FILES],
        cwd=here.parents[1],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
