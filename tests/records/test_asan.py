"""The decode tests once more, on kernels that the compiler guards against reads and writes out of bounds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNAVAILABLE = 77


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_decode_tests_pass_under_address_sanitizer() -> None:
    command = [sys.executable, str(ROOT / "tools/asan.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False)
    if done.returncode == UNAVAILABLE:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert " passed" in done.stdout
