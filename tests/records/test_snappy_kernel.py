"""The snappy kernel decompresses what a library compresses; damage it leaves to the library to judge."""

from __future__ import annotations

import random
import struct
from types import ModuleType

import cramjam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels_twin import twin
from tidelog.kernels import snappy
from tidelog.records.faults import Fault

KERNELS = (snappy, twin("snappy"))
HEADER = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
GUARD = 64


def xerial(*blocks: bytes) -> bytes:
    return HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def run(kernel: ModuleType, payload: bytes, room: int) -> bytes | Fault:
    """What the kernel answers, with `room` bytes to write to and nothing written past them."""
    out = np.full(room + GUARD, 0xA5, dtype=np.uint8)
    n = kernel.decompress(payload, out[:room])
    assert (out[room:] == 0xA5).all()
    return out[:n].tobytes() if n >= 0 else Fault(-n)


def library(block: bytes) -> bytes | None:
    """What a raw block holds by Google's snappy, which Kafka's clients use too; None if it is damaged."""
    claim = shift = 0
    for byte in block[:5]:
        claim |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        return None
    if claim > 64 * len(block):
        return None
    try:
        return bytes(pa.Codec("snappy").decompress(block, decompressed_size=claim, asbytes=True))
    except OSError:
        return None


words = st.lists(st.sampled_from([b"", b"a", b"abcd", b"0123456789abcdef", b"zz" * 40]), max_size=60).map(
    b"".join
)
contents = st.one_of(
    st.binary(max_size=300), words, st.builds(lambda a, n: a * n, st.binary(max_size=20), st.integers(0, 300))
)


@given(pieces=st.lists(contents, min_size=1, max_size=3), spare=st.sampled_from([0, 1, 100]))
def test_decompresses_what_the_library_compressed(pieces: list[bytes], spare: int) -> None:
    whole = b"".join(pieces)
    payload = xerial(*(bytes(cramjam.snappy.compress_raw(piece)) for piece in pieces))
    for kernel in KERNELS:
        assert run(kernel, payload, len(whole) + spare + 1) == whole


def literal(data: bytes, extra: int = 0) -> bytes:
    if extra:
        return bytes([(59 + extra) << 2]) + (len(data) - 1).to_bytes(extra, "little") + data
    return bytes([(len(data) - 1) << 2]) + data


def copy(length: int, offset: int, size: int) -> bytes:
    if size == 1:
        return bytes([(offset >> 8) << 5 | (length - 4) << 2 | 1, offset & 0xFF])
    return bytes([(length - 1) << 2 | {2: 2, 4: 3}[size]]) + offset.to_bytes(size, "little")


@st.composite
def blocks(draw: st.DrawFn) -> bytes:
    """Raw blocks of all kinds of elements; copies may reach too far back, and the size may be a lie."""
    made = 0
    elements = b""
    for _ in range(draw(st.integers(0, 60))):
        if draw(st.integers(0, 2)) == 0 or not made:
            data = draw(st.binary(min_size=1, max_size=draw(st.sampled_from([3, 16, 20, 60]))))
            elements += literal(data, draw(st.sampled_from([0, 0, 0, 1, 2, 3, 4])))
            made += len(data)
        else:
            size = draw(st.sampled_from([1, 1, 2, 2, 4]))
            length = draw(st.integers(4, 11) if size == 1 else st.integers(1, 64))
            most = made + draw(st.sampled_from([0, 0, 0, 0, 1]))
            elements += copy(length, min(draw(st.integers(1, most)), 2047 if size == 1 else 65535), size)
            made += length
    claim = made + draw(st.sampled_from([0, 0, 0, 0, 0, 1, -1]))
    size_bytes = b""
    while claim > 127:
        size_bytes += bytes([claim & 127 | 128])
        claim >>= 7
    return size_bytes + bytes([max(claim, 0)]) + elements


@given(block=blocks())
def test_agrees_with_the_library_on_any_block(block: bytes) -> None:
    content = library(block)
    for kernel in KERNELS:
        answer = run(kernel, xerial(block), 5000)
        assert answer == (Fault.UNUSUAL if content is None else content)


def test_agrees_with_the_library_on_damaged_blocks() -> None:
    noise = random.Random(7)
    text = b" ".join(noise.choice([b"alpha", b"beta", b"gamma", b"12345678901234567890"]) for _ in range(300))
    good = bytes(cramjam.snappy.compress_raw(text))
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(noise.randint(1, 3)):
            bad[noise.randrange(len(bad))] = noise.randrange(256)
        block = bytes(bad[: noise.choice([len(bad), noise.randrange(1, len(bad))])])
        content = library(block)
        for kernel in KERNELS:
            answer = run(kernel, xerial(block), 1 << 14)
            if content is None or len(content) > 1 << 14:
                assert isinstance(answer, Fault)
            else:
                assert answer == content


@pytest.mark.parametrize("kernel", KERNELS, ids=["compiled", "plain Python"])
def test_asks_for_more_scratch_only_for_what_can_be(kernel: ModuleType) -> None:
    block = bytes(cramjam.snappy.compress_raw(bytes(1000)))
    assert run(kernel, xerial(block), 999) == Fault.SCRATCH_FULL
    assert run(kernel, xerial(block), 1000) == bytes(1000)
    assert run(kernel, xerial(block, block), 1999) == Fault.SCRATCH_FULL
    assert run(kernel, xerial(b"\xff\xff\xff\xff\x07" + block), 999) == Fault.UNUSUAL


@pytest.mark.parametrize("kernel", KERNELS, ids=["compiled", "plain Python"])
@pytest.mark.parametrize(
    "payload",
    [b"", b"\x03\x08abc", HEADER[:-1], HEADER.lower(), xerial(b"\x03\x08abc") + HEADER, xerial(b"")],
    ids=["empty", "raw", "cut header", "other header", "header between", "empty block"],
)
def test_leaves_unusual_payloads_to_the_library(kernel: ModuleType, payload: bytes) -> None:
    assert run(kernel, payload, 100) == Fault.UNUSUAL


@pytest.mark.parametrize("kernel", KERNELS, ids=["compiled", "plain Python"])
def test_no_chunks_are_no_bytes_and_a_tail_is_passed_over(kernel: ModuleType) -> None:
    assert run(kernel, HEADER, 100) == b""
    assert run(kernel, xerial(b"\x03\x08abc") + b"...", 100) == b"abc"
