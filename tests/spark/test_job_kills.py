"""Jobs that are killed at any step and run again: nothing is lost, nothing comes twice, nothing is left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.conftest import require_spark

JOBS = ("compact", "compact-parts", "retention", "ingest", "export", "pipeline")


def live(tmp_path: Path, job: str, rounds: int, seed: int) -> None:
    require_spark()
    command = [sys.executable, "-m", "tests.spark.job_kills", str(tmp_path), job, str(rounds), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    facts = json.loads(done.stdout)
    print(facts)
    assert facts["killed"] >= rounds // 2
    assert facts["left"] == []


@pytest.mark.slow
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("job", JOBS)
def test_a_few_rounds(tmp_path: Path, job: str) -> None:
    live(tmp_path, job, 5, 1)


@pytest.mark.soak
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("job", JOBS)
def test_twenty_rounds(tmp_path: Path, job: str) -> None:
    live(tmp_path, job, 20, 2)
