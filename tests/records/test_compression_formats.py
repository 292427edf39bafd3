"""What Kafka's streams accept of each codec's format, and what they refuse."""

from __future__ import annotations

import gzip
import io
import struct
from typing import TYPE_CHECKING

import cramjam
import lz4.frame
import pytest
import xxhash
import zstandard

from tests.records.payloads import (
    CONTENT,
    xerial,
)
from tidelog.errors import CompressionError
from tidelog.records.compression import compress, decompress
from tidelog.types import Codec

if TYPE_CHECKING:
    pass


def test_gzip_members_follow_one_another() -> None:
    named = io.BytesIO()
    with gzip.GzipFile("a name", "wb", fileobj=named) as file:
        file.write(b"two")
    payload = gzip.compress(b"one") + named.getvalue() + gzip.compress(b"") + compress(Codec.GZIP, b"three")
    assert decompress(Codec.GZIP, payload) == b"onetwothree"
    twins = gzip.compress(b"same") * 2
    assert decompress(Codec.GZIP, twins) == b"samesame"


@pytest.mark.parametrize(
    "tail", [b"\0", b"\0" * 40, b"\x1f\x8b", b"\x1f\x8b\x08" + b"\0" * 15, b"\x1f\x8b\x08\x08" + b"a" * 30]
)
def test_gzip_ignores_what_starts_no_member(tail: bytes) -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one") + tail) == b"one"


def test_gzip_refuses_a_damaged_second_member() -> None:
    second = bytearray(gzip.compress(b"second" * 20))
    second[-8] ^= 1
    with pytest.raises(CompressionError, match="gzip payload is corrupt"):
        decompress(Codec.GZIP, gzip.compress(b"one") + second)


def test_snappy_without_framing() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(CONTENT))) == CONTENT
    assert decompress(Codec.SNAPPY, b"\x01\x00a") == b"a"


def test_snappy_chunks_and_headers_between_them() -> None:
    assert decompress(Codec.SNAPPY, xerial()) == b""
    assert decompress(Codec.SNAPPY, xerial(b"a", b"", b"bc")) == b"abc"
    assert decompress(Codec.SNAPPY, xerial(b"a") + xerial(b"b")) == b"ab"
    assert decompress(Codec.SNAPPY, xerial(b"a", version=0)) == b"a"
    for tail in (b"\0", b"\0\0\0"):
        assert decompress(Codec.SNAPPY, xerial(b"a") + tail) == b"a"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "empty"),
        (xerial(b"a") + xerial(b"b", version=0), "version"),
        (xerial(b"a") + b"\x82SNAPPY\0", "between chunks"),
        (xerial(b"a") + b"\x82SNA" + b"\0" * 12, "between chunks"),
        (xerial() + struct.pack(">i", -5) + b"abc", "chunk of -5 bytes"),
        (xerial() + struct.pack(">i", 100) + b"abc", "chunk of 100 bytes"),
        (xerial() + struct.pack(">i", 0), "no length"),
        (b"\xff\xff\xff\xff\xff\xff", "no length"),
        (b"\xff\xff\xff\xff\x0f" + b"\0" * 30, "claims to hold 4294967295"),
        (b"\x05\x00a", "corrupt"),
        (bytes(cramjam.snappy.compress_raw(CONTENT)) + b"\0", "corrupt"),
    ],
)
def test_snappy_refuses(payload: bytes, reason: str) -> None:
    with pytest.raises(CompressionError, match=reason):
        decompress(Codec.SNAPPY, payload)


@pytest.mark.parametrize("block_checksum", [False, True])
@pytest.mark.parametrize("content_checksum", [False, True])
@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_lz4_frames_of_every_kind(
    block_checksum: bool, content_checksum: bool, store_size: bool, block_size: int
) -> None:
    content = CONTENT * 2000
    payload = lz4.frame.compress(
        content,
        block_size=block_size,
        block_linked=False,
        block_checksum=block_checksum,
        content_checksum=content_checksum,
        store_size=store_size,
    )
    assert decompress(Codec.LZ4, payload) == content
    assert decompress(Codec.LZ4, payload + b"what follows is not looked at") == content
    if block_checksum:
        at = 7 + 8 * store_size
        (size,) = struct.unpack_from("<I", payload, at)
        damaged = bytearray(payload)
        damaged[at + 4 + size] ^= 1
        with pytest.raises(CompressionError, match="checksum"):
            decompress(Codec.LZ4, damaged)
    if content_checksum:  # Kafka does not look at it, but it must be there
        assert decompress(Codec.LZ4, payload[:-1] + bytes([payload[-1] ^ 1])) == content
        with pytest.raises(CompressionError, match="truncated"):
            decompress(Codec.LZ4, payload[:-1])


def test_lz4_reads_one_frame_as_kafka_does() -> None:
    assert decompress(Codec.LZ4, compress(Codec.LZ4, b"one") + compress(Codec.LZ4, b"two")) == b"one"


def test_lz4_header_checksum_old_and_new() -> None:
    old, new = compress(Codec.LZ4, CONTENT, magic=0), compress(Codec.LZ4, CONTENT, magic=1)
    assert old[6] == (xxhash.xxh32_intdigest(old[:6]) >> 8) & 0xFF
    assert new[6] == (xxhash.xxh32_intdigest(new[4:6]) >> 8) & 0xFF
    assert old[:6] + old[7:] == new[:6] + new[7:]
    for payload in (old, new, new[:6] + b"\0" + new[7:]):
        assert decompress(Codec.LZ4, payload, magic=0) == CONTENT
    for magic in (1, 2):
        assert decompress(Codec.LZ4, new, magic=magic) == CONTENT
        with pytest.raises(CompressionError, match="header does not match its checksum"):
            decompress(Codec.LZ4, old, magic=magic)


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, 5, "does not start with a frame"),
        (4, 0x40, "dependent blocks"),
        (4, 0x61, "flags 0x61"),
        (4, 0xA0, "flags 0xa0"),
        (5, 0x30, "block size"),
        (5, 0xC0, "block size"),
        (5, 0x41, "block size"),
        (9, 0xFF, "lz4 block of"),
        (11, 0xFF, "corrupt|truncated|lz4 block of"),
    ],
)
def test_lz4_refuses(at: int, value: int, reason: str) -> None:
    payload = bytearray(compress(Codec.LZ4, CONTENT, magic=0))
    payload[at] = value
    with pytest.raises(CompressionError, match=reason):
        decompress(Codec.LZ4, payload, magic=0)


def test_zstd_frames_of_every_kind() -> None:
    plain = zstandard.ZstdCompressor(write_content_size=False)
    checked = zstandard.ZstdCompressor(write_checksum=True)
    stream = zstandard.ZstdCompressor().compressobj()
    streamed = stream.compress(b"three ") + stream.flush()
    skippable = struct.pack("<II", 0x184D2A5C, 3) + b"abc"
    payload = (
        plain.compress(b"one ") + checked.compress(b"two ") + skippable + streamed + checked.compress(b"")
    )
    assert decompress(Codec.ZSTD, payload) == b"one two three "
    assert decompress(Codec.ZSTD, b"") == b""
    assert decompress(Codec.ZSTD, skippable) == b""


def _zstd_damage() -> list[tuple[bytes, str]]:
    checked = zstandard.ZstdCompressor(write_checksum=True)
    frame = checked.compress(CONTENT)
    empty = bytearray(checked.compress(b""))
    empty[-1] ^= 1
    sized = bytearray(zstandard.ZstdCompressor().compress(CONTENT))
    sized[5] ^= 1
    return [
        (frame[:-1] + bytes([frame[-1] ^ 1]), "corrupt"),
        (bytes(empty), "corrupt"),
        (bytes(sized), "corrupt|claims"),
        (frame + b"\0", "truncated"),
        (frame + b"\0" * 8, "not a frame"),
        (frame + frame[:-3], "truncated"),
        (frame + struct.pack("<II", 0x184D2A50, 30) + b"abc", "truncated"),
        (frame[:9] + b"\xff\xff\xff" + frame[12:], "truncated|corrupt|claims"),
    ]


@pytest.mark.parametrize(("payload", "reason"), _zstd_damage())
def test_zstd_refuses(payload: bytes, reason: str) -> None:
    with pytest.raises(CompressionError, match=reason):
        decompress(Codec.ZSTD, payload)
