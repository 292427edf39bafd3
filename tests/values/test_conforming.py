"""Arrays as a wider type: what fits comes out whole, and what does not is a Misfit that says why."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tidelog.values.conforming import conform
from tidelog.values.json_reading import Misfit


@pytest.mark.parametrize(
    ("values", "narrow", "wide"),
    [
        ([1, None, -5], pa.int32(), pa.int64()),
        ([1.5, None], pa.float32(), pa.float64()),
        ([[1], None, [], [None, 2]], pa.list_(pa.int32()), pa.list_(pa.int64())),
        ([[("a", 1)], None, []], pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64())),
        ([[(7, 1)], None, []], pa.map_(pa.int32(), pa.int32()), pa.map_(pa.int64(), pa.int64())),
    ],
)
def test_values_stay_the_same(values: list[Any], narrow: pa.DataType, wide: pa.DataType) -> None:
    array = pa.array([*values, *values], narrow)
    for part in (array, array.slice(1), array.slice(len(values) + 1)):
        found = conform(part, wide)
        found.validate(full=True)
        assert found.type == wide
        assert found.to_pylist() == part.to_pylist()


def test_fields_that_are_not_there_are_null() -> None:
    array = pa.array([{"a": 1}, None, {"a": 3}])
    wide = pa.struct([("b", pa.string()), ("a", pa.float64())])
    assert conform(array.slice(1), wide).to_pylist() == [None, {"b": None, "a": 3.0}]


@pytest.mark.parametrize(
    ("array", "kind", "why"),
    [
        # a value that the type does not hold
        (pa.array([1, 1 << 40]), pa.int32(), r"int64 does not fit int32: Integer value 1099511627776 not in"),
        (pa.array([b"\xff"]), pa.string(), r"binary does not fit string: Invalid UTF8"),
        # a type that cannot become the other
        (pa.array([[1]]), pa.int32(), r"list<.*> does not fit int32: Unsupported cast from list"),
        (pa.array([{"a": 1}]), pa.int32(), r"struct<a: int64> does not fit int32: Unsupported cast from str"),
        (
            pa.array([{"a": 1}]),
            pa.struct([("b", pa.int64())]),
            "value has more fields than struct<b: int64>: a",
        ),
        (
            pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
            pa.map_(pa.int32(), pa.int32()),
            "string does not fit int32: Failed to parse string: 'a'",
        ),
    ],
)
def test_what_does_not_fit_is_told(array: pa.Array, kind: pa.DataType, why: str) -> None:
    with pytest.raises(Misfit, match=why):
        conform(array, kind)
