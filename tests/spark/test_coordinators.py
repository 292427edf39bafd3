"""Groups and transactions as frames: the rows of the functions that need no Spark."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

import tidelog
from tests.golden import GOLDEN
from tests.manager.test_coordinators import record, state
from tidelog.testing.builders import LogBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLEAN = GOLDEN / "clean"


def test_groups(spark: SparkSession) -> None:
    from tidelog.spark import groups

    frame = groups(spark, str(CLEAN))
    assert sorted(map(tuple, frame.collect()), key=repr) == sorted(
        map(astuple, tidelog.groups(CLEAN)), key=repr
    )


def test_transactions(spark: SparkSession, tmp_path: Path) -> None:
    from tidelog.spark import transactions

    with LogBuilder(tmp_path / "orders-0") as builder:
        builder.records(5).transaction(1, records=5, commit=None).transaction(2, records=5, commit=None)
        builder.transaction(3, records=5, commit=False)
    assert {row.state for row in transactions(spark, str(tmp_path)).collect()} == {"open", "aborted"}
    with LogBuilder(tmp_path / "__transaction_state-0") as builder:
        builder.append([record("TransactionLog", {"transactionalId": "a"}, state(1, 1, [0]))])
        builder.append([record("TransactionLog", {"transactionalId": "b"}, state(2, 4, []))])
    frame = transactions(spark, str(tmp_path))
    expected = map(astuple, tidelog.transactions(tmp_path))
    assert sorted(map(tuple, frame.collect()), key=repr) == sorted(expected, key=repr)
