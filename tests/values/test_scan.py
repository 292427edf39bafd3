"""`tidelog.scan` with values and keys that are decoded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from tests.values.avro_cases import encode, frame
from tests.values.registry_server import running_registry
from tidelog import Record, Values
from tidelog.errors import InvalidInputError

FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": ["null", "string"]}],
}
SECOND = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "currency", "type": "string", "default": "EUR"},
    ],
}
KEY = "string"


def value(number: int) -> bytes | None:
    """Every version, a tombstone, and what is no value."""
    if number % 10 == 9:
        return None
    if number % 10 == 8:
        return b"garbage"
    if number % 2:
        return frame(7, encode({"id": number, "note": (0, None)}, FIRST))
    return frame(8, encode({"id": number, "note": (1, "n"), "currency": "USD"}, SECOND))


def row(number: int) -> dict[str, Any] | None:
    if number % 10 in (8, 9):
        return None
    if number % 2:
        return {"id": number, "note": None, "currency": "EUR"}
    return {"id": number, "note": "n", "currency": "USD"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with tidelog.open(tmp_path / "data") as store:
        orders = store.create_topic("orders", partitions=2)
        for number in range(200):
            key = frame(3, encode(f"k{number}", KEY))
            orders[number % 2].append([Record(value(number), key=key)])
    return tmp_path / "data"


def schemas(directory: Path, files: dict[str, Any]) -> Path:
    for name, schema in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(json.dumps(schema))
    return directory


LAYOUTS = {
    "ids": {"7.avsc": FIRST, "8.avsc": SECOND},
    "subjects": {"orders-value/7.avsc": FIRST, "orders-value/8.avsc": SECOND},
    "ids and a subject": {"7.avsc": FIRST, "8.avsc": SECOND, "orders-value.avsc": SECOND},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("threads", [1, 2])
def test_values_are_columns(layout: str, threads: int, root: Path, tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", LAYOUTS[layout])
    found = tidelog.scan(
        root,
        "orders",
        columns=["partition", "offset", "value"],
        values=Values("avro", where),
        threads=threads,
    ).read_all()
    assert found.schema.names == ["partition", "offset", "value", "value_invalid", "value_error"]
    kind = pa.struct([("id", pa.int64()), ("note", pa.string()), ("currency", pa.string())])
    assert found.schema.field("value").type == kind
    for one in found.to_pylist():
        number = 2 * one["offset"] + one["partition"]
        assert one["value"] == row(number)
        assert one["value_invalid"] == (b"garbage" if number % 10 == 8 else None)
        assert (one["value_error"] is None) == (one["value_invalid"] is None)


def test_keys_are_columns_and_batches_are_small(root: Path, tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", {"orders-key/3.avsc": KEY, **LAYOUTS["subjects"]})
    found = tidelog.scan(
        root, "orders", values=Values("avro", where), keys=Values("avro", where), max_rows=7
    ).read_all()
    assert found.schema.names[:6] == [
        "key",
        "key_invalid",
        "key_error",
        "value",
        "value_invalid",
        "value_error",
    ]
    keys = [f"k{2 * one['offset'] + one['partition']}" for one in found.to_pylist()]
    assert found.column("key").to_pylist() == keys
    assert found.column("key_invalid").null_count == len(found) == 200


def test_plain_values_take_the_schema_of_their_subject(tmp_path: Path) -> None:
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("orders")[0].append(
            [Record(encode({"id": n, "note": (0, None)}, FIRST)) for n in range(5)]
        )
    where = schemas(tmp_path / "schemas", {"orders.avsc": FIRST})
    spec = Values("avro", where, framing="plain", subject="orders")
    found = tidelog.scan(tmp_path / "data", columns=["value"], values=spec).read_all()
    assert found.column("value").to_pylist() == [{"id": n, "note": None} for n in range(5)]
    with pytest.raises(InvalidInputError, match="no schema of subject orders-value"):
        tidelog.scan(tmp_path / "data", values=Values("avro", where, framing="plain"))


def test_a_version_that_cannot_be_used_concerns_its_own_values(tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", {"orders-value/1.avsc": FIRST})
    (where / "orders-value" / "2.avsc").write_text('["int", "int"]')
    value = encode({"id": 7, "note": (0, None)}, FIRST)
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("orders")[0].append([Record(frame(1, value)), Record(frame(2, b"\0\2"))])
    first, second = (
        tidelog.scan(tmp_path / "data", columns=["value"], values=Values("avro", where))
        .read_all()
        .to_pylist()
    )
    assert first == {"value": {"id": 7, "note": None}, "value_invalid": None, "value_error": None}
    assert second["value_invalid"] == frame(2, b"\0\2")
    assert second["value_error"].startswith("schema 2 cannot be used: an Avro union needs branches")
    with pytest.raises(InvalidInputError, match="the schema of orders cannot be used"):
        tidelog.scan(tmp_path / "data", values=Values("avro", where, framing="plain"))


def test_what_is_wrong_is_told_before_anything_is_read(root: Path, tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", {"5.avsc": FIRST})
    with pytest.raises(InvalidInputError, match="no schema of subject orders-value, nor of ids"):
        tidelog.scan(root, "orders", values=Values("avro", where))
    with pytest.raises(InvalidInputError, match="neither a directory of schemas"):
        tidelog.scan(root, "orders", values=Values("avro", tmp_path / "none"))
    with pytest.raises(InvalidInputError, match="the format is one of"):
        tidelog.scan(root, "orders", values=Values("thrift", where))
    with pytest.raises(InvalidInputError, match="framing is confluent or plain"):
        tidelog.scan(root, "orders", values=Values("avro", where, framing="glue"))
    (where / "orders-value.avsc").write_text('{"type": "record"}')
    with pytest.raises(InvalidInputError, match="an Avro record with the name None"):
        tidelog.scan(root, "orders", values=Values("avro", where))


def test_damage_is_passed_over_when_schemas_are_looked_for(root: Path, tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", LAYOUTS["ids"])
    log = root / "orders-0" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 0xFF  # in the first batch
    log.write_bytes(data)
    losses: list[object] = []
    found = tidelog.scan(
        root, columns=["value"], values=Values("avro", where), corrupt="skip", on_loss=losses.append
    )
    assert found.read_all().num_rows == 199
    assert len(losses) == 1


@pytest.mark.parametrize("has_registry", [False, True])
def test_a_version_that_comes_late_is_known_by_its_types_name(has_registry: bool, tmp_path: Path) -> None:
    """No subject of the topic's name: the first thousand values tell the record, and with it its versions."""
    other = {"type": "record", "name": "Other", "fields": [{"name": "id", "type": "string"}]}
    made = {7: FIRST, 8: SECOND, 9: other}
    old = [Record(frame(7, encode({"id": n, "note": (0, None)}, FIRST))) for n in range(2000)]
    new = Record(frame(8, encode({"id": 1, "note": (1, "n"), "currency": "USD"}, SECOND)))
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("orders")[0].append([*old, new])
    where = schemas(tmp_path / "schemas", {f"{number}.avsc": one for number, one in made.items()})
    with running_registry() as registry:
        for number, one in made.items():
            registry.register("shop.Order" if number < 9 else "shop.Other", number, json.dumps(one))
        asked = Values("avro", registry.url if has_registry else where)
        rows = tidelog.scan(tmp_path / "data", columns=["value"], values=asked).read_all().to_pylist()
    assert rows[0]["value"] == {"id": 0, "note": None, "currency": "EUR"}
    assert rows[2000]["value"] == {"id": 1, "note": "n", "currency": "USD"}
