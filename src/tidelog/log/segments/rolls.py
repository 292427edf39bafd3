"""When the active segment ends and a new one begins. A decision over facts; nothing here touches a file.

An append goes whole into one segment. Before it is written, the segment rolls if any of these holds (in the
order they are checked; the first is the reason given):

1. SIZE    the segment and the append together exceed `segment.bytes`;
2. TIME    the segment is not empty and has waited longer than `segment.ms` (a compacted log: than the smaller
           of it and `max.compaction.lag.ms`) less the segment's jitter. The wait is the append's largest
           timestamp less the segment's rolling timestamp, which is the *max* timestamp of its first batch;
           where that batch has none, the clock less the segment's creation time;
3. INDEX   the offset index is full, or the time index is (it counts as full one entry early);
4. OFFSET  the append's last offset cannot be told as a 31-bit number relative to the segment's base.

The jitter is drawn once per segment, so that logs made together do not all roll together.
"""

from __future__ import annotations

import enum
import random
from typing import NamedTuple

from tidelog.config import LogConfig
from tidelog.log.offsets import UNKNOWN_OFFSET

__all__ = ["RollFacts", "RollReason", "draw_jitter_ms", "rolled_base_offset", "should_roll"]

_INT_MAX = (1 << 31) - 1


class RollReason(enum.Enum):
    """Why a segment rolls."""

    SIZE = "size"
    TIME = "time"
    INDEX = "index"
    OFFSET = "offset"


class RollFacts(NamedTuple):
    """What the decision rests on: the limits, the append, the active segment, the clock."""

    max_segment_bytes: int
    max_segment_ms: int
    append_bytes: int
    append_max_timestamp: int
    append_last_offset: int
    segment_base_offset: int
    segment_bytes: int
    segment_rolling_timestamp: int
    """The max timestamp of the segment's first batch; -1 where the segment is empty or the batch has none."""
    segment_created_ms: int
    segment_jitter_ms: int
    index_full: bool
    """The offset index or the time index says that it is full."""
    now_ms: int


def waited_ms(facts: RollFacts) -> int:
    """How long the segment has waited to be rolled."""
    if facts.segment_rolling_timestamp >= 0:
        return facts.append_max_timestamp - facts.segment_rolling_timestamp
    return facts.now_ms - facts.segment_created_ms


def should_roll(facts: RollFacts) -> RollReason | None:
    """Why the segment must roll before this append; None if it need not."""
    if facts.segment_bytes > facts.max_segment_bytes - facts.append_bytes:
        return RollReason.SIZE
    if facts.segment_bytes > 0 and waited_ms(facts) > facts.max_segment_ms - facts.segment_jitter_ms:
        return RollReason.TIME
    if facts.index_full:
        return RollReason.INDEX
    if not 0 <= facts.append_last_offset - facts.segment_base_offset <= _INT_MAX:
        return RollReason.OFFSET
    return None


def rolled_base_offset(first_offset: int, last_offset: int, log_end_offset: int) -> int:
    """The base offset of the segment that a roll for this append begins.

    Magic 0 and 1 do not tell an append's first offset (-1 here); it lies no further below the last one than a
    segment reaches. The log end offset would be too low for a compacted log with large holes.
    """
    expected = last_offset - _INT_MAX if first_offset == UNKNOWN_OFFSET else first_offset
    return max(expected, log_end_offset)


def draw_jitter_ms(config: LogConfig, source: random.Random) -> int:
    """The jitter of a new segment: 0 to `segment.jitter.ms`, and less than `segment.ms`."""
    if config.segment_jitter_ms == 0:
        return 0
    return source.getrandbits(31) % min(config.segment_jitter_ms, config.segment_ms)
