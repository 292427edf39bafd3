"""The map of mechanisms in docs/documents.md names modules and tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "documents.md").read_text()


def test_modules_exist() -> None:
    named = re.findall(r"`((?:storage|index|segment|log|records|kernels)/[a-z_]+\.py)`", TEXT)
    assert len(named) > 30
    assert [name for name in named if not (ROOT / "src" / "tidelog" / name).exists()] == []


def test_tests_exist() -> None:
    named = re.findall(r"`(tests/[^`]+)`", TEXT)
    assert len(named) > 30
    for name in named:
        path, _, function = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not function or f"def {function}(" in (ROOT / path).read_text(), name
