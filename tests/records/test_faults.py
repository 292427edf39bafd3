"""Every kind of bad input raises its own error, with file, position and offset, after all that was good."""

from __future__ import annotations

import pickle
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from tests.kernels_twin import TWINS, twin, use_twin
from tests.records.reference import varint
from tests.records.wire import INT32_MAX, batch, message, message_set, record, seal, wrapper
from tidelog.errors import (
    BadLengthError,
    BadVarintError,
    ChecksumError,
    CompressionError,
    CorruptRecordError,
    CountMismatchError,
    InvalidTimestampError,
    RecordOverrunError,
    TornBatchError,
    UnknownCodecError,
    UnknownMagicError,
)
from tidelog.kernels import codecs
from tidelog.kernels import faults as codes
from tidelog.records import iter_record_batches, read_record_batches, walk_batches
from tidelog.records.faults import Fault, fault_error
from tidelog.records.plan import MIN_RECORD_SIZE
from tidelog.types import Codec

ORIGIN = 1000
OFFSET = 77
GOOD = batch([record(offset_delta=i) for i in range(3)], base_offset=4)
GOOD += batch([record(offset_delta=i) for i in range(2)], base_offset=7, codec=Codec.LZ4)
GOOD += message(magic=0, offset=9) + wrapper(message_set([b"a", b"b"]), offset=11)
GOOD_ROWS = 8
ENDLESS = b"\xff" * 11


@dataclass(frozen=True, slots=True)
class Bad:
    """Bytes that are no good batch, and the error they have to raise."""

    name: str
    data: bytes
    error: type[CorruptRecordError]
    words: str = ""
    offset: int | None = OFFSET
    options: dict[str, Any] = field(default_factory=dict)


def whole() -> bytes:
    return batch([record(offset_delta=i) for i in range(4)], base_offset=OFFSET)


def framed(payload: bytes, **fields: Any) -> bytes:
    return batch(payload, base_offset=OFFSET, **fields)


def lengths() -> Iterator[Bad]:
    yield from (
        Bad(f"torn header, {n} bytes", whole()[:n], TornBatchError, "header", None) for n in (1, 8, 12, 16)
    )
    yield from (
        Bad(f"torn body, {n} bytes", whole()[:n], TornBatchError, f"{n} bytes left") for n in (17, 60, 61)
    )
    yield Bad("torn body, all but a byte", whole()[:-1], TornBatchError)
    yield Bad("length of 2 GiB", framed(record(), length=INT32_MAX), TornBatchError)
    for length in (-(1 << 31), -1, 0, 13, 48):
        yield Bad(f"length {length}", framed(record(), length=length), BadLengthError)
    for magic, length in ((0, 13), (1, 21)):
        bad = bytearray(message(magic=magic, offset=OFFSET))
        bad[8:12] = struct.pack(">i", length)
        yield Bad(f"length {length}, magic {magic}", bytes(bad), BadLengthError)
    yield Bad("torn message", message(offset=OFFSET)[:-1], TornBatchError)


def checks() -> Iterator[Bad]:
    for at in (17, 21, 23, 27, 43, 53, 57, 61, -1):
        bad = bytearray(whole())
        bad[at] ^= 1
        yield Bad(f"bit flipped at {at}", bytes(bad), ChecksumError)
    for codec in (1, 2, 3, 4):
        bad = bytearray(batch([record()], base_offset=OFFSET, codec=codec))
        bad[-1] ^= 1
        yield Bad(f"bit flipped, codec {codec}", bytes(bad), ChecksumError)
    for name, good in (
        ("message", message(offset=OFFSET)),
        ("message 0", message(offset=OFFSET, magic=0)),
        ("wrapper", wrapper(message_set([b"a"]), offset=OFFSET)),
    ):
        bad = bytearray(good)
        bad[-1] ^= 1
        yield Bad(f"bit flipped, {name}", bytes(bad), ChecksumError)
    for magic in (3, 127, 255):
        yield Bad(f"magic {magic}", framed(record(), magic=magic), UnknownMagicError)
    for codec in (5, 6, 7):
        yield Bad(f"codec {codec}", framed(record(), codec=codec), UnknownCodecError, str(codec))
    for codec in (4, 5, 7):
        bad = message(None, b"..", offset=OFFSET, attributes=codec)
        yield Bad(f"codec {codec}, magic 1", bad, UnknownCodecError, str(codec))


def inner(body: bytes) -> bytes:
    return varint(len(body)) + body


def records_gone_wrong() -> Iterator[tuple[str, bytes, type[CorruptRecordError]]]:
    """One record's bytes, and what is wrong with them."""
    head = b"\0" + varint(5) + varint(0)
    pair = varint(1) + b"k" + varint(1) + b"v"
    yield "length", ENDLESS, BadVarintError
    yield "timestamp delta", inner(b"\0" + ENDLESS), BadVarintError
    yield "offset delta", inner(b"\0" + varint(5) + ENDLESS), BadVarintError
    yield "key length", inner(head + ENDLESS), BadVarintError
    yield "value length", inner(head + varint(1) + b"k" + ENDLESS), BadVarintError
    yield "header count", inner(head + pair + ENDLESS), BadVarintError
    yield "header key length", inner(head + pair + varint(1) + ENDLESS), BadVarintError
    yield "header value length", inner(head + pair + varint(1) + varint(1) + b"h" + ENDLESS), BadVarintError
    yield "six byte varint", inner(head + b"\x80\x80\x80\x80\x80\x00" + b"." * 9), BadVarintError
    yield "eleven byte varlong", inner(b"\0" + b"\x80" * 10 + b"\0" + b"." * 20), BadVarintError
    yield "varint cut by the end", b"\x80", RecordOverrunError
    yield "varint cut by the record", inner(b"\0\x80"), RecordOverrunError
    yield "empty record", varint(0), RecordOverrunError
    yield "negative length", varint(-1) + b"......", RecordOverrunError
    yield "length past the batch", varint(100) + record()[1:], RecordOverrunError
    yield "length of 2 GiB", varint(INT32_MAX) + record()[1:], RecordOverrunError
    yield "length one short", varint(len(record()) - 2) + record()[1:], RecordOverrunError
    yield "length one long", varint(len(record())) + record()[1:] + b"\0", RecordOverrunError
    yield "attributes only", inner(b"\0"), RecordOverrunError
    yield "no key length", inner(head), RecordOverrunError
    yield "key past the record", inner(head + varint(50) + b"k" + varint(1) + b"v\0"), RecordOverrunError
    yield "key of 2 GiB", inner(head + varint(INT32_MAX) + b"k"), RecordOverrunError
    yield "no value length", inner(head + varint(1) + b"k"), RecordOverrunError
    yield "value past the record", inner(head + varint(1) + b"k" + varint(50) + b"v\0"), RecordOverrunError
    yield "no header count", inner(head + pair), RecordOverrunError
    yield "negative header count", inner(head + pair + varint(-1)), RecordOverrunError
    yield "headers that cannot be", inner(head + pair + varint(INT32_MAX)), RecordOverrunError
    yield "headers that are not", inner(head + pair + varint(2) + varint(0) + varint(0)), RecordOverrunError
    yield "null header key", inner(head + pair + varint(1) + varint(-1) + varint(0)), RecordOverrunError
    yield "header key past", inner(head + pair + varint(1) + varint(9) + b"h" + varint(0)), RecordOverrunError
    yield (
        "header value past",
        inner(head + pair + varint(1) + varint(0) + varint(9) + b"v"),
        RecordOverrunError,
    )


def parses() -> Iterator[Bad]:
    long = record(value=bytes(60))
    for name, bad, error in records_gone_wrong():
        if len(bad) >= MIN_RECORD_SIZE:
            yield Bad(f"{name}, first", framed(bad), error)
        yield Bad(f"{name}, later", framed(record() * 20 + bad, count=21), error)
        yield Bad(f"{name}, with more after", framed(record() + bad + record() * 20, count=22), error)
        yield Bad(
            f"{name}, with a header before", framed(record(headers=[(b"h", bytes(9))]) + bad, count=2), error
        )
        for codec in Codec:
            if codec:
                data = batch([long, bad], base_offset=OFFSET, codec=codec)
                yield Bad(f"{name}, {codec.label}", data, error)


def counts() -> Iterator[Bad]:
    for codec in Codec:
        for count in (-(1 << 31), -1, 1, 2, 4, 100, INT32_MAX):
            data = batch([record()] * 3, base_offset=OFFSET, codec=codec, count=count, last_delta=2)
            yield Bad(f"count {count} of 3, {codec.label}", data, CountMismatchError)
        data = batch([], base_offset=OFFSET, codec=codec, count=1)
        yield Bad(f"count 1 of none, {codec.label}", data, CountMismatchError)
    for magic in (0, 1):
        data = wrapper(b"", magic=magic, offset=OFFSET)
        yield Bad(f"empty wrapper, magic {magic}", data, CountMismatchError)
        data = wrapper(message(magic=magic)[:-1], magic=magic, offset=OFFSET)
        yield Bad(f"wrapper of a torn message, magic {magic}", data, CountMismatchError)


def payloads() -> Iterator[Bad]:
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        cut = batch([record()] * 9, codec=codec)[61:-9]  # igzip's length is not always the same
        for name, garbage in (("a byte", b"\1"), ("garbage", b"garbage " * 4), ("cut payload", cut)):
            data = framed(garbage, codec=codec)
            yield Bad(f"{name}, {codec.label}", data, CompressionError)
        bomb = batch([record(value=bytes(1 << 20))], base_offset=OFFSET, codec=codec)
        yield Bad(
            f"bomb, {codec.label}", bomb, CompressionError, "expands", options={"max_decompressed": 1 << 16}
        )
        if codec != Codec.ZSTD:
            yield Bad(
                f"garbage, magic 1, {codec.label}",
                message(None, b"garbage", offset=OFFSET, attributes=codec),
                CompressionError,
            )
            bomb = wrapper(message_set([bytes(1 << 20)]), codec=codec, offset=OFFSET)
            yield Bad(
                f"bomb, magic 1, {codec.label}",
                bomb,
                CompressionError,
                "expands",
                options={"max_decompressed": 1 << 16},
            )


def messages() -> Iterator[Bad]:
    def bad_length(at: int, length: int, **options: Any) -> bytes:
        data = bytearray(message(b"key", b"value", offset=OFFSET, **options))
        data[at : at + 4] = struct.pack(">i", length)
        return seal(data)

    yield Bad("key past the message", bad_length(26, 100), RecordOverrunError)
    yield Bad("key of 2 GiB", bad_length(26, INT32_MAX), RecordOverrunError)
    yield Bad("value past the message", bad_length(33, 6), RecordOverrunError)
    yield Bad("key past the message, magic 0", bad_length(18, 100, magic=0), RecordOverrunError)
    yield Bad("value past the message, magic 0", bad_length(25, 6, magic=0), RecordOverrunError)
    yield Bad("wrapper without value", message(None, None, offset=OFFSET, attributes=1), RecordOverrunError)
    yield Bad("wrapper's key past it", bad_length(26, 100, attributes=1), RecordOverrunError)
    yield Bad("wrapper's value past it", bad_length(33, 6, attributes=1), RecordOverrunError)
    nested = wrapper(wrapper(message_set([b"a"])), offset=OFFSET)
    yield Bad("wrapper in a wrapper", nested, CompressionError, "another compressed one")
    low = wrapper(message_set([b"a", b"b"], first=OFFSET), offset=OFFSET)
    yield Bad("wrapper's offset below its last", low, CorruptRecordError, "below")
    odd = bytearray(message_set([b"a", b"b"]))
    odd[16] = 2
    yield Bad("unknown magic in a wrapper", wrapper(bytes(odd), offset=OFFSET), UnknownMagicError)
    short = bytearray(message_set([b"a", b"b"]))
    short[8:12] = struct.pack(">i", 13)
    yield Bad("length 13 in a wrapper", wrapper(bytes(short), offset=OFFSET), BadLengthError)
    short[8:12] = struct.pack(">i", 21)
    yield Bad("length 21 in a wrapper", wrapper(bytes(short), offset=OFFSET), BadLengthError)
    past = bytearray(message_set([b"a", b"b"]))
    past[26:30] = struct.pack(">i", 20)
    yield Bad("key past a message in a wrapper", wrapper(bytes(past), offset=OFFSET), RecordOverrunError)


BAD = [*lengths(), *checks(), *parses(), *counts(), *payloads(), *messages()]


def read(data: bytes, way: str, **options: Any) -> Iterator[pa.RecordBatch]:
    if way == "one pass":
        yield from read_record_batches(data, origin=ORIGIN, source="x.log", **options)
        return
    for table in walk_batches(data, origin=ORIGIN, source="x.log"):
        yield from iter_record_batches(data, table, origin=ORIGIN, source="x.log", **options)


@pytest.mark.parametrize("which", TWINS)
@pytest.mark.parametrize("way", ["one pass", "scan first"])
@pytest.mark.parametrize("tail", [b"", batch([record()], base_offset=OFFSET + 9)], ids=["last", "amid"])
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_bad_input_raises_its_own_error(bad: Bad, tail: bytes, way: str, which: str) -> None:
    if tail and bad.error is TornBatchError and bad.name.startswith("torn"):
        pytest.skip("what is torn has nothing after it")
    chunks: list[pa.RecordBatch] = []
    with use_twin(which), pytest.raises(CorruptRecordError) as caught:
        chunks.extend(read(GOOD + bad.data + tail, way, **bad.options))
    assert type(caught.value) is bad.error
    assert caught.value.position == ORIGIN + len(GOOD)
    assert caught.value.offset == bad.offset
    assert caught.value.source == "x.log"
    assert bad.words in str(caught.value)
    assert f"position {ORIGIN + len(GOOD)}" in str(caught.value)
    assert sum(chunk.num_rows for chunk in chunks) == GOOD_ROWS
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (type(caught.value), str(caught.value))


@pytest.mark.parametrize("which", TWINS)
@pytest.mark.parametrize("columns", [("offset",), ("timestamp_ms",), ("key",), ("value",), ("headers",), ()])
def test_columns_left_out_do_not_hide_a_bad_frame(columns: tuple[str, ...], which: str) -> None:
    """With few columns less of a record is parsed; the frame and the counts are always checked."""
    with use_twin(which):
        for bad in [
            *counts(),
            *(bad for bad in parses() if bad.name.startswith(("length past", "negative length"))),
        ]:
            with pytest.raises(bad.error):
                list(read(GOOD + bad.data, "one pass", columns=columns))


@pytest.mark.parametrize("which", TWINS)
def test_a_timestamp_past_microseconds_is_the_requests_problem(which: str) -> None:
    for time in (1 << 62, -(1 << 62), 9223372036854776, -9223372036854776):
        for data in (
            batch([record()], base_timestamp=time, max_timestamp=time),
            batch([record()], base_timestamp=time, codec=Codec.LZ4),
            batch([record()], max_timestamp=time, attributes=8),
            message(timestamp=time),
            wrapper(message(timestamp=time)),
        ):
            with use_twin(which):
                with pytest.raises(InvalidTimestampError, match="timestamp_ms"):
                    list(read(data, "one pass"))
                (chunk,) = read(data, "one pass", columns=["timestamp_ms"])
            assert chunk.column("timestamp_ms").to_pylist() == [time]


def test_a_table_that_is_not_of_this_buffer_is_the_callers_mistake() -> None:
    data = whole()
    (table,) = walk_batches(data)
    for short in (data[:-1], b""):
        with pytest.raises(ValueError, match="outside the buffer"):
            list(iter_record_batches(short, table))
    with pytest.raises(ValueError, match="outside the buffer"):
        list(iter_record_batches(data, table, origin=1))


def test_kernels_and_errors_agree_on_fault_codes() -> None:
    for fault in Fault:
        assert getattr(codes, fault.name) == fault
        assert getattr(twin("faults"), fault.name) == fault
    assert {name for name in vars(twin("faults")) if name.isupper()} == set(Fault.__members__)


@pytest.mark.parametrize("kernel", [codecs, twin("codecs")])
def test_kernels_know_the_codecs(kernel: ModuleType) -> None:
    known = {codec.name: int(codec) for codec in Codec if codec is not Codec.NONE}
    assert {name: value for name, value in vars(kernel).items() if name in known} == known
    assert max(Codec) == kernel.LARGEST


def test_every_fault_of_bad_bytes_has_an_error() -> None:
    ours = {Fault.NO_ROOM, Fault.UNUSUAL, Fault.SCRATCH_FULL}
    for fault in set(Fault) - ours:
        error = fault_error(fault, position=5, offset=6, source="x.log")
        assert "5" in str(error)
        assert "6" in str(error)


def test_checksums_of_both_kinds_and_twins() -> None:
    from tidelog.kernels import crc

    data = bytes(range(256)) * 5
    for kernel in (crc, twin("crc")):
        for start in (0, 1, 7, 8, 1279, 1280, 1281):
            assert kernel.crc32(data, start) == zlib.crc32(data[start:])
            assert kernel.crc32c(data, start) == twin("crc").crc32c(data, start)
        assert kernel.crc32c(b"123456789") == 0xE3069283
