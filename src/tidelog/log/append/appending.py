"""Appending: what is given is checked, stamped, written, and only then seen.

A leader's append: 1. batches are made or taken (`incoming`);  2. headers and records are checked, and batches
written anew where they must be (`leader_checks`);  then, with the lock held: 3. batches that a producer sent
again are left out;  4. offsets, leader epoch and times are stamped (`validation`);  5. to 10. as for all.

A follower's append takes what it is given: batches of a later leader's epoch than the one it follows are
dropped, offsets must not lie below the log end.

5. the append must fit a segment, and may need a new one (decided, not done);
6. the producers' rules (`producers.prepare`): what the batches change, or the error that refuses them;
7. a new leader epoch is written to its file;   8. the segment rolls;   9. the batches are written, and
aborted transactions into the index;   10. the producers' state follows, and the log end is published.

What clients send most, one batch by itself that neither begins a segment nor an epoch, goes the same way in
one step (`single_batch`).

Whatever is refused in 1 to 6 leaves nothing behind. A write that fails in 9 is undone by the segment; what
cannot be undone takes the log offline (`state`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.errors import IndexFullError, InvalidInputError
from tidelog.index import AbortedTxn
from tidelog.log.append.incoming import AppendOptions, Incoming, ready_bytes, received_batches
from tidelog.log.append.info import NO_TIMESTAMP, AppendOrigin, AppendResult
from tidelog.log.append.leader_checks import CheckedBatches, check_append
from tidelog.log.append.validation import analyze, check_append_size, check_offsets, stamp
from tidelog.log.flushing import flush
from tidelog.log.offsets import UNKNOWN_OFFSET, LogOffsetMetadata
from tidelog.log.producers.markers import read_markers
from tidelog.log.producers.producers import ProducerUpdate
from tidelog.log.producers.sequences import TV_UNKNOWN, BatchMetadata
from tidelog.log.segments.rolling import needs_roll, roll, rolled_base_offset
from tidelog.log.state import LogState
from tidelog.records.batches import BatchTable
from tidelog.types import LARGEST_OFFSET, TimestampType

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["append_as_follower", "append_as_leader"]

_NEAR_THE_END = LARGEST_OFFSET - (1 << 40)
"""No append reaches the last offset from below this one."""

_NOTHING = AppendResult(UNKNOWN_OFFSET, -1, NO_TIMESTAMP, UNKNOWN_OFFSET, False)
"""The answer to an append without batches."""


class PlacedBatches(NamedTuple):
    """Batches with their final offsets, to be written as they are."""

    data: Buffer
    table: BatchTable
    first_offset: int
    """-1 where the first batch is of magic 0 or 1 and offsets are taken as given."""
    last_offset: int
    leader_epoch: int
    """Of the last batch."""
    max_timestamp: int
    size: int
    has_producer_ids: bool


def append_as_leader(
    state: LogState,
    records: Incoming,
    leader_epoch: int,
    origin: AppendOrigin,
    transaction_version: int,
    options: AppendOptions,
) -> AppendResult:
    """Append records, and say which offsets they were given."""
    if not origin.assigns_offsets:
        return _append_as_given(state, ready_bytes(records), leader_epoch, origin, transaction_version)
    now_ms = state.now_ms()
    config = state.config
    checked = check_append(records, config, origin, leader_epoch, now_ms, options)
    if not len(checked.table.rows):
        return _NOTHING
    with state.lock:
        state.check_writable()
        offsets = state.view.offsets
        if checked.has_producer_ids and origin is AppendOrigin.CLIENT:
            duplicates = state.producers.find_duplicates(checked.table)
            if len(duplicates) == len(checked.table):
                return _answer_duplicates(duplicates, offsets.log_start)
            if duplicates:
                checked = _without(checked, duplicates)
        placed = _place(state, checked, leader_epoch, now_ms)
        _append(state, placed, origin, now_ms, transaction_version)
        by_log = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        return AppendResult(
            placed.first_offset,
            placed.last_offset,
            now_ms if by_log else NO_TIMESTAMP,
            offsets.log_start,
            False,
        )


def _place(state: LogState, checked: CheckedBatches, leader_epoch: int, now_ms: int) -> PlacedBatches:
    """Step 4: the batches with the offsets from the log end on, the leader epoch and their times."""
    data, table, largest, has_producer_ids = checked
    config = state.config
    first_offset = max(state.view.offsets.log_end.message_offset, state.active.base_offset)
    if first_offset > _NEAR_THE_END:
        _check_room(state, first_offset + int((table.last_offset - table.base_offset + 1).sum()))
    next_offset = stamp(
        data,
        table,
        config,
        next_offset=first_offset,
        leader_epoch=leader_epoch,
        now_ms=now_ms,
        max_timestamps=largest,
    )
    by_log = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    return PlacedBatches(
        data,
        table,
        first_offset,
        next_offset - 1,
        leader_epoch,
        now_ms if by_log else int(largest[0] if len(largest) == 1 else largest.max()),
        len(data),
        has_producer_ids,
    )


def append_as_follower(state: LogState, data: Buffer, leader_epoch: int) -> AppendResult:
    """Append batches as a leader has written them."""
    return _append_as_given(state, data, leader_epoch, AppendOrigin.REPLICATION, TV_UNKNOWN)


def _append_as_given(
    state: LogState, data: Buffer, leader_epoch: int, origin: AppendOrigin, transaction_version: int
) -> AppendResult:
    """Append batches with the offsets they have."""
    now_ms = state.now_ms()
    table = received_batches(data)
    info = analyze(table, state.config, origin, leader_epoch)
    if not info.batches:
        return _NOTHING
    placed = PlacedBatches(
        memoryview(data).cast("B")[: info.valid_bytes],
        table[: info.batches],
        info.first_offset,
        info.last_offset,
        info.last_leader_epoch,
        info.max_timestamp,
        info.valid_bytes,
        info.has_producer_ids,
    )
    with state.lock:
        state.check_writable()
        offsets = state.view.offsets
        check_offsets(info, offsets.log_end.message_offset)
        _check_room(state, info.last_offset + 1)
        _append(state, placed, origin, now_ms, transaction_version)
        return AppendResult(info.first_offset, info.last_offset, NO_TIMESTAMP, offsets.log_start, False)


def _check_room(state: LogState, end_offset: int) -> None:
    """Refuse to continue where offsets end: the next one would be negative."""
    if end_offset > LARGEST_OFFSET:
        raise InvalidInputError(
            f"{state.directory.path} cannot take these records: it ends at offset "
            f"{state.view.offsets.log_end.message_offset}, and {LARGEST_OFFSET} is the largest offset"
        )


def _append(
    state: LogState, placed: PlacedBatches, origin: AppendOrigin, now_ms: int, transaction_version: int
) -> None:
    """Steps 5 to 10, with the lock held."""
    if placed.size > state.max_segment_bytes:
        check_append_size(placed.size, state.config)
    rolls = needs_roll(state, placed.size, placed.last_offset, placed.max_timestamp, now_ms)
    epochs = state.epochs.cache.entries
    try:
        try:
            update = _write(state, placed, origin, transaction_version, rolls)
        except IndexFullError:
            if rolls or not state.active.size:
                raise
            # An append of many batches can need more index entries than there are left.
            update = _write(state, placed, origin, transaction_version, True)
    except BaseException:
        if state.epochs.cache.entries is not epochs and not state.is_offline:
            state.epochs.restore(epochs)
        raise
    _publish(state, placed.last_offset + 1, update)
    if placed.last_offset + 1 - state.recovery_point >= state.flush_messages:
        flush(state)


def _write(
    state: LogState, placed: PlacedBatches, origin: AppendOrigin, transaction_version: int, rolls: bool
) -> ProducerUpdate | None:
    """Write the batches; what they change of the producers' state, None for nothing."""
    active = state.active
    if rolls:
        end = state.view.offsets.log_end.message_offset
        base_offset, position = rolled_base_offset(placed.first_offset, placed.last_offset, end), 0
    else:
        base_offset, position = active.base_offset, active.size
    update = None
    if placed.has_producer_ids:
        update = state.producers.prepare(
            placed.table,
            origin,
            markers=read_markers(placed.data, placed.table),
            segment_base_offset=base_offset,
            position=position,
            transaction_version=transaction_version,
        )
    if origin.assigns_offsets:
        state.epochs.assign(placed.leader_epoch, placed.first_offset)
    else:
        state.epochs.assign_batches(placed.table)
    if rolls:
        active = roll(state, base_offset)
    active.append(placed.data, placed.table)
    return update


def _publish(state: LogState, end_offset: int, update: ProducerUpdate | None) -> None:
    """Note what was written, and let readers see it."""
    if update is None:
        state.producers.update_map_end_offset(end_offset)
        state.publish_end(end_offset)
        return
    active = state.active
    segments, offsets = state.view
    with state.changing_files("noting aborted transactions of"):
        for txn in update.completed:
            if txn.is_aborted:
                active.note_aborted(
                    AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
                )
    state.producers.commit(update)
    unstable = state.producers.first_unstable_offset
    end = LogOffsetMetadata(end_offset, active.base_offset, active.size)
    state.publish(segments, offsets.appended(end).with_first_unstable(unstable))


def _without(checked: CheckedBatches, duplicates: dict[int, BatchMetadata]) -> CheckedBatches:
    """The batches that are no duplicates, one after the other."""
    keep: npt.NDArray[np.bool_] = np.ones(len(checked.table), dtype=np.bool_)
    keep[list(duplicates)] = False
    view = memoryview(checked.data)
    table = BatchTable(np.ascontiguousarray(checked.table.rows[keep]))
    spans = zip(table.position.tolist(), table.size.tolist(), strict=True)
    data = bytearray().join([view[at : at + size] for at, size in spans])
    table.position[:] = np.cumsum(table.size) - table.size
    return checked._replace(data=data, table=table, largest=checked.largest[keep])


def _answer_duplicates(duplicates: dict[int, BatchMetadata], log_start_offset: int) -> AppendResult:
    """The offsets that the batches were given when they first came."""
    first, last = duplicates[0], duplicates[len(duplicates) - 1]
    return AppendResult(first.first_offset, last.last_offset, first.timestamp, log_start_offset, True)
