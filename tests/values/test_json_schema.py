"""JSON values under a JSON Schema."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from tests.values.avro_cases import frame
from tests.values.test_scan import schemas
from tidelog import Record, Values
from tidelog.errors import InvalidInputError
from tidelog.values.json_schema import json_type
from tidelog.values.schemas import JSON, Schema

FIRST = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "total": {"type": ["null", "number"]},
        "on": {"type": "string", "format": "date"},
        "at": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date-time"}]},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
        "more": {"type": "object", "additionalProperties": {"type": "integer"}},
        "kind": {"enum": ["a", "b", None]},
    },
    "$defs": {"tag": {"type": "string"}},
}
SECOND = {"type": "object", "properties": {"id": {"type": "number"}, "new": {"type": "boolean"}}}


def type_of(schema: Any) -> pa.DataType:
    return json_type(Schema(JSON, json.dumps(schema)))


def test_values_of_several_versions_become_one_column(tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", {"orders-value/1.json": FIRST, "orders-value/2.json": SECOND})
    first = {"id": 1, "on": "2026-11-15", "at": "2026-11-15T10:00:00Z", "tags": ["x"], "more": {"a": 1}}
    values = [
        frame(1, json.dumps(first).encode()),
        frame(2, b'{"id":1.5,"new":true}'),
        frame(1, b'{"id":"text"}'),
        frame(1, b"{"),
        frame(3, b"{}"),
        None,
        frame(1, b'{"unknown":1}'),
    ]
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("orders")[0].append([Record(one) for one in values])
    reader = tidelog.scan(tmp_path / "data", columns=["value"], values=Values("jsonschema", where))
    rows = reader.read_all().to_pylist()
    nothing = dict.fromkeys(("total", "on", "at", "tags", "more", "kind", "new"))
    moment = datetime(2026, 11, 15, 10, tzinfo=UTC)
    one = {"id": 1.0, "on": date(2026, 11, 15), "at": moment, "tags": ["x"], "more": [("a", 1)]}
    assert [row["value"] for row in rows] == [
        nothing | one,
        nothing | {"id": 1.5, "new": True},
        *[None] * 5,
    ]
    unfit = "the value is no JSON object that fits the schema"
    assert [row["value_error"] for row in rows] == [
        None,
        None,
        unfit,
        unfit,
        "schema 3 is unknown",
        None,
        unfit,
    ]
    assert [row["value_invalid"] for row in rows][2:5] == values[2:5]


def test_a_decoder_travels_with_a_pickle(tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", {"orders-value.json": SECOND})
    made = Values("jsonschema", where, framing="plain").decoder(["orders"], portable=True)
    copy = pickle.loads(pickle.dumps(made))
    found = copy.decode(pa.array([b'{"id":2}', b"x"], pa.binary()), "orders")
    assert found.columns[0].to_pylist() == [{"id": 2.0, "new": None}, None]
    assert found.invalid == 1


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string"}, "object with properties"),
        ({"properties": {"a": {}}}, "without a type"),
        ({"properties": {"a": {"type": ["string", "integer"]}}}, "different types"),
        ({"properties": {"a": {"$ref": "#/none"}}}, "not there"),
        ({"properties": {"a": {"$ref": "#"}}}, "contains itself"),
        ({"properties": {"a": {"type": "thing"}}}, "no type 'thing'"),
    ],
)
def test_schemas_that_cannot_be_a_column_are_refused(schema: Any, said: str, tmp_path: Path) -> None:
    where = schemas(tmp_path / "schemas", {"t-value.json": schema})
    with pytest.raises(InvalidInputError, match=said):
        Values("jsonschema", where).decoder(["t"])


def test_types() -> None:
    assert type_of({"properties": {"a": {"const": 1}, "b": {"allOf": [{"type": "integer"}]}}}) == pa.struct(
        [("a", pa.int64()), ("b", pa.int64())]
    )
