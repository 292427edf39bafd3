"""Values as columns: what decodes is right, what does not stays whole and disturbs nobody."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import InvalidInputError
from tidelog.spark.values import ValueDecoder, ValueFormat, infer_struct

STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.list_(pa.float64()))])
JSON = ValueDecoder(ValueFormat.JSON, STRUCT)

GOOD: dict[bytes, dict[str, Any]] = {
    b'{"a":1,"b":"x"}': {"a": 1, "b": "x", "c": None},
    b"{}": {"a": None, "b": None, "c": None},
    b" { } ": {"a": None, "b": None, "c": None},
    b'\n{"a":2}': {"a": 2, "b": None, "c": None},
    b'{"c":[1,2.5],"z":{"deep":[1]}}': {"a": None, "b": None, "c": [1.0, 2.5]},
    b'{"a":1,\n"b":"q"}': {"a": 1, "b": "q", "c": None},
    b'{"row":7,"v":{"a":9}}': {"a": None, "b": None, "c": None},
    '{"b":"ünïcode \\u00e9"}'.encode(): {"a": None, "b": "ünïcode é", "c": None},
}
BAD = [
    b"",
    b"nope",
    b"3",
    b"null",
    b"[1]",
    b'{"a":',
    b"1}",
    b'{"a":1}{"a":2}',
    b'{"a":1}}\n{"row":1,"v":{"a":2}',
    b'{"a":"text"}',
    b'{"a":1.5}',
    b'{"a":99999999999999999999}',
    b'{"a":NaN}',
    b'{"b":"\xff"}',
    b"{" * 2000,
]


def decode(decoder: ValueDecoder, values: list[bytes | None]) -> tuple[list[Any], list[Any], int]:
    decoded = decoder.decode(pa.array(values, pa.binary()))
    assert [column.type for column in decoded.columns] == [field.type for field in decoder.fields]
    good, invalid = (column.to_pylist() for column in decoded.columns)
    return good, invalid, decoded.invalid


def test_bytes_stay() -> None:
    values = pa.array([b"a", None, b"\xff"], pa.binary())
    decoded = ValueDecoder().decode(values)
    assert decoded.columns == (values,)
    assert decoded.invalid == 0


def test_text() -> None:
    decoder = ValueDecoder(ValueFormat.STRING)
    assert decode(decoder, [b"a", None, "ü".encode(), b""]) == (["a", None, "ü", ""], [None] * 4, 0)
    assert decode(decoder, [b"a", None, b"\xff\xfe"]) == (["a", None, None], [None, None, b"\xff\xfe"], 1)


def test_json_that_is_all_good_or_null() -> None:
    values = [*GOOD, None]
    assert decode(JSON, values) == ([*GOOD.values(), None], [None] * len(values), 0)
    assert decode(JSON, []) == ([], [], 0)
    assert decode(JSON, [None, None]) == ([None, None], [None, None], 0)


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_json_that_is_bad_stays_whole_and_alone(bad: bytes) -> None:
    values = [*GOOD, bad, *GOOD]
    good, invalid, count = decode(JSON, values)
    middle = len(GOOD)
    assert good[:middle] == good[middle + 1 :] == list(GOOD.values())
    assert (good[middle], invalid[middle], count) == (None, bad, 1)


@given(st.lists(st.sampled_from([*GOOD, *BAD[:-1], None]), max_size=30))
def test_any_mixture(values: list[bytes | None]) -> None:
    good, invalid, count = decode(JSON, values)
    assert good == [None if value is None else GOOD.get(value) for value in values]
    assert invalid == [value if value in BAD else None for value in values]
    assert count == sum(value in BAD for value in values)


_SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5)


@given(
    st.lists(st.dictionaries(st.sampled_from(["a", "b", "c"]), _SCALARS, max_size=3), min_size=1, max_size=8)
)
def test_an_inferred_schema_fits_what_it_was_inferred_from(objects: list[dict[str, Any]]) -> None:
    values = [json.dumps(each).encode() for each in objects]
    try:
        struct = infer_struct(values)
    except InvalidInputError:
        return
    good, _, invalid = decode(ValueDecoder(ValueFormat.JSON, struct), values)
    assert invalid == 0
    for found, each in zip(good, objects, strict=True):
        assert {name: value for name, value in found.items() if value is not None} == {
            name: value for name, value in each.items() if value is not None
        }


def test_inference() -> None:
    values = [b'{"id":1,"x":null,"tags":[]}', b"nope", None, b'{"id":2.5,"who":{"name":"a"},"tags":["t"]}']
    assert infer_struct(values) == pa.struct(
        [
            ("id", pa.float64()),
            ("x", pa.string()),
            ("tags", pa.list_(pa.string())),
            ("who", pa.struct([("name", pa.string())])),
        ]
    )
    with pytest.raises(InvalidInputError, match=r"value\.id has values of different types"):
        infer_struct([b'{"id":1}', b'{"id":"one"}'])
    with pytest.raises(InvalidInputError, match="no JSON object to infer a schema from"):
        infer_struct([b"text", None])
