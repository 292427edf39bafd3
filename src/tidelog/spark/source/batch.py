"""Batch reads: options -> ranges -> splits, one or several small ones a Spark partition, read where Spark
runs them.

`partitions` runs once for a `load`, on the driver: what `latest` means is settled there. A split carries its
tasks with it; an executor opens the files by itself and answers Arrow batches of bounded size. Before and
after that it checks that the directory is still that of the topic that was planned (`topic_ids`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidelog.errors import InvalidInputError
from tidelog.scanning.bundles import BUNDLE_BYTES, read_bundle
from tidelog.scanning.losses import Corrupt, Loss
from tidelog.scanning.ranges import plan_range
from tidelog.scanning.splits import Split, is_small, plan_splits
from tidelog.scanning.tasks import NO_END
from tidelog.spark.runtime.collecting import without_collections
from tidelog.spark.runtime.packing import pack_splits
from tidelog.spark.runtime.shipping import Shipped
from tidelog.spark.source.data_loss import LossPolicy
from tidelog.spark.source.offsets import check_names, log_ends, resolve_range, select_partitions
from tidelog.spark.source.options import LATEST, LATEST_OFFSET, Offsets, SourceOptions
from tidelog.spark.source.schemas import Wanted
from tidelog.spark.source.topic_ids import (
    check_still,
    for_each,
    ids_by_url,
    is_another,
    recreated,
    topic_id_at,
)
from tidelog.storage.metadata import parse_id
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    from tidelog.scanning.ranges import OffsetRange

__all__ = [
    "BatchReader",
    "SplitPartition",
    "check_batch_options",
    "parts_of",
    "plan_batch",
    "read_part",
    "splits_of",
]

MAX_ROWS = 1 << 16
MAX_BYTES = 16 << 20
_FEW_ROWS = 1 << 13
_FEW_BYTES = 1 << 20
"""Batches below these limits are put together."""


class SplitPartition(InputPartition):
    """Splits as Spark's partition: to be read by one task, one after the other."""

    def __init__(self, splits: Sequence[Split], ids: Mapping[str, str] | None = None) -> None:
        """`ids` has, by the directory's URL, the ids of the topics that they are of."""
        self.splits = tuple(splits)
        urls = {split.tasks[0].url for split in splits}
        self.ids = {url: ids[url] for url in urls if url in ids} if ids else {}


class BatchReader(Shipped, DataSourceReader):
    """Reads the ranges that the options ask for."""

    def __init__(self, options: SourceOptions, wanted: Wanted) -> None:
        self._options = options
        self._wanted = wanted

    def partitions(self) -> list[InputPartition]:
        """The splits; none if there is nothing to read."""
        return list(plan_batch(self._options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a split. Spark hands out an empty partition where `partitions` found no split."""
        if isinstance(partition, SplitPartition):
            yield from read_part(partition, self._options, self._wanted)


def check_batch_options(options: SourceOptions) -> None:
    """Refuse options that mean nothing in a batch."""
    if options.starting == LATEST or (
        isinstance(options.starting, Offsets) and LATEST_OFFSET in options.starting.offsets.values()
    ):
        raise InvalidInputError("option startingOffsets: cannot be latest in a batch query")


@without_collections()
def plan_batch(options: SourceOptions, *, to_the_end: bool = False) -> list[SplitPartition]:
    """What the tasks of a batch query read; `to_the_end` also what follows the last record of a log."""
    check_batch_options(options)
    partitions = select_partitions(options)
    for bound, option in (
        (options.starting, options.starting_option),
        (options.ending, options.ending_option),
    ):
        if bound is not None:
            check_names(bound, option, partitions)
    ids = ids_by_url(partitions)
    ranges = for_each(partitions, lambda each: resolve_range(each, options, log_ends(each, options)))
    if to_the_end and options.ending is None:
        ranges = [replace(one, end=NO_END) for one in ranges]
    return parts_of(splits_of(ranges, options), options, ids)


def splits_of(ranges: list[OffsetRange], options: SourceOptions) -> list[Split]:
    """Ranges cut as the options say; one split for each if reading stops at damage."""
    if options.corrupt is Corrupt.STOP:
        tasks = [
            plan_range(
                one,
                committed_only=options.committed_only,
                with_control=options.include_control_records,
                split_bytes=options.max_bytes_per_partition,
            )
            for one in ranges
        ]
        return [Split(tuple(one)) for one in tasks if one]
    return plan_splits(
        ranges,
        committed_only=options.committed_only,
        with_control=options.include_control_records,
        max_bytes=options.max_bytes_per_partition,
        max_records=options.max_records_per_partition,
        min_splits=options.min_partitions,
        with_missing=options.corrupt is Corrupt.SKIP,
    )


def parts_of(splits: list[Split], options: SourceOptions, ids: Mapping[str, str]) -> list[SplitPartition]:
    """Splits shared out among tasks as the options say."""
    packed = pack_splits(
        splits,
        max_bytes=options.max_bytes_per_partition,
        min_tasks=options.min_partitions,
        max_records=options.max_records_per_partition,
        bundled=True,
    )
    return [SplitPartition(group, ids) for group in packed]


def read_part(part: SplitPartition, options: SourceOptions, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The records of a Spark partition's splits, in batches that suit Spark: it takes them as they arrive,
    and each costs it as much as hundreds of rows.
    """
    small: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in _read(part, options, wanted):
        if batch.num_rows >= _FEW_ROWS or batch.nbytes >= _FEW_BYTES:
            yield from _joined(small)
            small, rows, size = [], 0, 0
            yield batch
            continue
        small.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _FEW_ROWS or size >= _FEW_BYTES:
            yield from _joined(small)
            small, rows, size = [], 0, 0
    yield from _joined(small)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Several small batches as one."""
    if len(batches) < 2:
        return batches
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _read(part: SplitPartition, options: SourceOptions, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    policy = LossPolicy(options.fail_on_data_loss, options.corrupt)
    for group in _bundles(part, wanted):
        if len(group) == 1:
            yield from _read_split(group[0], part, policy, wanted)
            continue
        tasks = [split.tasks[0] for split in group]
        for found in read_bundle(
            tasks,
            wanted.projection,
            max_rows=MAX_ROWS,
            max_bytes=MAX_BYTES,
            gapless=options.corrupt is Corrupt.SKIP,  # a gap may be damage that is to be told
        ):
            if isinstance(found, int):
                yield from _read_split(group[found], part, policy, wanted)
            else:
                yield from _shaped(found, group[0].topic, wanted)


def _bundles(part: SplitPartition, wanted: Wanted) -> Iterator[list[Split]]:
    """The splits in order: small neighbours that can be read together, and each of the others by itself."""
    group: list[Split] = []
    size = 0
    for split in part.splits:
        alone = not is_small(split) or wanted.projection.wants("position") or not _is_as_planned(split, part)
        other = bool(group and wanted.typed.decoders) and split.topic != group[0].topic  # decoded otherwise
        if group and (alone or other or size + split.size > BUNDLE_BYTES):
            yield group
            group, size = [], 0
        group.append(split)
        size += split.size
        if alone:
            yield group
            group, size = [], 0
    if group:
        yield group


def _is_as_planned(split: Split, part: SplitPartition) -> bool:
    """Whether its task was planned on the topic whose id the split is sent with."""
    known = part.ids.get(split.tasks[0].url)
    return split.tasks[0].topic_id == (None if known is None else parse_id(known))


def _read_split(
    split: Split, part: SplitPartition, policy: LossPolicy, wanted: Wanted
) -> Iterator[pa.RecordBatch]:
    url, name = split.tasks[0].url, TopicPartition(split.topic, split.partition)
    known = part.ids.get(url)
    found = topic_id_at(url) if known is not None else None
    if is_another(known, found):
        policy.lost(f"{recreated(name, known, found)}: what was planned of the old one cannot be read")
        return
    for batch in _records(split, policy, wanted):
        yield from _shaped(batch, split.topic, wanted)
    check_still(url, name, known)


def _shaped(batch: pa.RecordBatch, topic: str, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    shaped = wanted.shape(batch, topic)
    for start in range(0, shaped.num_rows, MAX_ROWS):
        yield shaped.slice(start, MAX_ROWS)


def _records(split: Split, policy: LossPolicy, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The records of a split, up to the damage if reading stops there."""
    for task in split.tasks:
        for found in policy.run(task, wanted.projection, max_rows=MAX_ROWS, max_bytes=MAX_BYTES):
            if not isinstance(found, Loss):
                yield found
            elif policy.corrupt is Corrupt.STOP:
                return
