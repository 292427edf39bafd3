"""From options to offsets: which partitions are meant, where their logs end, and what range is asked for.

The end that a reader may see is the log's own, lowered to the checkpointed high watermark where that is asked
for, and for committed reads to the last stable offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.errors import InvalidInputError
from tidelog.scanning.bounds import AtDamage, AtTime, Visible, find_offset, visible
from tidelog.scanning.log_end import salvaged_stable_offset, stable_offset
from tidelog.scanning.losses import Corrupt
from tidelog.scanning.partitions import Partition, list_partitions
from tidelog.scanning.ranges import OffsetRange, replaced_within, replaced_words
from tidelog.spark.source.data_loss import LossPolicy
from tidelog.spark.source.options import (
    EARLIEST,
    EARLIEST_OFFSET,
    LATEST,
    LATEST_OFFSET,
    Assigned,
    Bound,
    Everything,
    Matching,
    Offsets,
    SourceOptions,
    Subscribed,
    Timestamp,
    Timestamps,
)
from tidelog.types import TopicPartition

__all__ = [
    "LogEnds",
    "check_names",
    "limit_end",
    "log_ends",
    "present_partitions",
    "range_of",
    "resolve_range",
    "resolve_start",
    "select_partitions",
]


_AT_DAMAGE = {Corrupt.FAIL: AtDamage.FAIL, Corrupt.STOP: AtDamage.STOP, Corrupt.SKIP: AtDamage.SKIP}


def present_partitions(options: SourceOptions) -> list[Partition]:
    """The partitions under the paths that the options select, as far as they are there."""
    try:
        there = list_partitions(options.paths)
    except InvalidInputError as error:
        raise InvalidInputError(f"option path: {error}") from error
    return [partition for partition in there if _is_selected(partition, options)]


def select_partitions(options: SourceOptions, *, may_be_none: bool = False) -> list[Partition]:
    """The partitions under the paths that the options select.

    A topic or partition that is named and not there is an error; none at all is one too, unless
    `may_be_none`.
    """
    found = present_partitions(options)
    where = ", ".join(options.paths)
    selection = options.selection
    names = {partition.topic_partition for partition in found}
    if isinstance(selection, Subscribed):
        missing = sorted(set(selection.topics) - {name.topic for name in names})
        if missing:
            raise InvalidInputError(f"option subscribe: no topic {', '.join(missing)} under {where}")
    elif isinstance(selection, Assigned):
        absent = sorted(selection.partitions - names)
        if absent:
            raise InvalidInputError(f"option assign: no partition {_listed(absent)} under {where}")
    elif not found and not may_be_none:
        if isinstance(selection, Matching):
            pattern = selection.pattern
            raise InvalidInputError(f"option subscribePattern: no topic under {where} matches {pattern!r}")
        raise InvalidInputError(f"option path: no Kafka partition directory under {where}")
    return found


def _is_selected(partition: Partition, options: SourceOptions) -> bool:
    name = partition.topic_partition
    is_internal = partition.is_internal
    match options.selection:
        case Subscribed(topics):
            return name.topic in topics
        case Assigned(partitions):
            return name in partitions
        case Matching() as matching:
            return not is_internal and matching.takes(name.topic)
        case Everything():
            return not is_internal or partition.is_named


def _listed(names: list[TopicPartition]) -> str:
    shown = ", ".join(str(name) for name in names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"


class LogEnds(NamedTuple):
    """Where a log ends, and how far a reader may see of it."""

    log_end: int
    visible_end: int


def log_ends(partition: Partition, options: SourceOptions) -> LogEnds:
    """Look where a log ends."""
    end = visible(partition, at_damage=_AT_DAMAGE[options.corrupt]).log_end
    limit = limit_end(partition, options, end)
    if not options.committed_only:
        return LogEnds(end, limit)
    stable = salvaged_stable_offset if options.corrupt is Corrupt.SKIP else stable_offset
    return LogEnds(end, stable(partition, limit))


def limit_end(partition: Partition, options: SourceOptions, log_end: int) -> int:
    """A log's published end, or where `upTo` says so its checkpointed high watermark."""
    log_end = partition.published_end(log_end)
    if not options.up_to_high_watermark:
        return log_end
    high_watermark = partition.high_watermark
    if high_watermark is None:
        raise InvalidInputError(
            f"option upTo: no replication-offset-checkpoint beside {partition.url}; take logEnd"
        )
    return max(min(log_end, high_watermark), partition.log_start_offset)


def resolve_range(partition: Partition, options: SourceOptions, ends: LogEnds) -> OffsetRange:
    """The offsets of a partition that a batch query asks for."""
    end = _resolve(partition, options, ends, options.ending or LATEST, options.ending_option)
    start = resolve_start(partition, options, ends, EARLIEST)
    return range_of(partition, start, end, ends, LossPolicy(options.fail_on_data_loss))


def resolve_start(partition: Partition, options: SourceOptions, ends: LogEnds, default: Bound) -> int:
    """The offset at which a query begins."""
    bound = options.starting or default
    return _resolve(partition, options, ends, bound, options.starting_option)


def range_of(partition: Partition, start: int, end: int, ends: LogEnds, policy: LossPolicy) -> OffsetRange:
    """Offsets [start, end) as far as the log has them; what it has not, or no more, is a loss."""
    name, log_start = partition.topic_partition, partition.log_start_offset
    if start < log_start and start < end:
        policy.lost(f"offsets {start} to {log_start - 1} of {name} are gone: its log starts at {log_start}")
    if max(start, end) > ends.log_end:
        policy.lost(f"offset {max(start, end)} of {name} is not there: its log ends at {ends.log_end}")
    start, end = max(start, log_start), min(end, ends.visible_end)
    for base in partition.missing_logs:
        if start <= base < end:
            policy.lost(f"the segment at offset {base} of {partition.url} has lost its log file")
    wanted = OffsetRange(partition, start, end)
    for base in replaced_within(wanted):
        policy.lost(replaced_words(partition, base))
    return wanted


def check_names(bound: Bound, option: str, partitions: list[Partition]) -> None:
    """Refuse bounds by partition that do not name exactly the partitions selected."""
    if not isinstance(bound, (Offsets, Timestamps)):
        return
    named: Mapping[TopicPartition, int] = bound.offsets if isinstance(bound, Offsets) else bound.timestamps
    selected = {partition.topic_partition for partition in partitions}
    missing, strange = sorted(selected - named.keys()), sorted(named.keys() - selected)
    if missing:
        raise InvalidInputError(f"option {option}: must name every partition, {_listed(missing)} too")
    if strange:
        raise InvalidInputError(f"option {option}: {_listed(strange)} is not among those selected")


def _resolve(partition: Partition, options: SourceOptions, ends: LogEnds, bound: Bound, option: str) -> int:
    name = partition.topic_partition
    match bound:
        case Timestamp(timestamp):
            offset = _by_time(partition, options, ends, timestamp, option)
        case Timestamps(timestamps):
            offset = _by_time(partition, options, ends, timestamps[name], option)
        case Offsets(offsets):
            offset = offsets[name]
        case _:
            offset = EARLIEST_OFFSET if bound == EARLIEST else LATEST_OFFSET
    if offset == EARLIEST_OFFSET:
        return partition.log_start_offset
    return ends.visible_end if offset == LATEST_OFFSET else offset


def _by_time(partition: Partition, options: SourceOptions, ends: LogEnds, timestamp: int, option: str) -> int:
    if timestamp in (LATEST_OFFSET, EARLIEST_OFFSET):  # Kafka's special timestamps have the same numbers
        return timestamp
    seen = Visible(ends.log_end, ends.visible_end)
    found = find_offset(partition, AtTime(timestamp), ends.log_end, seen, _AT_DAMAGE[options.corrupt])
    if found < ends.visible_end:
        return found
    if option.startswith("starting") and not options.starting_may_be_late:
        raise InvalidInputError(
            f"option {option}: no record of {partition.topic_partition} is at or after {timestamp}; "
            "set startingOffsetsByTimestampStrategy to latest to read nothing of it"
        )
    return ends.visible_end
