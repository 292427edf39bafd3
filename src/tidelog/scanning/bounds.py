"""From what a reader asks for to the offsets that it means: the one resolver of scans, commands and Spark.

A bound is an offset, a moment (`AtTime`: the first record that is not older) or None, the log's own start or
end; `OffsetRange.last` counts from the end. A reader sees a log up to its end, one of committed data up to
the last stable offset. What damage at the end of a log means to a range that reaches it is the reader's
choice (`AtDamage`).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from tidelog.errors import CorruptRecordError, InvalidInputError
from tidelog.scanning.log_end import (
    find_log_end,
    salvaged_end,
    salvaged_stable_offset,
    stable_offset,
)
from tidelog.scanning.partitions import Partition
from tidelog.scanning.ranges import OffsetRange
from tidelog.scanning.tasks import NO_END
from tidelog.scanning.timestamps import offset_for_timestamp

__all__ = ["AtDamage", "AtTime", "OffsetBound", "Visible", "find_offset", "resolve", "visible"]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record that is not older than a time (ms); the log end if there is none."""

    timestamp: int


OffsetBound: TypeAlias = int | AtTime | None
"""An end of a range."""


class AtDamage(enum.Enum):
    """What becomes of a range that reaches the damage which ends a log."""

    FAIL = "fail"
    """Nothing is resolved: the damage is raised."""
    MEET = "meet"
    """The range goes on: whoever reads it gets what comes before the damage, then the error."""
    SKIP = "skip"
    """The range goes on to the last sound batch: whoever reads it skips the damage."""
    STOP = "stop"
    """The range ends before it."""


@dataclass(frozen=True, slots=True)
class Visible:
    """How far a log goes, and how far a reader sees."""

    log_end: int
    end: int
    fault: CorruptRecordError | None = None
    """The damage that ends the log."""


def visible(partition: Partition, *, committed_only: bool = False, at_damage: AtDamage) -> Visible:
    """Look where a log ends."""
    if at_damage is AtDamage.SKIP:
        log_end, fault = salvaged_end(partition)
        end = salvaged_stable_offset(partition, log_end) if committed_only else log_end
        return Visible(log_end, end, fault)
    log_end, fault = find_log_end(partition)
    if fault is not None and at_damage is AtDamage.FAIL:
        raise fault
    end = log_end
    if committed_only:
        end = stable_offset(partition, log_end, damage_ends_it=at_damage is AtDamage.MEET)
    return Visible(log_end, end, fault)


def find_offset(
    partition: Partition,
    bound: OffsetBound,
    otherwise: int,
    seen: Visible,
    at_damage: AtDamage = AtDamage.FAIL,
) -> int:
    """The offset that a bound means; `otherwise` where it is None."""
    match bound:
        case None:
            return otherwise
        case AtTime(timestamp):
            found = offset_for_timestamp(partition, timestamp, skip_damage=at_damage is AtDamage.SKIP)
            return seen.log_end if found is None else found.offset
    if bound < 0:
        raise InvalidInputError(f"an offset is 0 or more, not {bound}")
    return bound


def resolve(
    partition: Partition, start: OffsetBound, end: OffsetBound, seen: Visible, at_damage: AtDamage
) -> OffsetRange:
    """The offsets from `start` to before `end`, as far as a reader sees them."""
    log_start = partition.log_start_offset
    first = max(find_offset(partition, start, log_start, seen, at_damage), log_start)
    try:
        stop = find_offset(partition, end, NO_END, seen, at_damage)
    except CorruptRecordError:  # the time that is asked for lies behind damage
        if at_damage is not AtDamage.MEET:
            raise
        stop = NO_END
    if stop >= seen.end:
        goes_on = at_damage in (AtDamage.MEET, AtDamage.SKIP)
        meets = goes_on and seen.fault is not None and seen.end == seen.log_end
        stop = NO_END if meets else seen.end
    return OffsetRange(partition, first, stop)
