"""Which Parquet files tasks read by themselves; that Spark would have written the same."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog.spark
from tests.spark.conftest import Source, rows
from tidelog.errors import InvalidInputError
from tidelog.spark import Columns, FileSource
from tidelog.spark.ingesting.ledger import SourceFile
from tidelog.spark.ingesting.parquet import LoadPlan, LoadWork, RowGroup, local_file, plan_load
from tidelog.spark.runtime.jobs import Bin, pack
from tidelog.spark.sink.options import SinkOptions
from tidelog.spark.sink.writing import Writing, begin_staging
from tidelog.storage import LOCAL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("key", "value", "timestamp", "topic", "partition", "headers")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SECONDS = pa.timestamp("ms", tz="UTC")


def listed(path: Path) -> SourceFile:
    stat = LOCAL.stat(path)
    return SourceFile(path.as_uri(), stat.size, stat.mtime_ms)


def planned(path: Path, source: Path | None = None, options: Any = None, **given: str) -> LoadPlan | None:
    columns = {name: given.get(name) for name in NAMES}
    return plan_load(str(source or path.parent), options or {}, columns, [listed(path)])


def write(path: Path, **options: Any) -> Path:
    """Records with nulls wherever records may have them, in several row groups."""
    path.parent.mkdir(parents=True, exist_ok=True)
    n = 500
    table = pa.table(
        {
            "key": pa.array([None if i % 5 == 0 else f"k{i}" for i in range(n)], pa.string()),
            "value": pa.array([None if i % 7 == 0 else b"\xff%d" % i for i in range(n)], pa.binary()),
            "timestamp": pa.array([1_700_000_000_000 + 37 * i for i in range(n)], SECONDS),
            "topic": pa.array(["one" if i % 3 else "two" for i in range(n)]),
            "partition": pa.array([i % 2 if i % 4 == 0 else None for i in range(n)], pa.int32()),
            "headers": pa.array(
                [
                    None if i % 2 else [{"key": "h", "value": b"%d" % i}, {"key": "e", "value": None}]
                    for i in range(n)
                ],
                HEADERS,
            ),
            "other": pa.array(range(n)),
        }
    )
    pq.write_table(table, path, row_group_size=120, **options)
    return path


def test_plain_columns_of_local_files_are_read_by_tasks(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "a b.parquet")
    plan = planned(path)
    assert plan is not None
    assert plan.columns == tuple((name, name) for name in NAMES)
    assert [group.rows for group in plan.groups] == [120, 120, 120, 120, 20]
    other = planned(path, value="key", key="value")
    assert other is not None
    assert dict(other.columns)["value"] == "key"


@pytest.mark.parametrize(
    "given",
    [
        {"value": "upper(key)"},
        {"value": "KEY"},
        {"key": "null"},
        {"key": "nowhere"},
        {"value": "other"},
        {"timestamp": "other + 1"},
        {"partition": "other"},
        {"headers": "key"},
        {"topic": "value"},
    ],
)
def test_what_takes_more_than_reading_is_left_to_spark(tmp_path: Path, given: dict[str, str]) -> None:
    assert planned(write(tmp_path / "a.parquet"), None, None, **given) is None


def test_sources_that_spark_reads_otherwise_are_left_to_it(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "a.parquet")
    assert planned(path, options={"mergeSchema": "true"}) is None
    assert planned(path, options={"pathGlobFilter": "*.parquet"}) is not None
    assert planned(write(tmp_path / "in" / "topic=x" / "a.parquet"), tmp_path / "in") is None
    assert planned(write(tmp_path / "e=1" / "in" / "a.parquet"), tmp_path / "e=1" / "in") is not None
    assert local_file("s3a://bucket/a.parquet") is None
    (tmp_path / "text").write_text("no Parquet")
    assert planned(tmp_path / "text") is None
    for kind in (pa.timestamp("ns", tz="UTC"), pa.timestamp("us"), pa.int32()):
        odd = tmp_path / "odd.parquet"
        pq.write_table(pa.table({"value": ["x"], "timestamp": pa.array([1], kind)}), odd)
        assert planned(odd) is None
    pq.write_table(pa.table({"value": ["x"], "Value": ["y"]}), tmp_path / "twice.parquet")
    assert planned(tmp_path / "twice.parquet") is None


@pytest.mark.parametrize(
    ("column", "one", "other"),
    [
        ("value", pa.string(), pa.binary()),
        ("key", pa.string(), pa.large_string()),
        ("timestamp", SECONDS, pa.timestamp("us", tz="UTC")),
        ("timestamp", SECONDS, pa.int64()),
    ],
)
def test_files_of_several_types_are_left_to_spark(
    tmp_path: Path, column: str, one: pa.DataType, other: pa.DataType
) -> None:
    files = []
    for number, kind in enumerate((one, other)):
        path = tmp_path / f"{number}.parquet"
        value = pa.array([1], kind) if column == "timestamp" else pa.array(["x"], kind)
        pq.write_table(pa.table({"value": ["x"], column: value}), path)
        files.append(listed(path))
    columns = dict.fromkeys(NAMES)
    assert all(plan_load(str(tmp_path), {}, columns, [file]) for file in files)
    assert plan_load(str(tmp_path), {}, columns, files) is None


def test_either_way_writes_the_same(spark: SparkSession, source: Source, tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "a b.parquet", use_dictionary=False, coerce_timestamps="us")
    assert planned(path, value="(value)") is None
    options = {"partitions": 3, "kafka.compression.type": "lz4"}
    found = []
    for number, columns in enumerate((Columns(), Columns(value="(value)"))):
        root = tmp_path / f"root{number}"
        files = FileSource("parquet", str(tmp_path / "in"))
        report = tidelog.spark.ingest(spark, files, root, columns=columns, options=options)
        assert sum(row["records"] for row in report.toArrow().to_pylist()) == 500
        found.append(rows(source(root, includeHeaders="true")))
    assert found[0] == found[1]
    assert len({(row["topic"], row["partition"]) for row in found[0]}) == 6
    assert {row["timestamp"] for row in found[0]} == {
        datetime.fromtimestamp((1_700_000_000_000 + 37 * i) / 1000, UTC) for i in range(500)
    }


def work_of(plan: LoadPlan, root: Path) -> tuple[LoadWork, Bin[RowGroup]]:
    """All of it for one task."""
    writing = Writing(SinkOptions.parse({"path": str(root), "topic": "t"}))
    begin_staging(str(root.parent / "staging"))
    (split,) = pack(plan.groups, 1 << 40)
    return LoadWork(writing, str(root.parent / "staging"), plan.columns), split


def load(plan: LoadPlan, root: Path) -> None:
    work, split = work_of(plan, root)
    work(0, split)


def test_a_file_that_changes_before_it_is_read_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "a.parquet")
    plan = planned(path)
    assert plan is not None
    load(plan, tmp_path / "root")
    content, stat = path.read_bytes(), path.stat()
    os.utime(path, ns=(stat.st_mtime_ns, stat.st_mtime_ns + 1_000_000))
    with pytest.raises(InvalidInputError, match=r"a\.parquet was changed while it was read"):
        load(plan, tmp_path / "root")
    path.write_bytes(content[:-1])
    with pytest.raises(InvalidInputError, match=r"a\.parquet was changed while it was read"):
        load(plan, tmp_path / "root")
    path.unlink()
    with pytest.raises(InvalidInputError, match=r"a\.parquet was removed"):
        load(plan, tmp_path / "root")


def test_damage_is_told_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"value": [f"v{i}" for i in range(1000)]}), path, use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[100:400] = bytes(300)
    path.write_bytes(content)
    plan = planned(path)
    assert plan is not None
    with pytest.raises(InvalidInputError, match=r"a\.parquet cannot be read: .*"):
        load(plan, tmp_path / "root")


def test_a_large_row_group_takes_little_memory(tmp_path: Path) -> None:
    path, size = tmp_path / "a.parquet", 64 << 20
    noise = np.random.default_rng(1).bytes(size)
    values = pa.array([noise[at : at + 1024] for at in range(0, size, 1024)], pa.binary())
    pq.write_table(pa.table({"value": values}), path, row_group_size=len(values), use_dictionary=False)
    plan = planned(path)
    assert plan is not None
    assert len(plan.groups) == 1
    del noise, values
    work, split = work_of(plan, tmp_path / "root")
    used = pa.total_allocated_bytes()
    most = 0
    for _ in work._rows(split):
        most = max(most, pa.total_allocated_bytes() - used)
    assert 0 < most < size // 2


def test_rows_that_a_topic_refuses_are_told_by_tasks_too(spark: SparkSession, tmp_path: Path) -> None:
    files = FileSource("parquet", str(tmp_path / "in"))
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"value": [bytes(2000)]}), tmp_path / "in" / "a.parquet")
    with pytest.raises(InvalidInputError, match=r"topic t, partition 0.*max\.message\.bytes is 1000"):
        tidelog.spark.ingest(spark, files, tmp_path / "root", topic="t", options={"max.message.bytes": 1000})
    assert not (tmp_path / "root").exists()
    assert not list((tmp_path / ".tidelog-staging-root").iterdir())
    pq.write_table(
        pa.table({"value": [b""], "partition": pa.array([7], pa.int32())}), tmp_path / "in" / "a.parquet"
    )
    with pytest.raises(InvalidInputError, match="has 1 partitions; a record names partition 7"):
        tidelog.spark.ingest(spark, files, tmp_path / "root", topic="t", name="other")
    pq.write_table(pa.table({"value": [b""], "topic": ["../x"]}), tmp_path / "in" / "a.parquet")
    with pytest.raises(InvalidInputError, match=r"topic '\.\./x'"):
        tidelog.spark.ingest(spark, files, tmp_path / "root", name="third")
    assert not (tmp_path / "root").exists()
