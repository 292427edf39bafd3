"""Order and exactly-once as properties: random sizes, tasks and segments, kills at random, tries again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def live(tmp_path: Path, rounds: int, seed: int) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.spark.exactly_once", str(tmp_path), str(rounds), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    facts: dict[str, int] = json.loads(done.stdout)
    print(facts)
    return facts


def test_a_few_rounds_of_kills(tmp_path: Path) -> None:
    facts = live(tmp_path, 5, 3)
    assert facts["kills"]


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_fifty_of_two_hundred_rounds_are_killed_inside_the_commit_window(tmp_path: Path) -> None:
    rounds = 0
    for seed in range(4):
        (tmp_path / str(seed)).mkdir()
        facts = live(tmp_path / str(seed), 50, seed)
        rounds += facts["in_window"]
    assert rounds >= 50
