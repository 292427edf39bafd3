"""Values that Confluent's own serializers wrote with the schemas of a real registry (Apicurio)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import tidelog
from tests.conftest import REQUIRE_ORACLE
from tests.oracle import OracleUnavailableError
from tests.values.apicurio import Apicurio, running_apicurio
from tests.values.avro_cases import encode, frame
from tests.values.test_scan import FIRST, SECOND
from tidelog import Record, Values
from tidelog.errors import SchemaRegistryError

pytestmark = pytest.mark.slow

QUICK = {"max.retries": "0"}
ADDRESS = {"type": "record", "name": "com.acme.Address", "fields": [{"name": "city", "type": "string"}]}
PERSON = {"type": "record", "name": "Person", "fields": [{"name": "at", "type": "com.acme.Address"}]}
POINT = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Point",
    "type": "object",
    "properties": {"x": {"type": "integer"}, "on": {"type": "string", "format": "date"}},
}
PROTO = 'syntax = "proto3"; package shop; message Order { int64 id = 1; repeated string tags = 2; }'


@pytest.fixture(scope="module")
def apicurio() -> Iterator[Apicurio]:
    try:
        with running_apicurio() as found:
            yield found
    except OracleUnavailableError as why:
        if os.environ.get(REQUIRE_ORACLE) == "1":
            pytest.fail(f"{REQUIRE_ORACLE}=1, but {why}", pytrace=False)
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def client(apicurio: Apicurio) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": apicurio.url})


def append(root: Path, topic: str, values: list[bytes | None]) -> None:
    with tidelog.open(root, background=False) as store:
        found = store.topic(topic) if topic in store.topics else store.create_topic(topic)
        found[0].append([Record(one) for one in values])


def scan(root: Path, values: Values) -> list[tuple[Any, str | None]]:
    found = tidelog.scan(root, columns=["value"], values=values).read_all().to_pylist()
    return [(row["value"], row["value_error"]) for row in found]


def test_versions_of_an_avro_schema(apicurio: Apicurio, client: SchemaRegistryClient, tmp_path: Path) -> None:
    context = SerializationContext("orders", MessageField.VALUE)
    first = AvroSerializer(client, json.dumps(FIRST))({"id": 1, "note": None}, context)
    append(tmp_path, "orders", [first, None, frame(4711, b"\0")])
    wanted = Values("avro", apicurio.url)
    unknown = (None, "schema 4711 is unknown")
    assert scan(tmp_path, wanted) == [({"id": 1, "note": None}, None), (None, None), unknown]
    new = AvroSerializer(client, json.dumps(SECOND))({"id": 1 << 40, "note": "n", "currency": "CHF"}, context)
    append(tmp_path, "orders", [new])
    both = [
        ({"id": 1, "note": None, "currency": "EUR"}, None),
        (None, None),
        unknown,
        ({"id": 1 << 40, "note": "n", "currency": "CHF"}, None),
    ]
    assert scan(tmp_path, wanted) == both


def test_references_of_an_avro_schema(
    apicurio: Apicurio, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    client.register_schema("address", Schema(json.dumps(ADDRESS), "AVRO"))
    named = [SchemaReference("com.acme.Address", "address", 1)]
    number = client.register_schema("people-value", Schema(json.dumps(PERSON), "AVRO", named))
    append(tmp_path, "people", [frame(number, encode({"city": "Bern"}, ADDRESS))])
    assert scan(tmp_path, Values("avro", apicurio.url)) == [({"at": {"city": "Bern"}}, None)]


def test_a_json_schema(apicurio: Apicurio, client: SchemaRegistryClient, tmp_path: Path) -> None:
    context = SerializationContext("points", MessageField.VALUE)
    written = JSONSerializer(json.dumps(POINT), client)({"x": 3, "on": "2026-01-02"}, context)
    append(tmp_path, "points", [written])
    ((value, error),) = scan(tmp_path, Values("jsonschema", apicurio.url))
    assert (value["x"], value["on"].isoformat(), error) == (3, "2026-01-02", None)


def test_a_protobuf_schema(apicurio: Apicurio, client: SchemaRegistryClient, tmp_path: Path) -> None:
    pytest.importorskip("ptars")
    pytest.importorskip("grpc_tools")
    number = client.register_schema("shop-value", Schema(PROTO, "PROTOBUF"))
    append(tmp_path, "shop", [frame(number, b"\0" + b"\x08\x07\x12\x01a\x12\x01b")])
    found = scan(tmp_path, Values("protobuf", apicurio.url))
    assert found == [({"id": 7, "tags": ["a", "b"]}, None)]


def test_a_server_that_is_no_registry_is_an_error(apicurio: Apicurio, tmp_path: Path) -> None:
    """It answers 404 to everything: sound values must not become dead letters."""
    append(tmp_path, "orders", [frame(1, b"\2\0")])
    for url in (f"{apicurio.root}/apis", f"{apicurio.root}/apis/nothing/here"):
        with pytest.raises(SchemaRegistryError, match="404"):
            scan(tmp_path, Values("avro", url, registry=QUICK))


def test_a_registry_that_is_killed_is_an_error(tmp_path: Path, apicurio: Apicurio) -> None:
    append(tmp_path, "orders", [frame(4711, b"\0")])
    wanted = Values("avro", apicurio.url, registry=QUICK)
    reader = tidelog.scan(tmp_path, columns=["value"], values=wanted)
    apicurio.kill()
    with pytest.raises(SchemaRegistryError, match="does not answer"):
        reader.read_all()
