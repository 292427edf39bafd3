"""What can be appended: records in the shapes that people have them in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidelog
from tidelog.errors import InvalidInputError
from tidelog.manager import Partition
from tidelog.records import Header, Record

MOMENT = datetime(2026, 11, 10, 10, tzinfo=UTC)
MS = 1_794_304_800_000


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    with tidelog.open(tmp_path / "data", background=False) as store:
        yield store.create_topic("orders", 1)[0]


@pytest.mark.parametrize(
    "rows",
    [
        [{"key": "k", "value": "v", "timestamp": MOMENT, "headers": {"h": "x"}}],
        [{"key": b"k", "value": b"v", "timestamp": MS, "headers": [("h", b"x")]}],
        [("k", "v", MS, [Header("h", b"x")])],
        [Record(b"v", b"k", [Header("h", b"x")], MS)],
    ],
    ids=["mapping", "bytes", "tuple", "record"],
)
def test_rows(partition: Partition, rows: list[Any]) -> None:
    partition.append(rows)
    (found,) = partition
    assert (found.key, found.value, found.timestamp) == (b"k", b"v", MS)
    assert found.headers == (Header("h", b"x"),)


def test_short_rows_leave_the_rest_to_the_log(partition: Partition) -> None:
    partition.append([("k", None), "text", b"bytes", {"value": "v"}])
    assert [(one.key, one.value) for one in partition] == [
        (b"k", None),
        (None, b"text"),
        (None, b"bytes"),
        (None, b"v"),
    ]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"valeu": b"v"}], "not valeu"),
        ([("a", "b", 1, [], 5)], "a record is"),
        ([7], "a record is"),
        ({"value": b"v"}, "put the record into a list"),
        ([("k", "v", datetime(2026, 1, 1))], "no time zone"),
        ([("k", "v", None, [5])], "headers are pairs"),
        ([("k", 5)], "value"),
    ],
    ids=str,
)
def test_what_is_no_record_is_refused(partition: Partition, rows: Any, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        partition.append(rows)
    assert partition.log_end_offset == 0


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_data_frames(partition: Partition, frame: Any) -> None:
    partition.append(frame({"key": ["a", "b"], "value": ["1", None]}))
    assert [(one.key, one.value) for one in partition] == [(b"a", b"1"), (b"b", None)]


def test_what_scan_reads(tmp_path: Path, partition: Partition) -> None:
    partition.append([Record(b"%d" % number, timestamp=MS + number) for number in range(1000)])
    partition.flush()
    with tidelog.open(tmp_path / "copy", background=False) as store:
        copy = store.create_topic("copy", 1)[0]
        info = copy.append(tidelog.scan(tmp_path / "data", "orders"), sync=True)
        assert (info.first_offset, info.last_offset) == (0, 999)
        assert [(one.value, one.timestamp) for one in copy] == [(b"%d" % n, MS + n) for n in range(1000)]
        empty = pa.RecordBatchReader.from_batches(pa.schema([("value", pa.binary())]), [])
        with pytest.raises(InvalidInputError, match="no records"):
            copy.append(empty)
