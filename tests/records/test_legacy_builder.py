"""Magic 0 and 1, written: golden sets rebuilt byte for byte, Kafka's own builder asked for more."""

from __future__ import annotations

import base64
import random
import struct
import zlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import golden_partition
from tidelog.errors import InvalidInputError, InvalidTimestampError
from tidelog.records.batches import scan_batches
from tidelog.records.compression import decompress
from tidelog.records.legacy_builder import encode_legacy_records
from tidelog.records.record import Header, Record, decode_records
from tidelog.types import Codec, TimestampType

if TYPE_CHECKING:
    from tests.oracle import Oracle

CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
NOW = 1_500_000_000_000

fields = st.one_of(st.none(), st.binary(max_size=50))
records = st.lists(
    st.builds(Record, fields, fields, st.just(()), st.integers(-1, 1 << 62)), min_size=1, max_size=8
)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_rebuilds_kafkas_sets(magic: int, codec: Codec) -> None:
    """Each golden set, decoded and encoded again, is the same message, up to the compressor's choices."""
    partition = golden_partition(f"legacy-v{magic}-{codec.label}-0")
    for log in partition.logs():
        data = log.read_bytes()
        for position, size in scan_batches(data).require().rows[:, :2].tolist():
            message = data[position : position + size]
            found = list(decode_records(message))
            stamped = found[0].timestamp_type == TimestampType.LOG_APPEND_TIME
            again = encode_legacy_records(
                [record.to_record() for record in found],
                magic=magic,
                base_offset=found[0].offset,
                codec=codec,
                timestamp_type=TimestampType.LOG_APPEND_TIME if stamped else TimestampType.CREATE_TIME,
                now_ms=found[0].timestamp,
            )
            assert _opened(again, magic, codec) == _opened(message, magic, codec)


def _opened(message: bytes, magic: int, codec: Codec) -> tuple[bytes, ...]:
    """A message, checked and with its value decompressed; without what depends on the compressed size."""
    size, crc = struct.unpack_from(">iI", message, 8)
    assert size == len(message) - 12
    assert crc == zlib.crc32(message[16:])
    if codec == Codec.NONE:
        return (message,)
    at = 26 if magic == 1 else 18
    key, length = struct.unpack_from(">ii", message, at)
    assert (key, length) == (-1, len(message) - at - 8)
    return message[:8], message[16:at], bytes(decompress(codec, message[at + 8 :], magic=magic))


@given(
    rows=records, magic=st.sampled_from([0, 1]), codec=st.sampled_from(CODECS), base=st.integers(0, 1 << 40)
)
def test_round_trip(rows: list[Record], magic: int, codec: Codec, base: int) -> None:
    data = encode_legacy_records(rows, magic=magic, codec=codec, base_offset=base)
    found = list(decode_records(data))
    assert [record.offset for record in found] == list(range(base, base + len(rows)))
    assert [(record.key, record.value) for record in found] == [(row.key, row.value) for row in rows]
    assert [record.timestamp for record in found] == [row.timestamp if magic else -1 for row in rows]


def test_append_time_and_missing_timestamps() -> None:
    rows = [Record(b"a", timestamp=5), Record(b"b")]
    created = encode_legacy_records(rows, magic=1, codec=Codec.GZIP, now_ms=NOW)
    assert [record.timestamp for record in decode_records(created)] == [5, NOW]
    stamped = encode_legacy_records(rows, magic=1, timestamp_type=TimestampType.LOG_APPEND_TIME, now_ms=NOW)
    assert [(r.timestamp, r.timestamp_type) for r in decode_records(stamped)] == [(NOW, 1)] * 2
    assert [record.timestamp for record in decode_records(encode_legacy_records(rows, magic=1))] == [5, -1]
    assert encode_legacy_records([], magic=1, codec=Codec.GZIP) == b""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"magic": 2}, "magic 2"),
        ({"magic": -1}, "magic -1"),
        ({"magic": 1, "codec": Codec.ZSTD}, "zstd"),
        ({"magic": 1, "timestamp_type": TimestampType.NO_TIMESTAMP_TYPE}, "timestamp type"),
        ({"magic": 0, "base_offset": -1}, "base_offset"),
        ({"magic": 0, "base_offset": (1 << 63)}, "base_offset"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        encode_legacy_records([Record(b"x")], **arguments)


def test_what_the_formats_do_not_have() -> None:
    with pytest.raises(InvalidInputError, match="record 1 has headers"):
        encode_legacy_records([Record(b""), Record(b"", headers=[Header("a", b"")])], magic=1)
    with pytest.raises(InvalidTimestampError, match="record 0"):
        encode_legacy_records([Record(b"", timestamp=-2)], magic=1)


def test_kafka_builds_the_same(oracle: Oracle) -> None:
    noise = random.Random(8)
    sets, ours = [], []
    for case in range(80):
        magic, codec = case % 2, CODECS[case // 2 % 4]
        rows = [
            Record(
                noise.choice([None, b"", noise.randbytes(noise.randrange(200))]),
                noise.choice([None, b"", b"key"]),
                timestamp=noise.choice([-1, 0, NOW + noise.randrange(-999, 999)]),
            )
            for _ in range(noise.choice([1, 2, 30]))
        ]
        stamped = magic == 1 and noise.random() < 0.3
        base = noise.choice([0, 12345, 1 << 40])
        ours.append(
            encode_legacy_records(
                rows,
                magic=magic,
                codec=codec,
                base_offset=base,
                timestamp_type=TimestampType.LOG_APPEND_TIME if stamped else TimestampType.CREATE_TIME,
                now_ms=NOW,
            )
        )
        sets.append(
            {
                "magic": magic,
                "codec": codec.label,
                "base_offset": base,
                "append_time": NOW if stamped else None,
                "records": [
                    {"timestamp": row.timestamp, "key": _base64(row.key), "value": _base64(row.value)}
                    for row in rows
                ],
            }
        )
    answers = oracle.programs.ask("tidelog.oracle.Build", {"sets": sets})
    for asked, mine, answer in zip(sets, ours, answers, strict=True):
        kafkas = base64.b64decode(answer["data"])
        codec, magic = Codec.parse(str(asked["codec"])), int(asked["magic"])
        if codec == Codec.NONE:
            assert mine == kafkas
        else:
            assert _opened(mine, magic, codec) == _opened(kafkas, magic, codec)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
