"""Input order is output order, however many tasks write and however many segments they fill."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidelog
from tidelog.spark.sink.options import SinkOptions
from tidelog.spark.sink.writing import Writing, begin_staging
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = Sequence[tuple[int, int]]
"""Of a task: the partition of each row, and how many bytes its value has."""

TASKS = st.lists(st.tuples(st.integers(0, 150), st.integers(0, 2), st.sampled_from([0, 50, 700])), max_size=4)
"""How many rows each task has, where in a cycle of partitions it begins, and how large its values are."""


def batches(rows: Rows, first: int) -> Iterator[pa.RecordBatch]:
    """A task's rows in batches of 64; values begin with a number that counts up over all tasks."""
    for start in range(0, len(rows), 64):
        some = rows[start : start + 64]
        values = [b"%08d" % (first + start + n) + bytes(size) for n, (_, size) in enumerate(some)]
        yield pa.record_batch(
            {
                "key": pa.array([b"%d" % (n % 5) for n in range(len(some))], pa.binary()),
                "value": pa.array(values, pa.binary()),
                "partition": pa.array([partition for partition, _ in some], pa.int32()),
            }
        )


def write(root: Path, tasks: Sequence[Rows], first: int, **config: object) -> None:
    """What Spark has tasks and a commit do."""
    options = {"path": str(root), "topic": "t", "partitions": "3", "segment.index.bytes": "10000"}
    writing = Writing(SinkOptions.parse(options | {key: str(value) for key, value in config.items()}))
    directory = f"{writing.options.staging}/{uuid.uuid4().hex}"
    begin_staging(directory)
    names = []
    for number, rows in enumerate(tasks):
        names.append(writing.stage(batches(rows, first), directory, number))
        first += len(rows)
    writing.publish(names, directory, "", 0)


def check_order(root: Path, total: int) -> int:
    """Each partition's numbers grow, and all are there; in how many segments."""
    table = tidelog.scan(root, "t", columns=["partition", "offset", "value"]).read_all()
    found: dict[int, list[int]] = {}
    for partition, value in zip(table["partition"].to_pylist(), table["value"].to_pylist(), strict=True):
        found.setdefault(partition, []).append(int(value[:8]))
    assert all(numbers == sorted(numbers) for numbers in found.values())
    assert sorted(number for numbers in found.values() for number in numbers) == list(range(total))
    return len(list(root.glob("t-*/*.log")))


@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    writes=st.lists(TASKS, min_size=1, max_size=2),
    segment_bytes=st.sampled_from([8192, 40_000, 1 << 20]),
    spread=st.integers(1, 3),
)
def test_rows_come_out_in_the_order_of_the_tasks(
    writes: list[list[tuple[int, int, int]]], segment_bytes: int, spread: int, tmp_path: Path
) -> None:
    root = tmp_path / uuid.uuid4().hex / "root"
    total = 0
    for sizes in writes:
        tasks = [[((begin + n) % spread, size) for n in range(count)] for count, begin, size in sizes]
        write(root, tasks, total, **{"internal.segment.bytes": segment_bytes})
        total += sum(map(len, tasks))
    check_order(root, total)


def test_segments_are_still_taken_over_and_few_stay_small(tmp_path: Path) -> None:
    """Six tasks of five segments and a rest each: the rests do not end a segment more than once a task."""
    root = tmp_path / "root"
    tasks = [[(0, 1000)] * 90 for _ in range(6)]
    write(root, tasks, 0, **{"internal.segment.bytes": 16_384})
    assert check_order(root, 540) <= 6 * 7


def test_the_newest_value_survives_compaction(tmp_path: Path) -> None:
    """Each key twice: by the first task, and in the other direction by the second."""
    root = tmp_path / "root"
    keys = 20_000
    options = {"path": str(root), "topic": "t", "cleanup.policy": "compact", "segment.bytes": str(1 << 20)}
    writing = Writing(SinkOptions.parse(options))
    directory = f"{writing.options.staging}/w"
    begin_staging(directory)
    first = pa.array([b"%07d" % n for n in range(keys)], pa.binary())
    names = []
    for number, column in enumerate((first, first.take(pa.array(range(keys - 1, -1, -1))))):
        values = pa.array([b"v%d" % number + bytes(110)] * keys, pa.binary())
        batch = pa.record_batch({"key": column, "value": values})
        names.append(writing.stage(iter([batch]), directory, number))
    writing.publish(names, directory, "", 0)
    with tidelog.open(root, background=False) as store:
        store.partition("t").log.roll()
        store.clean(TopicPartition("t", 0))
    rows = tidelog.scan(root, "t", columns=["key", "value"]).read_all()
    last = dict(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))
    assert rows.num_rows == len(last) == keys
    assert {value[:2] for value in last.values()} == {b"v1"}


@pytest.mark.parametrize("tasks", [1, 3, 8])
def test_spark_writes_rows_in_the_order_of_its_tasks(spark: SparkSession, tmp_path: Path, tasks: int) -> None:
    root = tmp_path / "root"
    df = spark.range(0, 6000, 1, tasks).selectExpr(
        "concat(lpad(id, 8, '0'), repeat('x', cast(id % 700 as int))) value", "cast(id % 3 as int) partition"
    )
    writer = df.write.format("tidelog").option("topic", "t").option("partitions", 3)
    writer.option("segment.bytes", 1 << 20).option("internal.segment.bytes", 65_536).save(
        str(root), mode="append"
    )
    assert check_order(root, 6000) > 12
