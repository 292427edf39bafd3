"""What is decoded together: chunks within bounds, and in them runs of batches that one kernel decodes. Pure.

How many bytes compressed batches expand to, and how many messages a wrapper holds, is known only when they
are decoded: they are given room by a guess, and end a chunk early where it was too small.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from tidelog.kernels import plan as _kernel
from tidelog.records.batches import BatchTable

__all__ = ["EXPANSION", "MIN_RECORD_SIZE", "ChunkPlan", "Run", "plan_chunk", "plan_run"]

MIN_RECORD_SIZE = 7
"""Bytes of the smallest record: length, attributes, two deltas, key length, value length, header count."""

EXPANSION = 16 * 4
"""What compressed batches are taken to expand before any was seen, in sixteenths."""

_SPARE = 1 << 14
_MIN_MESSAGE_SIZE = 26  # of magic 0, without key and value


class Run(enum.IntEnum):
    """Batches that are decoded alike (the kernel's numbers)."""

    PLAIN = 0
    COMPRESSED = 1
    PAYLOADS = 2
    MESSAGES = 3
    WRAPPERS = 4


class ChunkPlan(NamedTuple):
    """A stretch of batches, and the room that their records are given."""

    start: int
    stop: int
    rows: int
    size: int
    timestamp_type: int
    """Of all of them, -2 where they differ."""


def plan_chunk(
    table: BatchTable,
    start: int,
    *,
    max_rows: int,
    max_bytes: int,
    expansion: int,
    origin: int,
    buffer_size: int,
) -> ChunkPlan:
    """The chunk that begins at batch `start`: within bounds, unless the one batch is over them.

    Compressed batches are taken to expand `expansion` times, but not past `max_bytes`. The batches have to
    lie in the `buffer_size` bytes from `origin` on.
    """
    stop, rows, size, compressed, wrappers, kind = _kernel.cut(
        table.rows, start, max_rows, max_bytes, expansion, origin, buffer_size
    )
    if stop < 0:
        raise ValueError("a batch of the table lies outside the buffer")
    if compressed:
        size = min(max_bytes, 2 * size + _SPARE)
    if wrappers:
        rows = min(max_rows, size // _MIN_MESSAGE_SIZE + 1)
    return ChunkPlan(start, stop, rows, size, kind)


def plan_run(table: BatchTable, first: int) -> tuple[int, Run]:
    """Where the run that begins at batch `first` ends, and what it is."""
    last, kind = _kernel.run(table.rows, first)
    return last, Run(kind)
