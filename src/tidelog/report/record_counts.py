"""What the records of a partition tell, counted: their hours, how well codecs compress, their frequent keys.

Memory is bounded: distinct keys are counted by a sketch (`scanning.sketches`), and of the keys that come
often only so many are kept. A key that was dropped in between is counted from its return on: counts are
exact as long as no key was dropped, and never too high.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.decoding.texts import visible
from tidelog.errors import CorruptRecordError
from tidelog.records.batches import HEADER_SIZE, BatchTable
from tidelog.records.compression import MAX_DECOMPRESSED
from tidelog.records.payloads import Payloads
from tidelog.records.schema import Projection
from tidelog.report.counts import HOUR_MS, Hours
from tidelog.scanning.partitions import Partition, SegmentFacts
from tidelog.scanning.sketches import Hashes, count_distinct, merge, sketch
from tidelog.scanning.tasks import NO_END, ScanTask, decode_window, read_batches
from tidelog.types import Codec

__all__ = ["FrequentKeys", "RecordCounts", "count_records"]

MAX_KEYS = 2000
TOLD_KEYS = 10
MAX_KEY_BYTES = 100
_COLUMNS = Projection(("key", "timestamp_ms"))
_MAX_ROWS, _MAX_BYTES = 1 << 17, 16 << 20
_CODECS = {int(codec): codec.label for codec in Codec}


class FrequentKeys:
    """The keys that come most often, with how often at least."""

    def __init__(self, most: int = MAX_KEYS) -> None:
        self._most = most
        self._counts: dict[bytes, int] = {}

    def add(self, keys: pa.Array) -> None:
        """Count keys; nulls do not count."""
        counted = pc.value_counts(keys.drop_null())
        counts = counted.field("counts").to_numpy(zero_copy_only=False)
        chosen = np.argsort(-counts, kind="stable")[: self._most]
        frequent = counted.field("values").take(pa.array(chosen)).to_pylist()
        for key, count in zip(frequent, counts[chosen].tolist(), strict=True):
            self._counts[key] = self._counts.get(key, 0) + count
        if len(self._counts) > 4 * self._most:
            self._counts = dict(self._ordered()[: self._most])

    def _ordered(self) -> list[tuple[bytes, int]]:
        return sorted(self._counts.items(), key=lambda one: (-one[1], one[0]))

    def rows(self, most: int = TOLD_KEYS) -> list[list[Any]]:
        """The keys as text, and how often each comes; the most frequent first."""
        return [[_text(key), count] for key, count in self._ordered()[:most]]


def _text(key: bytes) -> str:
    return visible(key) if len(key) <= MAX_KEY_BYTES else f"{visible(key[:MAX_KEY_BYTES])}..."


class RecordCounts:
    """What was met of a partition's records, those from `log_start` on; control records aside."""

    def __init__(self) -> None:
        self.codecs: dict[str, list[int]] = {}
        """Bytes of batches as they are, and uncompressed."""
        self.null_keys = 0
        self.keyed = 0
        self.hours = Hours()
        """Records by the hour of their timestamps."""
        self.keys = FrequentKeys()
        self._hashes: list[Hashes] = []

    def add_batches(self, data: memoryview, origin: int, table: BatchTable, source: str) -> None:
        """Count what batches take, and took before they were compressed; header included."""
        payloads = Payloads(data, origin, source, MAX_DECOMPRESSED)
        for codec in np.unique(table.codec).tolist():
            mine = table.codec == codec
            size = whole = int(table.size[mine].sum())
            if codec:
                rows = table.rows[mine].tolist()
                heads = HEADER_SIZE * int((table.magic[mine] == 2).sum())
                whole = heads + sum(len(payloads.payload(row)) for row in rows)
            known = self.codecs.setdefault(_CODECS.get(codec, "unknown"), [0, 0])
            known[0] += size
            known[1] += whole

    def add_records(self, keys: pa.Array, timestamps: pa.Array) -> None:
        """Count records by their keys and timestamps."""
        hours = timestamps.to_numpy() // HOUR_MS
        self.hours.add(hours, np.ones(len(hours), np.int64))
        self.null_keys += keys.null_count
        self.keyed += len(keys) - keys.null_count
        self.keys.add(keys)
        self._hashes = [merge([*self._hashes, sketch(keys)])]

    def facts(self) -> dict[str, Any]:
        """The counts, ready for JSON."""
        return {
            "null_keys": self.null_keys,
            "keyed_records": self.keyed,
            "distinct_keys": count_distinct(merge(self._hashes)),
            "keys": self.keys.rows(),
            "hour_width": self.hours.width,
            "hours": self.hours.rows(),
            "uncompressed": {name: list(sizes) for name, sizes in sorted(self.codecs.items())},
        }


def count_records(partition: Partition, met: Callable[[int], None] = lambda size: None) -> dict[str, Any]:
    """Read a partition's records; of a damaged segment those before the damage, which others tell of."""
    counts = RecordCounts()
    for segment in partition.segments:
        try:
            _read(partition, segment, counts)
        except CorruptRecordError:
            pass
        met(segment.size)
    return counts.facts()


def _read(partition: Partition, segment: SegmentFacts, counts: RecordCounts) -> None:
    start = partition.log_start_offset
    task = ScanTask(
        partition.url, segment.log_name, "", 0, 0, segment.size, start, NO_END, with_control=False
    )
    view = partition.volume.view(segment.log_name)
    for data, origin, table in read_batches(task, view):
        table = BatchTable(table.rows[~table.is_control])
        if not len(table):
            continue
        counts.add_batches(data, origin, table, task.source)
        for batch in decode_window(task, data, origin, table, _COLUMNS, _MAX_ROWS, _MAX_BYTES):
            counts.add_records(batch.column("key"), batch.column("timestamp_ms"))
