"""Values that hold whole batches: behind damage, they are not taken for records of the log."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import tidelog
from tidelog import Record
from tidelog.doctor.mending import take_out
from tidelog.log import Log

LENGTH, CRC, MAGIC, VALUE = 8, 17, 16, 90
HARM = [(LENGTH, 0x10), (LENGTH + 3, 0x10), (LENGTH + 2, 0x40), (MAGIC, 0x10), (CRC, 0x10), (VALUE, 0x10)]


def batches(directory: Path, *appends: list[Record]) -> tuple[Path, list[int]]:
    """A log of these batches, and where each begins."""
    starts = []
    with Log.open(directory) as log:
        for records in appends:
            starts.append(log.size)
            log.append_as_leader(records)
    return next(directory.glob("*.log")), starts


def inner(tmp_path: Path, base: int, count: int, per_batch: int) -> bytes:
    """Sound batches of offsets from `base` on."""
    appends = [[Record(b"inner %d" % n)] * per_batch for n in range(count)]
    log, starts = batches(tmp_path / f"inner-{base}-{count}-{per_batch}-0", *appends)
    data = bytearray(log.read_bytes())
    for number, start in enumerate(starts):
        struct.pack_into(">q", data, start, base + number * per_batch)
    return bytes(data)


def harm(log: Path, at: int, mask: int) -> None:
    data = bytearray(log.read_bytes())
    data[at] ^= mask
    log.write_bytes(data)


def found_offsets(log: Path) -> tuple[list[int], list[int]]:
    """What a scan past damage reads, and what a repair keeps."""
    read = tidelog.scan(log.parent, corrupt="skip", columns=["offset"]).read_all()["offset"].to_pylist()
    kept = [
        offset
        for begin, _, first, end in take_out(memoryview(log.read_bytes()), 0, None)
        if begin >= 0 and end is not None
        for offset in range(first, end)
    ]
    return read, kept


@pytest.mark.parametrize(("field", "mask"), HARM)
@pytest.mark.parametrize(("count", "per_batch"), [(1, 6), (3, 2)], ids=["one", "several"])
@pytest.mark.parametrize("padding", [b"", b">>", bytes(40)], ids=["tight", "text", "zeros"])
def test_batches_in_a_value_are_no_records(
    tmp_path: Path, field: int, mask: int, count: int, per_batch: int, padding: bytes
) -> None:
    value = padding + inner(tmp_path, 1, count, per_batch) + padding
    outer = [Record(value), *[Record(b"z")] * 6]
    log, starts = batches(tmp_path / "t-0", [Record(b"one")], outer, [Record(b"last")])
    harm(log, starts[1] + field, mask)
    assert found_offsets(log) == ([0, 8], [0, 8])


@pytest.mark.parametrize(("field", "mask"), HARM)
def test_nor_are_those_in_the_last_batch(tmp_path: Path, field: int, mask: int) -> None:
    outer = [Record(b"<<" + inner(tmp_path, 1, 2, 2) + b">>"), *[Record(b"z")] * 4]
    log, starts = batches(tmp_path / "t-0", [Record(b"one")], outer)
    harm(log, starts[1] + field, mask)
    assert found_offsets(log) == ([0], [0])


@pytest.mark.parametrize(("field", "mask"), HARM)
@pytest.mark.parametrize(("after", "other"), HARM)
def test_a_batch_between_two_damaged_ones_is_kept(
    tmp_path: Path, field: int, mask: int, after: int, other: int
) -> None:
    records = [Record(b"value %d" % n * 20) for n in range(3)]
    log, starts = batches(tmp_path / "t-0", *[records] * 5)
    harm(log, starts[1] + field, mask)
    harm(log, starts[3] + after, other)
    read, kept = found_offsets(log)
    assert read == kept == [0, 1, 2, 6, 7, 8, 12, 13, 14]
