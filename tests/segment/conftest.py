"""Both twins of the kernels under the same tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels_twin import TWINS, twin
from tidelog.storage import Directory


@pytest.fixture(params=TWINS)
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    """A test that uses this runs on the kernels compiled and as plain Python."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "compiled":
            patch.setattr("tidelog.segment.file.LogBytes", twin("lookup").LogBytes)
            patch.setattr("tidelog.segment.base.TimePath", twin("lookup").TimePath)
            patch.setattr("tidelog.segment.base.find_in_payload", twin("record_lookup").find_in_payload)
            patch.setattr("tidelog.segment.base.make", twin("record_lookup").make)
            patch.setattr("tidelog.segment.active.index_entries", twin("entries").index_entries)
            patch.setattr("tidelog.segment.recovery.index_entries", twin("entries").index_entries)
        yield request.param


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    """An empty directory."""
    return Directory(tmp_path)
