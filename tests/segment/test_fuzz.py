"""Whatever the bytes are: an answer that the bytes bear out, or an error that says where they are wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.segment.crafting import NOW_MS, append, created, random_batches, table_of
from tidelog.errors import CorruptRecordError
from tidelog.kernels.lookup import LogBytes
from tidelog.records import decode_records
from tidelog.records.checksums import crc32, crc32c
from tidelog.segment import SealedSegment
from tidelog.storage import Directory

LOGS = {
    magic: b"".join(random_batches(random.Random(magic), 0, 12, magic=magic, holes=magic == 2))
    for magic in (0, 1, 2)
}

changes = st.lists(
    st.tuples(
        st.integers(0, 1 << 20), st.integers(0, 255), st.sampled_from([None, 8, 16, 23, 57, 61, 62, 65])
    ),
    min_size=1,
    max_size=6,
)


def position_of_fault(question: Callable[[], object]) -> int | None:
    """Where a question found the log damaged."""
    try:
        question()
    except CorruptRecordError as error:
        return error.position
    return None


def ask(segment: SealedSegment, offset: int) -> None:
    """All questions; a record that is given must be in the batch that is said to hold it."""

    def read_record() -> None:
        record, found = segment.read_record(offset), segment.translate_offset(offset)
        if record is not None:
            assert found is not None
            data = segment.buffer()[found.position : found.position + found.size]
            assert record in list(decode_records(data))
            assert record.offset == offset

    for question in (
        read_record,
        lambda: segment.find_offset_by_timestamp(NOW_MS + offset, 0),
        lambda: segment.read(offset, 100),
        segment.next_offset,
        lambda: segment.max_timestamp_so_far,
        lambda: segment.first_batch_timestamp,
        lambda: segment.fetch_upper_bound_offset(offset, 50),
        segment.index_fault,
    ):
        position = position_of_fault(question)
        assert position is None or 0 <= position < segment.size


def ask_kernel(data: bytes) -> None:
    """The kernel on memory that ends with the log: a sanitizer sees a step too far, which a mapping hides."""
    log = LogBytes(0, len(data))
    log.remap(memoryview(data))
    for start in range(-1, len(data) + 1, 13):
        log.find_batch(start, start, start % 100)
        log.find_record(start, 1 << 62, start % 100)
        log.find_time(start, 1 << 62, NOW_MS + start, 0)
        log.walk(start, 1 << 62)


@settings(max_examples=150)
@given(magic=st.sampled_from([2, 2, 1, 0]), changes=changes, cut=st.integers(0, 100), checksums=st.booleans())
def test_a_log_with_wrong_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    magic: int,
    changes: list[tuple[int, int, int | None]],
    cut: int,
    checksums: bool,
) -> None:
    path = tmp_path_factory.mktemp("fuzz")
    segment = created(Directory(path))
    append(segment, LOGS[magic])
    segment.close()
    table = table_of(LOGS[magic])
    data = bytearray(LOGS[magic])
    for at, byte, field in changes:
        row = table.rows[at % len(table)]
        start, size = int(row[0]), int(row[1])
        data[start + ((at if field is None else field) % size)] = byte
    if checksums:  # so that what is wrong inside is met too
        for start, size in table.rows[:, :2].tolist():
            if magic == 2:
                data[start + 17 : start + 21] = crc32c(bytes(data[start + 21 : start + size])).to_bytes(
                    4, "big"
                )
            else:
                data[start + 12 : start + 16] = crc32(bytes(data[start + 16 : start + size])).to_bytes(
                    4, "big"
                )
    del data[len(data) - cut :]
    ask_kernel(bytes(data))
    Path(path, f"{0:020}.log").write_bytes(data)
    broken = SealedSegment.open(Directory(path), 0)
    for offset in range(0, 120, 7):
        ask(broken, offset)


@settings(max_examples=60)
@given(offsets=st.binary(max_size=200), times=st.binary(max_size=200))
def test_indexes_of_noise(tmp_path_factory: pytest.TempPathFactory, offsets: bytes, times: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz")
    Path(path, f"{0:020}.log").write_bytes(LOGS[2])
    Path(path, f"{0:020}.index").write_bytes(offsets)
    Path(path, f"{0:020}.timeindex").write_bytes(times)
    segment = SealedSegment.open(Directory(path), 0)
    for record in list(decode_records(LOGS[2]))[::5]:
        assert segment.read_record(record.offset) == record
