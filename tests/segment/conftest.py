"""Both twins of the kernels under the same tests, and Kafka's own segment as an oracle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kernels_twin import TWINS, twin
from tidelog.storage import Directory

if TYPE_CHECKING:
    from tests.oracle import Oracle
    from tests.oracle.jars import Programs


@pytest.fixture(params=TWINS)
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    """A test that uses this runs on the kernels compiled and as plain Python."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "compiled":
            patch.setattr("tidelog.segment.file.LogBytes", twin("lookup").LogBytes)
            patch.setattr("tidelog.segment.base.find_in_payload", twin("pick").find_in_payload)
            patch.setattr("tidelog.segment.base.make", twin("pick").make)
            patch.setattr("tidelog.segment.active.index_entries", twin("entries").index_entries)
            patch.setattr("tidelog.segment.recovery.index_entries", twin("entries").index_entries)
        yield request.param


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    """An empty directory."""
    return Directory(tmp_path)


@pytest.fixture(scope="session")
def kafka_segments(oracle: Oracle) -> Programs:
    """Kafka's segment class, to be asked by java/Segments.java."""
    from tests.oracle.jars import Kafka

    return Kafka.obtain().compile(Path(__file__).with_name("java"))
