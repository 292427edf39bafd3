"""Batch reads: options -> ranges -> splits, one a Spark partition, read where Spark runs them.

`partitions` runs once for a `load`, on the driver: what `latest` means is settled there. A split carries its
tasks with it; an executor opens the files by itself and answers Arrow batches of bounded size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidelog.errors import InvalidInputError
from tidelog.scanning.splits import Split, plan_splits
from tidelog.spark.losses import LossPolicy
from tidelog.spark.offsets import check_names, log_ends, resolve_range, select_partitions
from tidelog.spark.options import LATEST, LATEST_OFFSET, Offsets, SourceOptions
from tidelog.spark.schemas import Wanted
from tidelog.spark.shipping import Shipped

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.scanning.ranges import OffsetRange

__all__ = ["BatchReader", "SplitPartition", "check_batch_options", "plan_batch", "read_split", "splits_of"]

MAX_ROWS = 1 << 16
MAX_BYTES = 16 << 20


class SplitPartition(InputPartition):
    """One split as Spark's partition."""

    def __init__(self, split: Split) -> None:
        self.split = split


class BatchReader(Shipped, DataSourceReader):
    """Reads the ranges that the options ask for."""

    def __init__(self, options: SourceOptions, wanted: Wanted) -> None:
        self._options = options
        self._wanted = wanted

    def partitions(self) -> list[InputPartition]:
        """The splits; none where there is nothing to read."""
        return [SplitPartition(split) for split in plan_batch(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a split. Spark hands out an empty partition where `partitions` found no split."""
        if isinstance(partition, SplitPartition):
            yield from read_split(partition.split, self._options, self._wanted)


def check_batch_options(options: SourceOptions) -> None:
    """Refuse options that mean nothing in a batch."""
    if options.starting == LATEST or (
        isinstance(options.starting, Offsets) and LATEST_OFFSET in options.starting.offsets.values()
    ):
        raise InvalidInputError("option startingOffsets: cannot be latest in a batch query")


def plan_batch(options: SourceOptions) -> list[Split]:
    """The splits of a batch query."""
    check_batch_options(options)
    partitions = select_partitions(options)
    for bound, option in (
        (options.starting, options.starting_option),
        (options.ending, options.ending_option),
    ):
        if bound is not None:
            check_names(bound, option, partitions)
    ranges = [resolve_range(each, options, log_ends(each, options)) for each in partitions]
    return splits_of(ranges, options)


def splits_of(ranges: list[OffsetRange], options: SourceOptions) -> list[Split]:
    """Ranges cut as the options say."""
    return plan_splits(
        ranges,
        committed_only=options.committed_only,
        with_control=options.include_control_records,
        max_bytes=options.max_bytes_per_partition,
        max_records=options.max_records_per_partition,
        min_splits=options.min_partitions,
    )


def read_split(split: Split, options: SourceOptions, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The records of a split in batches that suit Spark: not cut further there, so cut here."""
    policy = LossPolicy(options.fail_on_data_loss)
    for task in split.tasks:
        for batch in policy.run(task, wanted.projection, max_rows=MAX_ROWS, max_bytes=MAX_BYTES):
            shaped = wanted.shape(batch)
            for start in range(0, shaped.num_rows, MAX_ROWS):
                yield shaped.slice(start, MAX_ROWS)
