"""Responses of every version from plain values."""

from __future__ import annotations

import datetime
import io

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer

from tidelog.broker.messages import _build, field, milliseconds, respond

VERSIONS = [(key, version) for key, name in api_key_map.items() for version in schema_name_map[name]]


@pytest.mark.parametrize("api_key", sorted(api_key_map))
def test_every_response_can_be_built_and_written_with_nothing_said(api_key: int) -> None:
    for version in schema_name_map[api_key_map[api_key]]:
        cls = load_response_schema(api_key, version)
        out = io.BytesIO()
        entity_writer(cls)(out, _build(cls, {}))
        read, size = entity_reader(cls)(out.getvalue(), 0)
        assert size == len(out.getvalue())
        assert isinstance(read, cls)


def request(name: str, version: int, **fields: object) -> object:
    key = next(key for key, each in api_key_map.items() if each == name)
    return load_request_schema(key, version)(**fields)


@pytest.mark.parametrize("version", range(0, 7))
def test_what_a_version_does_not_know_is_dropped(version: int) -> None:
    fields: dict[str, object] = {"key": "g"} if version < 4 else {"coordinator_keys": ("g",)}
    asked = request("find_coordinator", version, **fields, **({"key_type": 0} if version else {}))
    found = {"node_id": 1, "host": "h", "port": 9, "key": "g", "error_code": 15}
    answer = respond(asked, throttle_time=7, coordinators=[found], **found)
    told = answer.coordinators[0] if version >= 4 else answer
    assert (told.node_id, told.host, told.port, told.error_code) == (1, "h", 9, ErrorCode(15))
    if version > 0:
        assert answer.throttle_time == datetime.timedelta(milliseconds=7)
    assert field(answer, "coordinators") is None or version >= 4


def test_milliseconds() -> None:
    assert milliseconds(datetime.timedelta(seconds=1.5)) == 1500
