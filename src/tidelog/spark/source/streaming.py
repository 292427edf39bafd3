"""Streams: a log that grows, read in micro-batches.

An offset of the stream is what Spark keeps in its checkpoint and compares as text:

    {"orders": {"0": 1500, "1": 1499}}                            next offset of each partition, keys in order
    {"orders": {"0": 1500}, "@ids": {"orders": "2wJP_tx..."}}     the ids of the topics they are of
    {"orders": {"0": 1500}, "@initial": true}                     where a query without a checkpoint begins
    {"orders": {"0": 1700}, "@start": {"orders": {"0": 1500}}}    the end of a first batch, with its start

Spark writes down where a batch ends before it runs, but not where the first one begins: after a crash it asks
for the beginning again, and `latest` would then mean something else. So the end of the first batch carries
its start, and `partitions` believes that. (`@` is in no topic's name.)

A partition that appears while the query runs is read from offset 0 on. A topic that was deleted and created
again is known by its id (`topic_ids`): that is data loss, or without `failOnDataLoss` a batch whose end has
another id than its start, which begins where the new log begins. Offset and id of a partition that is gone
are kept.

`partitions` depends on its two offsets and the files only, so a batch that is run again is the same batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tidelog.scanning.listings import Listings
from tidelog.scanning.log_end import LogTail, Transactions
from tidelog.scanning.losses import Corrupt
from tidelog.scanning.partitions import Partition, reading_roots_once
from tidelog.scanning.tails import log_tails
from tidelog.spark.runtime.collecting import without_collections
from tidelog.spark.runtime.shipping import Shipped
from tidelog.spark.source.batch import SplitPartition, parts_of, read_part, splits_of
from tidelog.spark.source.data_loss import LossPolicy
from tidelog.spark.source.offsets import (
    LogEnds,
    check_names,
    limit_end,
    present_partitions,
    range_of,
    resolve_start,
    select_partitions,
)
from tidelog.spark.source.options import LATEST, SourceOptions
from tidelog.spark.source.schemas import Wanted
from tidelog.spark.source.topic_ids import (
    TopicIds,
    decode_ids,
    encode_ids,
    is_another,
    recreated,
    topic_id_of,
)
from tidelog.spark.source.trigger_limits import Patience, limit_offsets
from tidelog.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StreamReader", "decode_offset", "encode_offset"]

_INITIAL, _START, _IDS = "@initial", "@start", "@ids"
_AT_A_TIME = 128
"""How many partitions are looked at together: so few that a log is read soon after it was listed."""
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


@dataclass(frozen=True, slots=True)
class Place:
    """Where a query stands: next offsets, and the ids of the topics that they are of."""

    offsets: Mapping[TopicPartition, int]
    ids: TopicIds

    @classmethod
    def decode(cls, encoded: Mapping[str, Any]) -> Place:
        """What Spark kept."""
        offsets = decode_offset(encoded)
        return cls(offsets, decode_ids(encoded.get(_IDS, {}), offsets))

    def encode(self) -> dict[str, Any]:
        """As Spark keeps it."""
        ids = encode_ids(self.ids)
        return encode_offset(self.offsets) | ({_IDS: ids} if ids else {})


class Seen(NamedTuple):
    """A partition as it was found."""

    partition: Partition
    ends: LogEnds
    topic_id: str | None


class Ends:
    """Where the logs end, followed from look to look."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._tails: dict[TopicPartition, LogTail] = {}
        self._transactions: dict[TopicPartition, Transactions] = {}
        self._ids: dict[TopicPartition, str | None] = {}
        self._listings = Listings()

    def look(self, partitions: Sequence[Partition]) -> list[Seen]:
        """Where logs end now, how far a reader may see, and whose they are."""
        groups = [partitions[at : at + _AT_A_TIME] for at in range(0, len(partitions), _AT_A_TIME)]
        return [seen for group in groups for seen in self._look(group)]

    def is_as_seen(self, partition: Partition) -> bool:
        """Whether the files of a partition that was looked at are surely still the same."""
        return self._listings.is_as_listed(partition)

    def _look(self, partitions: Sequence[Partition]) -> Iterator[Seen]:
        ids = [self._identify(each) for each in partitions]
        known = [self._tails.get(each.topic_partition) for each in partitions]
        tails = log_tails(partitions, known, damage_ends_it=self._options.corrupt is Corrupt.SKIP)
        with reading_roots_once(partitions):
            for partition, topic_id, tail in zip(partitions, ids, tails, strict=True):
                self._tails[partition.topic_partition] = tail
                yield Seen(partition, self._ends_of(partition, tail.end_offset), topic_id)

    def _identify(self, partition: Partition) -> str | None:
        """List a partition; the id of its topic."""
        self._listings.look(partition)
        name, topic_id = partition.topic_partition, topic_id_of(partition)
        if self._ids.setdefault(name, topic_id) != topic_id:  # what was followed is another log's
            self._ids[name] = topic_id
            self._tails.pop(name, None)
            self._transactions.pop(name, None)
        return topic_id

    def _ends_of(self, partition: Partition, end: int) -> LogEnds:
        limit = limit_end(partition, self._options, end)
        if not self._options.committed_only:
            return LogEnds(end, limit)
        followed = self._transactions.setdefault(partition.topic_partition, Transactions())
        return LogEnds(end, followed.stable_offset(partition, limit))


class StreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The source of a streaming query."""

    STAYS: ClassVar[frozenset[str]] = frozenset(
        {"_ends", "_initial", "_target", "_latest", "_patience", "_seen"}
    )

    def __init__(self, options: SourceOptions, wanted: Wanted) -> None:
        options.require("streaming", _NOT_FOR_STREAMS)
        self._options = options
        self._wanted = wanted
        self._ends = Ends(options)
        self._initial: dict[str, Any] | None = None
        self._target: dict[TopicPartition, int] | None = None
        self._latest: dict[TopicPartition, int] | None = None
        self._seen: dict[TopicPartition, Seen] = {}
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
            seen = self._ends.look(partitions)
            starts = {
                each.partition.topic_partition: resolve_start(each.partition, options, each.ends, LATEST)
                for each in seen
            }
            self._initial = Place(starts, _ids_of(seen)).encode() | {_INITIAL: True}
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
        self._target = {name: seen.ends.visible_end for name, seen in self._look().items()}

    @without_collections()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; `start` itself if there is nothing to read, or not enough yet."""
        kept = Place.decode(start)
        begin, reached = self._reachable(kept)
        if reached.offsets == kept.offsets and all(
            reached.ids.get(name) == known for name, known in kept.ids.items()
        ):
            return start
        end = dict(reached.offsets)
        if not isinstance(limit, ReadAllAvailable):
            waiting = sum(max(last - begin[name], 0) for name, last in end.items())
            if self._target is None and self._patience.waits(waiting, time.monotonic() * 1000):
                return start
            if self._options.max_offsets_per_trigger is not None:
                end = limit_offsets(begin, end, self._options.max_offsets_per_trigger)
        encoded = Place(end, reached.ids).encode()
        if start.get(_INITIAL):
            encoded[_START] = kept.encode()
        return encoded

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Where the logs ended at the last look."""
        return None if self._latest is None else encode_offset(self._latest)

    @without_collections()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The splits of a batch."""
        known = end[_START] if start.get(_INITIAL) and _START in end else start
        begin, until = Place.decode(known), Place.decode(end)
        firsts = _first_offsets(begin, until)
        there = self._look_for({name: until.offsets[name] for name in firsts})
        with reading_roots_once(seen.partition for seen in there.values()):
            return self._parts(firsts, begin, until, there)

    def _parts(
        self,
        firsts: Mapping[TopicPartition, int],
        begin: Place,
        until: Place,
        there: Mapping[TopicPartition, Seen],
    ) -> list[InputPartition]:
        ranges = []
        ids: dict[str, str] = {}
        for name, first in firsts.items():
            last, wanted, seen = until.offsets[name], until.ids.get(name), there.get(name)
            if seen is None:
                self._policy.lost(f"{name} is gone: offsets {first} to {last - 1} cannot be read")
                continue
            if is_another(wanted, seen.topic_id):
                what = recreated(name, wanted, seen.topic_id)
                self._policy.lost(f"{what}: offsets {first} to {last - 1} of the old one cannot be read")
                continue
            if is_another(begin.ids.get(name), wanted):
                first = min(seen.partition.log_start_offset, last)
            if seen.topic_id is not None:
                ids[seen.partition.url] = seen.topic_id
            ends = LogEnds(seen.ends.log_end, last)
            ranges.append(range_of(seen.partition, first, last, ends, self._policy))
        return list(parts_of(splits_of(ranges, self._options), self._options, ids))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a split."""
        if isinstance(partition, SplitPartition):
            yield from read_part(partition, self._options, self._wanted)

    def _look_for(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, Seen]:
        """The partitions whose ends are asked for, as far as they are there.

        What `latestOffset` has just found is taken once, where it reaches so far and the directory is still
        the same: files are listed again after a restart, and for a batch that is run again.
        """
        last, self._seen = self._seen, {}
        found = {}
        for name, end in ends.items():
            seen = last.get(name)
            if seen is not None and end <= seen.ends.visible_end and self._ends.is_as_seen(seen.partition):
                found[name] = seen
        if len(found) < len(ends):
            missing = ends.keys() - found.keys()
            again = [each for each in present_partitions(self._options) if each.topic_partition in missing]
            found |= {each.partition.topic_partition: each for each in self._ends.look(again)}
        return found

    def _look(self) -> dict[TopicPartition, Seen]:
        looked = self._ends.look(present_partitions(self._options))
        found = self._seen = {each.partition.topic_partition: each for each in looked}
        self._latest = {name: seen.ends.visible_end for name, seen in found.items()}
        return found

    def _reachable(self, kept: Place) -> tuple[dict[TopicPartition, int], Place]:
        """Where each partition's next batch begins, and how far it can go: not before it begins unless the
        log was cut back.
        """
        found = self._look()
        begin: dict[TopicPartition, int] = {}
        end: dict[TopicPartition, int] = {}
        for name, seen in found.items():
            ends, known = seen.ends, kept.ids.get(name)
            first, last = kept.offsets.get(name, 0), ends.visible_end
            if is_another(known, seen.topic_id):
                what = recreated(name, known, seen.topic_id)
                self._policy.lost(f"{what}: its records from offset {first} on are gone")
                first = min(seen.partition.log_start_offset, last)
            if self._target is not None:
                if name not in self._target and name not in kept.offsets:
                    continue  # appeared after this run was settled
                last = min(last, self._target.get(name, first))
            if ends.log_end < first:
                self._policy.lost(f"the log of {name} was cut back from offset {first} to {ends.log_end}")
                begin[name] = end[name] = ends.log_end
            else:
                begin[name], end[name] = first, max(first, last)
        ids = _ids_of(seen for name, seen in found.items() if name in end)
        gone = sorted(kept.offsets.keys() - found.keys())
        if gone:
            self._policy.lost(f"{', '.join(map(str, gone))} of this query is gone")
        for name in gone:
            if name in kept.ids:  # should it come back, it is seen whether it is the same
                begin[name] = end[name] = kept.offsets[name]
                ids[name] = kept.ids[name]
        return begin, Place(end, ids)


def _ids_of(seen: Iterable[Seen]) -> dict[TopicPartition, str]:
    return {each.partition.topic_partition: each.topic_id for each in seen if each.topic_id is not None}


def _first_offsets(begin: Place, until: Place) -> dict[TopicPartition, int]:
    """Where a batch begins in each partition that it reads: at 0 in a new one, and in another topic's."""
    firsts = {}
    for name, last in until.offsets.items():
        is_new = is_another(begin.ids.get(name), until.ids.get(name))
        first = 0 if is_new else begin.offsets.get(name, 0)
        if first < last:
            firsts[name] = first
    return firsts
