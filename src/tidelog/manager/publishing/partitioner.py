"""Which topic and partition each row goes to, a whole Arrow batch at a time.

    topic       the option's, else the column's
    partition   the column's; where that is null, murmur2 of the key, as Kafka's producers do it; and where
                there is no key, one of the topic's after the other, from the task's own number on

A task that runs again is given the same rows in the same order, and so spreads them the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import InvalidInputError
from tidelog.kernels.murmur import murmur2
from tidelog.manager.publishing.checks import check_topic
from tidelog.manager.publishing.existing import TopicFacts
from tidelog.records.columns import numbers
from tidelog.types import TopicPartition

__all__ = ["Partitioner", "TopicPlan", "hash_keys"]

Int64s = npt.NDArray[np.int64]

_POSITIVE = np.uint32(0x7FFFFFFF)
_FEW_GROUPS = 1 << 16
_NOTHING = np.zeros(1, dtype=np.uint8)


@dataclass(slots=True)
class TopicPlan:
    """The topics there are, and what others are made with."""

    known: Mapping[str, TopicFacts]
    new: TopicFacts
    _checked: dict[str, TopicFacts] = field(default_factory=dict)

    def facts(self, topic: str | None) -> TopicFacts:
        """What is to be known of a topic; InvalidInputError if it cannot be written to."""
        found = self._checked.get(topic or "")
        if found is None:
            check_topic(topic)
            name = topic or ""
            found = self._checked[name] = self.known.get(name, self.new)
        return found


class Partitioner:
    """Splits the batches of one task."""

    def __init__(self, plan: TopicPlan, topic: str | None, task: int) -> None:
        """`topic` is the option's; `task` is the number of the task among those of its job."""
        self._plan = plan
        self._topic = topic
        self._task = task
        self._next: dict[str, int] = {}  # by topic: whose turn it is among its rows without a key

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """The rows of each partition, in their order."""
        if not batch.num_rows:
            return
        groups, topics, width = self._groups(batch)
        first = int(groups[0])
        if (groups == first).all():
            yield TopicPartition(topics[first // width], first % width), batch
            return
        if len(topics) * width <= _FEW_GROUPS:
            groups = groups.astype(np.uint16)  # these are sorted by counting
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        rows = batch.take(pa.array(order))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
            group = int(ordered[start])
            yield TopicPartition(topics[group // width], group % width), rows.slice(start, end - start)

    def _groups(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.integer], list[str], int]:
        """For each row its topic's number, times the width, plus its partition; the topics; the width."""
        if self._topic is not None and "partition" not in batch.schema.names and "key" in batch.schema.names:
            keys = batch.column("key")
            if not keys.null_count:  # what most writes are
                count = self._plan.facts(self._topic).partitions
                return (hash_keys(keys) & _POSITIVE) % np.uint32(count), [self._topic], count
        codes, topics = self._topics(batch)
        counts = np.array([self._plan.facts(topic).partitions for topic in topics], dtype=np.int64)
        width = int(counts.max())
        return codes * width + self._partitions(batch, topics, codes, counts), topics, width

    def _topics(self, batch: pa.RecordBatch) -> tuple[Int64s, list[str]]:
        """A number for each row's topic, and the topics by number."""
        if self._topic is not None:
            return np.zeros(batch.num_rows, dtype=np.int64), [self._topic]
        encoded = batch.column("topic").dictionary_encode()
        if encoded.null_count:
            check_topic(None)
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return codes, encoded.dictionary.to_pylist()

    def _partitions(self, batch: pa.RecordBatch, topics: list[str], codes: Int64s, counts: Int64s) -> Int64s:
        limits = counts[codes]
        names = batch.schema.names
        rows = batch.num_rows
        given = batch.column("partition") if "partition" in names else pa.nulls(rows, pa.int32())
        missing = _nulls(given)
        chosen: Int64s = np.where(missing, 0, numbers(given)).astype(np.int64)
        bad = (chosen < 0) | (chosen >= limits)
        if bad.any():
            row = int(np.argmax(bad))
            raise InvalidInputError(
                f"topic {topics[int(codes[row])]!r} has {int(limits[row])} partitions; "
                f"a record names partition {int(chosen[row])}"
            )
        if not missing.any():
            return chosen
        keys = batch.column("key") if "key" in names else pa.nulls(rows, pa.binary())
        keyless = missing & _nulls(keys)
        if not keyless.all():
            hashed = (hash_keys(keys) & _POSITIVE).astype(np.int64)
            chosen = np.where(missing, hashed % limits, chosen)
        for code in np.unique(codes[keyless]).tolist():
            mine = np.flatnonzero(keyless & (codes == code))
            first = self._next.get(topics[code], self._task)
            self._next[topics[code]] = first + len(mine)
            chosen[mine] = (first + np.arange(len(mine))) % counts[code]
        return chosen


def _nulls(array: pa.Array) -> npt.NDArray[np.bool_]:
    if not array.null_count:
        return np.zeros(len(array), dtype=np.bool_)
    valid = array.buffers()[0]
    if valid is None:  # of type null
        return np.ones(len(array), dtype=np.bool_)
    # Bit by bit: a conversion of booleans to numpy would import pandas.
    bits = np.unpackbits(np.frombuffer(valid, np.uint8), count=array.offset + len(array), bitorder="little")
    missing: npt.NDArray[np.bool_] = bits[array.offset :] == 0
    return missing


def hash_keys(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """Kafka's murmur2 of each key; of a null, that of no bytes."""
    wide = keys.cast(pa.large_binary())
    out = np.empty(len(wide), dtype=np.uint32)
    if not len(wide):
        return out
    _, ends, data = wide.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64, count=len(wide) + 1, offset=8 * wide.offset)
    content = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else _NOTHING
    if murmur2(content, offsets, out) != len(out):
        raise InvalidInputError("column 'key' is not valid Arrow: its offsets do not fit its data")
    return out
