"""Memory: what a batch claims is not allocated, and a file of any size is decoded in the same room."""

from __future__ import annotations

import gc
import resource
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest

from tests.records.reference import varint
from tests.records.wire import INT32_MAX, batch, record, wrapper
from tidelog.errors import CorruptRecordError, CountMismatchError
from tidelog.records import read_record_batches
from tidelog.types import Codec

MEGABYTE = 1 << 20


def peak(data: bytes) -> int:
    """The most bytes that decoding `data` held, ours and Arrow's together."""
    gc.collect()
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    most = 0
    tracemalloc.start()
    try:
        for chunk in read_record_batches(data):
            most = max(most, pool.bytes_allocated() - before)
            del chunk
    except CorruptRecordError:
        most = max(most, pool.bytes_allocated() - before)
    finally:
        python = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return most + python


def anonymous() -> int:
    """Bytes of this process that lie in no file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    pytest.skip("this system does not tell anonymous memory")


def body(data: bytes) -> bytes:
    return varint(len(data)) + data


CLAIMS = {
    "records": batch([record()], count=INT32_MAX),
    "records, many batches": batch([record()], count=INT32_MAX) * 50,
    "a record's length": batch(varint(INT32_MAX) + b"\0" * 10),
    "a key's length": batch(body(b"\0\0\0" + varint(INT32_MAX))),
    "a value's length": batch(body(b"\0\0\0\1" + varint(INT32_MAX))),
    "headers": batch(body(b"\0\0\0\1\1" + varint(INT32_MAX))),
    "headers that just fit": batch(body(b"\0\0\0\1\1" + varint(4) + b"\1\1\1\1")),
    "a snappy size": batch(b"\xff\xff\xff\xff\x07", codec=Codec.SNAPPY),
    "a zstd size": batch(b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 7 + b"\x00\x01\x00\x00", codec=Codec.ZSTD),
    "a lz4 block": batch(b"\x04\x22\x4d\x18\x60\x70\x73\xff\xff\xff\x7f", codec=Codec.LZ4),
}
CLAIMS |= {
    f"records, {codec.label}": batch([record()], count=INT32_MAX, codec=codec) for codec in Codec if codec
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_nothing_is_allocated_for_a_claim(claim: str) -> None:
    with pytest.raises(CorruptRecordError):
        list(read_record_batches(CLAIMS[claim]))
    assert peak(CLAIMS[claim]) < 2 * MEGABYTE


def test_impossible_counts_in_a_long_table_take_no_room() -> None:
    """Each of them alone would be refused; together they must not be added up either."""
    data = batch([record()]) * 5000 + batch([record()], count=INT32_MAX) * 5000
    chunks: list[pa.RecordBatch] = []
    with pytest.raises(CountMismatchError) as caught:
        chunks.extend(read_record_batches(data))
    assert sum(chunk.num_rows for chunk in chunks) == 5000
    assert caught.value.position == len(data) // 2
    assert peak(data) < 8 * MEGABYTE


def test_small_compressed_batches_take_little_room() -> None:
    for codec in Codec:
        assert peak(batch([record()], codec=codec)) < MEGABYTE
    assert peak(wrapper(b"\0" * 8 + record())) < MEGABYTE


@pytest.mark.parametrize("codec", Codec)
def test_memory_does_not_grow_with_the_input(codec: Codec) -> None:
    one = batch([record(value=bytes(10_000), offset_delta=i) for i in range(10)], codec=codec)
    short, long = one * 150, one * 450
    for data in (short, long):  # warm up what stays
        peak(data)
    assert peak(long) <= peak(short) + 4 * MEGABYTE
    assert peak(long) < 24 * MEGABYTE


@pytest.mark.parametrize("codec", Codec)
def test_what_is_kept_is_no_larger_than_its_records(codec: Codec) -> None:
    """Columns are given more room than they may need; whoever keeps them does not keep the room."""
    data = batch([record(key=None, value=bytes(90), offset_delta=i) for i in range(50)], codec=codec) * 1500
    gc.collect()
    before = pa.total_allocated_bytes()
    kept = list(read_record_batches(data))
    held = pa.total_allocated_bytes() - before
    assert sum(chunk.num_rows for chunk in kept) == 75_000
    assert held < 2 * sum(chunk.nbytes for chunk in kept)


def test_anonymous_memory_stays_flat() -> None:
    one = batch([record(value=bytes(1000), offset_delta=i) for i in range(100)])
    data = one * 200
    for _ in range(3):
        for chunk in read_record_batches(data):
            del chunk
    before = anonymous()
    for _ in range(20):
        for chunk in read_record_batches(data):
            del chunk
    assert anonymous() - before < 16 * MEGABYTE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0
