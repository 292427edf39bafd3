"""`profile`: what is in topics, by partition and hour.

Each task reads a split and answers a row for every hour it met; rows of the same hour are then put together.
Batches count for the hour of their largest timestamp. A record is out of order when it is older than the one
before it in the partition; so that this does not depend on where splits begin, a task also reads the record
before its first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.records.batches import BatchTable
from tidelog.records.schema import Projection
from tidelog.scanning.partitions import Partition
from tidelog.scanning.ranges import OffsetRange
from tidelog.scanning.sketches import Hashes, count_distinct, merge, sketch
from tidelog.scanning.splits import Split, plan_splits
from tidelog.scanning.tasks import NO_END, ScanTask, decode_window, read_batches, run_task
from tidelog.scanning.volumes import open_volume
from tidelog.spark.runtime.jobs import job_frame
from tidelog.spark.runtime.shipping import ship
from tidelog.spark.source.offsets import log_ends, select_partitions
from tidelog.spark.source.options import SourceOptions, Subscribed
from tidelog.storage.names import parse_segment_file
from tidelog.types import Codec, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PROFILE_SCHEMA", "profile"]

_HOUR_MS = 3_600_000
_COLUMNS = Projection(("key", "value", "offset", "timestamp_ms"))
_MAX_ROWS, _MAX_BYTES = 1 << 17, 16 << 20

_COUNTS = [
    pa.field("records", pa.int64()),
    pa.field("bytes", pa.int64()),
    pa.field("null_keys", pa.int64()),
    pa.field("largest_bytes", pa.int64()),
    pa.field("largest_offset", pa.int64()),
    pa.field("out_of_order", pa.int64()),
    pa.field("largest_step_back_ms", pa.int64()),
    pa.field("batches", pa.int64()),
    pa.field("batch_bytes", pa.int64()),
    pa.field("largest_batch_bytes", pa.int64()),
    pa.field("codecs", pa.map_(pa.string(), pa.int64())),
]
_PLACE = [pa.field("topic", pa.string()), pa.field("partition", pa.int32())]
_PART_SCHEMA = pa.schema(
    [*_PLACE, pa.field("hour", pa.int64()), *_COUNTS, pa.field("key_hashes", pa.binary())]
)
PROFILE_SCHEMA = pa.schema(
    [
        *_PLACE,
        pa.field("hour", pa.timestamp("us", tz="UTC")),
        *_COUNTS,
        pa.field("distinct_keys", pa.int64()),
    ]
)
"""A row for each topic, partition and hour. `bytes` are those of keys and values, `batch_bytes` those on
disk; `codecs` counts batches; `distinct_keys` is approximate."""


@dataclass(slots=True)
class Hour:
    """What was met of one hour."""

    records: int = 0
    bytes: int = 0
    null_keys: int = 0
    largest_bytes: int = -1
    largest_offset: int = -1
    out_of_order: int = 0
    largest_step_back_ms: int = 0
    batches: int = 0
    batch_bytes: int = 0
    largest_batch_bytes: int = 0
    codecs: dict[str, int] = field(default_factory=dict)
    hashes: list[Hashes] = field(default_factory=list)

    def add(self, other: Hour) -> None:
        """Take in what was met elsewhere of the same hour."""
        for name in ("records", "bytes", "null_keys", "out_of_order", "batches", "batch_bytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if (other.largest_bytes, -other.largest_offset) > (self.largest_bytes, -self.largest_offset):
            self.largest_bytes, self.largest_offset = other.largest_bytes, other.largest_offset
        self.largest_step_back_ms = max(self.largest_step_back_ms, other.largest_step_back_ms)
        self.largest_batch_bytes = max(self.largest_batch_bytes, other.largest_batch_bytes)
        for codec, count in other.codecs.items():
            self.codecs[codec] = self.codecs.get(codec, 0) + count
        self.hashes = [merge([*self.hashes, *other.hashes])]

    def row(self) -> dict[str, Any]:
        """The counts as a row."""
        return {each.name: getattr(self, each.name) for each in _COUNTS if each.name != "codecs"} | {
            "codecs": sorted(self.codecs.items())
        }


class Profiler:
    """Counts the records of a split."""

    def __init__(self) -> None:
        self.hours: dict[int, Hour] = {}
        self._last_timestamp: int | None = None

    def take(self, task: ScanTask) -> None:
        """Count a task's records and batches."""
        if self._last_timestamp is None:
            self._last_timestamp = timestamp_before(task)
        view = open_volume(task.url).view(task.log_name)
        for data, origin, table in read_batches(task, view):
            self._count_batches(table)
            for batch in decode_window(task, data, origin, table, _COLUMNS, _MAX_ROWS, _MAX_BYTES):
                if batch.num_rows:
                    self._count_records(batch)

    def _hour(self, hour: int) -> Hour:
        return self.hours.setdefault(hour, Hour())

    def _count_batches(self, table: BatchTable) -> None:
        hours = table.max_timestamp // _HOUR_MS
        for hour in np.unique(hours).tolist():
            mine = hours == hour
            sizes, codecs = table.size[mine], table.codec[mine]
            names = {Codec(int(c)).label: int((codecs == c).sum()) for c in np.unique(codecs)}
            met = Hour(batches=len(sizes), batch_bytes=int(sizes.sum()), codecs=names)
            met.largest_batch_bytes = int(sizes.max())
            self._hour(hour).add(met)

    def _count_records(self, batch: pa.RecordBatch) -> None:
        times = batch.column("timestamp_ms").to_numpy()
        before = np.empty_like(times)
        before[1:] = times[:-1]
        before[0] = times[0] if self._last_timestamp is None else self._last_timestamp
        self._last_timestamp = int(times[-1])
        step_back = before - times
        hours = times // _HOUR_MS
        different = np.unique(hours).tolist()
        for hour in different:
            mine = hours == hour
            part = batch if len(different) == 1 else batch.filter(pa.array(mine))
            self._hour(hour).add(_count(part, step_back[mine]))


def _count(batch: pa.RecordBatch, step_back: npt.NDArray[np.int64]) -> Hour:
    """The records of one hour."""
    keys, values = batch.column("key"), batch.column("value")
    sizes = (_lengths(keys) + _lengths(values)).astype(np.int64)
    largest = int(sizes.argmax())
    return Hour(
        records=batch.num_rows,
        bytes=int(sizes.sum()),
        null_keys=keys.null_count,
        largest_bytes=int(sizes[largest]),
        largest_offset=batch.column("offset")[largest].as_py(),
        out_of_order=int((step_back > 0).sum()),
        largest_step_back_ms=max(int(step_back.max()), 0),
        hashes=[sketch(keys)],
    )


def _lengths(column: pa.Array) -> npt.NDArray[np.int32]:
    lengths: npt.NDArray[np.int32] = pc.binary_length(column).fill_null(0).to_numpy()
    return lengths


def timestamp_before(task: ScanTask) -> int | None:
    """The timestamp (ms) of the last record before a task's first byte; None if there is none."""
    name = parse_segment_file(task.log_name)
    partition = Partition(task.url, TopicPartition(task.topic, task.partition))
    for segment in reversed(partition.segments):
        if name is None or segment.base_offset > name.offset:
            continue
        end = task.start_position if segment.base_offset == name.offset else segment.size
        if not end:
            continue
        _, positions = partition.offset_index(segment).entries_array()
        before = positions[positions < end]
        for start in (int(before[-1]) if len(before) else 0, 0):
            whole = ScanTask(
                task.url, segment.log_name, task.topic, task.partition, start, end, 0, NO_END, True
            )
            last = _last_timestamp(whole, task.with_control)
            if last is not None:
                return last
    return None


def _last_timestamp(task: ScanTask, with_control: bool) -> int | None:
    found = None
    for batch in run_task(task, Projection(("timestamp_ms", "control"))):
        times = batch.column("timestamp_ms")
        if not with_control:
            times = times.filter(pc.invert(batch.column("control")))
        if len(times):
            found = times[-1].as_py()
    return found


@dataclass(frozen=True, slots=True)
class ProfileWork:
    """What a task does with a split."""

    def __call__(self, number: int, split: Split) -> list[dict[str, Any]]:
        """A row for each hour in the split."""
        profiler = Profiler()
        for task in split.tasks:
            profiler.take(task)
        place = {"topic": split.topic, "partition": split.partition}
        return [
            place | {"hour": hour, "key_hashes": merge(met.hashes).tobytes()} | met.row()
            for hour, met in sorted(profiler.hours.items())
        ]


class MergeHours:
    """Puts the rows of one topic, partition and hour together."""

    def __call__(self, table: pa.Table) -> pa.Table:
        """One row out of all."""
        rows = table.to_pylist()
        total = Hour()
        for row in rows:
            counts = {each.name: row[each.name] for each in _COUNTS} | {"codecs": dict(row["codecs"])}
            total.add(Hour(**counts, hashes=[np.frombuffer(row["key_hashes"], np.uint64)]))
        result = {"topic": rows[0]["topic"], "partition": rows[0]["partition"]} | total.row()
        result["hour"] = rows[0]["hour"] * _HOUR_MS * 1000
        result["distinct_keys"] = count_distinct(merge(total.hashes))
        return pa.Table.from_pylist([result], schema=PROFILE_SCHEMA)


def profile(
    spark: SparkSession,
    path: str | Path | Iterable[str | Path],
    *,
    topics: str | Iterable[str] | None = None,
    max_bytes_per_split: int = 64 << 20,
) -> DataFrame:
    """Count what is in topics, by partition and hour (UTC); see `PROFILE_SCHEMA` for the columns.

    All records count, committed or not; control records do not. The frame is computed when it is used.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    paths = (str(path),) if isinstance(path, (str, Path)) else tuple(str(each) for each in path)
    named = (topics,) if isinstance(topics, str) else topics
    options = SourceOptions(paths)
    if named is not None:
        options = SourceOptions(paths, Subscribed(tuple(named)))
    ranges = [
        OffsetRange(each, each.log_start_offset, log_ends(each, options).log_end)
        for each in select_partitions(options)
    ]
    splits = plan_splits(ranges, with_control=False, max_bytes=max_bytes_per_split)
    grouped = job_frame(spark, ProfileWork(), splits, _PART_SCHEMA).groupBy("topic", "partition", "hour")
    return grouped.applyInArrow(ship(MergeHours()), from_arrow_schema(PROFILE_SCHEMA))
