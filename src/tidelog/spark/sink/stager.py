"""What a task of a write does: rows -> partitions -> batches -> staged files.

Rows of a partition are kept until they make a megabyte, so that batches are full and compress well however
many partitions a task writes to; what all partitions keep is bounded too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.manager.publishing.checks import check_piece
from tidelog.manager.publishing.partitioner import Partitioner, TopicPlan
from tidelog.manager.publishing.staged import Manifest
from tidelog.manager.publishing.staging import PieceFacts, TaskStaging
from tidelog.records.builder import encode_batches
from tidelog.types import Codec, TopicPartition

__all__ = ["RECORD_COLUMNS", "Stager"]

RECORD_COLUMNS = ("key", "value", "timestamp", "headers")
_ROUTE_COLUMNS = ("topic", "partition")

_PARTITION_BYTES = 1 << 20
_BATCH_BYTES = 256 << 10
"""Four times the default: a commit stamps, and the disk then writes, a block for each batch."""
_TASK_BYTES = 64 << 20
_TO_MS = {"ms": 1, "us": 1000, "ns": 1_000_000}


@dataclass(slots=True)
class _Waiting:
    """Rows of a partition that are not encoded yet."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0


class Stager:
    """Stages the rows of one attempt at a task."""

    def __init__(
        self, staging: TaskStaging, plan: TopicPlan, codec: Codec, *, topic: str | None, task: int
    ) -> None:
        self._staging = staging
        self._plan = plan
        self._codec = codec
        self._partitioner = Partitioner(plan, topic, task)
        self._waiting: dict[TopicPartition, _Waiting] = {}
        self._taken = 0  # bytes since all was encoded: a few rows that wait keep their whole batch in memory

    def run(self, batches: Iterator[pa.RecordBatch]) -> Manifest:
        """Stage all rows; the manifest is on the disk then. Nothing stays of an attempt that fails."""
        try:
            for batch in batches:
                self._take(batch)
            self._encode_all()
            return self._staging.finish()
        except BaseException:
            self._staging.discard()
            raise

    def _take(self, batch: pa.RecordBatch) -> None:
        wanted = [name for name in batch.schema.names if name in (*RECORD_COLUMNS, *_ROUTE_COLUMNS)]
        for partition, rows in self._partitioner.split(batch.select(wanted)):
            waiting = self._waiting.setdefault(partition, _Waiting())
            kept = rows.select([name for name in wanted if name in RECORD_COLUMNS])
            size = kept.nbytes
            waiting.batches.append(kept)
            waiting.size += size
            if waiting.size >= _PARTITION_BYTES:
                self._encode(partition)
        self._taken += batch.nbytes
        if self._taken >= _TASK_BYTES:
            self._encode_all()

    def _encode_all(self) -> None:
        for partition in list(self._waiting):
            self._encode(partition)
        self._taken = 0

    def _encode(self, partition: TopicPartition) -> None:
        waiting = self._waiting.pop(partition)
        facts = self._plan.facts(partition.topic)
        config = facts.config
        now_ms = time.time_ns() // 1_000_000
        rows = pa.Table.from_batches(waiting.batches)
        codec = config.target_codec(self._codec)
        encoded = encode_batches(
            rows,
            codec=codec,
            level=config.compression_level(codec),
            max_batch_bytes=min(_BATCH_BYTES, config.max_message_bytes, config.max_segment_bytes),
            now_ms=now_ms,
        )
        self._staging.expect(partition.topic, facts.partitions)
        keyless = rows.column("key").null_count if "key" in rows.column_names else rows.num_rows
        piece_facts = PieceFacts(_oldest_ms(rows, now_ms), keyless)
        piece = self._staging.add(partition, encoded, piece_facts, config)
        if piece is not None:
            check_piece(piece, config, now_ms)


def _oldest_ms(rows: pa.Table, now_ms: int) -> int:
    """The smallest timestamp."""
    if "timestamp" not in rows.column_names:
        return now_ms
    column = rows.column("timestamp")
    oldest = pc.min(column.cast(pa.int64())).as_py()
    if oldest is None:
        return now_ms
    if pa.types.is_timestamp(column.type):
        oldest = int(oldest // _TO_MS[column.type.unit])
    return min(oldest, now_ms) if column.null_count else int(oldest)
