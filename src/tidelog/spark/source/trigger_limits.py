"""How much a micro-batch takes: the connector's rules for `maxOffsetsPerTrigger` and `minOffsetsPerTrigger`.

Pure decisions over offsets by partition; a partition's share of the maximum is in proportion to what it has
waiting, and one that has anything waiting gets at least one offset.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.types import TopicPartition

__all__ = ["Patience", "limit_offsets"]

Offsets = Mapping[TopicPartition, int]


def limit_offsets(start: Offsets, end: Offsets, most: int) -> dict[TopicPartition, int]:
    """Ends that lie about `most` offsets in all after `start`; `start` must have every partition of `end`."""
    waiting = {name: last - start[name] for name, last in end.items() if last > start[name]}
    total = sum(waiting.values())
    limited = dict(end)
    for name, size in waiting.items():
        share = most * (size / total)
        taken = math.ceil(share) if share < 1 else math.floor(share)
        limited[name] = min(end[name], start[name] + taken)
    return limited


@dataclass(slots=True)
class Patience:
    """Waits for `least` offsets, but not for longer than `delay_ms` since the last batch."""

    least: int
    delay_ms: int
    last_batch_ms: float = -math.inf

    def waits(self, waiting: int, now_ms: float) -> bool:
        """Whether to leave `waiting` offsets for later; if not, a batch begins now."""
        if waiting < self.least and now_ms - self.last_batch_ms < self.delay_ms:
            return True
        self.last_batch_ms = now_ms
        return False
