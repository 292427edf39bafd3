"""The Spark source past damage: records, and the table of losses, whatever the splits."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import tidelog
from tests.scanning.damage import hurt, make_log
from tests.spark.conftest import Source, direct, golden_copy
from tests.spark.test_streaming import reader
from tidelog.errors import DataLossError, InvalidInputError
from tidelog.spark.exporting.job import plan_export
from tidelog.spark.source.offsets import select_partitions
from tidelog.spark.source.options import SourceOptions
from tidelog.tables.table import Done


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


@pytest.mark.parametrize("base", [0, 480])
def test_a_replacement_that_a_crash_cut_short_is_a_loss(tmp_path: Path, base: int) -> None:
    """In the middle of a log it looks like a gap of compaction, at its beginning like a later start."""
    directory = golden_copy("golden-none-0", tmp_path)
    bases = [int(path.stem) for path in sorted(directory.glob("*.log"))]
    after = bases[bases.index(base) + 1]
    whole = direct(directory)["offset"].to_pylist()
    for path in directory.glob(f"{base:020}.*"):
        path.rename(path.with_name(path.name + ".swap"))
    words = f"replacing the segment at offset {base} of .* was cut short"
    with pytest.raises(DataLossError, match=words):
        direct(directory)
    seen = direct(directory, failOnDataLoss=False)["offset"].to_pylist()
    assert seen == [offset for offset in whole if not base <= offset < after]
    later = {"golden-none": {"0": after + 1}}
    assert direct(directory, startingOffsets=json.dumps(later))["offset"].to_pylist()[0] == after + 1
    partitions = select_partitions(SourceOptions.parse({"path": str(directory)}))
    with pytest.raises(DataLossError, match=words):
        plan_export(partitions, Done(), SourceOptions.parse({"path": str(directory)}))
    stream = reader(directory, startingOffsets="earliest")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    for _ in range(2):  # a listing that is kept forgets nothing
        with pytest.raises(DataLossError, match=words):
            stream.partitions(start, end)


def test_bad_options(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="option corrupt: must be fail or stop or skip, not 'maybe'"):
        direct(tmp_path, corrupt="maybe")
    with pytest.raises(InvalidInputError, match="option table: must be records or losses, not 'lost'"):
        direct(tmp_path, table="lost")


def test_an_export_goes_on_past_a_damaged_end(spark: Any, tmp_path: Path) -> None:
    from tidelog.spark import export

    directory = golden_copy("golden-none-0", tmp_path)
    last = sorted(directory.glob("*.log"))[-1]
    data = bytearray(last.read_bytes())
    start = len(data) - 2000
    data[start : start + 10] = bytes(10)
    last.write_bytes(data)
    losses: list[Any] = []
    kept = tidelog.scan(directory, corrupt="skip", on_loss=losses.append).read_all()
    assert len(losses) == 1
    report = export(spark, directory, tmp_path / "out", fail_on_data_loss=False)
    assert sum(row.records for row in report.collect()) == kept.num_rows


def test_streams_have_neither_stop_nor_losses(tmp_path: Path) -> None:
    from pyspark.sql.types import StructType

    from tidelog.spark.source.data_source import TidelogSource

    golden_copy("golden-none-0", tmp_path)
    for options, message in (
        ({"corrupt": "stop"}, "does not stop"),
        ({"table": "losses"}, "in a batch query"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            TidelogSource({"path": str(tmp_path), **options}).streamReader(StructType())
