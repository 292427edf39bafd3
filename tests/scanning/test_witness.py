"""What an offset index tells of batches whose offsets are in doubt."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from tidelog.records import Record, encode_records
from tidelog.records.batches import BatchTable, scan_batches
from tidelog.scanning.soundness import survey_segment
from tidelog.scanning.witness import IndexWitness

SIZE = len(encode_records([Record(b"value")]))
"""The size of each batch here."""


class Bytes:
    """Bytes to read from."""

    window_bytes = 1 << 20

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, position: int, n: int) -> memoryview:
        return memoryview(self.data)[position : position + n]


def segment(*offsets: int) -> bytes:
    """Batches of a record each."""
    return b"".join(bytes(encode_records([Record(b"value")], base_offset=one)) for one in offsets)


def index(*entries: tuple[int, int]) -> bytes:
    """(offset, number of the batch) as a file."""
    return b"".join(struct.pack(">ii", offset, SIZE * number) for offset, number in entries)


def read(offsets: Sequence[int], entries: bytes) -> list[int]:
    """The offsets that are taken."""
    data = segment(*offsets)
    survey = survey_segment(Bytes(data), len(data), floor=0, limit=1 << 40, is_last=True, index=entries)
    return [offsets[at // SIZE] for one in survey.sound for at in range(one.start, one.end, SIZE)]


def met(data: bytes, *offsets: int) -> IndexWitness:
    witness = IndexWitness(data, 0)
    table: BatchTable = scan_batches(segment(*offsets)).require()
    witness.meet(table, table.base_offset, table.last_offset)
    return witness


def test_a_last_offset_that_leaps_is_believed_only_without_an_index() -> None:
    assert read([0, 1, 2, 1 << 20], b"") == [0, 1, 2, 1 << 20]
    assert read([0, 1, 2, 1 << 20], index((3, 3))) == [0, 1, 2]
    assert read([0, 1, 2, 9], index((1, 1), (9, 3))) == [0, 1, 2, 9]


def test_a_smaller_leap_needs_a_later_entry_that_is_right() -> None:
    assert read([0, 1, 7, 9], index((2, 2))) == [0, 1, 7, 9]
    assert read([0, 1, 7, 9], index((2, 2), (9, 3))) == [0, 1, 9]


def test_of_two_copies_the_one_in_its_place_is_taken() -> None:
    """The stale one has more bytes."""
    log = [0, 1, 5, 6, 7, 5, 6]
    assert read(log, b"") == [0, 1, 5, 6, 7]
    assert read(log, index((6, 6))) == [0, 1, 5, 6]


def test_an_entry_of_several_batches_confirms_the_first() -> None:
    """So Kafka wrote them before version 4."""
    assert met(index((3, 2)), 0, 1, 2, 3).contradicts(2 * SIZE, 2, 4 * SIZE) is None
    assert read([0, 1, 2, 3], index((3, 2))) == [0, 1, 2, 3]


def test_what_does_not_grow_or_is_cut_short_tells_nothing() -> None:
    preallocated = index((2, 2)) + bytes(80)
    assert met(preallocated, 0, 1, 1 << 20).contradicts(2 * SIZE, 1 << 20, 3 * SIZE) == 2
    for data in (bytes(80), index((2, 2))[:7], b"", b"noise that is no index"):
        assert met(data, 0, 1, 1 << 20).contradicts(2 * SIZE, 1 << 20, 3 * SIZE) is None
    runs = np.array([[0, 10, 0, 1, 1], [10, 40, 2, 3, 1]], np.int64)
    assert IndexWitness(b"", 0).weights(runs, runs[:, 1] - runs[:, 0]) == [10, 30]
