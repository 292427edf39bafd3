"""Logs that builders make are what they were told to be, for us and for Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidelog
from tidelog.config import LogConfig
from tidelog.errors import ChecksumError, InvalidInputError
from tidelog.log import Log
from tidelog.records import Record
from tidelog.testing.builders import FIRST_TIMESTAMP_MS, LogBuilder, cut_off, flip_bit, some_records
from tidelog.types import Codec

if TYPE_CHECKING:
    from tests.oracle import Oracle


COLUMNS = ("offset", "value", "codec", "control")


def build(path: Path) -> Path:
    return (
        LogBuilder(path)
        .records(25)
        .roll()
        .leader_epoch(3)
        .records(10, per_batch=4, codec=Codec.ZSTD)
        .transaction(7, records=5)
        .transaction(7, records=4, commit=False)
        .gap(100)
        .append([Record(b"mine")])
        .transaction(8, records=2, commit=None)
        .close()
    )


def test_a_log_is_as_it_was_told(tmp_path: Path) -> None:
    table = tidelog.scan(build(tmp_path / "t-0"), columns=COLUMNS, control_records=True).read_all()
    rows = [row for row in table.to_pylist() if not row["control"]]
    offsets = [*range(35), *range(35, 40), *range(41, 45), 146, 147, 148]
    assert [row["offset"] for row in rows] == offsets
    values = [one.value for one in some_records(46)]
    assert [row["value"] for row in rows] == [*values[:44], b"mine", *values[44:]]
    assert {row["codec"] for row in rows[25:35]} == {"zstd"}
    with Log.open(tmp_path / "t-0", clean=True) as log:
        assert log.segments.base_offsets == (0, 25, 146)
        assert [entry.epoch for entry in log.epoch_entries] == [0, 3]
        log.update_high_watermark(log.log_end_offset)
        assert log.last_stable_offset == 147
        found = log.offset_for_timestamp(FIRST_TIMESTAMP_MS + 20_000)
        assert found is not None
        assert found.offset == 20
    committed = tidelog.scan(tmp_path / "t-0", isolation="read_committed").read_all()
    assert committed.column("offset").to_pylist() == [*range(40), 146]


def test_the_same_steps_make_the_same_bytes(tmp_path: Path) -> None:
    first, second = build(tmp_path / "a" / "t-0"), build(tmp_path / "b" / "t-0")
    files = {file.name: file.read_bytes() for file in first.iterdir() if file.suffix == ".log"}
    assert files == {file.name: file.read_bytes() for file in second.iterdir() if file.suffix == ".log"}


def test_kafka_reads_what_is_built(oracle: Oracle, tmp_path: Path) -> None:
    logs = sorted(build(tmp_path / "t-0").glob("*.log"))
    told = [line["offset"] for line in oracle.decode(*logs)]
    found = tidelog.scan(tmp_path / "t-0", columns=["offset"], control_records=True)
    assert told == found.read_all().column(0).to_pylist()


def test_a_crash_leaves_something_to_recover(tmp_path: Path) -> None:
    path = LogBuilder(tmp_path / "t-0", LogConfig(segment_index_bytes=1000)).records(50).crash()
    assert (path / f"{0:020}.index").stat().st_size == 1000
    with Log.open(path) as log:
        assert log.log_end_offset == 50


def test_damage_is_found(tmp_path: Path) -> None:
    path = LogBuilder(tmp_path / "t-0").records(20).close()
    log = path / f"{0:020}.log"
    cut_off(log, 3)
    assert tidelog.scan(path).read_all().num_rows == 10, "a tail that was cut short is not read"
    flip_bit(log, 100)
    with pytest.raises(ChecksumError):
        tidelog.scan(path).read_all()
    with pytest.raises(InvalidInputError, match="cannot be cut off"):
        cut_off(log, 1 << 20)


def test_impossible_steps_are_refused(tmp_path: Path) -> None:
    with LogBuilder(tmp_path / "t-0") as builder:
        with pytest.raises(InvalidInputError):
            builder.records(5, per_batch=0)
        assert builder.log.log_end_offset == 0
