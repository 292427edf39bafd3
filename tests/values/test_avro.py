"""Avro values as Arrow: the same as fastavro's own decoding; bad bytes disturb nobody."""

from __future__ import annotations

import io
import json
import random
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tests.kernels_twin import TWINS, twin
from tests.values.avro_cases import Cases, encode, expected, frame
from tidelog.values import avro_columns
from tidelog.values.avro import AvroVersions
from tidelog.values.schemas import AVRO, DirectorySchemas, Schema
from tidelog.values.spec import ColumnDecoder
from tidelog.values.wire import Framing


@pytest.fixture(params=TWINS)
def which(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "compiled":
        monkeypatch.setattr(avro_columns, "kernel", twin("avro"))
    return str(request.param)


def decoder(*schemas: Any, target: list[int] | None = None) -> ColumnDecoder:
    """Schemas with the ids 1, 2, ...; the column has the type of all, or of those given."""
    texts = [json.dumps(one) for one in schemas]
    source = DirectorySchemas("test", {f"{n}.avsc": text for n, text in enumerate(texts, 1)})
    wanted = [Schema(AVRO, texts[n - 1], n) for n in target or range(1, len(texts) + 1)]
    return ColumnDecoder("value", Framing.CONFLUENT, AvroVersions(source, wanted, {}, False))


def decoded(made: ColumnDecoder, values: list[bytes | None]) -> list[tuple[Any, bytes | None, str | None]]:
    found = made.decode(pa.array(values, pa.binary()), "t")
    for column in found.columns:
        column.validate(full=True)
        assert len(column) == len(values)
    rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    assert found.invalid == sum(bad is not None for _, bad, _ in rows)
    return rows


def check_generated(seed: int, values: int) -> None:
    """Values of a generated schema, as fastavro reads them."""
    cases = Cases(seed)
    schema = cases.record() if seed % 4 else cases.schema(2)
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    given = [cases.value(schema) for _ in range(values)]
    raw = [encode(one, schema) for one in given]
    read = [fastavro.schemaless_reader(io.BytesIO(one), parsed, None) for one in raw]
    wanted = [expected(one, schema, want) for one, want in zip(read, given, strict=True)]
    rows = decoded(decoder(schema), [frame(1, one) for one in raw])
    for (value, bad, error), want in zip(rows, wanted, strict=True):
        assert (bad, error) == (None, None), (seed, schema)
        assert value == want, (seed, schema)


@pytest.mark.parametrize("seed", range(20))
def test_generated_values_are_what_fastavro_reads(seed: int, which: str) -> None:
    for number in range(10 if which == "compiled" else 1):
        check_generated(1000 * seed + number, 30)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_a_million_generated_values_are_what_fastavro_reads(seed: int) -> None:
    for number in range(100):
        check_generated(100_000 + 1000 * seed + number, 500)


ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "more", "type": {"type": "map", "values": ["null", "int", "boolean", "double"]}},
    ],
}


def order(number: int) -> bytes:
    value = {
        "id": number,
        "note": (1, "a note") if number % 2 else (0, None),
        "tags": ["x"] * (number % 4),
        "kind": "AB"[number % 2],
        "price": Decimal(number).scaleb(-2),
        "more": {"a": (1, number), "b": (2, True)},
    }
    return encode(value, ORDER)


def test_mutated_bytes_disturb_nobody(which: str) -> None:
    """Each row is what it was, or is kept whole with a reason; neighbours are as before."""
    pick = random.Random(7)
    rounds, rows = (200, 50) if which == "compiled" else (4, 20)
    made = decoder(ORDER)
    whole = [frame(1, order(n)) for n in range(rows)]
    sound = decoded(made, whole)
    invalid = 0
    for _ in range(rounds):
        values: list[bytes | None] = list(whole)
        changed = pick.sample(range(rows), 5)
        for row in changed:
            values[row] = _mutated(whole[row], pick)
        for row, (found, before) in enumerate(zip(decoded(made, values), sound, strict=True)):
            if row not in changed:
                assert found == before
            elif found[0] is None:
                assert found[1] == values[row]
                assert found[2]
                invalid += 1
    assert invalid > rounds  # most of them


def _mutated(value: bytes, pick: random.Random) -> bytes:
    data = bytearray(value)
    for _ in range(pick.randint(1, 3)):
        way, at = pick.randrange(4), pick.randrange(len(data)) if data else 0
        if way == 0:
            del data[at:]
        elif way == 1 and data:
            data[at] = pick.choice((0, 1, 0x7F, 0x80, 0xFF, pick.randrange(256)))
        elif way == 2:
            data[at:at] = pick.randbytes(pick.randint(1, 12))
        else:
            data[at:at] = b"\xff" * pick.randint(1, 10)
    return bytes(data)


LONG = (1 << 63) - 1


def number(value: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ("long", b"", "ends early"),
        ("long", b"\x80" * 9, "ends early"),
        ("long", b"\x80" * 10 + b"\0", "too long"),
        ("long", b"\0\0", "left over"),
        ("int", number(1 << 31), "out of range"),
        ("boolean", b"\2", "boolean"),
        ("string", number(LONG), "ends early"),
        ("string", number(-1), "impossible"),
        ("string", number(2) + b"\xc3\x28", "UTF-8"),
        ("bytes", number(5) + b"1234", "ends early"),
        ("double", b"1234567", "ends early"),
        (["null", "int"], number(2), "branch"),
        (["null", "int"], number(-1), "branch"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, number(1), "symbol"),
        ({"type": "fixed", "name": "F", "size": 4}, b"123", "ends early"),
        ({"type": "array", "items": "int"}, number(LONG), "ends early"),
        ({"type": "array", "items": "int"}, number(-LONG - 1), "impossible"),
        ({"type": "array", "items": "int"}, number(-1) + number(LONG) + b"\0\0", "impossible"),
        ({"type": "array", "items": "null"}, number(LONG) + b"\0", "too many"),
        ({"type": "array", "items": "null"}, number(1 << 20) + b"\0", "too many"),
        ({"type": "map", "values": "int"}, number(1 << 40), "ends early"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, number(1) + b"\x64", "out of range"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2},
            number(17) + b"\1" + bytes(16),
            "range",
        ),
        ({"type": "long", "logicalType": "timestamp-millis"}, number(LONG), "out of range"),
    ],
)
def test_what_does_not_decode_is_kept_with_the_reason(
    schema: Any, value: bytes, reason: str, which: str
) -> None:
    ((found, bad, error),) = decoded(decoder(schema), [frame(1, value)])
    assert found is None
    assert bad == frame(1, value)
    assert reason in (error or "")


NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "n", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}
HOLDER = {
    "type": "record",
    "name": "Holder",
    "fields": [{"name": "list", "type": NODE}, {"name": "after", "type": ["null", "string"]}],
}


def test_a_recursive_type_is_json_text_and_the_rest_is_typed(which: str) -> None:
    parsed = fastavro.parse_schema(HOLDER)
    values = []
    for depth in (1, 3, 90):
        node: Any = None
        for n in range(depth):
            node = {"n": n, "next": node}
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, {"list": node, "after": "end"})
        values.append(frame(1, out.getvalue()))
    made = decoder(HOLDER)
    assert made.fields[0].type == pa.struct([("list", pa.string()), ("after", pa.string())])
    rows = decoded(made, [values[0], None, values[1], values[2], values[1][:-2]])
    assert rows[2][0]["list"] == '{"n":2,"next":{"n":1,"next":{"n":0,"next":null}}}'
    assert [row[0]["after"] for row in rows if row[0]] == ["end"] * 3
    assert rows[1] == (None, None, None)
    assert rows[4][1:] == (values[1][:-2], "the value ends early")


def test_a_recursive_value_without_end_is_invalid(which: str) -> None:
    rows = decoded(decoder(NODE), [frame(1, b"\2\2" * 5000 + b"\2\0")])
    assert rows[0][2] == "the value is nested too deeply"


def test_nulls_foreign_bytes_and_unknown_schemas_are_told_apart() -> None:
    values = [None, b"", b"\0", b"{}", frame(9, b"\2"), frame(1, b"\2")]
    rows = decoded(decoder("long"), values)
    reason = "no magic byte and schema id before the value"
    assert rows == [
        (None, None, None),
        (None, b"", reason),
        (None, b"\0", reason),
        (None, b"{}", reason),
        (None, frame(9, b"\2"), "schema 9 is unknown"),
        (1, None, None),
    ]


def versions(*kinds: Any) -> list[Any]:
    """Versions of a record with one field `x`."""
    return [{"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]} for kind in kinds]


@pytest.mark.parametrize(
    ("old", "new", "value", "read"),
    [
        ("int", "long", 5, 5),
        ("int", "double", 5, 5.0),
        ("long", "float", 5, 5.0),
        ("float", "double", 1.5, 1.5),
        ("string", "bytes", "é", "é".encode()),
        ("bytes", "string", "é".encode(), "é"),
        ("string", ["null", "string"], "a", "a"),
        ("string", ["null", "string", "int"], "a", {"member_string": "a", "member_int": None}),
        (["null", "string"], ["null", "string", "int"], (1, "a"), {"member_string": "a", "member_int": None}),
        (["null", "string"], ["null", "string", "int"], (0, None), None),
        (
            ["int", "string"],
            ["string", "int", "boolean"],
            (0, 7),
            {"member_int": 7, "member_string": None, "member_boolean": None},
        ),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, [1, 2], [1, 2]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "double"}, {"a": 1}, [("a", 1.0)]),
    ],
)
def test_older_values_are_read_as_the_type_of_all(old: Any, new: Any, value: Any, read: Any) -> None:
    schemas = versions(old, new)
    rows = decoded(decoder(*schemas), [frame(1, encode({"x": value}, schemas[0]))])
    assert rows == [({"x": read}, None, None)]


def test_fields_come_and_go_with_defaults_and_aliases() -> None:
    old = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "int"}, {"name": "gone", "type": "string"}],
    }
    new = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "b", "type": "long", "aliases": ["a"]},
            {"name": "c", "type": "string", "default": "none"},
            {"name": "d", "type": ["null", "int"], "default": None},
            {"name": "e", "type": {"type": "array", "items": "int"}, "default": [1]},
        ],
    }
    made = decoder(old, new)
    values = [
        frame(2, encode({"b": 2, "c": "x", "d": (1, 3), "e": []}, new)),
        frame(1, encode({"a": 1, "gone": "g"}, old)),
    ]
    assert [row[0] for row in decoded(made, [*values, None, values[0]])] == [
        {"b": 2, "gone": None, "c": "x", "d": 3, "e": []},
        {"b": 1, "gone": "g", "c": "none", "d": None, "e": [1]},
        None,
        {"b": 2, "gone": None, "c": "x", "d": 3, "e": []},
    ]


def default_of(kind: Any, default: Any, *, portable: bool = False) -> tuple[Any, bytes | None, str | None]:
    """What becomes of a value whose writer did not have a field with this default."""
    old, new = versions("int", "int")
    new["fields"].append({"name": "y", "type": kind, "default": default})
    sources = {f"{n}.avsc": json.dumps(one) for n, one in enumerate((old, new), 1)}
    wanted = [Schema(AVRO, text, n) for n, text in enumerate(sources.values(), 1)]
    made = AvroVersions(DirectorySchemas("test", sources), wanted, {}, portable)
    first, second = decoded(
        ColumnDecoder("value", Framing.CONFLUENT, made),
        [frame(1, encode({"x": 1}, old)), frame(9, b"")],
    )
    assert second[2] == "schema 9 is unknown"
    return first


LARGE = {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}


def test_defaults_are_of_the_branch_that_they_fit() -> None:
    assert default_of(["string", "int"], 5)[0]["y"] == {"member_string": None, "member_int": 5}
    assert default_of(["null", "int"], 5)[0]["y"] == 5
    assert default_of(LARGE, "\x01")[0]["y"] == Decimal("0.01")
    assert default_of(LARGE, "\x01", portable=True)[0]["y"] == b"\1"  # Spark has no such decimals


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", "abc"),
        ("int", 1 << 40),
        ("string", 5),
        ("boolean", "true"),
        ("bytes", "\u1234"),
        ({"type": "fixed", "name": "F", "size": 2}, "a"),
        ({"type": "array", "items": "int"}, 5),
        ({"type": "map", "values": "int"}, []),
        ({"type": "record", "name": "Q", "fields": [{"name": "a", "type": "int"}]}, 7),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1 << 62),
    ],
)
def test_a_default_of_another_type_concerns_only_values_that_need_it(kind: Any, default: Any) -> None:
    """Registries take schemas that Avro would not."""
    value, bad, error = default_of(kind, default)
    assert (value, bad) == (None, frame(1, b"\2"))
    assert "the default of y is not of its type" in (error or "")


def decimal_type(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


@pytest.mark.parametrize(
    ("old", "new"),
    [((9, 2), (60, 2)), ((60, 2), (61, 3)), ((38, 0), (39, 1)), ((60, 2), (60, 2)), ((60, 3), (62, 2))],
)
@pytest.mark.parametrize("number", ["1.25", "-1.25", "0", "-1.28", "123456.78"])
def test_decimals_that_spark_does_not_have_are_bytes_of_one_scale(
    old: tuple[int, int], new: tuple[int, int], number: str
) -> None:
    value = Decimal(number) if old[1] else Decimal(number).to_integral_value()
    schemas = versions(["null", decimal_type(*old)], ["null", decimal_type(*new)])
    texts = {f"{n}.avsc": json.dumps(one) for n, one in enumerate(schemas, 1)}
    wanted = [Schema(AVRO, text, n) for n, text in enumerate(texts.values(), 1)]
    made = AvroVersions(DirectorySchemas("test", texts), wanted, {}, portable=True)
    raw = [encode({"x": (1, value)}, schemas[0]), encode({"x": (0, None)}, schemas[0])]
    rows = decoded(ColumnDecoder("value", Framing.CONFLUENT, made), [frame(1, one) for one in raw])
    if old[1] > new[1]:  # no decimal of 76 digits or less holds both, so the newer is the type
        assert "does not fit" in (rows[0][2] or "")
        return
    assert rows[1] == ({"x": None}, None, None)
    found = int.from_bytes(rows[0][0]["x"], "big", signed=True)
    assert found == value * 10 ** max(old[1], new[1])


def test_decimals_of_two_branches_stay_apart_when_a_union_grows() -> None:
    fixed = {"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 9, "scale": 2}
    large = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 9}
    schemas = versions([fixed, large], [fixed, large, "boolean"])
    raw = [
        encode({"x": (at, one)}, schemas[0])
        for at, one in ((0, Decimal("1.25")), (1, Decimal("0.000000001")))
    ]
    rows = decoded(decoder(*schemas), [frame(1, one) for one in raw])
    assert [error for _, _, error in rows] == [None, None]
    assert [row[0]["x"]["member_F"] for row in rows] == [Decimal("1.25"), None]
    assert [row[0]["x"]["member_bytes"] for row in rows] == [None, Decimal("0.000000001")]


def test_a_schema_that_does_not_fit_the_column_goes_to_the_dead_letters() -> None:
    schemas = versions(
        "string", {"type": "record", "name": "S", "fields": []}, {"type": "array", "items": "int"}
    )
    made = decoder(*schemas, target=[1])
    rows = decoded(made, [frame(2, b""), frame(1, b"\2a"), frame(3, b"\0")])
    assert [row[0] for row in rows] == [None, {"x": "a"}, None]
    assert "does not fit" in (rows[0][2] or "")
    assert "does not fit" in (rows[2][2] or "")


def test_bytes_that_are_no_text_are_invalid_in_a_column_of_text() -> None:
    schemas = versions({"type": "array", "items": "bytes"}, {"type": "array", "items": "string"})
    values = [frame(1, encode({"x": one}, schemas[0])) for one in ([b"ok"], [b"a", b"\xff"], [])]
    rows = decoded(decoder(*schemas), values)
    assert [row[0] for row in rows] == [{"x": ["ok"]}, None, {"x": []}]
    assert rows[1][1:] == (values[1], "a value does not fit the column's type")


@pytest.mark.parametrize(("logical", "kind"), [("timestamp-micros", "double"), ("time-micros", "long")])
def test_times_are_no_numbers(logical: str, kind: str) -> None:
    """A field that was a time and is a number: no value of the one is the other, whatever Arrow casts."""
    schemas = [
        {"type": "record", "name": "R", "fields": [{"name": "at", "type": at}]}
        for at in ({"type": "long", "logicalType": logical}, kind)
    ]
    rows = decoded(decoder(*schemas), [frame(1, encode({"at": 5}, schemas[0]))])
    assert rows[0][0] is None
    assert "the writer's schema does not fit" in (rows[0][2] or "")
