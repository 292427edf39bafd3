"""What batch headers tell of a partition, counted as they are met: codecs, hours, sizes, producers.

Nothing is decoded. A batch's records count for the hour of its largest timestamp, and each has the average
size of its batch. Memory is bounded: hours become wider, and producers that wrote little are put together,
when there are too many of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidelog.records.batches import HEADER_SIZE, BatchTable
from tidelog.scanning.pictures import Int64s
from tidelog.types import Codec

__all__ = ["HOUR_MS", "Counts", "Hours", "Producers"]

HOUR_MS = 3_600_000
MAX_HOURS = 2048
MAX_PRODUCERS = 256
_SIZES = 32
_CODECS = {int(codec): codec.label for codec in Codec}


class Hours:
    """Batches, bytes and records by time: `width` hours a bucket, a power of two."""

    def __init__(self, width: int = 1, most: int = MAX_HOURS) -> None:
        self.width = width
        self._most = most
        self._found: dict[int, list[int]] = {}

    @classmethod
    def of(cls, width: int, rows: Sequence[Sequence[int]]) -> Hours:
        """Those that `rows` has told."""
        hours = cls(width)
        for first, *amounts in rows:
            hours._put(first // width, amounts)
        return hours

    def add(self, hours: Int64s, *weights: Int64s) -> None:
        """Count by hour since 1970."""
        buckets, slots = np.unique(hours // self.width, return_inverse=True)
        sums = [np.bincount(slots, each, len(buckets)).astype(np.int64).tolist() for each in weights]
        for bucket, *amounts in zip(buckets.tolist(), *sums, strict=True):
            self._put(bucket, amounts)
        while len(self._found) > self._most:
            self.widen(self.width * 2)

    def widen(self, width: int) -> None:
        """Put buckets together."""
        found, step = self._found, width // self.width
        self.width, self._found = width, {}
        for bucket, amounts in found.items():
            self._put(bucket // step, amounts)

    def join(self, other: Hours) -> None:
        """Count what another has counted, too; both get the wider buckets of the two."""
        width = max(self.width, other.width)
        self.widen(width)
        other.widen(width)
        for bucket, amounts in other._found.items():
            self._put(bucket, amounts)

    def _put(self, bucket: int, amounts: list[int]) -> None:
        known = self._found.setdefault(bucket, [0] * len(amounts))
        for at, amount in enumerate(amounts):
            known[at] += amount

    def rows(self) -> list[list[int]]:
        """The first hour of each bucket, then what was counted."""
        return [[bucket * self.width, *amounts] for bucket, amounts in sorted(self._found.items())]


class Producers:
    """What each producer id wrote: batches, records, bytes, its newest epoch and timestamp."""

    def __init__(self) -> None:
        self._found: dict[int, list[int]] = {}
        self.others = 0
        """Producers that are not told one by one."""

    def add(self, table: BatchTable, counts: Int64s) -> None:
        """Count the batches that have a producer id."""
        ids, slots = np.unique(table.producer_id, return_inverse=True)
        batches = np.bincount(slots, minlength=len(ids)).tolist()
        records = np.bincount(slots, counts, len(ids)).astype(np.int64).tolist()
        sizes = np.bincount(slots, table.size, len(ids)).astype(np.int64).tolist()
        epochs, newest = np.full((2, len(ids)), -1, np.int64)
        np.maximum.at(epochs, slots, table.producer_epoch)
        np.maximum.at(newest, slots, table.max_timestamp)
        rows = zip(ids.tolist(), batches, records, sizes, epochs.tolist(), newest.tolist(), strict=True)
        for producer, *amounts in rows:
            if producer < 0:
                continue
            known = self._found.setdefault(producer, [0, 0, 0, -1, -1])
            known[:3] = [old + new for old, new in zip(known[:3], amounts[:3], strict=True)]
            known[3:] = [max(old, new) for old, new in zip(known[3:], amounts[3:], strict=True)]
        if len(self._found) > 4 * MAX_PRODUCERS:
            self._keep_largest()

    def _keep_largest(self) -> None:
        self.others += max(len(self._found) - MAX_PRODUCERS, 0)
        largest = sorted(self._found.items(), key=lambda one: (-one[1][1], one[0]))[:MAX_PRODUCERS]
        self._found = dict(largest)

    def rows(self) -> list[list[int]]:
        """Producer id, batches, records, bytes, epoch and newest timestamp, those who wrote most first."""
        self._keep_largest()
        return [[producer, *amounts] for producer, amounts in self._found.items()]


@dataclass(slots=True)
class Counts:
    """What was met of a partition. Only batches that a reader may see count, those from `log_start` on."""

    log_start: int
    batches: int = 0
    records: int = 0
    control_batches: int = 0
    control_records: int = 0
    transactional_batches: int = 0
    largest_batch_bytes: int = 0
    codecs: dict[str, list[int]] = field(default_factory=dict)
    """Batches, bytes and records, control batches aside."""
    hours: Hours = field(default_factory=Hours)
    batch_sizes: Int64s = field(default_factory=lambda: np.zeros(_SIZES, np.int64))
    """Batches of sizes [2^n, 2^(n+1))."""
    record_sizes: Int64s = field(default_factory=lambda: np.zeros(_SIZES, np.int64))
    """Records by the average size on disk in their batch, likewise."""
    producers: Producers = field(default_factory=Producers)

    def meet(self, table: BatchTable, counts: Int64s) -> None:
        """Count batches and their records."""
        visible = table.last_offset >= self.log_start
        if not visible.all():
            table, counts = BatchTable(table.rows[visible]), counts[visible]
        if not len(table):
            return
        counts = np.minimum(counts, table.last_offset - self.log_start + 1)
        control = table.is_control
        if control.any():
            self.control_batches += int(control.sum())
            self.control_records += int(counts[control].sum())
            table, counts = BatchTable(table.rows[~control]), counts[~control]
        if not len(table):
            return
        self.batches += len(table)
        self.records += int(counts.sum())
        self.transactional_batches += int(table.is_transactional.sum())
        self.largest_batch_bytes = max(self.largest_batch_bytes, int(table.size.max()))
        self._add_codecs(table, counts)
        ones = np.ones(len(table), np.int64)
        self.hours.add(table.max_timestamp // HOUR_MS, counts, table.size, ones)
        self.batch_sizes += _by_size(table.size, ones)
        payload = np.where(table.magic == 2, table.size - HEADER_SIZE, table.size)
        self.record_sizes += _by_size(payload // np.maximum(counts, 1), counts)
        self.producers.add(table, counts)

    def _add_codecs(self, table: BatchTable, counts: Int64s) -> None:
        for codec in np.unique(table.codec).tolist():
            mine = table.codec == codec
            known = self.codecs.setdefault(_CODECS.get(codec, "unknown"), [0, 0, 0])
            known[0] += int(mine.sum())
            known[1] += int(table.size[mine].sum())
            known[2] += int(counts[mine].sum())

    def facts(self) -> dict[str, Any]:
        """The counts, ready for JSON."""
        return {
            "batches": self.batches,
            "records": self.records,
            "control_batches": self.control_batches,
            "control_records": self.control_records,
            "transactional_batches": self.transactional_batches,
            "largest_batch_bytes": self.largest_batch_bytes,
            "codecs": [[name, *amounts] for name, amounts in sorted(self.codecs.items())],
            "hour_width": self.hours.width,
            "hours": self.hours.rows(),
            "batch_sizes": _trimmed(self.batch_sizes),
            "record_sizes": _trimmed(self.record_sizes),
            "producers": self.producers.rows(),
            "other_producers": self.producers.others,
        }


def _by_size(sizes: Int64s, weights: Int64s) -> Int64s:
    bits = np.log2(np.maximum(sizes, 1)).astype(np.int64)
    counted: Int64s = np.bincount(np.minimum(bits, _SIZES - 1), weights, _SIZES).astype(np.int64)
    return counted


def _trimmed(counted: Int64s) -> list[int]:
    """Without the zeros at the end."""
    used = np.flatnonzero(counted)
    return counted[: int(used[-1]) + 1].tolist() if len(used) else []
