"""A pytest plugin that is installed with tidelog: stores and logs in the test's temporary directory.

    def test_orders(tidelog_store):
        tidelog_store.create_topic("orders", 3)

    @pytest.mark.tidelog(topics={"orders": 3}, config={"retention.ms": -1})
    def test_more_orders(tidelog_store): ...

    def test_with_any_kafka_client(kafka_broker):
        Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})

Nothing but pytest is imported before a fixture is used. `-p no:tidelog` turns it off.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.manager import Store
    from tidelog.testing.brokers import TestBroker
    from tidelog.testing.builders import LogBuilder

__all__ = ["kafka_broker", "pytest_configure", "tidelog_log", "tidelog_root", "tidelog_store"]


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks."""
    config.addinivalue_line(
        "markers",
        "tidelog(topics=(), config=None): topics that `tidelog_store` begins with, by name or with their "
        "number of partitions, and their configuration",
    )
    config.addinivalue_line(
        "markers",
        "kafka_broker(config=None, subprocess=False): keys of server.properties for `kafka_broker`, and "
        "whether it is a process of its own",
    )


@pytest.fixture
def tidelog_root(tmp_path: Path) -> Path:
    """The directory of `tidelog_store`'s logs; each test has its own."""
    return tmp_path / "tidelog-root"


@pytest.fixture
def tidelog_store(request: pytest.FixtureRequest, tidelog_root: Path) -> Iterator[Store]:
    """An open store; background work happens only when the test calls `run_due_tasks`. Closed at the end."""
    from tidelog.manager.store.opener import open_store

    mark = request.node.get_closest_marker("tidelog")
    settings = {} if mark is None else dict(mark.kwargs)
    topics, config = settings.pop("topics", ()), settings.pop("config", None)
    if settings or (mark is not None and mark.args):
        raise pytest.UsageError("@pytest.mark.tidelog takes topics= and config=")
    counts = topics if isinstance(topics, dict) else dict.fromkeys(topics, 1)
    with open_store(tidelog_root, background=False) as store:
        for name, partitions in counts.items():
            store.create_topic(name, partitions, config)
        yield store


@pytest.fixture
def tidelog_log(tmp_path: Path) -> Iterator[LogBuilder]:
    """A builder of one partition's log, `test-0`. Closed at the end of the test."""
    from tidelog.testing.builders import LogBuilder

    with LogBuilder(tmp_path / "test-0") as builder:
        yield builder


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestBroker]:
    """A Kafka broker on a free port of the loopback, in its own directory. Stopped at the end."""
    from tidelog.testing.brokers import start_broker

    mark = request.node.get_closest_marker("kafka_broker")
    settings = {} if mark is None else dict(mark.kwargs)
    config, alone = settings.pop("config", None), settings.pop("subprocess", False)
    if settings or (mark is not None and mark.args):
        raise pytest.UsageError("@pytest.mark.kafka_broker takes config= and subprocess=")
    with start_broker(tmp_path / "kafka-broker", config, subprocess=alone) as broker:
        yield broker
