"""Kafka's own reader and builder on what we encode."""

from __future__ import annotations

import base64
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tidelog.records.builder import encode_batches
from tidelog.records.record import Header, Record, decode_records, encode_records, to_arrow
from tidelog.types import Codec, TimestampType

if TYPE_CHECKING:
    from tests.oracle import Oracle

NOW = 1_700_000_000_000


def _record(noise: random.Random) -> Record:
    text = b" ".join(noise.choice((b"alpha", b"beta", b"gamma")) for _ in range(noise.randrange(40)))
    return Record(
        noise.choice([None, b"", text, noise.randbytes(noise.randrange(300))]),
        noise.choice([None, b"", b"key-%d" % noise.randrange(50)]),
        tuple(
            Header(noise.choice(["", "trace", "größe", "波"]), noise.choice([None, b"", text]))
            for _ in range(noise.choice([0, 0, 1, 3]))
        ),
        noise.choice([-1, 0, NOW + noise.randrange(-(10**6), 10**6), noise.randrange(1 << 62)]),
    )


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _asked(record: Record) -> dict[str, Any]:
    """A record as the oracle's builder is told it."""
    return {
        "timestamp": record.timestamp,
        "key": _base64(record.key),
        "value": _base64(record.value),
        "headers": [[header.key, _base64(header.value)] for header in record.headers],
    }


@pytest.mark.parametrize("codec", Codec)
def test_kafka_decodes_the_same_records(oracle: Oracle, codec: Codec) -> None:
    noise = random.Random(codec)
    rows = [_record(noise) for _ in range(1000)]
    common = {"codec": codec, "leader_epoch": 5, "max_batch_bytes": 4000}
    plain = encode_records(rows[:600], base_offset=100, **common)
    transactional = encode_records(
        rows[600:],
        base_offset=700,
        producer_id=1234,
        producer_epoch=7,
        base_sequence=(1 << 31) - 100,
        transactional=True,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        now_ms=NOW,
        **common,
    )
    answers = oracle.decode_bytes(plain + transactional)
    assert len(answers) == 1000
    for row, (record, answer) in enumerate(zip(rows, answers, strict=True)):
        late = row >= 600
        expected: dict[str, Any] = {
            "offset": 100 + row,
            "timestamp": NOW if late else record.timestamp,
            "timestamp_type": "LogAppendTime" if late else "CreateTime",
            "key": _base64(record.key),
            "value": _base64(record.value),
            "headers": [[header.key, _base64(header.value)] for header in record.headers],
            "magic": 2,
            "codec": codec.label,
            "leader_epoch": 5,
            "producer_id": 1234 if late else -1,
            "producer_epoch": 7 if late else -1,
            "sequence": ((1 << 31) - 100 + row - 600) % (1 << 31) if late else -1,
            "transactional": late,
            "control": False,
        }
        assert {name: answer[name] for name in expected} == expected
    assert len({answer["base_offset"] for answer in answers}) > 10


def test_kafka_decodes_large_batches(oracle: Oracle) -> None:
    noise = random.Random(3)
    values = [noise.randbytes(100) for _ in range(20_000)]
    rows = pa.table({"value": values, "timestamp": pa.array(range(20_000), pa.timestamp("ms"))})
    data = b""
    for codec in Codec:
        offset = codec * 20_000
        batches = encode_batches(rows, codec=codec, base_offset=offset, max_batch_bytes=1 << 20)
        assert len(batches) == 3
        data += bytes(batches)
    answers = oracle.decode_bytes(data)
    assert [answer["offset"] for answer in answers] == list(range(100_000))
    assert [answer["timestamp"] for answer in answers] == list(range(20_000)) * 5
    expected = [_base64(value) for value in values]
    assert [answer["value"] for answer in answers] == expected * 5


def test_kafkas_builder_writes_the_same_bytes(oracle: Oracle) -> None:
    """Uncompressed: header, varints, checksum and where batches are cut, all as MemoryRecordsBuilder does."""
    noise = random.Random(4)
    sets, ours = [], []
    for _ in range(150):
        rows = [_record(noise) for _ in range(noise.choice([1, 2, 50, 200]))]
        common: dict[str, Any] = {
            "base_offset": noise.choice([0, 77, 1 << 40]),
            "leader_epoch": noise.choice([-1, 9]),
        }
        if noise.random() < 0.5:
            common |= {
                "producer_id": noise.randrange(1 << 62),
                "producer_epoch": noise.randrange(1 << 15),
                "base_sequence": noise.choice([0, 100, (1 << 31) - 5]),
                "transactional": noise.random() < 0.5,
            }
        limit, most = noise.choice([1, 200, 1000, 16384, 1 << 20]), noise.choice([1, 3, (1 << 31) - 1])
        stamp, horizon = noise.random() < 0.3, noise.choice([None, None, NOW + 5])
        ours.append(
            encode_batches(
                to_arrow(rows),
                max_batch_bytes=limit,
                max_batch_records=most,
                timestamp_type=TimestampType.LOG_APPEND_TIME if stamp else TimestampType.CREATE_TIME,
                now_ms=NOW,
                delete_horizon_ms=horizon,
                **common,
            )
        )
        sets.append(
            common
            | {
                "write_limit": limit,
                "max_records": most,
                "append_time": NOW if stamp else None,
                "delete_horizon": horizon,
                "records": [_asked(row) for row in rows],
            }
        )
    answers = oracle.programs.ask("tidelog.oracle.Build", {"sets": sets})
    for mine, answer in zip(ours, answers, strict=True):
        assert bytes(mine) == base64.b64decode(answer["data"])


@pytest.mark.parametrize("codec", Codec)
def test_we_read_what_kafkas_builder_writes(oracle: Oracle, codec: Codec) -> None:
    noise = random.Random(codec + 50)
    rows = [_record(noise) for _ in range(500)]
    asked = {"codec": codec.label, "write_limit": 8000, "records": [_asked(row) for row in rows]}
    (answer,) = oracle.programs.ask("tidelog.oracle.Build", {"sets": [asked]})
    found = list(decode_records(base64.b64decode(answer["data"])))
    assert [record.to_record() for record in found] == rows
