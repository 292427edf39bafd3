"""Compression: both ways, damage, bounds and arguments, whatever the codec."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import lz4.frame
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.records.payloads import (
    COMPRESSING,
    CONTENT,
    KAFKA_PAYLOADS,
    contents,
    xerial,
)
from tidelog.errors import CompressionError, InvalidInputError, UnknownCodecError
from tidelog.records.compression import MAX_DECOMPRESSED, compress, decompress
from tidelog.types import Codec

if TYPE_CHECKING:
    pass


@pytest.mark.parametrize(("codec", "magic"), KAFKA_PAYLOADS)
def test_reads_what_kafka_wrote(codec: Codec, magic: int) -> None:
    payload = bytes.fromhex(KAFKA_PAYLOADS[codec, magic])
    assert decompress(codec, payload, magic=magic) == CONTENT


@pytest.mark.parametrize(("codec", "magic"), [(Codec.SNAPPY, 2), (Codec.LZ4, 0), (Codec.LZ4, 2)])
def test_writes_the_bytes_that_kafka_writes(codec: Codec, magic: int) -> None:
    assert compress(codec, CONTENT, magic=magic).hex() == KAFKA_PAYLOADS[codec, magic]


@given(content=contents, codec=st.sampled_from(Codec), magic=st.sampled_from([0, 1, 2]))
def test_round_trip(content: bytes, codec: Codec, magic: int) -> None:
    if codec == Codec.ZSTD:
        magic = 2
    payload = compress(codec, content, magic=magic)
    assert decompress(codec, payload, magic=magic) == content
    assert decompress(codec, payload, magic=magic, limit=len(content)) == content
    if content:
        with pytest.raises(CompressionError, match=f"expands past {len(content) - 1} bytes"):
            decompress(codec, payload, magic=magic, limit=len(content) - 1)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [0, 1, 32767, 32768, 32769, 65535, 65536, 65537, 131072, 1_000_000])
def test_round_trip_at_block_boundaries(codec: Codec, size: int) -> None:
    noise = random.Random(size).randbytes(size)
    for content in (noise, b"ab" * (size // 2)):
        assert decompress(codec, compress(codec, content)) == content


@pytest.mark.parametrize("codec", Codec)
def test_takes_any_buffer(codec: Codec) -> None:
    payload = compress(codec, memoryview(b"<" + CONTENT)[1:])
    framed = b"<<" + payload + b">"
    assert decompress(codec, memoryview(framed)[2:-1]) == CONTENT
    assert decompress(codec, bytearray(payload)) == CONTENT
    assert decompress(codec, np.frombuffer(payload, dtype=np.int8)) == CONTENT


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_cut_payload_is_never_taken_for_whole(codec: Codec) -> None:
    payload = compress(codec, CONTENT)
    for size in range(len(payload)):
        try:
            content = bytes(decompress(codec, payload[:size]))
        except CompressionError:
            continue
        # Only what Kafka takes for an end too: a xerial header without chunks, no zstd frame at all.
        assert content == b""
        assert (codec == Codec.SNAPPY and 16 <= size < 20) or (codec == Codec.ZSTD and size == 0)


@given(codec=st.sampled_from(COMPRESSING), magic=st.sampled_from([0, 1, 2]), data=st.data())
def test_damage_raises_compression_errors_only(codec: Codec, magic: int, data: st.DataObject) -> None:
    if codec == Codec.ZSTD:
        magic = 2
    payload = bytearray(compress(codec, data.draw(contents), magic=magic))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(payload) - 1))
        payload[at] = data.draw(st.integers(0, 255))
    try:
        decompress(codec, payload, magic=magic, limit=1 << 20)
    except CompressionError:
        pass


@given(codec=st.sampled_from(COMPRESSING), payload=st.binary(max_size=200))
def test_garbage_raises_compression_errors_only(codec: Codec, payload: bytes) -> None:
    try:
        decompress(codec, payload, limit=1 << 20)
    except CompressionError:
        pass


# ---- bounds


def _bombs() -> list[tuple[Codec, bytes]]:
    """Small payloads that expand to 64 MiB, and some that only say so."""
    zeros = bytes(64 << 20)
    frame = struct.pack("<IBB", 0xFD2FB528, 0, 0x58)
    repeat = (131072 << 3 | 1 << 1).to_bytes(3, "little") + b"x"
    last = (131072 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"x"
    claim = struct.pack("<IBQ", 0xFD2FB528, 0xE0, 1 << 40)
    return [
        (Codec.GZIP, gzip.compress(zeros)),
        (Codec.GZIP, gzip.compress(zeros[: 1 << 20]) * 64),
        (Codec.SNAPPY, xerial(*[zeros[: 1 << 20]] * 64)),
        (Codec.SNAPPY, b"\x80\x80\x80\x80\x04" + b"\0" * 100),
        (Codec.LZ4, lz4.frame.compress(zeros, block_linked=False, block_size=7)),
        (Codec.ZSTD, zstandard.compress(zeros)),
        (Codec.ZSTD, frame + repeat * 511 + last),
        (Codec.ZSTD, claim + repeat * 511 + last),
        (Codec.ZSTD, claim + b"\1\0\0"),
    ]


@pytest.mark.parametrize(("codec", "payload"), _bombs())
def test_expansion_is_bounded(codec: Codec, payload: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CompressionError, match=r"expands past 1048576 bytes|claims"):
            decompress(codec, payload, limit=1 << 20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 24 << 20


def test_a_payload_may_expand_far_within_the_limit() -> None:
    assert MAX_DECOMPRESSED == 1 << 30
    for codec in COMPRESSING:
        assert decompress(codec, compress(codec, bytes(16 << 20))) == bytes(16 << 20)


def test_threads_do_not_share_contexts() -> None:
    noise = random.Random(3)
    cases = [noise.randbytes(50) * noise.randrange(1, 2000) for _ in range(40)]

    def work(content: bytes) -> bool:
        return all(decompress(codec, compress(codec, content)) == content for codec in Codec)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, cases * 5))


# ---- arguments


@pytest.mark.parametrize(("codec", "magic"), [(5, 2), (7, 2), (-1, 2), (Codec.ZSTD, 1), (Codec.ZSTD, 0)])
def test_unknown_codecs(codec: int, magic: int) -> None:
    with pytest.raises(UnknownCodecError):
        decompress(codec, b"", magic=magic)
    with pytest.raises(InvalidInputError):
        compress(codec, b"", magic=magic)


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Codec.GZIP, [-1, 1, 9]),
        (Codec.LZ4, [1, 2, 8, 9, 10, 17]),
        (Codec.ZSTD, [-131072, -1, 3, 19, 22]),
    ],
)
def test_levels_of_kafka(codec: Codec, levels: list[int]) -> None:
    content = random.Random(1).randbytes(64) * 100
    for level in levels:
        assert decompress(codec, compress(codec, content, level=level)) == content
    for level in (min(levels) - 1, max(levels) + 1):
        with pytest.raises(InvalidInputError, match="level"):
            compress(codec, content, level=level)


def test_levels_make_a_difference() -> None:
    words = random.Random(2)
    text = " ".join(
        words.choice(("alpha", "beta", "gamma", "delta")) + str(words.randrange(99)) for _ in range(4000)
    )
    for codec, low, high in ((Codec.GZIP, 1, 9), (Codec.LZ4, 9, 12), (Codec.ZSTD, 1, 19)):
        small, large = (len(compress(codec, text.encode(), level=level)) for level in (high, low))
        assert small < large, codec
    with pytest.raises(InvalidInputError, match="snappy has no compression levels"):
        compress(Codec.SNAPPY, b"", level=1)
