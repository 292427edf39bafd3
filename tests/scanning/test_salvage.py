"""Reading past damage, held against the truth: every intact record comes out, and none that never was."""

from __future__ import annotations

import os
import random
import tracemalloc
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

import tidelog
from tests.scanning.damage import DamagedLog, hurt, make_log
from tidelog.errors import ChecksumError, InvalidInputError
from tidelog.records import Record, encode_records
from tidelog.records.checksums import crc32c
from tidelog.scanning.losses import Loss
from tidelog.testing.builders import FIRST_TIMESTAMP_MS, STEP_MS, LogBuilder, cut_off, flip_bit
from tidelog.types import Codec


def read(
    directory: Path, split_bytes: int, threads: int = 1
) -> tuple[list[tuple[int, object, object]], list[Loss]]:
    losses: list[Loss] = []
    table = tidelog.scan(
        directory,
        columns=["offset", "key", "value"],
        corrupt="skip",
        on_loss=losses.append,
        split_bytes=split_bytes,
        threads=threads,
    ).read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)), losses


def check(log: DamagedLog, directory: Path, split_bytes: int) -> None:
    rows, losses = read(directory, split_bytes)
    known = log.known()
    offsets = [row[0] for row in rows]
    assert offsets == sorted(set(offsets)), "an offset comes twice, or out of order"
    elsewhere = [row for row in rows if known.get(row[0]) != row]  # with an offset that is not theirs
    invented = [row for row in elsewhere if not log.is_ambiguous(row)]
    assert not invented, invented
    assert not set(log.required()) - set(rows), "intact records are missing"
    places = [(loss.source, loss.start_position, loss.end_position) for loss in losses]
    assert len(set(places)) == len(places)
    for (source, _, end), (other, start, _) in pairwise(places):
        assert source != other or end < start, "losses overlap or touch"
    if {"cut", "remove", "lose"} & set(log.done):
        return  # a cut between two batches leaves nothing to tell it from a gap that compaction left
    moved = {row[0]: n for row in elsewhere for n, fact in known.items() if fact[1:] == row[1:]}
    ranges = [
        (moved.get(one.first_offset - 1, one.first_offset - 1) + 1, moved.get(one.end_offset, one.end_offset))
        for one in losses
    ]
    for segment in log.segments:
        for batch in segment.batches:
            for offset, *what in batch.facts:
                if offset not in known or offset in offsets or what in [list(row[1:]) for row in elsewhere]:
                    continue
                assert any(first <= offset and (end is None or offset < end) for first, end in ranges)


def check_seeds(seeds: range, tmp_path: Path) -> None:
    for seed in seeds:
        dice = random.Random(seed)
        log = hurt(make_log(dice), dice)
        directory = log.write(tmp_path / str(seed) / "orders-0")
        for split_bytes in (1 << 30, 1000):
            check(log, directory, split_bytes)


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_ground_truth(first: int, tmp_path: Path) -> None:
    check_seeds(range(first, first + 25), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 1000, 100))
def test_ground_truth_of_many(first: int, tmp_path: Path) -> None:
    check_seeds(range(first, first + 100), tmp_path)


FOUND = [210, 70692, 810146, 811323, 811598, 811936, 812169, 820142, 820353, 821979]
FOUND += [850709, 930817, 942975, 944866, 945799, 946606, 946628, 949767, 952392, 965168]


@pytest.mark.parametrize("seed", FOUND)
def test_found_damages(seed: int, tmp_path: Path) -> None:
    """Stale copies of whole batches, one of which is larger than what is left of the originals; a part of a
    stale compressed message; an offset that leaps where the index tells what it was; batches in a damaged
    value that are larger than the log's next one, or leave room for as many offsets as it has; a stale copy
    of a header before its batch.
    """
    check_seeds(range(seed, seed + 1), tmp_path)


def whole_log(tmp_path: Path, seed: int) -> tuple[DamagedLog, Path]:
    log = make_log(random.Random(seed))
    return log, log.write(tmp_path / "orders-0")


def test_a_sound_log_loses_nothing(tmp_path: Path) -> None:
    for seed in range(20):
        log, directory = whole_log(tmp_path / str(seed), seed)
        for threads in (1, 2):
            rows, losses = read(directory, 700, threads)
            assert rows == log.required()
            assert losses == []


def test_a_batch_in_a_value_is_no_batch(tmp_path: Path) -> None:
    with LogBuilder(tmp_path / "orders-0") as builder:
        builder.records(20)
        inner = encode_records([Record(b"forged")], base_offset=31)
        builder.append([Record(bytes(inner) * 3, b"outer")]).records(30)
    log = next((tmp_path / "orders-0").glob("*.log"))
    for index in log.parent.glob("*.index"):
        index.unlink()
    flip_bit(log, 61 + 4)
    rows, losses = read(log.parent, 100)
    assert [row[0] for row in rows] == list(range(10, 51))
    assert [(loss.first_offset, loss.end_offset) for loss in losses] == [(0, 10)]


def test_a_batch_that_does_not_decompress_is_a_loss(tmp_path: Path) -> None:
    with LogBuilder(tmp_path / "orders-0") as builder:
        builder.records(30, codec=Codec.ZSTD)
    log = next((tmp_path / "orders-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    size = 12 + int.from_bytes(data[8:12])
    second = size + 12 + int.from_bytes(data[size + 8 : size + 12])
    data[size + 61 : second] = bytes(second - size - 61)
    data[size + 17 : size + 21] = crc32c(data[size + 21 : second]).to_bytes(4)
    log.write_bytes(data)
    rows, losses = read(log.parent, 1 << 20)
    assert [row[0] for row in rows] == [*range(10), *range(20, 30)]
    (loss,) = losses
    assert (loss.start_position, loss.end_position) == (size, second)
    assert (loss.first_offset, loss.end_offset) == (10, 20)
    assert "zstd" in loss.reason


def damaged(tmp_path: Path) -> Path:
    """Three segments of 30 records; a batch in the middle of the second one is damaged."""
    directory = tmp_path / "orders-0"
    with LogBuilder(directory) as builder:
        builder.records(30).roll().records(30).roll().records(30)
    log = directory / f"{30:020}.log"
    size = 12 + int.from_bytes(log.read_bytes()[8:12])
    flip_bit(log, size + 70)
    return directory


@pytest.mark.parametrize("threads", [1, 2])
def test_stop_ends_the_partition_before_the_damage(tmp_path: Path, threads: int) -> None:
    losses: list[Loss] = []
    directory = damaged(tmp_path)
    found = tidelog.scan(directory, corrupt="stop", on_loss=losses.append, threads=threads, split_bytes=300)
    assert found.read_all()["offset"].to_pylist() == list(range(40))
    (loss,) = losses
    assert (loss.first_offset, loss.end_offset) == (40, None)
    assert "reading stopped there" in loss.reason


def test_fail_is_the_default(tmp_path: Path) -> None:
    directory = damaged(tmp_path)
    with pytest.raises(ChecksumError):
        tidelog.scan(directory).read_all()
    with pytest.raises(InvalidInputError, match="corrupt must be one of fail, stop, skip, not 'maybe'"):
        tidelog.scan(directory, corrupt="maybe")


def test_a_range_and_a_time_past_damage(tmp_path: Path) -> None:
    directory = damaged(tmp_path)
    since = datetime.fromtimestamp((FIRST_TIMESTAMP_MS + 45 * STEP_MS) / 1000, UTC)
    losses: list[Loss] = []
    found = tidelog.scan(directory, start=since, end=80, corrupt="skip", on_loss=losses.append)
    assert found.read_all()["offset"].to_pylist() == list(range(50, 80))


def test_committed_reads_past_damage(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    with LogBuilder(directory) as builder:
        builder.records(10).transaction(records=10).transaction(records=10, commit=False).records(10)
    log = next(directory.glob("*.log"))
    for snapshot in directory.glob("*.snapshot"):
        snapshot.unlink()
    flip_bit(log, 70)
    found = tidelog.scan(directory, isolation="read_committed", corrupt="skip", on_loss=lambda loss: None)
    assert found.read_all()["offset"].to_pylist() == [*range(10, 20), *range(32, 42)]


def test_an_unfinished_write_is_marked(tmp_path: Path) -> None:
    directory = damaged(tmp_path)
    last = directory / f"{60:020}.log"
    cut_off(last, last.stat().st_size - 5)
    _, losses = read(directory, 1 << 20)
    assert [loss.is_unfinished for loss in losses] == [False, True]
    assert losses[1].end_offset is None


def test_a_missing_segment_is_told(tmp_path: Path) -> None:
    directory = damaged(tmp_path)
    (directory / f"{30:020}.log").unlink()
    rows, losses = read(directory, 1 << 20)
    assert [row[0] for row in rows] == [*range(30), *range(60, 90)]
    assert [(loss.first_offset, loss.end_offset) for loss in losses] == [(30, 60)]


def test_a_length_that_lies_costs_no_memory(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    batch = bytes(encode_records([Record(b"x")], base_offset=0))
    later = bytes(encode_records([Record(b"y")], base_offset=1))
    lying = batch[:8] + (64 << 20).to_bytes(4) + batch[12:]
    path = directory / f"{0:020}.log"
    path.write_bytes(lying + later)
    with path.open("r+b") as file:
        file.truncate(70 << 20)
    tracemalloc.start()
    rows, losses = read(directory, 1 << 30)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [row[2] for row in rows] == [b"y"]
    assert [loss.start_position for loss in losses] == [0, len(lying + later)]
    assert "zeros" in losses[1].reason
    assert peak < 40 << 20


@pytest.mark.slow
def test_a_file_that_is_vast_is_not_searched_to_its_end(tmp_path: Path) -> None:
    """A flipped bit in a file system's size of a file, or a hole: 4 TiB would take days."""
    path = LogBuilder(tmp_path / "t-0").records(200).close()
    (log,) = path.glob("*.log")
    size = log.stat().st_size
    os.truncate(log, 1 << 42)
    losses: list[Loss] = []
    found = tidelog.scan(path, columns=["offset"], corrupt="skip", on_loss=losses.append).read_all()
    assert found.column(0).to_pylist() == list(range(200))
    (loss,) = losses
    assert (loss.start_position, loss.end_position, loss.first_offset) == (size, 1 << 42, 200)
