"""Protobuf values as columns."""

from __future__ import annotations

import pickle
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidelog
from tests.values.avro_cases import frame
from tidelog import Record, Values
from tidelog.errors import InvalidInputError
from tidelog.values.protobuf import message_indexes

pytest.importorskip("ptars")
pytest.importorskip("grpc_tools")

ITEM = 'syntax = "proto3"; package shop; message Item { string sku = 1; uint32 count = 2; }'
ORDER = """
syntax = "proto3";
package shop;
import "item.proto";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1;
  repeated Item items = 2;
  map<string, int32> counts = 3;
  google.protobuf.Timestamp at = 4;
  optional string note = 5;
  uint64 big = 6;
  %s
  message Inner { string text = 1; }
}
message Other { string name = 1; }
"""
FIRST, SECOND = ORDER % "", ORDER % "bool paid = 7;"


@pytest.fixture
def where(tmp_path: Path) -> Path:
    directory = tmp_path / "schemas"
    (directory / "orders-value").mkdir(parents=True)
    (directory / "item.proto").write_text(ITEM)
    (directory / "orders-value" / "1.proto").write_text(FIRST)
    (directory / "orders-value" / "2.proto").write_text(SECOND)
    return directory


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def order(number: int, *, paid: bool | None = None) -> bytes:
    """As protobuf's own encoder writes it."""
    item = b"\x0a\x01s\x10" + varint(number)
    entry = b"\x0a\x01k\x10\x05"
    at = b"\x08" + varint(1_700_000_000 + number)
    found = b"\x08" + varint(number)
    for tag, part in ((0x12, item), (0x1A, entry), (0x22, at), (0x2A, b"note")):
        found += bytes([tag, len(part)]) + part
    found += b"\x30" + varint((1 << 64) - 1)
    return found if paid is None else found + b"\x38" + varint(paid)


def row(number: int, *, paid: bool | None = None) -> dict[str, Any]:
    return {
        "id": number,
        "items": [{"sku": "s", "count": number}],
        "counts": [("k", 5)],
        "at": datetime.fromtimestamp(1_700_000_000 + number, UTC),
        "note": "note",
        "big": (1 << 64) - 1,
        "paid": paid,
    }


def test_values_of_several_versions_become_one_column(where: Path, tmp_path: Path) -> None:
    values = [
        frame(1, b"\0" + order(1)),
        frame(2, b"\0" + order(2, paid=True)),
        frame(2, b"\2\0" + order(3, paid=False)),  # one index, 0
        frame(1, b"\0" + order(4)[:-2]),
        frame(1, b"\2\2" + b"\x0a\4name"),  # the second message
        frame(1, b"\2\x14"),  # there is no such message
        frame(1, b"\x80"),
        frame(1, b"\0" + order(5)),
        None,
        frame(9, b"\0"),
    ]
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("orders")[0].append([Record(one) for one in values])
    rows = (
        tidelog.scan(tmp_path / "data", columns=["value"], values=Values("protobuf", where))
        .read_all()
        .to_pylist()
    )
    assert [one["value"] for one in rows] == [
        row(1),
        row(2, paid=True),
        row(3, paid=False),
        *[None] * 4,
        row(5),
        None,
        None,
    ]
    reasons = [one["value_error"] for one in rows]
    assert reasons[3] == "not a message of the schema"
    assert "does not fit" in reasons[4]
    assert "no message at [10]" in reasons[5]
    assert reasons[6:] == ["the indexes of the message cannot be read", None, None, "schema 9 is unknown"]
    assert [one["value_invalid"] for one in rows][3:7] == values[3:7]


def test_mutated_bytes_disturb_nobody(where: Path) -> None:
    made = Values("protobuf", where, framing="plain").decoder(["orders"])
    made = pickle.loads(pickle.dumps(made))
    pick = random.Random(3)
    whole = [order(n, paid=True) for n in range(40)]
    for _ in range(30):
        values = list(whole)
        changed = pick.sample(range(40), 4)
        for at in changed:
            data = bytearray(values[at])
            data[pick.randrange(len(data))] = pick.randrange(256)
            values[at] = bytes(data[: pick.randint(1, len(data))])
        found = made.decode(pa.array(values, pa.binary()), "orders")
        for number, (value, bad) in enumerate(
            zip(found.columns[0].to_pylist(), found.columns[1].to_pylist(), strict=True)
        ):
            if number not in changed:
                assert value == row(number, paid=True)
            else:
                assert (value is None) == (bad == values[number])


def test_schemas_that_cannot_be_a_column_are_refused(tmp_path: Path) -> None:
    for text, said in (
        ('syntax = "proto3"; message A { A a = 1; }', "contains itself"),
        ("message {", "protoc does not compile"),
        ('syntax = "proto3";', "no message"),
    ):
        (tmp_path / "t-value.proto").write_text(text)
        with pytest.raises(InvalidInputError, match=said):
            Values("protobuf", tmp_path).decoder(["t"])


def test_message_indexes_are_bounded() -> None:
    data = np.frombuffer(b"\0\2\4\4\0\2\xff\xff\xff\xff\xff\xff\1\x80", np.uint8)
    starts, ends = np.array([0, 1, 3, 6, 12, 13]), np.array([1, 3, 6, 12, 13, 14])
    paths, at, bad = message_indexes(data, starts, ends)
    assert paths[:3].tolist() == [[0, -1], [2, -1], [0, 1]]
    assert at[:3].tolist() == [1, 3, 6]
    assert bad.tolist() == [False, False, False, True, True, True]


@pytest.mark.parametrize(
    ("kinds", "values", "reasons"),
    [
        (("int32", "int64"), [[(1, 5)], [(1 << 40, 5)]], [None, None]),
        (("int64", "int32"), [[(1 << 40, 5)], [(1, 5)]], [None, None]),
        (
            ("string", "int32"),
            [None, [(1, 5)]],
            ["a value does not fit the column's type: value.counts{} is string, which", None],
        ),
    ],
)
def test_maps_whose_keys_have_other_types(
    tmp_path: Path, kinds: tuple[str, str], values: list[Any], reasons: list[str | None]
) -> None:
    """Keys are widened as values are; those that cannot be are invalid, and do no harm to others."""
    schemas = tmp_path / "schemas" / "orders-value"
    schemas.mkdir(parents=True)
    for number, kind in enumerate(kinds, 1):
        text = f'syntax = "proto3"; message M {{ map<{kind}, int32> counts = 1; }}'
        (schemas / f"{number}.proto").write_text(text)
    keys = {"int32": b"\x08\x01", "int64": b"\x08" + varint(1 << 40), "string": b"\x0a\x01k"}
    entries = [keys[kind] + b"\x10\x05" for kind in kinds]
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("orders")[0].append(
            [Record(frame(at, b"\0\x0a" + varint(len(one)) + one)) for at, one in enumerate(entries, 1)]
        )
    asked = Values("protobuf", tmp_path / "schemas")
    rows = tidelog.scan(tmp_path / "data", columns=["value"], values=asked).read_all().to_pylist()
    assert [one["value"] for one in rows] == [None if one is None else {"counts": one} for one in values]
    for one, reason in zip(rows, reasons, strict=True):
        assert (one["value_error"] or "").startswith(reason or "")
        assert (one["value_error"] is None) == (reason is None)
