"""Markers as Kafka wrote them, and control records that are none."""

from __future__ import annotations

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import golden_partition
from tests.log.crafting import CONTROL, GZIP, LOG_APPEND_TIME, TRANSACTIONAL, Batch, craft
from tidelog.errors import CorruptRecordError
from tidelog.log.producers.markers import read_markers
from tidelog.log.producers.transactions import TxnMarker
from tidelog.records import scan_batches

MARKER = CONTROL | TRANSACTIONAL
COMMIT, ABORT, EPOCH_5 = b"\0\0\0\1", b"\0\0\0\0", b"\0\0\0\0\0\5"


def marker(
    key: bytes | None = COMMIT, value: bytes | None = EPOCH_5, attributes: int = 0, **fields: int
) -> Batch:
    return Batch(
        records=[(77, key, value)], attributes=MARKER | attributes, producer_id=3, producer_epoch=0, **fields
    )


@pytest.mark.parametrize("topic", ["txn", "txncompact"])
def test_kafkas_markers(topic: str) -> None:
    partition = golden_partition(f"golden-{topic}-0")
    expected = {
        r["offset"]: TxnMarker(b64decode(r["key"]) == ABORT, b64decode(r["value"])[5], r["timestamp"])
        for r in partition.records()
        if r["control"] and r["producer_id"] >= 0
    }
    found = {}
    for log in partition.logs():
        data = log.read_bytes()
        batches = scan_batches(data).require()
        for row, read in read_markers(data, batches).items():
            found[int(batches.base_offset[row])] = read
    assert found == expected
    assert {read.is_abort for read in found.values()} == {False, True}


def test_markers_by_row() -> None:
    data, batches = craft(Batch(), marker(), Batch(attributes=CONTROL), marker(ABORT, attributes=GZIP))
    assert read_markers(data, batches) == {1: TxnMarker(False, 5, 77), 3: TxnMarker(True, 5, 77)}
    moved = batches[1:]
    assert read_markers(data[100:], batches[3:], origin=100) == {0: TxnMarker(True, 5, 77)}
    assert read_markers(data, moved) == {0: TxnMarker(False, 5, 77), 2: TxnMarker(True, 5, 77)}


def test_the_logs_time_counts_where_the_log_stamped() -> None:
    for codec in (0, GZIP):
        data, batches = craft(marker(attributes=LOG_APPEND_TIME | codec, max_timestamp=99))
        assert read_markers(data, batches)[0].timestamp == 99


def test_an_emptied_control_batch_has_no_marker() -> None:
    data, batches = craft(Batch(records=[], attributes=MARKER, producer_id=3, last_offset_delta=0))
    assert read_markers(data, batches) == {}


def test_later_versions_may_say_more() -> None:
    data, batches = craft(marker(b"\0\1\0\0\7\7", b"\0\2\0\0\0\5\7"))
    assert read_markers(data, batches) == {0: TxnMarker(True, 5, 77)}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, EPOCH_5),
        (COMMIT, None),
        (COMMIT[:3], EPOCH_5),
        (COMMIT, EPOCH_5[:5]),
        (b"\0\0\0\2", EPOCH_5),
        (b"\xff\xff\0\1", EPOCH_5),
        (COMMIT, b"\xff\xff\0\0\0\5"),
    ],
)
@pytest.mark.parametrize("codec", [0, GZIP])
def test_other_control_records_are_refused_with_their_place(
    key: bytes | None, value: bytes | None, codec: int
) -> None:
    data, batches = craft(Batch(), marker(key, value, codec, base_offset=42))
    with pytest.raises(CorruptRecordError, match=r"the-log, position \d+, offset 42") as caught:
        read_markers(data, batches, source="the-log")
    assert caught.value.position == int(batches.position[1])


@given(st.binary(max_size=40))
def test_garbage_is_refused_or_read_but_never_breaks(body: bytes) -> None:
    data, batches = craft(marker())
    size = int(batches.size[0])
    data[61:size] = body.ljust(size - 61, b"\x80")[: size - 61]
    try:
        read_markers(data, batches)
    except CorruptRecordError:
        pass


def test_a_table_of_other_bytes_is_refused() -> None:
    data, batches = craft(marker())
    with pytest.raises(ValueError, match="outside the buffer"):
        read_markers(data[:-1], batches)
