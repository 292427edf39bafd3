"""What a query would read, told without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelog.spark
from tests.golden import GOLDEN, golden_partition
from tests.scanning import expected
from tidelog.errors import InvalidInputError
from tidelog.scanning.partitions import SegmentFacts
from tidelog.scanning.plan import plan_stretches

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


def test_each_segment_is_looked_at_once_however_many_there_are() -> None:
    """Of 10,000 segments, looking for each one's successor took seconds."""
    compared = 0

    class Compared(SegmentFacts):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return super().__eq__(other)

        __hash__ = SegmentFacts.__hash__

    segments = [Compared(10 * n, 500, frozenset()) for n in range(1000)]
    found = plan_stretches(segments, 4995, 8001, lambda _: pytest.fail("no index is needed"))
    assert [one.segment.base_offset for one in found] == list(range(4990, 8010, 10))
    assert [one.next_base for one in found] == list(range(5000, 8020, 10))
    assert not any(one.is_last for one in found)
    assert [
        one.is_last for one in plan_stretches(segments, 9980, 1 << 62, lambda _: pytest.fail("no index"))
    ] == [
        False,
        True,
    ]
    assert compared == 0
