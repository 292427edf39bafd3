"""Parquet files by date and size."""

from __future__ import annotations

import errno
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelog.spark.exporting.parquet import NO_DATE, DatedFiles, ParquetSettings, WrittenFile
from tidelog.spark.exporting.storage import DirectoryPlace

SCHEMA = pa.schema(
    [("value", pa.binary()), ("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC"))]
)
DAY = datetime(2026, 3, 1, tzinfo=UTC)


def batch(first: int, times: list[datetime | None], value: bytes = b"x") -> pa.RecordBatch:
    rows = [{"value": value, "offset": first + n, "timestamp": time} for n, time in enumerate(times)]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def path_of(date: str, number: int) -> str:
    return f"p-{number}"


def write(directory: Path, batches: list[pa.RecordBatch], **settings: Any) -> list[WrittenFile]:
    files = DatedFiles(DirectoryPlace(directory, ""), path_of, SCHEMA, ParquetSettings(**settings))
    written = [*(file for each in batches for file in files.write(each)), *files.close()]
    return [replace(file, path=str(directory / file.path)) for file in written]


def test_rows_go_to_the_files_of_their_dates(tmp_path: Path) -> None:
    noon, late = DAY + timedelta(hours=12), DAY + timedelta(hours=23, minutes=59, seconds=59)
    next_day = DAY + timedelta(days=1)
    written = write(
        tmp_path,
        [batch(0, [noon, late]), batch(2, [next_day, late, None, next_day]), batch(6, [DAY - timedelta(1)])],
    )
    found = {file.date: pq.read_table(file.path)["offset"].to_pylist() for file in written}
    assert found == {"2026-03-01": [0, 1, 3], "2026-03-02": [2, 5], NO_DATE: [4], "2026-02-28": [6]}
    for file in written:
        assert file.records == len(found[file.date])
        assert (file.first_offset, file.last_offset) == (found[file.date][0], found[file.date][-1])
        assert file.size == Path(file.path).stat().st_size


def test_times_before_1970() -> None:
    from tidelog.spark.exporting.parquet import _by_date

    early = batch(0, [datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)])
    assert [date for date, _ in _by_date(early)] == ["1969-12-31"]


def test_files_are_closed_at_their_size(tmp_path: Path) -> None:
    import random

    chance = random.Random(1)
    batches = [batch(100 * n, [DAY] * 100, chance.randbytes(1000)) for n in range(50)]
    written = write(tmp_path, batches, file_bytes=100_000, row_group_rows=500, compression="none")
    assert len(written) > 3
    assert [offset for f in written for offset in pq.read_table(f.path)["offset"].to_pylist()] == list(
        range(5000)
    )
    assert all(file.size < 700_000 for file in written)


def test_row_groups_carry_statistics_of_offset_and_time(tmp_path: Path) -> None:
    times = [DAY + timedelta(seconds=n) for n in range(1000)]
    (file,) = write(tmp_path, [batch(n, times[n : n + 250]) for n in range(0, 1000, 250)], row_group_rows=250)
    metadata = pq.read_metadata(file.path)
    assert metadata.num_row_groups == 4
    group = metadata.row_group(1)
    columns = {group.column(n).path_in_schema: group.column(n) for n in range(group.num_columns)}
    assert columns["offset"].statistics.min == 250
    assert columns["offset"].statistics.max == 499
    assert columns["timestamp"].statistics.max == times[499]
    assert columns["value"].statistics is None
    assert {column.compression for column in columns.values()} == {"ZSTD"}


def test_many_dates_do_not_keep_many_files_open(tmp_path: Path) -> None:
    scattered = [batch(n, [DAY + timedelta(days=n * 7 % 40)]) for n in range(200)]
    written = write(tmp_path, scattered)
    assert sum(file.records for file in written) == 200
    assert sorted(o for f in written for o in pq.read_table(f.path)["offset"].to_pylist()) == list(range(200))


class FailingPlace(DirectoryPlace):
    """A directory on a disk that does not take what was written."""

    def hasten(self, name: str) -> None:
        raise OSError(errno.EIO, "the disk", name)


def test_a_sync_that_fails_on_the_way_is_told(tmp_path: Path) -> None:
    files = DatedFiles(FailingPlace(tmp_path, ""), path_of, SCHEMA, ParquetSettings(row_group_rows=1))
    list(files.write(batch(0, [DAY])))
    with pytest.raises(OSError, match="the disk"):
        list(files.close())


def test_removing_a_directory_takes_a_link_in_it_and_not_what_it_leads_to(tmp_path: Path) -> None:
    precious = tmp_path / "elsewhere" / "precious"
    precious.parent.mkdir()
    precious.touch()
    (tmp_path / "place" / "staging").mkdir(parents=True)
    (tmp_path / "place" / "staging" / "link").symlink_to(precious.parent)
    DirectoryPlace(tmp_path / "place", "").remove("staging")
    assert precious.exists()
    assert not (tmp_path / "place" / "staging").exists()
