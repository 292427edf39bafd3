"""Producer snapshot files: Kafka's own bytes, then the format's bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import GOLDEN
from tidelog.errors import InvalidIndexError
from tidelog.log.producers.sequences import BatchMetadata, ProducerState
from tidelog.log.producers.snapshots import (
    decode_snapshot,
    encode_snapshot,
    out_of_range_snapshots,
    stray_snapshots,
)

FILES = sorted((GOLDEN / "clean").glob("*/*.snapshot"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_kafkas_snapshots_come_back_byte_for_byte(path: Path) -> None:
    data = path.read_bytes()
    assert encode_snapshot(decode_snapshot(data, path.name)) == data


def test_kafkas_snapshot_says() -> None:
    data = (GOLDEN / "clean/golden-txn-0/00000000000000001442.snapshot").read_bytes()
    states = {state.producer_id: state for state in decode_snapshot(data, "s")}
    assert sorted(states) == [12, 13, 14, 15, 16, 17]
    assert {
        pid: state.txn_first_offset for pid, state in states.items() if state.txn_first_offset is not None
    } == {16: 1390}


int16, int32, int64 = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (15, 31, 63))
offsets = st.integers(0, (1 << 63) - 1)


@st.composite
def states(draw: st.DrawFn) -> ProducerState:
    timestamp = draw(int64)
    batch = BatchMetadata(draw(int32), draw(offsets), draw(int32), timestamp)
    return ProducerState(
        draw(offsets),
        draw(int16),
        draw(int32),
        timestamp,
        draw(st.none() | offsets),
        draw(st.sampled_from([(), (batch,)])),
    )


@given(st.lists(states(), max_size=40, unique_by=lambda state: state.producer_id))
def test_what_is_written_is_read(producers: list[ProducerState]) -> None:
    read = decode_snapshot(encode_snapshot(producers), "s")
    assert sorted(read) == sorted(producers)
    assert encode_snapshot(read) == encode_snapshot(producers)


def test_only_the_last_batch_is_kept() -> None:
    batches = tuple(BatchMetadata(i, i, 0, i) for i in range(5))
    (read,) = decode_snapshot(encode_snapshot([ProducerState(1, 0, -1, 4, None, batches)]), "s")
    assert read.batches == batches[-1:]


@given(st.data())
def test_damaged_files_are_refused(data: st.DataObject) -> None:
    good = FILES[-1].read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    flipped = bytearray(good)
    flipped[at] ^= data.draw(st.integers(1, 255))
    for bad in (bytes(flipped), good[:at], good + b"\0" * (at + 1)):
        with pytest.raises(InvalidIndexError, match="the-file"):
            decode_snapshot(bad, "the-file")


def test_a_count_that_lies_under_a_right_checksum_is_refused() -> None:
    from tidelog.records.checksums import crc32c

    for count in (-1, 2, (1 << 31) - 1):
        body = count.to_bytes(4, "big", signed=True) + bytes(46)
        with pytest.raises(InvalidIndexError, match="announces"):
            decode_snapshot(b"\0\1" + crc32c(body).to_bytes(4, "big") + body, "s")


def test_snapshots_out_of_range() -> None:
    assert out_of_range_snapshots([0, 5, 6, 10, 11], 5, 10) == [0, 5, 11]


@pytest.mark.parametrize(
    ("snapshots", "bases", "strays"),
    [
        ([], [0, 10], []),
        ([10, 20], [0, 10, 20], []),
        ([5, 10, 15, 20], [0, 10, 20], [5, 15]),
        ([10, 20, 25], [0, 10, 20], []),
        ([10, 20, 25, 30], [0, 10, 20], [25]),
        ([5, 30], [0, 10, 20], [5]),
        ([5, 6], [], [5]),
    ],
)
def test_stray_snapshots(snapshots: list[int], bases: list[int], strays: list[int]) -> None:
    assert stray_snapshots(snapshots, bases) == strays
