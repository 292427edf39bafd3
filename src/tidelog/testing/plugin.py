"""A pytest plugin, there as soon as tidelog is installed: stores and logs in a test's own directory.

    def test_orders(tidelog_store):
        tidelog_store.create_topic("orders", 3)

    @pytest.mark.tidelog(topics={"orders": 3}, config={"retention.ms": -1})
    def test_more_orders(tidelog_store): ...

Nothing but pytest is imported before a fixture is used. `-p no:tidelog` turns it off.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.manager import Store
    from tidelog.testing.builders import LogBuilder

__all__ = ["pytest_configure", "tidelog_log", "tidelog_root", "tidelog_store"]


def pytest_configure(config: pytest.Config) -> None:
    """Say what the mark is for."""
    config.addinivalue_line(
        "markers",
        "tidelog(topics=(), config=None): topics that `tidelog_store` begins with, by name or with their "
        "number of partitions, and their configuration",
    )


@pytest.fixture
def tidelog_root(tmp_path: Path) -> Path:
    """Where `tidelog_store` keeps its logs: a directory that is the test's own."""
    return tmp_path / "tidelog-root"


@pytest.fixture
def tidelog_store(request: pytest.FixtureRequest, tidelog_root: Path) -> Iterator[Store]:
    """An open store; background work happens only when the test calls `run_due_tasks`. Closed in the end."""
    import tidelog

    mark = request.node.get_closest_marker("tidelog")
    settings = {} if mark is None else dict(mark.kwargs)
    topics, config = settings.pop("topics", ()), settings.pop("config", None)
    if settings or (mark is not None and mark.args):
        raise pytest.UsageError("@pytest.mark.tidelog takes topics= and config=")
    counts = topics if isinstance(topics, dict) else dict.fromkeys(topics, 1)
    with tidelog.open(tidelog_root, background=False) as store:
        for name, partitions in counts.items():
            store.create_topic(name, partitions, config)
        yield store


@pytest.fixture
def tidelog_log(tmp_path: Path) -> Iterator[LogBuilder]:
    """A builder of one partition's log, `test-0`. Closed in the end, if the test has not done so."""
    from tidelog.testing.builders import LogBuilder

    with LogBuilder(tmp_path / "test-0") as builder:
        yield builder
