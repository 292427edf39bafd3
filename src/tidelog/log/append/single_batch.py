"""The short way of an append: one ready batch of a client in one call (`kernels.appender`).

The kernel does what `appending` does in steps 1 to 10 for a batch that needs nothing out of the ordinary.
Here is what it has to know of a log: the topic's limits, and the bounds within which the active segment takes
a batch without rolling.
"""

from __future__ import annotations

from typing import Any

from tidelog.kernels.appender import Appender
from tidelog.kernels.scratch import Scratch
from tidelog.kernels.single_batch import SingleBatch
from tidelog.log.append.info import AppendResult
from tidelog.log.append.validation import TARGETS
from tidelog.log.flushing import flush
from tidelog.log.producers.sequences import BatchMetadata, ProducerState
from tidelog.log.segments.rolling import roll_bounds, roll_facts
from tidelog.log.state import LogState
from tidelog.records.libraries import new_scratch
from tidelog.segment.file import MAX_SIZE
from tidelog.types import LARGEST_OFFSET, TimestampType

__all__ = ["short_way"]

_TYPES = (ProducerState, BatchMetadata, AppendResult)
_LATEST = (1 << 63) - 1
_NEAR_THE_END = LARGEST_OFFSET - (1 << 40)
_scratches: list[Scratch] = []
"""Room to decompress to that no log uses at the moment."""


def short_way(state: LogState, *, own_clock: bool) -> Appender | None:
    """The short way to a log; None if its configuration leaves no batch as it came.

    `own_clock`: `state.now_ms` tells the machine's time.
    """
    config = state.config
    if config.message_timestamp_type is not TimestampType.CREATE_TIME:
        return None
    batch = SingleBatch(
        config.max_message_bytes,
        config.message_timestamp_before_max_ms,
        config.message_timestamp_after_max_ms,
        config.compact,
        TARGETS[config.compression_type],
        new_scratch,
        _scratches,
    )
    return Appender(state, batch, _TYPES, _facts, flush, state.flush_messages, own_clock)


def _facts(state: LogState) -> tuple[Any, ...] | None:
    """What holds until the active segment, the epochs or the segment's first batch change."""
    active, epoch = state.active, state.epochs.cache.latest_epoch
    bounds = roll_bounds(roll_facts(state))
    if epoch is None or bounds is None or active.base_offset > _NEAR_THE_END:
        return None
    return (
        active.file,
        epoch,
        active.base_offset,
        min(bounds.segment_bytes, MAX_SIZE),
        min(bounds.timestamp, _LATEST),
        bounds.offset,
    )
