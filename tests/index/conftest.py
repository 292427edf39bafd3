"""Both twins of the search kernel under the same tests, and Kafka's own indexes as an oracle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.index.twins import TWINS, use
from tidelog.storage import Directory

if TYPE_CHECKING:
    from tests.oracle import Oracle
    from tests.oracle.jars import Programs


@pytest.fixture(params=TWINS)
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    """A test that uses this runs on the kernel compiled and as plain Python."""
    with use(request.param):
        yield request.param


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    """An empty directory."""
    return Directory(tmp_path)


@pytest.fixture(scope="session")
def kafka_indexes(oracle: Oracle) -> Programs:
    """Kafka's index classes, to be asked by java/Indexes.java."""
    from tests.oracle.jars import Kafka

    return Kafka.obtain().compile(Path(__file__).with_name("java"))
