"""The kernel that writes a batch's records anew: both twins, and bytes that lie."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

from tests.kernels_twin import TWINS, twin
from tidelog.kernels import editing
from tidelog.kernels.batch_headers import seal
from tidelog.records import decode_batches, encode_batches
from tidelog.records.batches import scan_batches
from tidelog.records.faults import Fault

LATEST = (1 << 63) - 1


@pytest.fixture(params=TWINS)
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    return editing if request.param == "compiled" else twin("editing")


def batch(rows: int = 100) -> tuple[bytes, np.ndarray]:
    table = pa.table(
        {
            "key": pa.array([None if n % 7 == 0 else b"k%d" % n for n in range(rows)], pa.binary()),
            "value": pa.array([None if n % 5 == 0 else b"v" * n for n in range(rows)], pa.binary()),
            "timestamp": pa.array([1000 - n if n % 2 else n * 1000 for n in range(rows)], pa.int64()).cast(
                pa.timestamp("ms", tz="UTC")
            ),
        }
    )
    data = bytes(encode_batches(table, base_offset=50, max_batch_bytes=1 << 20))
    return data, scan_batches(data).require().rows[0]


def edited(
    kernel: ModuleType,
    data: bytes,
    row: np.ndarray,
    acts: np.ndarray,
    how: int = 0,
    new: bytes = b"",
    earliest: int = 0,
) -> tuple[int, list[dict[str, object]], np.ndarray]:
    out, made = np.zeros(len(data) * 2 + 4096, np.uint8), np.zeros(16, np.int64)
    fault = kernel.edit(data[61:], row, acts, how, new, new, earliest, LATEST, out, made)
    if fault or not made[12]:
        return fault, [], made
    seal(out, made.reshape(1, 16))
    done = out[: made[1]].tobytes()
    columns = ["offset", "timestamp_ms", "key", "value"]
    return 0, decode_batches(done, scan_batches(done).require(), columns=columns).to_pylist(), made


def test_what_stays_is_what_was_there(kernel: ModuleType) -> None:
    data, row = batch()
    expected = decode_batches(
        data, scan_batches(data).require(), columns=["offset", "timestamp_ms", "key", "value"]
    ).to_pylist()
    acts = (np.arange(100) % 3 == 0).astype(np.uint8)
    fault, found, made = edited(kernel, data, row, acts, earliest=-1)
    assert fault == 0
    assert found == [one for one, act in zip(expected, acts, strict=True) if not act]
    assert (made[2], made[3]) == (50, 149)
    fault, found, _ = edited(kernel, data, row, np.full(100, 2, np.uint8), 1 + 8, b"new", earliest=5000)
    assert [one["offset"] for one in found] == [one["offset"] for one in expected]
    assert {one["key"] for one in found} == {b"new"}
    assert {one["value"] for one in found} == {None}
    assert all(
        one["timestamp_ms"] == max(old["timestamp_ms"], 5000)
        for one, old in zip(found, expected, strict=True)
    )
    assert edited(kernel, data, row, np.ones(100, np.uint8))[2][12] == 0


def test_bytes_that_lie_are_a_fault_and_nothing_else(kernel: ModuleType) -> None:
    data, row = batch(20)
    acts = np.zeros(20, np.uint8)
    random = np.random.default_rng(1)
    for _ in range(200):
        bad = bytearray(data)
        for at in random.integers(61, len(data), 3).tolist():
            bad[at] = int(random.integers(256))
        out, made = np.zeros(4096, np.uint8), np.zeros(16, np.int64)
        fault = kernel.edit(bytes(bad[61:]), row, acts, 0, b"", b"", -1, LATEST, out, made)
        assert fault in [0, *Fault]
    for end in range(61, len(data) - 1, 7):
        fault = kernel.edit(data[61 : end + 1], row, acts, 0, b"", b"", -1, LATEST, out, made)
        assert fault in (Fault.COUNT_MISMATCH, Fault.RECORD_OVERRUN, Fault.BAD_VARINT)
    small = np.zeros(100, np.uint8)
    assert kernel.edit(data[61:], row, acts, 0, b"", b"", -1, LATEST, small, made) == Fault.NO_ROOM
