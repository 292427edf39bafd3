"""What the kernels say of an append's records: like decoding them, and nothing bad passes; on both twins."""

from __future__ import annotations

from types import ModuleType

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tests.golden import GOLDEN
from tests.kernels_twin import TWINS, twin
from tests.log.crafting import LOG_APPEND_TIME, Batch
from tidelog.errors import CorruptRecordError
from tidelog.kernels import append_checks, record_summary
from tidelog.log.append.info import AppendOrigin
from tidelog.records import Header, Record, decode_batches, encode_records, scan_batches
from tidelog.records.checksums import crc32c

NONE = (1 << 63) - 1


@pytest.fixture(params=TWINS)
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return record_summary if request.param == "compiled" else twin("record_summary")


def _expected(data: bytes) -> tuple[int, int, int]:
    """Smallest and largest timestamp and the records without a key, from decoded records."""
    batches = scan_batches(data).require()
    found = decode_batches(data, batches, columns=("timestamp_ms", "key"))
    times = [time for time in found.column("timestamp_ms").to_pylist() if time != -1]
    return min(times, default=NONE), max([*times, -1]), found.column("key").null_count


records = st.builds(
    Record,
    value=st.none() | st.binary(max_size=200),
    key=st.none() | st.binary(max_size=80),
    headers=st.lists(st.builds(Header, st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
    timestamp=st.integers(-1, (1 << 62)),
)


@given(runs=st.lists(st.lists(records, min_size=1, max_size=8), min_size=1, max_size=4))
@settings(max_examples=50)
@pytest.mark.parametrize("name", TWINS)
def test_records_say_what_decoding_says(name: str, runs: list[list[Record]]) -> None:
    kernel = record_summary if name == "compiled" else twin("record_summary")
    data = b"".join(encode_records(run) for run in runs)
    batches = scan_batches(data).require()
    largest = np.zeros(len(batches), dtype=np.int64)
    assert kernel.sum_up(data, batches.rows, 0, largest) == (-1, *_expected(data))
    assert largest.tolist() == batches.max_timestamp.tolist()


def test_golden_batches(kernel: ModuleType) -> None:
    data = next((GOLDEN / "clean" / "golden-none-0").glob("*.log")).read_bytes()
    batches = scan_batches(data).require()
    largest = np.zeros(len(batches), dtype=np.int64)
    assert kernel.sum_up(data, batches.rows, 0, largest) == (-1, *_expected(data))
    assert (largest == batches.max_timestamp).all()


def test_compressed_batches_and_old_messages_are_passed_over(kernel: ModuleType) -> None:
    for name in ("golden-zstd-0", "golden-multi-0"):
        data = next((GOLDEN / "clean" / name).glob("*.log")).read_bytes()
        batches = scan_batches(data).require()
        assert kernel.sum_up(data, batches.rows, 0, np.zeros(len(batches), np.int64)) == (-1, NONE, -1, 0)


def test_a_time_given_by_the_log_is_that_of_all(kernel: ModuleType) -> None:
    data = Batch(records=[(5, b"k", b"v"), (9, b"k", b"v")], attributes=LOG_APPEND_TIME, max_timestamp=77)
    encoded = data.encode()
    batches = scan_batches(encoded).require()
    assert kernel.sum_up(encoded, batches.rows, 0, np.zeros(1, np.int64)) == (-1, 77, 77, 0)


def test_payloads(kernel: ModuleType) -> None:
    data = encode_records([Record(b"v", None, (), 5), Record(b"v", b"k", (), 3)])
    base = int(scan_batches(data).require().base_timestamp[0])
    assert kernel.sum_up_payload(data[61:], 2, base, -1) == (True, 3, 5, 1, True)
    assert kernel.sum_up_payload(data[61:], 2, base, 99)[1:3] == (99, 99)
    assert not kernel.sum_up_payload(data[61:], 1, base, -1)[0], "bytes are left over"
    assert not kernel.sum_up_payload(data[61:], 3, base, -1)[0]
    assert not kernel.sum_up_payload(b"", 1, base, -1)[0]


def test_every_flipped_byte_is_sound_or_refused_like_decoding(kernel: ModuleType) -> None:
    """Whatever the bytes hold, the kernel stays inside of them, and takes no more than decoding takes."""
    whole = encode_records([Record(b"value", b"key", (Header("h", b"x"),), 5), Record(None, None, (), 3)])
    for at in range(61, len(whole)):
        for bits in (0x01, 0x40, 0x80, 0xFF):
            data = bytearray(whole)
            data[at] ^= bits
            data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
            batches = scan_batches(data).require()
            bad = kernel.sum_up(data, batches.rows, 0, np.zeros(1, np.int64))[0]
            try:
                decode_batches(data, batches, columns=("timestamp_ms", "key", "value", "headers"))
            except CorruptRecordError:
                assert bad == 0, (at, bits)


def test_tables_that_lie_are_refused(kernel: ModuleType) -> None:
    data = encode_records([Record(b"v", None, (), 5)])
    batches = scan_batches(data).require()
    outside = batches.rows.copy()
    outside[0, 1] += 1
    for rows, largest in ((outside, np.zeros(1, np.int64)), (batches.rows, np.zeros(2, np.int64))):
        with pytest.raises(ValueError, match=r"outside the buffer|one largest timestamp"):
            kernel.sum_up(data, rows, 0, largest)


@pytest.mark.parametrize("name", TWINS)
def test_one_call_finds_what_three_find(name: str) -> None:
    kernel = append_checks if name == "compiled" else twin("append_checks")
    good = b"".join(encode_records([Record(b"v", None, (), time)] * 3) for time in (5, 9, 7))
    rows, largest = np.zeros((10, 16), np.int64), np.zeros(10, np.int64)

    def check(data: bytes, capacity: int = 10) -> tuple[int, ...]:
        numbers = (int(AppendOrigin.CLIENT), 0, 1 << 20, -1, False)
        return tuple(kernel.check(data, rows[:capacity], largest, *numbers))

    found = check(good)
    assert found[:5] == (3, len(good), 0, 0, 3)
    assert found[-4:] == (-1, 5, 9, 9)
    assert largest[:3].tolist() == [5, 9, 7]
    assert rows[:3, :14].tolist() == scan_batches(good).require().rows[:, :14].tolist()
    assert check(good, 2)[:3] == (2, len(good) * 2 // 3, 0), "more than there is room for"
    torn = check(good[:-1])
    assert (torn[0], torn[2] != 0) == (2, True)
    control = check(Batch(attributes=0x20).encode())
    assert (control[0], control[3]) == (1, 10)
    unsound = check(Batch(count=2, last_offset_delta=1).encode())
    assert (unsound[3], unsound[12]) == (0, 0)
    assert check(b"")[:3] == (0, 0, 0)
