"""Appending: what is given is checked, stamped, written, and only then seen.

A leader's append: 1. batches are made or taken (`incoming`);  2. headers and records are checked, and batches
written anew where they must be (`contents`);  then, with the lock held: 3. batches that a producer sent again
are left out;  4. offsets, leader epoch and times are stamped (`validation`);  5. to 10. as for all.

A follower's append takes what it is given: batches of a later leader's epoch than the one it follows are
dropped, offsets must not lie below the log end.

5. the append must fit a segment, and may need a new one (decided, not done);
6. the producers' rules (`producers.prepare`): what the batches change, or the error that refuses them;
7. a new leader epoch is written to its file;   8. the segment rolls;   9. the batches are written, and
aborted transactions into the index;   10. the producers' state follows, and the log end is published.

What clients send most, one plain batch (`kernels.plain`) that neither begins a segment nor an epoch, goes the
same way in fewer steps (`append_plain`).

Whatever is refused in 1 to 6 leaves nothing behind. A write that fails in 9 is undone by the segment; what
cannot be undone takes the log offline (`state`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.errors import IndexFullError, InvalidInputError
from tidelog.index import AbortedTxn
from tidelog.log.append.incoming import AppendOptions, Batches, Incoming, ready_bytes, received_batches
from tidelog.log.append.info import NO_TIMESTAMP, AppendOrigin, LogAppendInfo
from tidelog.log.append.leader_checks import CheckedBatches, check_append
from tidelog.log.append.validation import analyze, check_append_size, check_offsets, stamp
from tidelog.log.flushing import flush
from tidelog.log.offsets import LogOffsetMetadata
from tidelog.log.producers.markers import read_markers
from tidelog.log.producers.producers import ProducerUpdate
from tidelog.log.producers.sequences import TV_UNKNOWN, BatchMetadata
from tidelog.log.segments.rolling import needs_roll, roll, rolled_base_offset
from tidelog.log.state import LogState
from tidelog.records.batches import BatchTable
from tidelog.types import LARGEST_OFFSET, TimestampType

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["append_as_follower", "append_as_leader", "append_plain"]

_NEAR_THE_END = LARGEST_OFFSET - (1 << 40)
"""No append reaches the last offset from below this one."""


def append_as_leader(
    state: LogState,
    records: Incoming,
    *,
    leader_epoch: int,
    origin: AppendOrigin,
    transaction_version: int,
    options: AppendOptions,
) -> LogAppendInfo:
    """Append records, and say which offsets they were given."""
    if not origin.assigns_offsets:
        return _append_as_given(state, ready_bytes(records), leader_epoch, origin, transaction_version)
    now_ms = state.now_ms()
    config = state.config
    checked = check_append(records, config, origin, leader_epoch, now_ms, options)
    if not len(checked.table.rows):
        return analyze(checked.table, config, origin, leader_epoch)
    with state.lock:
        state.check_writable()
        offsets = state.view.offsets
        if checked.has_producer_ids and origin is AppendOrigin.CLIENT:
            duplicates = state.producers.find_duplicates(checked.table)
            if len(duplicates) == len(checked.table):
                info = analyze(checked.table, config, origin, leader_epoch)
                return _answer_duplicates(info, duplicates, offsets.log_start)
            if duplicates:
                checked = _without(checked, duplicates)
        data, table, largest, source_codec, has_producer_ids = checked
        first_offset = max(offsets.log_end.message_offset, state.active.base_offset)
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
        count = len(largest)
        info = LogAppendInfo(
            first_offset,
            next_offset - 1,
            leader_epoch,
            now_ms if by_log else int(largest[0] if count == 1 else largest.max()),
            source_codec,
            len(data),
            count,
            next_offset - 1 if count == 1 else int(table.rows[0, 3]),
            has_producer_ids,
            0,
            now_ms if by_log else NO_TIMESTAMP,
            offsets.log_start,
        )
        _append(state, Batches(data, table), info, origin, now_ms, transaction_version)
        return info


def append_plain(state: LogState, data: bytes, leader_epoch: int) -> LogAppendInfo | None:
    """Append a client's one plain batch; None, and nothing was done, where it must go the long way."""
    plain = state.plain
    if plain is None:
        return None
    now_ms = state.now_ms()
    with state.lock:
        offsets = state.view.offsets
        first_offset = offsets.log_end.message_offset
        if first_offset > _NEAR_THE_END:
            return None
        batch = plain.take(data, first_offset, leader_epoch, now_ms)
        if batch is None or leader_epoch != state.epochs.cache.latest_epoch or not state.is_writable:
            return None
        size, last_offset, max_timestamp = plain.size, plain.last_offset, plain.max_timestamp
        if first_offset < state.active.base_offset:
            return None  # the log was rolled past its end
        if needs_roll(state, size, last_offset, max_timestamp, now_ms):
            return None
        state.active.append_one(batch, size, last_offset, max_timestamp)
        end_offset = last_offset + 1
        state.producers.update_map_end_offset(end_offset)
        state.publish_end(end_offset)
        if end_offset - state.recovery_point >= state.flush_messages:
            flush(state)
        return LogAppendInfo.of_plain(
            first_offset, last_offset, leader_epoch, max_timestamp, size, offsets.log_start
        )


def append_as_follower(state: LogState, data: Buffer, leader_epoch: int) -> LogAppendInfo:
    """Append batches as a leader has written them."""
    return _append_as_given(state, data, leader_epoch, AppendOrigin.REPLICATION, TV_UNKNOWN)


def _append_as_given(
    state: LogState, data: Buffer, leader_epoch: int, origin: AppendOrigin, transaction_version: int
) -> LogAppendInfo:
    """Append batches with the offsets they have."""
    now_ms = state.now_ms()
    batches = received_batches(data)
    info = analyze(batches.table, state.config, origin, leader_epoch)
    if not info.batches:
        return info
    if info.valid_bytes < memoryview(data).nbytes:
        whole = memoryview(data).cast("B")[: info.valid_bytes]
        batches = Batches(whole, batches.table[: info.batches])
    with state.lock:
        state.check_writable()
        offsets = state.view.offsets
        check_offsets(info, offsets.log_end.message_offset)
        _check_room(state, info.last_offset + 1)
        info = info._replace(log_start_offset=offsets.log_start)
        _append(state, batches, info, origin, now_ms, transaction_version)
        return info


def _check_room(state: LogState, end_offset: int) -> None:
    """Refuse to go on where offsets end: the next one would be negative."""
    if end_offset > LARGEST_OFFSET:
        raise InvalidInputError(
            f"{state.directory.path} cannot take these records: it ends at offset "
            f"{state.view.offsets.log_end.message_offset}, and {LARGEST_OFFSET} is the largest there is"
        )


def _append(
    state: LogState,
    batches: Batches,
    info: LogAppendInfo,
    origin: AppendOrigin,
    now_ms: int,
    transaction_version: int,
) -> None:
    """Steps 5 to 10, with the lock held."""
    if info.valid_bytes > state.max_segment_bytes:
        check_append_size(info.valid_bytes, state.config)
    rolls = needs_roll(state, info.valid_bytes, info.last_offset, info.max_timestamp, now_ms)
    epochs = state.epochs.cache.entries
    try:
        try:
            update = _write(state, batches, info, origin, transaction_version, rolls)
        except IndexFullError:
            if rolls or not state.active.size:
                raise
            # An append of many batches can need more index entries than there are left.
            update = _write(state, batches, info, origin, transaction_version, True)
    except BaseException:
        if state.epochs.cache.entries is not epochs and not state.is_offline:
            state.epochs.restore(epochs)
        raise
    _publish(state, info.last_offset + 1, update)
    if info.last_offset + 1 - state.recovery_point >= state.flush_messages:
        flush(state)


def _write(
    state: LogState,
    batches: Batches,
    info: LogAppendInfo,
    origin: AppendOrigin,
    transaction_version: int,
    rolls: bool,
) -> ProducerUpdate | None:
    """Write the batches; what they change of the producers' state, None for nothing."""
    active = state.active
    if rolls:
        end = state.view.offsets.log_end.message_offset
        base_offset, position = rolled_base_offset(info.first_offset, info.last_offset, end), 0
    else:
        base_offset, position = active.base_offset, active.size
    data, table = batches
    update = None
    if info.has_producer_ids:
        update = state.producers.prepare(
            table,
            origin,
            markers=read_markers(data, table),
            segment_base_offset=base_offset,
            position=position,
            transaction_version=transaction_version,
        )
    if origin.assigns_offsets:
        state.epochs.assign(info.last_leader_epoch, info.first_offset)
    else:
        state.epochs.assign_batches(table)
    if rolls:
        active = roll(state, base_offset)
    active.append(data, table)
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
    rows = np.ascontiguousarray(checked.table.rows[keep])
    data = bytearray().join([view[at : at + size] for at, size in rows[:, :2].tolist()])
    rows[:, 0] = np.cumsum(rows[:, 1]) - rows[:, 1]
    return checked._replace(data=data, table=BatchTable(rows), largest=checked.largest[keep])


def _answer_duplicates(
    info: LogAppendInfo, duplicates: dict[int, BatchMetadata], log_start_offset: int
) -> LogAppendInfo:
    """The offsets that the batches were given when they first came."""
    first, last = duplicates[0], duplicates[len(duplicates) - 1]
    return info._replace(
        first_offset=first.first_offset,
        last_offset=last.last_offset,
        log_append_time=first.timestamp,
        log_start_offset=log_start_offset,
        is_duplicate=True,
    )
