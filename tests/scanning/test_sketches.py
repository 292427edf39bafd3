"""Counting different keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidelog.scanning.sketches import count_distinct, merge, sketch


def keys(first: int, last: int) -> pa.Array:
    return pa.array([str(n).encode() for n in range(first, last)], pa.binary())


def test_small_numbers_are_exact() -> None:
    values = pa.concat_arrays([keys(0, 300), keys(200, 500), pa.nulls(5, pa.binary())])
    assert count_distinct(sketch(values)) == 500
    assert count_distinct(sketch(keys(0, 0))) == 0
    assert count_distinct(merge([])) == 0


@pytest.mark.parametrize("count", [5_000, 60_000])
def test_large_numbers_are_close(count: int) -> None:
    assert count_distinct(sketch(keys(0, count))) == pytest.approx(count, rel=0.08)


def test_a_sketch_of_parts_is_that_of_the_whole() -> None:
    parts = [sketch(keys(first, first + 4000)) for first in (0, 3000, 9000)]
    whole = sketch(pa.concat_arrays([keys(0, 7000), keys(9000, 13000)]))
    assert np.array_equal(merge(parts), whole)
    assert np.array_equal(merge(parts[::-1]), whole)
