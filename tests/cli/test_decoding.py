"""Payload decoders: text, JSON, Avro, and messages of every kind against Kafka's own bytes."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.command import run
from tests.golden import GOLDEN
from tidelog.decoding import Decoded, Undecodable, make_decoder
from tidelog.decoding.texts import visible
from tidelog.protocol.notation import parse_messages
from tidelog.protocol.primitives import Reader
from tidelog.records import Record, decode_records, encode_records

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
INTERNAL = {
    GOLDEN / "clean/__consumer_offsets-0": "consumer-offsets",
    Path(__file__).with_name("data") / "__transaction_state-0": "transaction-state",
    GOLDEN / "clean/__cluster_metadata-0": "cluster-metadata",
}
EACH = pytest.mark.parametrize(("directory", "name"), INTERNAL.items(), ids=INTERNAL.values())
LOG = "00000000000000000000.log"


@EACH
def test_every_record_of_kafkas_own_topics_is_known(directory: Path, name: str) -> None:
    decoder = make_decoder(name)
    for record in decode_records((directory / LOG).read_bytes()):
        if not record.control:
            assert "UNKNOWN" not in json.dumps(decoder.decode(record.key, record.value).value)


@EACH
@given(at=st.integers(0, 10_000), flips=st.binary(min_size=1, max_size=3), cut=st.integers(0, 40))
def test_damaged_messages_are_undecodable_at_worst(
    directory: Path, name: str, at: int, flips: bytes, cut: int
) -> None:
    records = [record for record in decode_records((directory / LOG).read_bytes()) if not record.control]
    record = records[at % len(records)]
    value = bytearray(record.value or b"")
    for n, flip in enumerate(flips):
        if value:
            value[(at + n) % len(value)] ^= flip
    decoder = make_decoder(name)
    for damaged in (bytes(value), bytes(value[: -cut or None])):
        try:
            json.dumps(decoder.decode(record.key, damaged).value)
        except Undecodable:
            pass


def test_a_group_of_the_classic_protocol_is_opened() -> None:
    subscription = struct.pack(">hih6si", 0, 1, 6, b"orders", -1)
    assignment = struct.pack(">hih6siii", 0, 1, 6, b"orders", 1, 0, -1)
    member = b"".join(
        (
            *(struct.pack(f">h{len(text)}s", len(text), text) for text in (b"m", b"c", b"h")),
            struct.pack(">i", 10_000),
            *(struct.pack(f">i{len(data)}s", len(data), data) for data in (subscription, assignment)),
        )
    )
    value = struct.pack(">hh8sihhi", 0, 8, b"consumer", 3, -1, -1, 1) + member
    key = struct.pack(">hh4s", 2, 4, b"bill")
    decoded = make_decoder("consumer-offsets").decode(key, value)
    (found,) = decoded.value["data"]["members"]
    assert found["subscription"] == {"topics": ["orders"], "userData": None}
    assert found["assignment"] == {
        "assignedPartitions": [{"topic": "orders", "partitions": [0]}],
        "userData": None,
    }
    assert make_decoder("consumer-offsets").decode(key, None).value == "<DELETE>"


def test_messages_from_the_future_are_shown_in_hex() -> None:
    unknown = make_decoder("cluster-metadata").decode(None, b"\x01\x63\x00\xab")
    assert unknown.value == {"type": "UNKNOWN(99)", "version": 0, "hex": "ab"}
    assert make_decoder("consumer-offsets").decode(b"\0\x63\xab", None).key["type"] == "UNKNOWN(99)"


def test_tagged_and_nullable_fields() -> None:
    (message,) = parse_messages(
        "Sample 1 2 1: a int16, b string? @1+, c {d int8}?, e {f int8}? #1 @1+, g []int8 #0 @1+"
    ).values()
    old = Reader(b"\0\x05\x01\x07", "sample")
    assert message.decode(old, 0) == {"a": 5, "c": {"d": 7}}
    new = Reader(b"\0\x05\x00\xff\x02\x00\x02\x02\x09\x01\x03\x01\x08\x00", "sample")
    assert message.decode(new, 1) == {"a": 5, "b": None, "c": None, "e": {"f": 8}, "g": [9]}
    assert new.remaining == 0


def avro(value: object) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(SCHEMA), value)
    return body.getvalue()


@pytest.mark.parametrize("registry", [b"", b"\0\0\0\0\x07"])
def test_avro_values(tmp_path: Path, registry: bytes) -> None:
    schema = tmp_path / "order.avsc"
    schema.write_text(json.dumps(SCHEMA))
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(encode_records([Record(registry + avro({"id": 42}), key=b"k", timestamp=1)]))
    answer = run("dump", "--decode", "avro", "--avro-schema", schema, log)
    assert answer.lines[-1].endswith(' key: k payload: {"id":42}')
    (line,) = run("dump", "--json", "--decode", "avro", "--avro-schema", schema, log).lines
    assert json.loads(line)["value"] == {"id": 42}
    schema.write_text("{}")
    answer = run("dump", "--decode", "avro", "--avro-schema", schema, log)
    assert answer.code == 2
    assert "is not an Avro schema" in answer.err


def test_avro_without_its_package(tmp_path: Path) -> None:
    (tmp_path / "fastavro.py").write_text("raise ImportError('not here')")
    schema = tmp_path / "order.avsc"
    schema.write_text(json.dumps(SCHEMA))
    log = GOLDEN / "clean/golden-none-0" / LOG
    answer = run("dump", "--decode", "avro", "--avro-schema", schema, log, PYTHONPATH=str(tmp_path))
    assert answer.code == 2
    assert "install it with pip install 'tidelog[avro]'" in answer.err


def test_values_that_are_no_json_are_told(tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(
        encode_records([Record(value, key=b"k", timestamp=1) for value in (b'{"a": 1}', b"{", None)])
    )
    answer = run("dump", "--decode", "json", log)
    assert [line.partition("headerKeys: [] ")[2] for line in answer.lines[3:]] == [
        'key: k payload: {"a":1}',
        answer.lines[4].partition("headerKeys: [] ")[2],
        "key: k",
    ]
    assert "payload: Error at offset 1, skipping. not JSON" in answer.lines[4]
    assert answer.code == 1
    assert f"1 records of {log} are not what --decode says" in answer.err
    records = [json.loads(line) for line in run("dump", "--json", "--decode", "json", log).lines]
    assert [record["value"] for record in records] == [{"a": 1}, "ew==", None]
    assert "decode_error" in records[1]


def test_strings(tmp_path: Path) -> None:
    assert make_decoder("string").decode(None, b"\xff") == Decoded(None, "\\xff", has_key=False)
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(encode_records([Record("grüß".encode(), timestamp=1), Record(b"\x1b\xff", timestamp=1)]))
    assert run("dump", "--decode", "string", log).out == run("dump", "--print-data-log", log).out
    records = [json.loads(line) for line in run("dump", "--json", "--decode", "string", log).lines]
    assert [record["value"] for record in records] == ["grüß", "\x1b\\xff"]


@given(st.binary(max_size=20))
def test_visible_text_cannot_command_a_terminal(data: bytes) -> None:
    text = visible(data)
    assert not any(ord(one) < 0x20 or 0x7F <= ord(one) < 0xA0 for one in text)
