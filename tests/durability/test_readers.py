"""Readers of all kinds in processes of their own, beside a writer that cuts, compacts, deletes and makes
topics anew: none is killed, and none sees a record that never was.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.durability.readers import READERS, TOPICS
from tests.waiting import PATIENCE_S


def run_together(root: Path, seconds: float, seed: int) -> dict[str, str]:
    """Run the writer and all readers; what each said."""

    def start(kind: str, number: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.durability.readers", kind, str(root), str(seconds)]
        return subprocess.Popen(
            [*command, str(seed + number)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    running = {"writer": start("writer", 0)}
    try:
        limit = time.monotonic() + PATIENCE_S
        while not all((root / f"{topic}-0").is_dir() for topic in TOPICS) and time.monotonic() < limit:
            time.sleep(0.1)
        for number, kind in enumerate((*READERS, "follow"), 1):
            running[kind] = start(kind, number)
        told = {kind: one.communicate(timeout=seconds + 120)[0] for kind, one in running.items()}
    finally:
        for one in running.values():
            if one.poll() is None:
                one.kill()
                one.wait()
    bad = {kind: (one.returncode, told[kind][-3000:]) for kind, one in running.items() if one.returncode}
    assert not bad, bad
    return told


@pytest.mark.slow
def test_readers_beside_a_writer(tmp_path: Path) -> None:
    told = run_together(tmp_path / "root", 20, 1)
    for kind in READERS:
        assert "'read'" in told[kind], told


@pytest.mark.soak
@pytest.mark.timeout(1000)
def test_readers_beside_a_writer_for_ten_minutes(tmp_path: Path) -> None:
    run_together(tmp_path / "root", 600, int(time.time()))
