"""The oldest PySpark that is supported: reading, writing and streaming are tested on it as on the newest.

The tests themselves run in a process of their own, with the older package in front of the installed one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.connector import pyspark_of

VERSION = "4.2.1"
FILES = ("test_batch.py", "test_streaming.py", "test_sink.py")
LIMIT_S = 900.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(LIMIT_S + 60)]


def test_reads_writes_and_streams_work_as_on_the_newest(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(pyspark_of(VERSION))}
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
