"""Facts gathered by Spark tasks, and `tidelog profile` beside them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.command import run
from tests.golden import GOLDEN
from tidelog.report.tables import rows_of

pytestmark = pytest.mark.slow
CLEAN = GOLDEN / "clean"


def facts(*args: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("report", CLEAN, "--json", "--now", "1795000000000", *args).out)
    return found


def test_spark_gathers_the_same_facts() -> None:
    assert facts("--records", "--spark", "local[2]") == facts("--records")


def test_hours_are_those_of_profile() -> None:
    found = facts()
    names = found["partitions"]["topic"]
    profiled = [json.loads(line) for line in run("profile", CLEAN, "--spark", "local[2]", "--json").lines]
    hours = [row | {"topic": names[row["at"]]} for row in rows_of(found["hours"])]
    for topic in {row["topic"] for row in profiled}:
        mine = [row for row in hours if row["topic"] == topic]
        theirs = [row for row in profiled if row["topic"] == topic]
        assert sum(row["records"] for row in mine) == sum(row["records"] for row in theirs)
        assert sum(row["batches"] for row in mine) == sum(row["batches"] for row in theirs)
        assert sum(row["bytes"] for row in mine) == sum(row["batch_bytes"] for row in theirs)
        assert [row["batches"] for row in mine] == [row["batches"] for row in theirs if row["batches"]]
