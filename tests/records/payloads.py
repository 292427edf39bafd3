"""Compressed payloads: some that Kafka wrote, and the means to make others."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import cramjam
from hypothesis import strategies as st

from tidelog.types import Codec

if TYPE_CHECKING:
    pass


CONTENT = b"tidelog " * 8 + bytes(range(16))

GZIP = "1f8b08000000000000ff2bc94c49cdc94f572821936660646266616563e7e0e4e2e6e1e5e3070073530b0a50000000"
SNAPPY = (
    "82534e415050590000000001000000010000001e501c746964656c6f6720de08003c000102030405060708090a0b0c0d0e0f"
)
LZ4_OLD = "04224d1860401a1e0000008f746964656c6f6720080025f001000102030405060708090a0b0c0d0e0f00000000"
LZ4 = "04224d186040821e0000008f746964656c6f6720080025f001000102030405060708090a0b0c0d0e0f00000000"
ZSTD = "28b52ffd0058f40000c0746964656c6f6720000102030405060708090a0b0c0d0e0f0100dd59b8010000"
KAFKA_PAYLOADS = {  # CONTENT as Kafka 4.3.0's streams write it
    (Codec.GZIP, 2): GZIP,
    (Codec.SNAPPY, 2): SNAPPY,
    (Codec.LZ4, 0): LZ4_OLD,
    (Codec.LZ4, 2): LZ4,
    (Codec.ZSTD, 2): ZSTD,
}
COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]

contents = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda unit, times: unit * times, st.binary(min_size=1, max_size=40), st.integers(0, 5000)),
)


def xerial(*blocks: bytes, version: int = 1) -> bytes:
    parts = [b"\x82SNAPPY\0" + struct.pack(">ii", version, 1)]
    for block in blocks:
        raw = bytes(cramjam.snappy.compress_raw(block))
        parts.append(struct.pack(">i", len(raw)) + raw)
    return b"".join(parts)
