"""Streams: a log that grows, read in micro-batches.

An offset of the stream is what Spark keeps in its checkpoint and compares as text:

    {"orders": {"0": 1500, "1": 1499}}                            next offset of each partition, keys in order
    {"orders": {"0": 1500}, "@initial": true}                     where a query without a checkpoint begins
    {"orders": {"0": 1700}, "@start": {"orders": {"0": 1500}}}    the end of a first batch, with its start

Spark writes down where a batch ends before it runs, but not where the first one begins: after a crash it asks
for the beginning anew, and `latest` would then mean something else. So the end of the first batch carries its
start, and `partitions` believes that. (`@` is in no topic's name.)

A partition that appears while the query runs is read from offset 0 on. `partitions` depends on its two
offsets and the files only, so a batch that is run again is the same batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tidelog.scanning.partitions import Partition
from tidelog.scanning.stability import LogTail, Transactions, log_tail
from tidelog.spark.batch import SplitPartition, read_split, splits_of
from tidelog.spark.losses import LossPolicy
from tidelog.spark.offsets import (
    LogEnds,
    check_names,
    limit_end,
    present_partitions,
    range_of,
    resolve_start,
    select_partitions,
)
from tidelog.spark.options import LATEST, SourceOptions
from tidelog.spark.pacing import Patience, limit_offsets
from tidelog.spark.schemas import Wanted
from tidelog.spark.shipping import Shipped
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StreamReader", "decode_offset", "encode_offset"]

_INITIAL, _START = "@initial", "@start"
_NOT_FOR_STREAMS = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")


def encode_offset(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """Next offsets as Spark keeps them, the same for the same offsets."""
    encoded: dict[str, Any] = {}
    for name in sorted(offsets):
        encoded.setdefault(name.topic, {})[str(name.partition)] = offsets[name]
    return encoded


def decode_offset(encoded: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """The next offset of each partition."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in encoded.items()
        if not topic.startswith("@")
        for partition, offset in partitions.items()
    }


class Ends:
    """Where the logs end, followed from look to look."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._tails: dict[TopicPartition, LogTail] = {}
        self._transactions: dict[TopicPartition, Transactions] = {}

    def look(self, partition: Partition) -> LogEnds:
        """Where a log ends now, and how far a reader may see."""
        options, name = self._options, partition.topic_partition
        tail = log_tail(partition, self._tails.get(name), damage_ends_it=not options.fail_on_data_loss)
        self._tails[name] = tail
        limit = limit_end(partition, options, tail.end_offset)
        if not options.committed_only:
            return LogEnds(tail.end_offset, limit)
        followed = self._transactions.setdefault(name, Transactions())
        return LogEnds(tail.end_offset, followed.stable_offset(partition, limit))


class StreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The source of a streaming query."""

    STAYS: ClassVar[frozenset[str]] = frozenset({"_ends", "_initial", "_target", "_latest", "_patience"})

    def __init__(self, options: SourceOptions, wanted: Wanted) -> None:
        options.require("streaming", _NOT_FOR_STREAMS)
        self._options = options
        self._wanted = wanted
        self._ends = Ends(options)
        self._initial: dict[str, Any] | None = None
        self._target: dict[TopicPartition, int] | None = None
        self._latest: dict[TopicPartition, int] | None = None
        self._patience = Patience(options.min_offsets_per_trigger or 0, options.max_trigger_delay_ms)

    @property
    def _policy(self) -> LossPolicy:
        return LossPolicy(self._options.fail_on_data_loss)

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins; the same however often it is asked."""
        if self._initial is None:
            options = self._options
            partitions = select_partitions(options, may_be_none=True)
            if options.starting is not None:
                check_names(options.starting, options.starting_option, partitions)
            starts = {
                each.topic_partition: resolve_start(each, options, self._ends.look(each), LATEST)
                for each in partitions
            }
            self._initial = encode_offset(starts) | {_INITIAL: True}
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Told to Spark so that it asks again where the options hold something back."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Settle how far this run goes."""
        self._target = {name: ends.visible_end for name, ends in self._look().items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; `start` itself where there is nothing to read, or not enough yet."""
        begin = decode_offset(start)
        end = self._reachable(begin)
        begin_all = {name: begin.get(name, 0) for name in end}
        if end == begin:
            return start
        if not isinstance(limit, ReadAllAvailable):
            waiting = sum(max(last - begin_all[name], 0) for name, last in end.items())
            if self._target is None and self._patience.waits(waiting, time.monotonic() * 1000):
                return start
            if self._options.max_offsets_per_trigger is not None:
                end = limit_offsets(begin_all, end, self._options.max_offsets_per_trigger)
        encoded = encode_offset(end)
        if start.get(_INITIAL):
            encoded[_START] = encode_offset(begin)
        return encoded

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the logs ended at the last look."""
        return None if self._latest is None else encode_offset(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The splits of a batch."""
        known = end[_START] if start.get(_INITIAL) and _START in end else start
        begin, until = decode_offset(known), decode_offset(end)
        there = {each.topic_partition: each for each in present_partitions(self._options)}
        ranges = []
        for name, last in until.items():
            first = begin.get(name, 0)
            if first >= last:
                continue
            if name not in there:
                self._policy.lost(f"{name} is gone: offsets {first} to {last - 1} cannot be read")
                continue
            ends = LogEnds(self._ends.look(there[name]).log_end, last)
            ranges.append(range_of(there[name], first, last, ends, self._policy))
        return [SplitPartition(split) for split in splits_of(ranges, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a split."""
        if isinstance(partition, SplitPartition):
            yield from read_split(partition.split, self._options, self._wanted)

    def _look(self) -> dict[TopicPartition, LogEnds]:
        found = {each.topic_partition: self._ends.look(each) for each in present_partitions(self._options)}
        self._latest = {name: ends.visible_end for name, ends in found.items()}
        return found

    def _reachable(self, begin: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """How far each partition can be read, not before `begin` unless its log was cut back."""
        found = self._look()
        gone = sorted(begin.keys() - found.keys())
        if gone:
            self._policy.lost(f"{', '.join(map(str, gone))} of this query is gone")
        end = {}
        for name, ends in found.items():
            first, last = begin.get(name, 0), ends.visible_end
            if self._target is not None:
                if name not in self._target and name not in begin:
                    continue  # appeared after this run was settled
                last = min(last, self._target.get(name, first))
            if ends.log_end < first:
                self._policy.lost(f"the log of {name} was cut back from offset {first} to {ends.log_end}")
                end[name] = ends.log_end
            else:
                end[name] = max(first, last)
        return end
