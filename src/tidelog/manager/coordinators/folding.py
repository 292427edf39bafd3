"""What a compacted topic of a coordinator adds up to: the last record of each key.

1. A record replaces what its key had before it; one without a value deletes it.
2. A record of a transaction counts when a marker commits it, and then in the order of its own offset, as
   Kafka's coordinators load it. One that was aborted, or whose transaction is open, does not count.

Records are reduced to the last ones of each key batch by batch, over columns; one value a key is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.records.columns import numbers
from tidelog.records.schema import Projection
from tidelog.scanning.bounds import AtDamage, resolve, visible
from tidelog.scanning.partitions import Partition, look_steadily
from tidelog.scanning.ranges import plan_range
from tidelog.scanning.salvage import salvage_task

__all__ = ["Latest", "fold_partition"]

_COLUMNS = Projection(("offset", "key", "value", "producer_id", "transactional", "control"))
_COMMIT = 1  # the type of a marker, after its version

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Latest:
    """The last record of a key; a value of None is a tombstone."""

    offset: int
    value: bytes | None


@dataclass(slots=True)
class _Folded:
    latest: dict[bytes, Latest] = field(default_factory=dict)
    pending: dict[int, dict[bytes, Latest]] = field(default_factory=dict)

    def put(self, key: bytes, record: Latest) -> None:
        known = self.latest.get(key)
        if known is None or known.offset < record.offset:
            self.latest[key] = record

    def take(self, batch: pa.RecordBatch) -> None:
        """Take in records, in order."""
        is_control = np.asarray(batch.column("control").to_numpy(zero_copy_only=False), bool)
        is_pending = np.asarray(batch.column("transactional").to_numpy(zero_copy_only=False), bool)
        is_pending &= ~is_control
        producers = numbers(batch.column("producer_id"))
        for row in self._last(batch, np.flatnonzero(~is_control & ~is_pending)):
            self.put(*row)
        markers = np.flatnonzero(is_control)
        start = 0
        for marker in [*markers.tolist(), batch.num_rows]:
            rows = np.flatnonzero(is_pending[start:marker]) + start
            for producer in np.unique(producers[rows]).tolist():
                pending = self.pending.setdefault(producer, {})
                for key, record in self._last(batch, rows[producers[rows] == producer]):
                    pending[key] = record
            if marker < batch.num_rows:
                self._end(int(producers[marker]), batch.column("key")[marker].as_py())
            start = marker + 1

    def _end(self, producer: int, key: bytes | None) -> None:
        """A marker: commit or abort what its producer has written."""
        records = self.pending.pop(producer, {})
        if key is not None and len(key) >= 4 and int.from_bytes(key[2:4], "big") == _COMMIT:
            for name, record in records.items():
                self.put(name, record)

    def _last(self, batch: pa.RecordBatch, rows: Int64s) -> Iterator[tuple[bytes, Latest]]:
        """Of some rows, the last of each key."""
        if not len(rows):
            return
        keys = batch.column("key").take(pa.array(rows)).dictionary_encode()
        codes = keys.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        _, first = np.unique(codes[::-1], return_index=True)
        last = rows[len(rows) - 1 - first]
        chosen = batch.take(pa.array(last))
        columns = (chosen.column(name).to_pylist() for name in ("offset", "key", "value"))
        for offset, key, value in zip(*columns, strict=True):
            if key is not None:
                yield key, Latest(offset, value)


def fold_partition(partition: Partition) -> Mapping[bytes, Latest]:
    """The last records of a partition's keys, deleted ones left out; damage is skipped and logged."""
    folded = look_steadily(partition, _fold)
    return {key: record for key, record in folded.latest.items() if record.value is not None}


def _fold(partition: Partition) -> _Folded:
    folded = _Folded()
    seen = visible(partition, at_damage=AtDamage.SKIP)
    for task in plan_range(resolve(partition, None, None, seen, AtDamage.SKIP)):
        for batch in salvage_task(task, _COLUMNS):
            folded.take(batch)
    return folded
