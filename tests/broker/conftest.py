from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tidelog
from tests.broker.asking import broker_on
from tidelog.broker.context import Broker


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tidelog.Store]:
    with tidelog.open(tmp_path / "root", background=False) as store:
        yield store


@pytest.fixture
def broker(store: tidelog.Store) -> Broker:
    return broker_on(store)
