"""Frames, headers and versions: what clients may send, and in which form they are answered."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
import uuid
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from tests.broker.asking import decoded, frame_of, request
from tidelog.broker.context import Broker
from tidelog.broker.handlers.versions import unsupported_api_versions
from tidelog.broker.wire.encoding import Kind, encoder_of
from tidelog.broker.wire.lengths import MOST_ITEMS, check_of
from tidelog.broker.wire.requests import (
    MalformedRequestError,
    UnsupportedVersionError,
    decode_request,
    encode_response,
    encode_unsupported,
    join_pieces,
    read_header,
)
from tidelog.broker.wire.versions import APIS
from tidelog.protocol.primitives import unsigned_varint


@pytest.mark.parametrize("key", sorted(APIS))
def test_every_version_has_both_messages(key: int) -> None:
    api = APIS[key]
    for version in range(api.lowest, api.highest + 1):
        assert load_request_schema(key, version) is not None
        decoded(key, version, {})  # what a handler leaves out has a default that kio reads


def test_a_response_is_shaped_by_its_version() -> None:
    topic_id = uuid.uuid4()
    values = {
        "session_id": 9,
        "responses": [
            {
                "topic": "t",
                "topic_id": topic_id,
                "partitions": [{"partition_index": 3, "high_watermark": 5, "records": memoryview(b"abc")}],
            }
        ],
    }
    old, new = decoded(1, 4, values), decoded(1, 17, values)
    assert (old.responses[0].topic, new.responses[0].topic_id) == ("t", topic_id)
    assert not hasattr(old, "session_id")
    assert new.session_id == 9
    assert old.responses[0].partitions[0].records == new.responses[0].partitions[0].records == b"abc"
    assert new.responses[0].partitions[0].aborted_transactions is None


def test_records_are_not_copied() -> None:
    records = memoryview(bytes(100_000))
    values = {"responses": [{"topic": "t", "partitions": [{"partition_index": 0, "records": records}]}]}
    pieces = join_pieces(encode_response(1, 12, 1, values))
    assert any(piece is records for piece in pieces)
    assert len(pieces) == 3


def test_requests_are_read_with_their_header() -> None:
    frame = frame_of(request("Metadata", 12, topics=None), 77, "me")[4:]
    header = read_header(frame)
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (3, 12, 77, "me")
    api, message = decode_request(header, frame)
    assert api.name == "Metadata"
    assert message.topics is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda frame: frame[:-1],
        lambda frame: frame[:8] + b"\x7f\xff" + frame[10:],
        lambda frame: frame[:5],
        lambda frame: frame[:10] + b"\xff" * (len(frame) - 10),
    ],
)
def test_garbage_is_told_from_requests(damage: Any) -> None:
    frame = damage(frame_of(request("Metadata", 12, topics=None))[4:])
    with pytest.raises(MalformedRequestError):
        decode_request(read_header(frame), frame)


def sample(schema: Any, *, tagged: bool = True) -> dict[str, Any]:
    """Values for a request: one item in every array."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(schema):
        kind = Kind.of(field)
        if not tagged and field.metadata.get("tag") is not None:
            continue
        if kind.entity is not None:
            value: Any = sample(kind.entity, tagged=tagged)
        elif kind.name in ("string", "bytes", "records", "uuid"):
            value = {"string": "ab", "uuid": uuid.UUID(int=1)}.get(kind.name, b"abc")
        else:
            value = 1
        values[field.name] = [value] if kind.is_array else value
    return values


@pytest.mark.parametrize("key", sorted(APIS))
def test_lengths_that_lie_are_refused_before_anything_is_allocated(key: int) -> None:
    api = APIS[key]
    for version in range(api.lowest, api.highest + 1):
        schema: Any = load_request_schema(key, version)
        head = struct.pack(">hhih", key, version, 1, -1) + (b"\0" if schema.__flexible__ else b"")
        body = b"".join(map(bytes, encoder_of(schema)(sample(schema))))
        assert check_of(schema)(body, 0, MOST_ITEMS) is body
        assert entity_reader(schema)(body, 0)[1] == len(body)
        for at in range(len(body)):
            for lie in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x00\x01\x00\x00"):
                frame = head + body[:at] + lie + body[at + len(lie) :]
                with contextlib.suppress(MalformedRequestError):
                    decode_request(read_header(frame), frame)


def tag_sections(schema: Any) -> int:
    """How many lists of tagged fields a sample without such fields has."""
    kinds = [Kind.of(field) for field in dataclasses.fields(schema) if field.metadata.get("tag") is None]
    return 1 + sum(tag_sections(kind.entity) for kind in kinds if kind.entity is not None)


@pytest.mark.parametrize("key", sorted(APIS))
def test_tagged_fields_that_are_not_known_are_ignored(key: int) -> None:
    schema: Any = load_request_schema(key, APIS[key].highest)
    if not schema.__flexible__:
        return
    body = b"".join(map(bytes, encoder_of(schema)(sample(schema, tagged=False))))
    message, _ = entity_reader(schema)(body, 0)
    unknown = b"\x02" + b"".join(
        unsigned_varint(tag) + unsigned_varint(200) + bytes(200) for tag in (99, 70_000)
    )
    frame, put = body, 0
    for at in reversed([at for at, byte in enumerate(body) if byte == 0]):
        tried = frame[:at] + unknown + frame[at + 1 :]
        with contextlib.suppress(ValueError, IndexError, struct.error):
            if check_of(schema)(tried, 0, MOST_ITEMS) == body:
                frame, put = tried, put + 1
    assert put == tag_sections(schema)
    assert entity_reader(schema)(check_of(schema)(frame, 0, MOST_ITEMS), 0)[0] == message


def test_tagged_fields_that_are_not_known_go_from_within_known_ones() -> None:
    schema: Any = load_request_schema(1, 17)
    body = b"".join(map(bytes, encoder_of(schema)({"replica_state": {"replica_id": 3, "replica_epoch": 4}})))
    state = struct.pack(">iq", 3, 4)
    at = body.index(state)
    longer = state + b"\x01\x07\x02hi"
    frame = body[: at - 1] + bytes([len(longer)]) + longer + body[at + len(state) + 1 :]
    assert check_of(schema)(frame, 0, MOST_ITEMS) == body


def test_unknown_versions_are_refused_in_a_form_that_can_be_read(broker: Broker) -> None:
    frame = struct.pack(">hhih", 18, 99, 5, -1) + b"whatever"
    header = read_header(frame)
    with pytest.raises(UnsupportedVersionError):
        decode_request(header, frame)
    answer = decoded(18, 0, unsupported_api_versions(broker))
    assert answer.error_code == 35
    assert {(one.api_key, one.max_version) for one in answer.api_keys} == {
        (api.key, api.highest) for api in APIS.values()
    }


@pytest.mark.parametrize(("key", "version"), [(29, 3), (16, 99), (10, 77), (999, 0)])
def test_unknown_apis_get_an_error_and_keep_their_connection(key: int, version: int) -> None:
    header = read_header(struct.pack(">hhih", key, version, 5, -1))
    frame = b"".join(encode_unsupported(header, 35))
    size, correlation = struct.unpack_from(">ii", frame)
    assert (size + 4, correlation) == (len(frame), 5)
    if key == 999:
        assert frame[8:] == b"\0\x23"
        return
    schema: Any = load_response_schema(key, min(version, {29: 3, 16: 5, 10: 6}[key]))
    read, _ = entity_reader(schema)(frame, 9)
    assert key == 10 or read.error_code == 35


def test_items_are_counted_in_all_arrays() -> None:
    topics = [{"name": "t", "partitions": [{"partition_index": n} for n in range(9)]} for _ in range(10)]
    frame = frame_of(request("OffsetCommit", 8, group_id="g", topics=topics))[4:]
    header = read_header(frame)
    assert len(decode_request(header, frame, 100)[1].topics) == 10
    with pytest.raises(MalformedRequestError, match="too many items"):
        decode_request(header, frame, 99)
