"""When the active segment ends and a new one begins, and how.

The decision is one over facts (`should_roll`), for every append. An append goes whole into one segment.
Before it is written, the segment rolls if any of these holds (in the order they are checked; the first is the
reason given):

1. SIZE    the segment and the append together exceed `segment.bytes`;
2. TIME    the segment is not empty and has waited longer than `segment.ms` (a compacted log: than the smaller
           of it and `max.compaction.lag.ms`) less the segment's jitter. The wait is the append's largest
           timestamp less the segment's rolling timestamp, which is the *max* timestamp of its first batch;
           where that batch has none, the clock less the segment's creation time;
3. INDEX   the offset index is full, or the time index is (it counts as full one entry early);
4. OFFSET  the append's last offset cannot be told as a 31-bit number relative to the segment's base.

The jitter is drawn once per segment, so that logs made together do not all roll together.

Then, on the files:

1. The new segment begins at the append's first offset, or the log end. Files that lie there are strays of a
   crash and are removed. An active segment that is empty and begins there already is replaced by a fresh one.
2. The old segment is sealed: final time entry, indexes trimmed. The state of the producers up to the new
   segment is written as its snapshot, so that recovery of the new segment can begin there.
3. The view with the new segment is published. What was rolled is flushed later (`scheduling`).
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from tidelog.errors import LogError
from tidelog.log.flushing import flush_below
from tidelog.log.offsets import UNKNOWN_OFFSET
from tidelog.log.segments.segments import LogSegments
from tidelog.log.state import LogState
from tidelog.segment import ActiveSegment
from tidelog.storage.names import SEGMENT_FILES, Transient, format_segment_file

__all__ = [
    "RollBounds",
    "RollFacts",
    "RollReason",
    "needs_roll",
    "roll",
    "roll_bounds",
    "roll_facts",
    "rolled_base_offset",
    "should_roll",
]

_INT_MAX = (1 << 31) - 1
_new = tuple.__new__  # a named tuple's own takes twice as long


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


class RollBounds(NamedTuple):
    """What an append must stay within: the segment's size after it, its largest timestamp and last offset."""

    segment_bytes: int
    timestamp: int
    offset: int


def roll_bounds(facts: RollFacts) -> RollBounds | None:
    """The rule as bounds that hold for all appends to a segment, whatever the facts say of one append.

    With room in the indexes, a segment need not roll before an append within them. None if the wait goes by
    the clock, or the segment is empty.
    """
    if facts.segment_rolling_timestamp < 0 or facts.segment_bytes == 0:
        return None
    return RollBounds(
        facts.max_segment_bytes,
        facts.segment_rolling_timestamp + facts.max_segment_ms - facts.segment_jitter_ms,
        facts.segment_base_offset + _INT_MAX,
    )


def rolled_base_offset(first_offset: int, last_offset: int, log_end_offset: int) -> int:
    """The base offset of the segment that a roll for this append begins.

    Magic 0 and 1 do not tell an append's first offset (-1 here); it lies no further below the last one than a
    segment reaches. The log end offset would be too low for a compacted log with large holes.
    """
    expected = last_offset - _INT_MAX if first_offset == UNKNOWN_OFFSET else first_offset
    return max(expected, log_end_offset)


def needs_roll(state: LogState, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
    """Whether the active segment must roll before an append of that many bytes."""
    return should_roll(roll_facts(state, size, last_offset, max_timestamp, now_ms)) is not None


def roll_facts(
    state: LogState, size: int = 0, last_offset: int = 0, max_timestamp: int = -1, now_ms: int = 0
) -> RollFacts:
    """The facts of the active segment and of an append."""
    active = state.active
    facts = (
        state.max_segment_bytes,
        state.max_segment_ms,
        size,
        max_timestamp,
        last_offset,
        active.base_offset,
        active.size,
        active.first_batch_timestamp,
        active.created_ms,
        active.jitter_ms,
        active.progress.index_full,
        now_ms,
    )
    return _new(RollFacts, facts)


def roll(state: LogState, expected_next_offset: int = 0) -> ActiveSegment:
    """Begin a new segment at `expected_next_offset` or the log end, whichever is larger; it is answered."""
    segments, offsets = state.view
    end_offset = offsets.log_end.message_offset
    base_offset = max(expected_next_offset, end_offset)
    active = state.active
    if base_offset < active.base_offset or (base_offset == active.base_offset and active.size):
        raise LogError(
            f"cannot begin a segment at {base_offset} in {state.directory.path}: the active one begins at "
            f"{active.base_offset} and holds {active.size} bytes"
        )
    with state.changing_files("rolling"):
        if base_offset == active.base_offset:
            created, listed = _replace_empty(state, segments, active)
        else:
            _remove_strays(state, base_offset)
            sealed = active.seal()
            created = state.create_segment(base_offset)
            listed = segments.with_rolled(sealed, created)
        state.active = created
        state.producers.update_map_end_offset(base_offset)
        state.snapshots.take(state.producers, sync=False)
    state.publish(listed, offsets.with_log_end(state.end_at(end_offset)))
    if state.scheduler is not None:
        state.scheduler.schedule_once("flush-log", lambda: flush_below(state, base_offset))
    return created


def _replace_empty(
    state: LogState, segments: LogSegments, empty: ActiveSegment
) -> tuple[ActiveSegment, LogSegments]:
    empty.rename_to(Transient.DELETED)
    created = state.create_segment(empty.base_offset)
    state.later("delete-file", empty.delete)
    return created, segments.with_last(created)


def _remove_strays(state: LogState, base_offset: int) -> None:
    for kind in SEGMENT_FILES:
        state.directory.unlink(format_segment_file(base_offset, kind))
