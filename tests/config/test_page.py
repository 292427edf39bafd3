"""docs/configuration.md says what the code does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_current() -> None:
    code = "import configuration; print(configuration.render(), end='')"
    made = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / "tools",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert page == made.stdout, "run python tools/configuration.py"
    assert "| `retention.ms` | long | 604800000 |" in page
