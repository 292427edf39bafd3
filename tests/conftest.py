"""Fixtures for all tests."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.spark.archive import QUICK_JAVA, java_options

if TYPE_CHECKING:
    from tests.oracle import Oracle

REQUIRE_ORACLE = "TIDELOG_REQUIRE_ORACLE"
SLOW_UNTIL = "TIDELOG_SLOW_UNTIL"
"""Seconds of the epoch from which on no slow test is begun, so that CI ends in time on a busy machine."""

# A busy machine or a sanitizer makes examples slow; that is no failure.
hypothesis.settings.register_profile(
    "tidelog",
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("tidelog")


os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())
for variable in ("SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(variable, QUICK_JAVA)


LONG = ("tests/durability/test_mutants.py", "tests/records/test_asan.py", "tests/spark/", "tests/test_")
"""Files that take long."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first, so that workers end at the same time.

    Whatever asks Kafka is an oracle test: `-m "not oracle"` needs no mark to be remembered.
    """
    items.sort(
        key=lambda item: next((n for n, one in enumerate(LONG) if item.nodeid.startswith(one)), len(LONG))
    )
    for item in items:
        if "oracle" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.oracle)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a slow test that there is no time for; the summary counts it. Log as for the first test.

    A command that shows no log (doctor, report) silences it for its process, which is that of other tests.
    """
    logging.getLogger("tidelog").setLevel(logging.NOTSET)
    until = os.environ.get(SLOW_UNTIL)
    if until and item.get_closest_marker("slow") and time.time() > float(until):
        pytest.skip(f"no time left ({SLOW_UNTIL}): make test-slow runs it")


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    """Apache Kafka's own classes, to be asked. Without them a test skips, or fails if CI says so."""
    from tests.oracle import Oracle, OracleUnavailableError

    try:
        return Oracle.obtain()
    except OracleUnavailableError as why:
        if os.environ.get(REQUIRE_ORACLE) == "1":
            pytest.fail(f"{REQUIRE_ORACLE}=1, but Kafka's classes cannot be had: {why}", pytrace=False)
        pytest.skip(f"Kafka's classes cannot be had: {why}")
