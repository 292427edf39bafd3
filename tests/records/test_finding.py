"""A batch is found wherever it begins, and only where one does."""

from __future__ import annotations

import pytest

from tidelog.records import Record, encode_records
from tidelog.records.batches import HEADER_SIZE
from tidelog.records.finding import _WINDOW, find_batch

ANY = range(1 << 31)
BATCH = encode_records([Record(b"value", key=b"key"), Record(b"")], base_offset=7)


def found(data: bytes, start: int = 0, end: int | None = None, offsets: range = ANY) -> int | None:
    return find_batch(data, start, len(data) if end is None else end, offsets)


@pytest.mark.parametrize("position", [0, 1, *range(_WINDOW - HEADER_SIZE - 1, _WINDOW + 2), 3 * _WINDOW - 16])
def test_it_is_found_across_the_windows_of_the_search(position: int) -> None:
    data = bytes(position) + BATCH
    assert found(data) == found(data + bytes(100)) == found(data, position) == position
    assert found(data, position + 1) is None
    assert found(data, 0, position) is None  # it begins behind what was asked for
    assert found(data, 0, position + 1) == position  # and may end there


def test_the_first_whole_one_is_it() -> None:
    other = encode_records([Record(b"other")], base_offset=9)
    assert found(BATCH[1:] + other + BATCH) == len(BATCH) - 1
    assert found(BATCH[:-1]) is None
    assert found(b"") is None
    for at in (8, 11, 16, 17, 21, 23, 61):  # length, magic, checksum, attributes, offsets, records
        damaged = bytearray(BATCH)
        damaged[at] ^= 0x80
        assert found(bytes(damaged) + other) == len(BATCH), at


def test_offsets_must_be_the_segments() -> None:
    assert found(BATCH, offsets=range(7, 9)) == 0
    assert found(BATCH, offsets=range(8, 100)) is None
    assert found(BATCH, offsets=range(7, 8)) is None  # its last record lies behind
