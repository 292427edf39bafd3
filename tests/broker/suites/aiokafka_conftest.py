"""In place of aiokafka's `tests/conftest.py`, which is kept beside it: a broker that runs, no Docker."""

from __future__ import annotations

import importlib
import os
import pathlib
from types import SimpleNamespace

import pytest

_THEIRS = vars(importlib.import_module("tests.their_conftest"))
globals().update({name: value for name, value in _THEIRS.items() if not name.startswith("__")})


@pytest.fixture(scope="session")
def docker() -> None:
    """There is no Docker."""


@pytest.fixture(scope="session")
def kafka_image(request: pytest.FixtureRequest) -> str:
    """A name that says which version of Kafka to test for."""
    return str(request.config.getoption("--docker-image"))


@pytest.fixture(scope="session")
def ssl_folder() -> pathlib.Path:
    """No certificates."""
    return pathlib.Path("none")


@pytest.fixture(scope="session")
def kafka_server() -> SimpleNamespace:
    """The broker that runs."""
    host, _, port = os.environ["TIDELOG_BROKER"].rpartition(":")
    ports = {"port": int(port), "ssl_port": None, "sasl_plain_port": None, "sasl_ssl_port": None}
    return SimpleNamespace(host=host, **ports, container=None, hosts=[f"{host}:{port}"])


@pytest.fixture(scope="session")
def kerberos_utils() -> None:
    """No Kerberos."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only what asks a broker."""
    items[:] = [item for item in items if "setup_test_class" in getattr(item, "fixturenames", ())]
