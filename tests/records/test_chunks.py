"""How records are cut into chunks, and batches that are odd but sound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.kernels_twin import TWINS, use_twin
from tests.records.wire import INT32_MAX, batch, message, message_set, record, wrapper
from tidelog.errors import InvalidInputError
from tidelog.records import (
    ALL_COLUMNS,
    RECORD_COLUMNS,
    decode_batches,
    iter_record_batches,
    read_record_batches,
    scan_batches,
)
from tidelog.types import Codec


@pytest.fixture(params=TWINS, autouse=True)
def each_twin(request: pytest.FixtureRequest) -> Iterator[None]:
    """All of these on the compiled kernels and on the same files uncompiled."""
    with use_twin(request.param):
        yield


def run(batches: int, records: int = 3, **options: Any) -> bytes:
    """So many batches of so many records, offsets one after the other, values of 10 bytes."""
    return b"".join(
        batch(
            [record(value=b"%010d" % (b * records + i), offset_delta=i) for i in range(records)],
            base_offset=b * records,
            **options,
        )
        for b in range(batches)
    )


def offsets(chunks: list[pa.RecordBatch]) -> list[int]:
    return [offset for chunk in chunks for offset in chunk.column("offset").to_pylist()]


def rows(data: bytes, **options: Any) -> list[int]:
    """Rows of each chunk; what they hold is checked on the way."""
    chunks = list(read_record_batches(data, **options))
    assert offsets(chunks) == list(range(sum(chunk.num_rows for chunk in chunks)))
    assert [value for chunk in chunks for value in chunk.column("value").to_pylist()] == [
        b"%010d" % offset for offset in offsets(chunks)
    ]
    for chunk in chunks:
        chunk.validate(full=True)
    return [chunk.num_rows for chunk in chunks]


@pytest.mark.parametrize("codec", Codec)
def test_chunks_are_as_many_whole_batches_as_the_rows_allow(codec: Codec) -> None:
    data = run(10, codec=codec)
    assert rows(data) == [30]
    assert rows(data, max_rows=30) == [30]
    assert rows(data, max_rows=12) == [12, 12, 6]
    assert rows(data, max_rows=11) == [9, 9, 9, 3]


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_above_the_bounds_comes_alone_and_whole(codec: Codec) -> None:
    data = run(4, codec=codec)
    assert rows(data, max_rows=2) == [3, 3, 3, 3]
    assert rows(data, max_bytes=40) == [3, 3, 3, 3]


def test_chunks_are_bounded_in_bytes() -> None:
    one = len(run(1))
    assert rows(run(10), max_bytes=3 * one) == [9, 9, 9, 3]
    assert rows(run(10), max_bytes=3 * one - 1) == [6] * 5


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_chunks_are_bounded_in_decompressed_bytes(codec: Codec) -> None:
    """A payload's size is known when it is decompressed: the chunk ends where one does not fit."""
    large = [batch([record(value=bytes(50_000))], base_offset=b, codec=codec) for b in range(10)]
    chunks = list(read_record_batches(b"".join(large), max_bytes=200_000))
    assert offsets(chunks) == list(range(10))
    assert all(chunk.nbytes < 220_000 for chunk in chunks)
    assert len(chunks) < 10
    for chunk in chunks:
        assert set(chunk.column("value").to_pylist()) == {bytes(50_000)}


def test_old_wrappers_are_bounded_by_the_messages_in_them() -> None:
    data = b"".join(
        wrapper(message_set([b"%010d" % (3 * w + i) for i in range(3)]), offset=3 * w + 2) for w in range(10)
    )
    assert rows(data) == [30]
    assert rows(data, max_rows=7) == [6] * 5
    assert rows(data, max_rows=2) == [3] * 10
    assert rows(data, max_bytes=50) == [3] * 10


def test_every_format_and_codec_in_one_chunk() -> None:
    parts = [message(b"k", b"%010d" % 0, magic=0, offset=0)]
    parts += [
        wrapper(message_set([b"%010d" % 1, b"%010d" % 2], magic=0, first=1), magic=0, codec=2, offset=2)
    ]
    parts += [message(b"k", b"%010d" % 3, offset=3)]
    parts += [wrapper(message_set([b"%010d" % 4, b"%010d" % 5]), codec=3, offset=5)]
    at = 6
    for codec in (0, 3, 1, 0, 4, 2, 3, 3):
        records = [record(value=b"%010d" % (at + i), offset_delta=i) for i in range(2)]
        parts.append(batch(records, base_offset=at, codec=codec))
        at += 2
    data = b"".join(parts)
    assert rows(data) == [22]
    (chunk,) = read_record_batches(data, columns=["magic", "codec"])
    assert chunk.column("magic").to_pylist() == [0] * 3 + [1] * 3 + [2] * 16
    names = [codec.label for codec in (Codec(c) for c in (0, 3, 1, 0, 4, 2, 3, 3)) for _ in range(2)]
    assert chunk.column("codec").to_pylist()[6:] == names


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.GZIP])
@pytest.mark.parametrize("late", [1, 7, 99])
def test_headers_that_turn_up_late_are_all_there(codec: Codec, late: int) -> None:
    expected = []
    data = b""
    for b in range(120):
        pairs = (
            [(b"h%d" % i, b"x" * b if i % 2 else None) for i in range(9)] if b >= late and b % 3 == 0 else []
        )
        expected.append([{"key": name.decode(), "value": value} for name, value in pairs] or None)
        data += batch([record(headers=pairs)], base_offset=b, codec=codec)
    chunks = list(read_record_batches(data))
    assert [value for chunk in chunks for value in chunk.column("headers").to_pylist()] == expected
    assert offsets(chunks) == list(range(120))
    assert offsets(list(read_record_batches(data, columns=["offset", "value"]))) == list(range(120))


def test_a_record_may_have_very_many_headers() -> None:
    pairs = [(b"", None)] * 5000
    data = batch([record(), record(headers=pairs, offset_delta=1), record(offset_delta=2)]) * 2
    values = [v for chunk in read_record_batches(data) for v in chunk.column("headers").to_pylist()]
    assert values == [None, [{"key": "", "value": None}] * 5000, None] * 2


def test_header_keys_that_are_not_utf8_are_replaced_as_java_does() -> None:
    data = batch([record(headers=[(b"\xff\xfeok", b"1"), ("ö".encode(), b"2")])])
    (chunk,) = read_record_batches(data)
    (pairs,) = chunk.column("headers").to_pylist()
    assert [pair["key"] for pair in pairs] == ["\ufffd\ufffdok", "ö"]


def test_null_and_empty_are_different() -> None:
    pairs = [(b"a", None), (b"b", b""), (b"", b"c")]
    data = batch(
        [record(None, None), record(b"", b"", pairs, offset_delta=1), record(b"k", None, offset_delta=2)]
    )
    data += message(None, b"", offset=3) + message(b"", None, magic=0, offset=4)
    chunk = pa.Table.from_batches(read_record_batches(data))
    assert chunk.column("key").to_pylist() == [None, b"", b"k", None, b""]
    assert chunk.column("value").to_pylist() == [None, b"", None, b"", None]
    expected = [{"key": "a", "value": None}, {"key": "b", "value": b""}, {"key": "", "value": b"c"}]
    assert chunk.column("headers").to_pylist() == [None, expected, None, None, None]


@pytest.mark.parametrize("codec", Codec)
def test_batches_that_compaction_emptied_hold_no_records(codec: Codec) -> None:
    """Kafka does not look at what follows the header of a batch of no records; neither do we."""
    empty = batch(b"", base_offset=2, count=0, last_delta=7, codec=codec)
    odd = batch(b"left over", base_offset=2, count=0, last_delta=7, codec=codec)
    for nothing in (empty, odd):
        data = batch([record()]) + nothing + batch([record()], base_offset=10) + nothing
        chunks = list(read_record_batches(data, columns=ALL_COLUMNS))
        assert offsets(chunks) == [0, 10]
        assert chunks[0].column("base_offset").to_pylist() == [0, 10]
        assert list(read_record_batches(nothing)) == []
        decoded = decode_batches(data, scan_batches(data).table)
        assert decoded.column("offset").to_pylist() == [0, 10]
        assert decode_batches(nothing, scan_batches(nothing).table).num_rows == 0


def test_nothing_is_decoded_to_nothing_with_a_schema() -> None:
    assert list(read_record_batches(b"")) == []
    decoded = decode_batches(b"", scan_batches(b"").table)
    assert decoded.num_rows == 0
    assert decoded.schema.names == list(RECORD_COLUMNS)


def test_gaps_that_compaction_left_are_kept() -> None:
    data = batch([record(offset_delta=d) for d in (3, 9, 200)], base_offset=100, last_delta=300)
    (chunk,) = read_record_batches(data)
    assert chunk.column("offset").to_pylist() == [103, 109, 300]


def test_append_time_is_the_batchs_for_all_its_records() -> None:
    records = [record(timestamp_delta=i, offset_delta=i) for i in range(3)]
    (chunk,) = read_record_batches(batch(records, attributes=8, max_timestamp=777), columns=ALL_COLUMNS)
    assert chunk.column("timestamp_ms").to_pylist() == [777] * 3
    assert chunk.column("timestampType").to_pylist() == [1] * 3
    old = wrapper(message_set([b"a", b"b"]), timestamp=888, attributes=8, offset=1) + message(attributes=8)
    (chunk,) = read_record_batches(old, columns=ALL_COLUMNS)
    assert chunk.column("timestamp_ms").to_pylist() == [888, 888, 1000]
    assert chunk.column("timestampType").to_pylist() == [1] * 3


def test_timestamp_types_of_a_chunk_may_differ() -> None:
    data = message(magic=0) + batch([record(), record(offset_delta=1)]) + batch([record()], attributes=8)
    (chunk,) = read_record_batches(data)
    assert chunk.column("timestampType").to_pylist() == [-1, 0, 0, 1]


def test_a_delete_horizon_is_what_deltas_count_from() -> None:
    data = batch([record(timestamp_delta=d) for d in (-500, 0, 5)], attributes=0x40, base_timestamp=10_000)
    (chunk,) = read_record_batches(data, columns=["timestamp_ms"])
    assert chunk.column("timestamp_ms").to_pylist() == [9500, 10_000, 10_005]
    assert scan_batches(data).table.has_delete_horizon.tolist() == [True]


def test_times_wrap_around_as_javas_longs_do() -> None:
    data = batch([record(timestamp_delta=1)], base_timestamp=(1 << 63) - 1)
    (chunk,) = read_record_batches(data, columns=["timestamp_ms"])
    assert chunk.column("timestamp_ms").to_pylist() == [-(1 << 63)]


def test_offsets_wrap_around_as_javas_longs_do() -> None:
    data = batch([record(offset_delta=INT32_MAX)], base_offset=(1 << 63) - 1, last_delta=INT32_MAX)
    (chunk,) = read_record_batches(data, columns=["offset"])
    wrapped = (1 << 63) - 1 + INT32_MAX - (1 << 64)
    assert chunk.column("offset").to_pylist() == [wrapped]
    assert scan_batches(data).table.last_offset.tolist() == [wrapped]


@pytest.mark.parametrize("time", [9223372036854775, -9223372036854775, -1, 0])
def test_times_up_to_the_last_that_fits_microseconds(time: int) -> None:
    (chunk,) = read_record_batches(
        batch([record()], base_timestamp=time), columns=["timestamp", "timestamp_ms"]
    )
    assert chunk.column("timestamp").cast(pa.int64()).to_pylist() == [time * 1000]
    assert chunk.column("timestamp_ms").to_pylist() == [time]


def test_sequences_go_on_at_zero_after_the_largest() -> None:
    records = [record(offset_delta=i) for i in range(4)]
    data = batch(records, producer=(9, 3, INT32_MAX - 1), attributes=0x10) + batch(records, base_offset=4)
    (chunk,) = read_record_batches(data, columns=ALL_COLUMNS)
    assert chunk.column("sequence").to_pylist() == [INT32_MAX - 1, INT32_MAX, 0, 1, -1, -1, -1, -1]
    assert chunk.column("producer_id").to_pylist() == [9] * 4 + [-1] * 4
    assert chunk.column("producer_epoch").to_pylist() == [3] * 4 + [-1] * 4
    assert chunk.column("transactional").to_pylist() == [True] * 4 + [False] * 4


def test_long_fields_and_long_numbers() -> None:
    """Varints of every length, as lengths and as deltas."""
    sizes = [0, 1, 63, 64, 127, 128, 8191, 8192, 1_048_575, 1_048_576]
    deltas = [0, -1, 63, 64, 8191, 8192, 1 << 20, (1 << 27) - 1, 1 << 27, -(1 << 31), (1 << 31) - 1]
    wide = [0, 1 << 34, -(1 << 41), 1 << 48, 1 << 55, (1 << 62) - 1, -(1 << 63), (1 << 63) - 1]
    data = b"".join(batch([record(bytes(n), b"." * n)]) for n in sizes)
    keys = [v for chunk in read_record_batches(data) for v in chunk.column("key").to_pylist()]
    assert [len(key) for key in keys] == sizes
    records = [record(offset_delta=d, timestamp_delta=w) for d in deltas for w in wide]
    (chunk,) = read_record_batches(batch(records, base_timestamp=0), columns=["offset", "timestamp_ms"])
    assert chunk.column("offset").to_pylist() == [d for d in deltas for _ in wide]
    assert chunk.column("timestamp_ms").to_pylist() == wide * len(deltas)


def test_a_varint_may_be_longer_than_it_needs_to_be() -> None:
    """Java's reader takes 80 00 for zero; and the fifth byte's high bits of an int fall away."""
    body = b"\0" + b"\x80\x00" + b"\x80\x80\x00" + b"\x82\x00k" + b"\x82\x80\x80\x80\x70v" + b"\x80\x00"
    (chunk,) = read_record_batches(batch(bytes([len(body) * 2]) + body))
    assert chunk.column("key").to_pylist() == [b"k"]
    assert chunk.column("value").to_pylist() == [b"v"]
    assert chunk.column("offset").to_pylist() == [0]


def test_lengths_below_minus_one_are_null_as_in_kafkas_reader() -> None:
    body = b"\0\0\0" + b"\x03" + b"\xff\x01" + b"\0"
    (chunk,) = read_record_batches(batch(bytes([len(body) * 2]) + body))
    assert chunk.column("key").to_pylist() == [None]
    assert chunk.column("value").to_pylist() == [None]


def test_wrappers_of_old_librdkafka_have_offset_zero() -> None:
    (chunk,) = read_record_batches(wrapper(message_set([b"a", b"b", b"c"]), offset=0))
    assert chunk.column("offset").to_pylist() == [0, 1, 2]


def test_wrapper_offsets_are_absolute_in_magic_0_and_relative_in_magic_1() -> None:
    data = wrapper(message_set([b"a", b"b"], magic=0, first=40), magic=0, offset=41)
    data += wrapper(message_set([b"a", b"b"]), offset=51)
    (chunk,) = read_record_batches(data, columns=["offset", "base_offset"])
    assert chunk.column("offset").to_pylist() == [40, 41, 50, 51]
    assert chunk.column("base_offset").to_pylist() == [40, 40, 50, 50]


def test_a_torn_last_message_in_a_wrapper_is_not_there() -> None:
    """As in Kafka's reader: the producer's buffer may have ended inside it."""
    inner = message_set([b"a", b"b", b"c"])
    for cut in (1, 20, len(inner) // 3 - 1):
        (chunk,) = read_record_batches(wrapper(inner[:-cut], offset=1))
        assert chunk.column("value").to_pylist() == [b"a", b"b"]


def test_a_wrapper_may_have_a_key() -> None:
    payload = wrapper(message_set([b"a"]))[34:]
    for key in (b"", b"key", None):
        data = message(key, payload, attributes=1)
        (chunk,) = read_record_batches(data)
        assert chunk.column("value").to_pylist() == [b"a"]


def test_bytes_after_a_messages_value_are_passed_over() -> None:
    """Kafka reads key and value by their lengths and never asks where the message ends."""
    from tests.records.wire import seal

    data = bytearray(message(b"k", b"v") + b"....")
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    (chunk,) = read_record_batches(seal(data))
    assert chunk.column("value").to_pylist() == [b"v"]


def test_unknown_columns_are_refused_at_once() -> None:
    with pytest.raises(InvalidInputError, match="nonsense"):
        list(read_record_batches(b"", columns=["nonsense"]))
    with pytest.raises(InvalidInputError, match="twice"):
        list(iter_record_batches(b"", scan_batches(b"").table, columns=["key", "key"]))


def test_any_buffer_is_taken() -> None:
    import array
    import mmap

    data = run(3)
    padded = data + bytes(-len(data) % 8)
    mapped = mmap.mmap(-1, len(data))
    mapped[:] = data
    for buffer in (bytearray(data), memoryview(data), mapped, pa.py_buffer(data)):
        assert offsets(list(read_record_batches(buffer))) == list(range(9))
    wide = array.array("q", padded)
    assert offsets(list(read_record_batches(wide, end=len(data)))) == list(range(9))


def test_results_outlive_the_buffer_they_came_from() -> None:
    buffer = bytearray(run(3))
    chunks = list(read_record_batches(buffer))
    buffer[:] = bytes(len(buffer))
    assert [v for chunk in chunks for v in chunk.column("value").to_pylist()] == [
        b"%010d" % i for i in range(9)
    ]


def test_chunks_do_not_share_memory_that_is_written_again() -> None:
    data = run(40)
    chunks = list(read_record_batches(data, max_rows=3))
    assert len(chunks) == 40
    assert offsets(chunks) == list(range(120))
    assert [v for chunk in chunks for v in chunk.column("value").to_pylist()] == [
        b"%010d" % i for i in range(120)
    ]
