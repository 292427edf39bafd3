"""Both twins of the search kernel under the same tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.index.twins import TWINS, use
from tidelog.storage import Directory


@pytest.fixture(params=TWINS)
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    """A test that uses this runs on the kernel compiled and as plain Python."""
    with use(request.param):
        yield request.param


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    """An empty directory."""
    return Directory(tmp_path)
