"""The scan of batch headers: the table, where it stops, and that it reads no further."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.golden import golden_partitions
from tests.kernels_twin import TWINS, twin, use_twin
from tests.records.wire import batch, message, record
from tidelog.errors import ChecksumError, TornBatchError
from tidelog.kernels import scan
from tidelog.records import scan_batches, walk_batches
from tidelog.types import Codec


@pytest.fixture(params=TWINS, autouse=True)
def each_twin(request: pytest.FixtureRequest) -> Iterator[None]:
    with use_twin(request.param):
        yield


def test_every_field_of_a_header() -> None:
    data = batch(
        [record()] * 3,
        base_offset=5,
        leader_epoch=6,
        attributes=0x78,
        codec=Codec.ZSTD,
        last_delta=9,
        base_timestamp=-7,
        max_timestamp=1 << 40,
        producer=(1 << 50, 12, 13),
    )
    table = scan_batches(b"skip" + data, start=4, origin=100).require()
    assert repr(table) == "BatchTable(1 batches, offsets 5..14)"
    assert {
        "position": 104,
        "size": len(data),
        "base_offset": 5,
        "last_offset": 14,
        "leader_epoch": 6,
        "magic": 2,
        "attributes": 0x7C,
        "base_timestamp": -7,
        "max_timestamp": 1 << 40,
        "producer_id": 1 << 50,
        "producer_epoch": 12,
        "base_sequence": 13,
        "count": 3,
        "crc": int.from_bytes(data[17:21], "big"),
        "codec": 4,
        "timestamp_type": 1,
        "is_transactional": True,
        "is_control": True,
        "has_delete_horizon": True,
    } == {name: getattr(table, name)[0] for name in _names()}
    assert table.end == 104 + len(data)


def _names() -> list[str]:
    names = "position size base_offset last_offset leader_epoch magic attributes base_timestamp max_timestamp"
    names += " producer_id producer_epoch base_sequence count crc codec timestamp_type is_transactional"
    return (names + " is_control has_delete_horizon").split()


def test_old_messages_have_no_producer_and_no_flags_of_v2() -> None:
    table = scan_batches(message(magic=0, offset=3) + message(offset=4, attributes=0x78)).require()
    assert table.magic.tolist() == [0, 1]
    assert table.base_offset.tolist() == table.last_offset.tolist() == [3, 4]
    assert table.max_timestamp.tolist() == [-1, 1000]
    assert table.timestamp_type.tolist() == [-1, 1]
    for name in ("leader_epoch", "producer_id", "producer_epoch", "base_sequence"):
        assert getattr(table, name).tolist() == [-1, -1]
    for name in ("is_transactional", "is_control", "has_delete_horizon"):
        assert getattr(table, name).tolist() == [False, False]


def test_golden_logs_are_sound_and_without_gaps() -> None:
    for partition in golden_partitions():
        for path in partition.logs():
            data = path.read_bytes()
            scan = scan_batches(data)
            assert scan.fault is None
            assert scan.end == len(data)
            table = scan.table
            assert (table.position[1:] == table.position[:-1] + table.size[:-1]).all()
            walked = [part.rows for part in walk_batches(data, max_batches=5)]
            assert np.array_equal(np.concatenate(walked)[:, :14], table.rows[:, :14])


def test_a_scan_stops_after_so_many_batches_without_a_fault() -> None:
    data = batch([record()]) * 5
    scan = scan_batches(data, max_batches=3)
    assert (len(scan.table), scan.end, scan.fault) == (3, 3 * len(data) // 5, None)
    assert [len(part) for part in walk_batches(data, max_batches=2)] == [2, 2, 1]
    assert len(scan_batches(b"").table) == 0
    assert repr(scan_batches(b"").table) == "BatchTable(empty)"


def test_a_fault_is_answered_beside_what_is_sound() -> None:
    good = batch([record()])
    bad = bytearray(batch([record()], base_offset=9))
    bad[-1] ^= 1
    scan = scan_batches(good * 2 + bytes(bad), origin=50, source="a.log")
    assert len(scan.table) == 2
    assert scan.end == 50 + 2 * len(good)
    assert isinstance(scan.fault, ChecksumError)
    assert (scan.fault.position, scan.fault.offset, scan.fault.source) == (scan.end, 9, "a.log")
    with pytest.raises(ChecksumError):
        scan.require()
    seen = []
    with pytest.raises(ChecksumError):
        seen.extend(walk_batches(good * 2 + bytes(bad)))
    unchecked = scan_batches(good * 2 + bytes(bad), check_crc=False)
    assert (len(unchecked.table), unchecked.fault) == (3, None)


def test_the_end_given_is_the_end() -> None:
    data = batch([record()]) * 2
    half = len(data) // 2
    assert scan_batches(data, end=half).fault is None
    assert isinstance(scan_batches(data, end=half + 20).fault, TornBatchError)
    assert isinstance(scan_batches(data, start=half, end=len(data) - 1).fault, TornBatchError)


@pytest.mark.parametrize(("start", "end"), [(-1, 10), (0, 11), (5, 4), (11, None)])
def test_a_range_outside_the_buffer_is_the_callers_mistake(start: int, end: int | None) -> None:
    with pytest.raises(ValueError, match="outside the buffer"):
        scan_batches(bytes(10), start=start, end=end)


def test_tables_are_sliced_and_walked_as_lists_are() -> None:
    data = b"".join(batch([record()], base_offset=b) for b in range(5))
    table = scan_batches(data).require()
    assert table[1:3].base_offset.tolist() == [1, 2]
    assert [int(one.base_offset[0]) for one in table] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kernel", TWINS)
@pytest.mark.parametrize(
    ("spans", "before", "largest", "first"),
    [
        ([(0, 4), (5, 5), (9, 12)], -1, 12, -1),
        ([(0, 4), (5, 5), (9, 12)], -1, 11, 2),
        ([(0, 4), (5, 5), (9, 12)], 0, 20, 0),
        ([(0, 4), (4, 5)], -1, 20, 1),
        ([(0, 4), (7, 6)], -1, 20, 1),
        ([((1 << 63) - 1, (1 << 63) - 1)], 5, (1 << 63) - 1, -1),
        ([], -1, 0, -1),
    ],
)
def test_the_first_batch_that_is_misplaced(
    kernel: str, spans: list[tuple[int, int]], before: int, largest: int, first: int
) -> None:
    rows = np.zeros((len(spans), 16), dtype=np.int64)
    if spans:
        rows[:, 2:4] = spans
    first_misplaced = (scan if kernel == TWINS[0] else twin("scan")).first_misplaced
    assert first_misplaced(rows, before, largest) == first
