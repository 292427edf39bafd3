"""The Spark source past damage: records, and the table of losses, whatever the splits."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import tidelog
from tests.scanning.damage import hurt, make_log
from tests.spark.conftest import Source, direct, golden_copy
from tidelog.errors import InvalidInputError


def test_losses_are_rows(source: Source, tmp_path: Path) -> None:
    directory = golden_copy("golden-none-0", tmp_path)
    log = directory / f"{480:020}.log"
    data = bytearray(log.read_bytes())
    data[100:6000] = bytes(5900)
    log.write_bytes(data)
    last = sorted(directory.glob("*.log"))[-1]
    last.write_bytes(last.read_bytes()[:-3])
    losses: list[Any] = []
    kept = tidelog.scan(directory, corrupt="skip", on_loss=losses.append).read_all()["offset"].to_pylist()
    frames = {size: source(directory, corrupt="skip", maxBytesPerPartition=size) for size in (1 << 30, 3000)}
    told = {
        size: source(directory, table="losses", maxBytesPerPartition=size).collect()
        for size in (1 << 30, 3000)
    }
    for size, frame in frames.items():
        assert sorted(row.offset for row in frame.select("offset").collect()) == kept
        found = sorted((row.source, row.start_position, row.end_position) for row in told[size])
        assert found == [(loss.source, loss.start_position, loss.end_position) for loss in losses]
    (first,) = (row for row in told[3000] if row.source == str(log))
    assert (first.topic, first.partition, first.first_offset) == ("golden-none", 0, 480)
    assert first.end_offset == losses[0].end_offset
    stopped = source(directory, corrupt="stop", maxBytesPerPartition=3000).select("offset").collect()
    assert sorted(row.offset for row in stopped) == list(range(480))


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_each_loss_is_told_once_whatever_the_splits(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 20):
        dice = random.Random(seed)
        directory = hurt(make_log(dice), dice).write(tmp_path / str(seed) / "orders-0")
        losses: list[Any] = []
        kept = tidelog.scan(directory, corrupt="skip", on_loss=losses.append).read_all()["offset"].to_pylist()
        if not kept:
            continue
        for size in (1 << 30, 700):
            found = direct(directory, table="losses", maxBytesPerPartition=size).to_pylist()
            places = [(row["source"], row["start_position"], row["end_position"]) for row in found]
            assert places == [(loss.source, loss.start_position, loss.end_position) for loss in losses]
            read = direct(directory, corrupt="skip", maxBytesPerPartition=size)
            assert read["offset"].to_pylist() == kept


def test_bad_options(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="option corrupt: must be fail or stop or skip, not 'maybe'"):
        direct(tmp_path, corrupt="maybe")
    with pytest.raises(InvalidInputError, match="option table: must be records or losses, not 'lost'"):
        direct(tmp_path, table="lost")
