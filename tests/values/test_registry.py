"""Schemas of a registry: asked once each; one that does not answer is an error, not a dead letter."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidelog
from tests.cli.command import run
from tests.values.avro_cases import encode, frame
from tests.values.registry_server import Registry, running_registry
from tests.values.test_scan import FIRST, SECOND, root, row
from tidelog import Record, Values
from tidelog.errors import InvalidInputError, SchemaRegistryError
from tidelog.values.registry import RegistrySchemas

__all__ = ["root"]

QUICK = {"max.retries": "0"}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as found:
        found.register("orders-value", 7, json.dumps(FIRST))
        found.register("orders-value", 8, json.dumps(SECOND))
        yield found


def test_values_are_read_by_the_schemas_of_a_registry(registry: Registry, root: Path) -> None:
    values = Values("avro", registry.url)
    found = tidelog.scan(root, "orders", values=values, max_rows=10).read_all().to_pylist()
    assert [one["value"] for one in found] == [row(2 * one["offset"] + one["partition"]) for one in found]
    assert len(registry.asked) == len(set(registry.asked)) == 3  # the versions, and each of two once


def test_an_unknown_id_is_a_dead_letter_and_a_new_version_is_found(
    registry: Registry, tmp_path: Path
) -> None:
    third = {
        **SECOND,
        "fields": [*SECOND["fields"], {"name": "more", "type": ["null", "int"], "default": None}],
    }
    with tidelog.open(tmp_path / "data") as store:
        new = encode({"id": 1, "note": (0, None), "currency": "CHF", "more": (1, 5)}, third)
        store.create_topic("orders")[0].append([Record(frame(9, new))])

    def scan() -> list[dict[str, object]]:
        columns = ["value", "value_error"]
        found = tidelog.scan(tmp_path / "data", columns=["value"], values=Values("avro", registry.url))
        return found.read_all().select(columns).to_pylist()

    assert scan() == [{"value": None, "value_error": "schema 9 is unknown"}]
    registry.register("orders-value", 9, json.dumps(third))
    value = {"id": 1, "note": None, "currency": "CHF", "more": 5}
    assert scan() == [{"value": value, "value_error": None}]


def test_references_are_followed(registry: Registry, tmp_path: Path) -> None:
    address = {"type": "record", "name": "com.acme.Address", "fields": [{"name": "city", "type": "string"}]}
    person = {"type": "record", "name": "Person", "fields": [{"name": "at", "type": "com.acme.Address"}]}
    registry.register("address", 1, json.dumps(address))
    reference = {"name": "com.acme.Address", "subject": "address", "version": 1}
    registry.register("people-value", 2, json.dumps(person), references=[reference])
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("people")[0].append([Record(frame(2, b"\x08Bern"))])
    found = tidelog.scan(tmp_path / "data", columns=["value"], values=Values("avro", registry.url)).read_all()
    assert found.column("value").to_pylist() == [{"at": {"city": "Bern"}}]


def test_a_registry_that_does_not_answer_is_an_error(registry: Registry, root: Path) -> None:
    registry.status = 500
    with pytest.raises(SchemaRegistryError, match=r"127\.0\.0\.1"):
        tidelog.scan(root, "orders", values=Values("avro", registry.url, registry=QUICK))
    with running_registry() as gone:
        url = gone.url
    with pytest.raises(SchemaRegistryError, match="does not answer"):
        tidelog.scan(root, "orders", values=Values("avro", url, registry=QUICK))


def test_a_server_that_is_no_registry_is_an_error(registry: Registry, tmp_path: Path) -> None:
    """A wrong path, or a proxy, answers 404 to everything: that does not make an id unknown."""
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("orders")[0].append([Record(frame(77, b""))])
    registry.status = 404
    with pytest.raises(SchemaRegistryError, match="404"):
        tidelog.scan(tmp_path / "data", values=Values("avro", registry.url, registry=QUICK)).read_all()


@pytest.mark.parametrize("text", [None, 5])
def test_an_answer_without_a_schema_is_an_error(registry: Registry, root: Path, text: object) -> None:
    registry.schemas[8]["schema"] = text
    with pytest.raises(SchemaRegistryError, match=f"{registry.url}.* (answers without a schema|404)"):
        tidelog.scan(root, "orders", values=Values("avro", registry.url, registry=QUICK)).read_all()


def test_a_registry_that_goes_away_while_values_are_read_is_an_error(
    registry: Registry, tmp_path: Path
) -> None:
    with tidelog.open(tmp_path / "data") as store:
        store.create_topic("orders")[0].append([Record(frame(77, b""))])
    reader = tidelog.scan(tmp_path / "data", values=Values("avro", registry.url, registry=QUICK))
    registry.status = 503
    with pytest.raises(SchemaRegistryError):
        reader.read_all()


def test_a_registry_asks_who_it_is(registry: Registry, root: Path) -> None:
    registry.user = "me:secret"
    with pytest.raises(SchemaRegistryError, match="401"):
        tidelog.scan(root, "orders", values=Values("avro", registry.url))
    options = {"basic.auth.user.info": "me:secret"}
    assert (
        tidelog.scan(root, "orders", values=Values("avro", registry.url, registry=options))
        .read_all()
        .num_rows
    )


def test_the_command_reads_a_secret_from_a_file(registry: Registry, root: Path, tmp_path: Path) -> None:
    registry.user = "me:secret"
    secret, typed = tmp_path / "secret", ("--value-format", "avro", "--schemas", registry.url)
    secret.write_text("me:secret\n")
    option = ("--registry-option", f"basic.auth.user.info=@{secret}")
    answer = run("cat", root / "orders-1", "-n", "1", *typed, *option)
    assert (answer.code, answer.out) == (0, '{"id":1,"note":null,"currency":"EUR"}\n')
    secret.unlink()
    answer = run("cat", root / "orders-1", "-n", "1", *typed, *option)
    assert (answer.code, f"{secret} cannot be read" in answer.err) == (2, True)


def test_options_that_the_client_does_not_take_are_refused(registry: Registry, root: Path) -> None:
    for options in ({"max.retries": "many"}, {"no.such.option": "x"}):
        with pytest.raises(InvalidInputError, match="options of the registry"):
            tidelog.scan(root, "orders", values=Values("avro", registry.url, registry=options))


def test_schemas_travel_with_a_pickle(registry: Registry) -> None:
    source = RegistrySchemas(registry.url, {})
    assert [one.id for one in source.versions("orders-value")] == [7, 8]
    copy: RegistrySchemas = pickle.loads(pickle.dumps(source))
    registry.status = 500
    assert copy.by_id(7) == source.by_id(7)
