"""What a query would read, told without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelog.spark
from tests.golden import GOLDEN, golden_partition
from tests.scanning import expected
from tidelog.errors import InvalidInputError

CLEAN = str(GOLDEN / "clean")


def bases(**options: object) -> list[int]:
    table = tidelog.spark.plan(CLEAN, subscribe="golden-none", **options)
    return sorted({int(Path(file).stem) for file in table["file"].to_pylist()})


def test_segments_outside_a_range_are_not_in_the_plan() -> None:
    every = [int(log.stem) for log in golden_partition("golden-none-0").logs()]
    assert bases() == every
    bounds = {
        "startingOffsets": '{"golden-none":{"0":500}}',
        "endingOffsets": '{"golden-none":{"0":600}}',
    }
    assert bases(**bounds) == [480]
    records = expected.records(golden_partition("golden-none-0"))
    late = next(base for base in reversed(every) if base <= 1100)
    assert bases(startingTimestamp=records[1100]["timestamp"]) == every[every.index(late) :]


def test_splits_and_errors() -> None:
    table = tidelog.spark.plan(CLEAN, subscribe="golden-none", minPartitions=5, includeHeaders=True)
    assert sorted(set(table["split"].to_pylist())) == list(range(5))
    with pytest.raises(InvalidInputError, match="option minPartitions"):
        tidelog.spark.plan(CLEAN, minPartitions=0)
