"""Values that hold whole batches: behind damage, they are not taken for records of the log."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import tidelog
from tidelog import Record
from tidelog.doctor.mending import take_out
from tidelog.log import Log
from tidelog.records import encode_records
from tidelog.records.legacy_builder import encode_legacy_records
from tidelog.scanning.losses import Loss
from tidelog.storage import LOCAL
from tidelog.storage.reading import FileReader
from tidelog.types import Codec

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
    reader = FileReader.open(LOCAL, log)
    kept = [
        offset
        for begin, _, first, end in take_out(LOCAL, str(log), reader, 0, None)
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


def legacy(directory: Path, *messages: bytes) -> tuple[Path, list[int]]:
    """A log of old messages, and where each begins."""
    directory.mkdir()
    log = directory / f"{0:020}.log"
    log.write_bytes(b"".join(messages))
    starts = [0]
    for one in messages:
        starts.append(starts[-1] + len(one))
    return log, starts


def test_lengths_of_several_damaged_batches_are_followed(tmp_path: Path) -> None:
    """Of the second one, which holds a batch, nothing is damaged but its base offset and its value."""
    value = b"<" + bytes(encode_records([Record(b"forged")], base_offset=2)) + b">"
    values = [b"zero" * 9, value, b"two"]
    messages = [encode_legacy_records([Record(one)], magic=1, base_offset=n) for n, one in enumerate(values)]
    log, starts = legacy(tmp_path / "t-0", *messages)
    harm(log, starts[0] + 40, 1)
    for at in (3, 34):
        harm(log, starts[1] + at, 1)
    assert found_offsets(log)[0] == [2]


def test_a_stale_batch_before_sound_ones_hides_none(tmp_path: Path) -> None:
    """It ends where they begin, inside of a damaged batch whose length leads to them."""
    values = [b"zero" * 30, b"one", b"two" * 9, b"three"]
    messages = [encode_legacy_records([Record(one)], magic=1, base_offset=n) for n, one in enumerate(values)]
    stale = encode_legacy_records([Record(b"old")], magic=1, base_offset=0)
    messages[0] = messages[0][: -len(stale)] + stale
    log, starts = legacy(tmp_path / "t-0", *messages)
    for at in (1, starts[2] + 40):
        harm(log, at, 1)
    assert found_offsets(log)[0] == [0, 1, 3]


def test_a_stale_header_before_sound_batches_hides_none(tmp_path: Path) -> None:
    """A copy of a batch's header, and the batch itself after it: they have the same offsets."""
    records = [Record(b"value %d" % n * 20) for n in range(5)]
    log, starts = batches(tmp_path / "t-0", *[records] * 3)
    data = log.read_bytes()
    log.write_bytes(data[: starts[1]] + data[starts[1] : starts[1] + 80] + b"stale" * 7 + data[starts[1] :])
    assert found_offsets(log) == (list(range(15)), list(range(15)))


def test_a_wrapper_whose_offset_is_damaged_is_a_loss_of_its_own(tmp_path: Path) -> None:
    """Its records have their own offsets; what it says of itself would outdo all that follows."""
    large = [Record(bytes([n]) * 900) for n in range(3)]
    messages = [
        encode_legacy_records([Record(b"a")], magic=0, base_offset=0),
        encode_legacy_records(large, magic=0, base_offset=1, codec=Codec.GZIP),
        encode_legacy_records([Record(b"b")], magic=0, base_offset=4),
    ]
    log, starts = legacy(tmp_path / "t-0", *messages)
    harm(log, starts[1] + 5, 4)
    losses: list[Loss] = []
    read = tidelog.scan(log.parent, corrupt="skip", on_loss=losses.append).read_all()
    assert read["offset"].to_pylist() == [0, 4]
    (loss,) = losses
    assert (loss.first_offset, loss.end_offset) == (1, 4)
    assert "its records end at 3" in loss.reason


@pytest.mark.parametrize(("field", "mask"), [*HARM, (LENGTH + 3, 0x03)])
def test_batches_whose_offsets_go_back_lie_behind_a_damaged_one(
    tmp_path: Path, field: int, mask: int
) -> None:
    """Two sound batches in each other's places: one of them is right."""
    log, starts = batches(tmp_path / "t-0", *[[Record(b"value %d" % n)] * 3 for n in range(4)])
    data = log.read_bytes()
    parts = [data[begin:end] for begin, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    log.write_bytes(parts[0] + parts[1] + parts[3] + parts[2])
    harm(log, starts[1] + field, mask)
    for found in found_offsets(log):
        assert found in ([0, 1, 2, 6, 7, 8], [0, 1, 2, 9, 10, 11])
