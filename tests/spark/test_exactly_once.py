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


@pytest.mark.timeout(1000)
@pytest.mark.parametrize(
    "lives", [pytest.param(1, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.soak)]
)
def test_a_quarter_of_the_rounds_is_killed_inside_the_commit_window(tmp_path: Path, lives: int) -> None:
    rounds = 0
    for seed in range(lives):
        (tmp_path / str(seed)).mkdir()
        facts = live(tmp_path / str(seed), 50, seed)
        rounds += facts["in_window"]
    assert rounds >= 50 * lives // 4
