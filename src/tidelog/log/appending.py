"""Appending: what is given is checked, stamped, written, and only then seen.

A leader's append: 1. batches (`incoming`);  2. headers are checked (`validation`);  3. records are checked,
and batches written anew where they must be (`contents`);  then, with the lock held: 4. batches that a
producer sent again are left out;  5. offsets, leader epoch and times are stamped;  6. to 11. as for all.

A follower's append takes what it is given: batches of a later leader's epoch than the one it follows are
dropped, offsets must not lie below the log end.

6. the append must fit a segment, and may need a new one (decided, not done);
7. the producers' rules (`producers.prepare`): what the batches change, or the error that refuses them;
8. a new leader epoch is written to its file;   9. the segment rolls;   10. the batches are written, and
aborted transactions into the index;   11. the producers' state follows, and the log end is published.

Whatever is refused in 1 to 7 leaves nothing behind. A write that fails in 10 is undone by the segment; what
cannot be undone takes the log offline (`state`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidelog.errors import IndexFullError
from tidelog.index import AbortedTxn
from tidelog.log.appends import NO_TIMESTAMP, AppendOrigin, LogAppendInfo
from tidelog.log.contents import check_contents
from tidelog.log.flushing import flush
from tidelog.log.incoming import AppendOptions, Batches, Incoming, batches_of, received_batches
from tidelog.log.markers import read_markers
from tidelog.log.offsets import LogOffsetMetadata
from tidelog.log.producers import ProducerUpdate
from tidelog.log.rolling import needs_roll, roll
from tidelog.log.rolls import rolled_base_offset
from tidelog.log.sequences import TV_UNKNOWN, BatchMetadata
from tidelog.log.state import LogState
from tidelog.log.validation import analyze, check_append_size, check_offsets, stamp
from tidelog.records.batches import BatchTable
from tidelog.types import TimestampType

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["append_as_follower", "append_as_leader"]


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
    now_ms = state.now_ms()
    config = state.config
    batches = batches_of(records, config, now_ms, options)
    info = analyze(batches.table, config, origin, leader_epoch)
    if not info.batches:
        return info
    if not origin.assigns_offsets:
        with state.lock:
            state.check_writable()
            check_offsets(info, state.view.offsets.log_end.message_offset)
            return _Append(state, batches, info, origin, now_ms, transaction_version).run()
    batches, largest = check_contents(batches, info, config, now_ms)
    with state.lock:
        state.check_writable()
        if info.has_producer_ids and origin is AppendOrigin.CLIENT:
            duplicates = state.producers.find_duplicates(batches.table)
            if len(duplicates) == len(batches.table):
                return _answer_duplicates(info, duplicates, state.view.offsets.log_start)
            if duplicates:
                keep = np.ones(len(batches.table), dtype=np.bool_)
                keep[list(duplicates)] = False
                batches, largest = _only(batches, keep), largest[keep]
        first_offset = state.view.offsets.log_end.message_offset
        next_offset = stamp(
            batches.data,
            batches.table,
            config,
            next_offset=first_offset,
            leader_epoch=leader_epoch,
            now_ms=now_ms,
            max_timestamps=largest,
        )
        by_log = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        table = batches.table
        single = len(table) == 1
        stamped = LogAppendInfo(
            first_offset,
            next_offset - 1,
            leader_epoch,
            now_ms if by_log else (int(largest[0]) if single else int(largest.max())),
            info.source_codec,
            batches.table.end,
            len(table),
            next_offset - 1 if single else int(table.rows[0, 3]),
            info.has_producer_ids,
            0,
            now_ms if by_log else NO_TIMESTAMP,
            state.view.offsets.log_start,
        )
        return _Append(state, batches, stamped, origin, now_ms, transaction_version).run()


def append_as_follower(state: LogState, data: Buffer, leader_epoch: int) -> LogAppendInfo:
    """Append batches as a leader has written them."""
    now_ms = state.now_ms()
    batches = received_batches(data)
    info = analyze(batches.table, state.config, AppendOrigin.REPLICATION, leader_epoch)
    if not info.batches:
        return info
    if info.valid_bytes < memoryview(data).nbytes:
        whole = memoryview(data).cast("B")[: info.valid_bytes]
        batches = Batches(whole, batches.table[: info.batches])
    with state.lock:
        state.check_writable()
        offsets = state.view.offsets
        check_offsets(info, offsets.log_end.message_offset)
        info = info._replace(log_start_offset=offsets.log_start)
        return _Append(state, batches, info, AppendOrigin.REPLICATION, now_ms, TV_UNKNOWN).run()


class _Append:
    """Steps 6 to 11 of one append."""

    __slots__ = ("_batches", "_info", "_now_ms", "_origin", "_state", "_transaction_version")

    def __init__(
        self,
        state: LogState,
        batches: Batches,
        info: LogAppendInfo,
        origin: AppendOrigin,
        now_ms: int,
        transaction_version: int,
    ) -> None:
        self._state = state
        self._batches = batches
        self._info = info
        self._origin = origin
        self._now_ms = now_ms
        self._transaction_version = transaction_version

    def run(self) -> LogAppendInfo:
        """Do it, with the lock held."""
        state, info = self._state, self._info
        check_append_size(info.valid_bytes, state.config)
        rolls = needs_roll(state, info, info.valid_bytes, self._now_ms) is not None
        epochs = state.epochs.cache.entries
        try:
            try:
                update = self._write(rolls)
            except IndexFullError:
                if rolls or not state.active.size:
                    raise
                update = self._write(True)  # an append of many batches can need more entries than are left
        except BaseException:
            if state.epochs.cache.entries is not epochs and not state.is_offline:
                state.epochs.restore(epochs)
            raise
        self._publish(update)
        if info.last_offset + 1 - state.recovery_point >= state.config.flush_messages:
            flush(state)
        return info

    def _write(self, rolls: bool) -> ProducerUpdate | None:
        state, info = self._state, self._info
        active = state.active
        base_offset, position = active.base_offset, active.size
        if rolls:
            end = state.view.offsets.log_end.message_offset
            base_offset = rolled_base_offset(info.first_offset, info.last_offset, end)
            position = 0
        update = self._prepare(base_offset, position) if info.has_producer_ids else None
        if self._origin.assigns_offsets:
            state.epochs.assign(info.last_leader_epoch, info.first_offset)
        else:
            state.epochs.assign_batches(self._batches.table)
        if rolls:
            active = roll(state, base_offset)
        active.append(self._batches.data, self._batches.table)
        return update

    def _prepare(self, base_offset: int, position: int) -> ProducerUpdate:
        data, table = self._batches
        return self._state.producers.prepare(
            table,
            self._origin,
            markers=read_markers(data, table),
            segment_base_offset=base_offset,
            position=position,
            transaction_version=self._transaction_version,
        )

    def _publish(self, update: ProducerUpdate | None) -> None:
        state = self._state
        active = state.active
        segments, offsets = state.view
        end_offset = self._info.last_offset + 1
        if update is None:
            state.producers.update_map_end_offset(end_offset)
        else:
            with state.changing_files("noting aborted transactions of"):
                for txn in update.completed:
                    if txn.is_aborted:
                        active.txn_index.append(
                            AbortedTxn(
                                txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset
                            )
                        )
            state.producers.commit(update)
        end = LogOffsetMetadata(end_offset, active.base_offset, active.size)
        offsets = offsets.with_log_end(end)
        if update is not None:
            offsets = offsets.with_first_unstable(state.producers.first_unstable_offset)
        state.publish(segments, offsets)


def _only(batches: Batches, keep: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Batches:
    """The batches marked, one after the other."""
    view = memoryview(batches.data)
    rows = np.ascontiguousarray(batches.table.rows[keep])
    data = bytearray().join([view[at : at + size] for at, size in rows[:, :2].tolist()])
    rows[:, 0] = np.cumsum(rows[:, 1]) - rows[:, 1]
    return Batches(data, BatchTable(rows))


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
