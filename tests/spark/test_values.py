"""Values as columns: what decodes is right, what does not stays whole and disturbs nobody."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels_twin import twin
from tidelog.errors import InvalidInputError
from tidelog.kernels import jsonfit
from tidelog.values import decoding as values_module
from tidelog.values.decoding import ValueDecoder, ValueFormat, infer_struct, surely_fit, widen_struct
from tidelog.values.json_reading import fit, parse
from tidelog.values.json_types import check_struct, widen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STRUCT = pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.list_(pa.float64()))])
JSON = ValueDecoder(ValueFormat.JSON, STRUCT)

GOOD: dict[bytes, dict[str, Any]] = {
    b'{"a":1,"b":"x"}': {"a": 1, "b": "x", "c": None},
    b"{}": {"a": None, "b": None, "c": None},
    b" { } ": {"a": None, "b": None, "c": None},
    b'\n{"a":2}': {"a": 2, "b": None, "c": None},
    b'{"c":[1,2.5],"z":null}': {"a": None, "b": None, "c": [1.0, 2.5]},
    b'{"a":1,\n"b":"q"}': {"a": 1, "b": "q", "c": None},
    b'{"a":-9223372036854775808}': {"a": -(2**63), "b": None, "c": None},
    b'{"c":[1e3,12345678901234567890,null,1E-400]}': {
        "a": None,
        "b": None,
        "c": [1e3, 1.2345678901234567e19, None, 0],
    },
    b'{"\\u0061":5}': {"a": 5, "b": None, "c": None},
    b'{"b":"\\ud83d\\ude00\\u0000\\/"}': {"a": None, "b": "\U0001f600\0/", "c": None},
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
    b'{"a":1},"x":{}',
    b'{"a":1},"row":0',
    b'{"a":1},"x":"y"',
    b'{"a":1},{"a":2}',
    b'{"a":1}\n{"a":2}',
    b'{"a":1} x',
    b'{"a":1}\0',
    b'{"a":1,}',
    b'{"a":01}',
    b'{"a":+1}',
    b'{"a":1,"a":2}',
    b'{"a":1,"\\u0061":2}',
    b'{"A":1}',
    b'{"z":1}',
    b'{"z":{}}',
    b'{"\xff":null}',
    b'{"c":[1e999]}',
    b'{"c":[1,]}',
    b'{"c":[Infinity]}',
    b'{"c":{"0":1}}',
    b'{"b":"\\ud800"}',
    b'{"b":"\xed\xa0\x80"}',
    b'{"b":"tab\t"}',
    b"{'a':1}",
    b'/*c*/{"a":1}',
    b'\xef\xbb\xbf{"a":1}',
    '{"a":1}'.encode("utf-16"),
    b'{"row":7,"v":{"a":9}}',
    b'{"a":' + b"9" * 5000 + b"}",
    b'{"z":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
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


@given(st.lists(st.sampled_from([*GOOD, *BAD[:-2], None]), max_size=30))
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


def test_of_names_that_differ_in_case_one_becomes_a_field(tmp_path: Path, spark: SparkSession) -> None:
    """Spark does not read a file that has both."""
    values = [b'{"a":1,"n":{"k":1}}', b'{"A":2}', b'{"a":3,"A":4}', b'{"n":{"K":5},"b":6}']
    for chosen, invalid in ((values, [None, *values[1:]]), (values[2:3], values[2:3])):
        struct = infer_struct(chosen)
        decoded = ValueDecoder(ValueFormat.JSON, struct).decode(pa.array(chosen, pa.binary()))
        assert decoded.columns[1].to_pylist() == invalid
        pq.write_table(pa.table({"value": decoded.columns[0]}), tmp_path / "x.parquet")
        assert spark.read.parquet(str(tmp_path / "x.parquet")).toArrow().num_rows == len(chosen)


# ---- the types


UTC_US, LOCAL_US = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
MAP = pa.map_(pa.string(), pa.int32())


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        (pa.date32(), '"2024-02-29"', date(2024, 2, 29)),
        (pa.date32(), '"2023-02-29"', None),
        (pa.date32(), '"0000-01-01"', None),
        (pa.date32(), '"2024-1-1"', None),
        (pa.date32(), "19000", None),
        (UTC_US, '"2024-01-01T10:00:00+02:00"', datetime(2024, 1, 1, 8, tzinfo=UTC)),
        (UTC_US, '"2024-01-01 10:00:00.5"', datetime(2024, 1, 1, 10, 0, 0, 500_000, tzinfo=UTC)),
        (UTC_US, '"2024-01-01"', datetime(2024, 1, 1, tzinfo=UTC)),
        (UTC_US, '"2024-01-01T25:00:00"', None),
        (UTC_US, '"2024-01-01T10:00:00.1234567"', None),
        (UTC_US, "1700000000000", None),
        (LOCAL_US, '"2024-01-01T10:00:00.123456"', datetime(2024, 1, 1, 10, 0, 0, 123_456)),
        (LOCAL_US, '"2024-01-01T10:00:00Z"', None),
        (pa.decimal128(4, 2), "12.5", Decimal("12.50")),
        (pa.decimal128(4, 2), '"-12.50"', Decimal("-12.50")),
        (pa.decimal128(4, 2), "1250e-2", Decimal("12.50")),
        (pa.decimal128(4, 2), "12.345", None),
        (pa.decimal128(4, 2), "123.4", None),
        (pa.decimal128(4, 2), "1e999999999", None),
        (pa.decimal128(2, 2), "0.25", Decimal("0.25")),
        (pa.decimal128(38, 0), "9" * 38, Decimal("9" * 38)),
        (pa.binary(), '"aGk="', b"hi"),
        (pa.binary(), '"hi!"', None),
        (pa.int8(), "-128", -128),
        (pa.int8(), "128", None),
        (pa.int32(), "2147483647", 2147483647),
        (pa.int32(), "2147483648", None),
        (pa.float32(), "1e39", None),
        (pa.float64(), "1.5", 1.5),
        (pa.float64(), '"1.5"', None),
        (pa.bool_(), "true", True),
        (pa.bool_(), "1", None),
        (pa.int64(), "true", None),
        (pa.string(), "1", None),
        (MAP, '{"a":1,"b":null}', [("a", 1), ("b", None)]),
        (MAP, "{}", []),
        (MAP, '{"a":"1"}', None),
        (MAP, '{"a":1,"a":2}', None),
        (MAP, "[]", None),
        (
            pa.list_(pa.struct([("d", pa.date32())])),
            '[{"d":"2024-01-01"},null]',
            [{"d": date(2024, 1, 1)}, None],
        ),
        (pa.list_(MAP), '[{"x":1},{}]', [[("x", 1)], []]),
        (pa.struct([("m", MAP)]), '{"m":{"x":1}}', {"m": [("x", 1)]}),
    ],
)
def test_types(kind: pa.DataType, text: str, found: Any) -> None:
    decoder = ValueDecoder(ValueFormat.JSON, pa.struct([("x", kind), ("y", pa.int64())]))
    value = f'{{"x":{text},"y":1}}'.encode()
    good, invalid, _ = decode(decoder, [value, b'{"y":2}', b'{"x":null}'])
    assert good == [
        None if found is None else {"x": found, "y": 1},
        {"x": None, "y": 2},
        {"x": None, "y": None},
    ]
    assert invalid == [value if found is None else None, None, None]


@pytest.mark.parametrize(
    "kind", [pa.uint8(), pa.struct([]), pa.map_(pa.int32(), pa.string()), pa.duration("s")]
)
def test_types_that_json_values_cannot_be(kind: pa.DataType) -> None:
    with pytest.raises(InvalidInputError, match=r"the schema\.a"):
        check_struct(pa.struct([("a", kind)]))


# ---- the fast way and the exact one agree


_KINDS = st.recursive(
    st.sampled_from(
        [
            *(pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.date32()),
            *(UTC_US, LOCAL_US, pa.decimal128(6, 2), pa.binary(), MAP),
        ]
    ),
    lambda inner: (
        st.builds(pa.list_, inner)
        | st.builds(
            lambda fields: pa.struct(list(fields.items())),
            st.dictionaries(st.sampled_from("abcé"), inner, min_size=1, max_size=3),
        )
    ),
    max_leaves=5,
)
_STRUCTS = st.dictionaries(st.sampled_from("abcé"), _KINDS, min_size=1, max_size=4).map(
    lambda fields: pa.struct(list(fields.items()))
)
_LEAVES = st.sampled_from(
    [
        *(
            "null",
            "true",
            "0",
            "-0",
            "-1",
            "127",
            "128",
            "1.5",
            "1e2",
            "12.345",
            "9" * 19,
            '"x"',
            '""',
            '"aGk="',
        ),
        *('"2024-02-29"', '"2024-02-30"', '"2024-01-01T00:00:00Z"', '"2024-01-01 23:59:59.5"'),
        *('"\\u00e9"', "nul", "-"),
    ]
) | st.text(max_size=4).map(json.dumps)
_TEXTS = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(st.sampled_from("abcéz"), inner), max_size=4).map(
            lambda pairs: "{" + ",".join(f'"{name}" : {text}' for name, text in pairs) + "}"
        )
    ),
    max_leaves=8,
)


def exact(value: bytes, struct: pa.DataType) -> Any:
    try:
        return pa.array([fit(parse(value), struct)], struct).to_pylist()[0]
    except (ValueError, ArithmeticError):
        return None


@given(_STRUCTS, st.lists(_TEXTS.map(str.encode) | st.binary(max_size=6), max_size=5))
def test_the_fast_way_answers_as_the_exact_one(struct: pa.DataType, values: list[bytes]) -> None:
    column = pa.array(values, pa.binary())
    good, invalid, _ = decode(ValueDecoder(ValueFormat.JSON, struct), list(values))
    expected = [exact(value, struct) for value in values]
    assert good == expected
    assert invalid == [value if one is None else None for value, one in zip(values, expected, strict=True)]
    sure = surely_fit(column, struct)
    assert all(one is not None for one, is_sure in zip(expected, sure, strict=True) if is_sure)


@given(_STRUCTS, st.lists(_TEXTS.map(str.encode) | st.binary(max_size=6), min_size=1, max_size=5))
def test_both_twins_of_the_kernel_answer_the_same(struct: pa.DataType, values: list[bytes]) -> None:
    plain = twin("jsonfit")
    nodes, names = values_module._table(struct)
    data = np.frombuffer(b"".join(values) or b" ", np.uint8)
    ends = np.cumsum([0, *map(len, values)]).astype(np.int64)
    answers = []
    for kernel in (jsonfit, plain):
        out = np.zeros(len(values), np.uint8)
        scratch = np.zeros(3 * jsonfit.DEPTH + len(nodes) // 6, np.int64)
        count = kernel.fit(data, ends, nodes, names, out, scratch)
        answers.append((count, out.tolist()))
    assert answers[0] == answers[1]


def test_plain_values_take_the_fast_way() -> None:
    """None of these may need a Python object."""
    struct = pa.struct(
        [
            *(("i", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("t", UTC_US), ("d", pa.date32())),
            *(("n", pa.decimal128(9, 2)), ("l", pa.list_(pa.struct([("b", pa.bool_())])))),
        ]
    )
    value = (
        '{ "i": -12, "f": 1.25e-7, "s": "\\"ä\\n", "t": "2024-01-01T00:00:00.5Z", "d": "2024-02-29", '
        '"n": 12.5, "l": [ {"b": true}, {"b":false}, null, {} ], "unknown": null }\n'
    ).encode()
    assert surely_fit(pa.array([value] * 3, pa.binary()), struct).all()
    assert decode(ValueDecoder(ValueFormat.JSON, struct), [value])[2] == 0


def test_the_kernel_checks_its_tables() -> None:
    nodes, names = values_module._table(STRUCT)
    data, ends = np.frombuffer(b"{}", np.uint8), np.array([0, 2], np.int64)
    out, scratch = np.zeros(1, np.uint8), np.zeros(3 * jsonfit.DEPTH + 10, np.int64)
    for bad in (np.array([0, 3], np.int64), np.array([-1, 2], np.int64), np.array([2, 0], np.int64)):
        with pytest.raises(ValueError, match="offsets do not fit"):
            jsonfit.fit(data, bad, nodes, names, out, scratch)
    broken = nodes.copy()
    broken[1] = 99
    with pytest.raises(ValueError, match="within the table"):
        jsonfit.fit(data, ends, broken, names, out, scratch)
    with pytest.raises(ValueError, match="scratch"):
        jsonfit.fit(data, ends, nodes, names, out, scratch[:5])


# ---- widening


def test_an_empty_object_and_an_empty_array_have_types_that_files_can_hold(tmp_path: Path) -> None:
    values = [b'{"a":{},"b":[],"c":[{}],"d":{"e":{}}}']
    struct = infer_struct(values)
    decoded = ValueDecoder(ValueFormat.JSON, struct).decode(pa.array(values, pa.binary()))
    pq.write_table(pa.table({"value": decoded.columns[0]}), tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet").to_pylist() == [
        {"value": {"a": [], "b": [], "c": [[]], "d": {"e": []}}}
    ]


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("a", b'{"price":9.5}', {"a": pa.int64(), "price": pa.float64()}),
        ("a", b'{"a":9.5}', {"a": pa.float64()}),
        ("a", b'{"a":"x"}', {"a": pa.int64()}),
        ("a", b'{"a":"x","b":1}', {"a": pa.int64()}),
        ("a", b'{"b":null}', {"a": pa.int64()}),
        (
            "a",
            b'{"b":{"c":[{"d":1}]}}',
            {"a": pa.int64(), "b": pa.struct([("c", pa.list_(pa.struct([("d", pa.int64())])))])},
        ),
        ("a", b"nope", {"a": pa.int64()}),
        ("a", b'{"A":1,"b":1}', {"a": pa.int64(), "b": pa.int64()}),
    ],
)
def test_widening(before: str, value: bytes, after: dict[str, pa.DataType]) -> None:
    struct = pa.struct([(before, pa.int64())])
    found = widen_struct(struct, pa.array([value, None, b'{"a":1}'], pa.binary()))
    assert found == pa.struct(list(after.items()))


def test_widening_given_types() -> None:
    def widened(kind: pa.DataType, text: str) -> pa.DataType:
        return widen(pa.struct([("x", kind)]), parse(f'{{"x":{text}}}'.encode())).field("x").type

    assert widened(pa.int32(), "3000000000") == pa.int64()
    assert widened(pa.float32(), "1e300") == pa.float64()
    assert widened(pa.decimal128(4, 2), "12345.678") == pa.decimal128(8, 3)
    assert widened(pa.date32(), '"2024-01-01"') == pa.date32()
    assert widened(MAP, '{"k":3000000000}') == pa.map_(pa.string(), pa.int64())


@given(st.lists(_TEXTS.map(lambda text: f'{{"a":{text}}}'.encode()), min_size=1, max_size=6))
def test_an_evolving_schema_holds_what_it_was_widened_for(values: list[bytes]) -> None:
    """In any order; what fits no type with the rest stays invalid, and nothing that was held is lost."""
    try:
        struct = infer_struct(values[:1], evolving=True)
    except InvalidInputError:
        return
    column = pa.array(values, pa.binary())
    wide = widen_struct(struct, column)
    before = decode(ValueDecoder(ValueFormat.JSON, struct), list(values))[0]
    after = decode(ValueDecoder(ValueFormat.JSON, wide), list(values))[0]
    assert all(one is None or two is not None for one, two in zip(before, after, strict=True))
    assert widen_struct(wide, column) == wide
