"""The producers of one log: who wrote last with which sequence, and which transactions are open.

An append is prepared, written, then committed; one that is refused or not written leaves nothing behind:

1. `find_duplicates`: batches of clients that are in the log already and must not be written again;
2. `prepare` checks every batch that has a producer id, in order, each as if it were appended alone, and
   collects the new states and the transactions begun and ended. Long runs of plain batches are decided at
   once (`runs`); batches without a producer id cost one vectorised comparison;
3. the log writes the batches, and the aborted transactions into the transaction index;
4. `commit`: the update becomes the state.

Recovery and loading go through the same door (`load`), with what the leader once accepted taken as it is.

Snapshots (`snapshots`): the manager knows the offsets of the files there are and what a file should hold; it
answers with bytes to write and offsets to delete, and the log does so.

    map end offset       the state holds every record below it
    last snapshot offset no snapshot is written until the map end has passed it
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.errors import InvalidIndexError
from tidelog.kernels.shared import ProducerFields
from tidelog.log.append.info import AppendOrigin
from tidelog.log.offsets import UNKNOWN_OFFSET, LogOffsetMetadata
from tidelog.log.producers.plain_runs import MIN_RUN, states_after
from tidelog.log.producers.sequences import (
    TV_UNKNOWN,
    BatchMetadata,
    DataBatch,
    ProducerState,
    increment_sequence,
)
from tidelog.log.producers.snapshots import (
    decode_snapshot,
    encode_snapshot,
    out_of_range_snapshots,
    stray_snapshots,
)
from tidelog.log.producers.transactions import CompletedTxn, TransactionTable, TxnMarker, TxnMetadata
from tidelog.records.batches import BatchTable, Column

__all__ = ["Markers", "ProducerStateManager", "ProducerUpdate", "Snapshot"]

PRODUCER_ID_EXPIRATION_MS = 24 * 60 * 60 * 1000
"""Kafka's default of `producer.id.expiration.ms`."""

TRANSACTION_MAX_TIMEOUT_MS = 15 * 60 * 1000
"""Kafka's default of `transaction.max.timeout.ms`."""

LATE_TRANSACTION_BUFFER_MS = 5 * 60 * 1000

Markers = Mapping[int, TxnMarker]
"""The markers in an append's control batches, by row; none for a control batch that cleaning has emptied."""

Int64s = npt.NDArray[np.int64]

_TRANSACTIONAL, _CONTROL = 0x10, 0x20


class Snapshot(NamedTuple):
    """A snapshot file to be written."""

    offset: int
    data: bytes


class ProducerUpdate(NamedTuple):
    """What an append changes once it is written."""

    end_offset: int
    producers: Mapping[int, ProducerState] = MappingProxyType({})
    started: Sequence[TxnMetadata] = ()
    completed: Sequence[CompletedTxn] = ()
    """In the order of their markers; the aborted ones belong into the transaction index."""


class ProducerStateManager(ProducerFields):
    """The state of a log's producers and transactions. Not for use by several threads at once."""

    _producers: dict[int, ProducerState]

    def __init__(
        self,
        *,
        snapshot_offsets: Iterable[int] = (),
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        max_transaction_timeout_ms: int = TRANSACTION_MAX_TIMEOUT_MS,
    ) -> None:
        super().__init__()
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.max_transaction_timeout_ms = max_transaction_timeout_ms
        self._transactions = TransactionTable()
        self._snapshots = sorted(snapshot_offsets)
        self._last_snapshot_offset = 0

    def renewed(self, snapshot_offsets: Iterable[int]) -> ProducerStateManager:
        """An empty one of the same settings, with these snapshot files."""
        return ProducerStateManager(
            snapshot_offsets=snapshot_offsets,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            max_transaction_timeout_ms=self.max_transaction_timeout_ms,
        )

    # State

    @property
    def producers(self) -> Mapping[int, ProducerState]:
        """The producers by id."""
        return MappingProxyType(self._producers)

    @property
    def map_end_offset(self) -> int:
        """The state holds every record below this offset."""
        return self._map_end_offset

    @property
    def is_empty(self) -> bool:
        """Nothing is known of any producer, and no ended transaction waits for its marker's replication."""
        return not self._producers and not self._transactions.has_unreplicated

    @property
    def ongoing_transactions(self) -> Sequence[TxnMetadata]:
        """The open transactions, oldest first."""
        return tuple(self._transactions.ongoing)

    @property
    def first_unstable_offset(self) -> LogOffsetMetadata | None:
        """Where committed reads stop: the first offset of an open or not yet replicated transaction."""
        return self._transactions.first_unstable_offset

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest open transaction."""
        return self._transactions.first_undecided_offset

    def has_late_transaction(self, now_ms: int) -> bool:
        """Whether the oldest open transaction has been silent for longer than any may take."""
        oldest = next(iter(self._transactions.ongoing), None)
        state = self._producers.get(oldest.producer_id) if oldest is not None else None
        limit_ms = self.max_transaction_timeout_ms + LATE_TRANSACTION_BUFFER_MS
        return state is not None and state.last_timestamp > 0 and now_ms - state.last_timestamp > limit_ms

    # Appends

    def find_duplicates(self, batches: BatchTable) -> dict[int, BatchMetadata]:
        """Which of a client's batches are in the log already: by row, what was kept of their first append."""
        found: dict[int, BatchMetadata] = {}
        for index, row in _rows_with_producer(batches.rows):
            state = self._producers.get(row[Column.PRODUCER_ID])
            if state is None:
                continue
            _, _, base, last, _, _, _, _, _, _, epoch, first_sequence, *_ = row
            last_sequence = increment_sequence(first_sequence, last - base)
            duplicate = state.find_duplicate(epoch, first_sequence, last_sequence)
            if duplicate is not None:
                found[index] = duplicate
        return found

    def prepare(
        self,
        batches: BatchTable,
        origin: AppendOrigin,
        *,
        markers: Markers,
        segment_base_offset: int = UNKNOWN_OFFSET,
        position: int = -1,
        transaction_version: int = TV_UNKNOWN,
    ) -> ProducerUpdate:
        """Check batches whose offsets are final, and say what they change; the state itself stays as it is.

        `segment_base_offset` and `position` are where the first batch will be written; a transaction that
        begins remembers its place. `transaction_version` is the one a coordinator writes its markers by.
        """
        if len(batches) >= MIN_RUN:
            update = self._prepare_run(batches.rows, origin)
            if update is not None:
                return update
        states: dict[int, ProducerState] = {}
        started: list[TxnMetadata] = []
        completed: list[CompletedTxn] = []
        still_open: dict[int, TxnMetadata] = {}
        ended: set[int] = set()
        shift = position - int(batches.rows[0, Column.POSITION])
        for index, row in _rows_with_producer(batches.rows):
            at, _, base, last, _, _, attributes, _, max_timestamp, producer_id, epoch, sequence, *_ = row
            state = states.get(producer_id) or self._producers.get(producer_id) or ProducerState(producer_id)
            if attributes & _CONTROL:
                marker = markers.get(index)
                states[producer_id] = state
                if marker is None:
                    continue
                states[producer_id] = state.after_marker(marker, epoch, base, origin, transaction_version)
                first_offset = state.txn_first_offset
                if first_offset is not None:
                    if still_open.pop(first_offset, None) is None:
                        ended.add(first_offset)
                    stable = self._transactions.last_stable_offset(producer_id, base, still_open, ended)
                    completed.append(CompletedTxn(producer_id, first_offset, base, marker.is_abort, stable))
            else:
                is_transactional = bool(attributes & _TRANSACTIONAL)
                batch = DataBatch(epoch, sequence, base, last, max_timestamp, is_transactional)
                states[producer_id] = after = state.after_batch(batch, origin)
                if after.txn_first_offset is not None and state.txn_first_offset is None:
                    place = (segment_base_offset, at + shift) if position >= 0 else (UNKNOWN_OFFSET, -1)
                    still_open[base] = TxnMetadata(producer_id, LogOffsetMetadata(base, *place))
                    started.append(still_open[base])
        return ProducerUpdate(int(batches.rows[-1, Column.LAST_OFFSET]) + 1, states, started, completed)

    def _prepare_run(self, rows: Int64s, origin: AppendOrigin) -> ProducerUpdate | None:
        """The update of many batches at once, where none of them is out of the ordinary."""
        with_producer = rows[:, Column.PRODUCER_ID] >= 0
        states: dict[int, ProducerState] | None = {}
        if with_producer.any():
            states = states_after(rows[with_producer], self._producers, origin)
        return None if states is None else ProducerUpdate(int(rows[-1, Column.LAST_OFFSET]) + 1, states)

    def commit(self, update: ProducerUpdate) -> None:
        """Make a prepared update the state: its batches are written."""
        self._producers.update(update.producers)
        for txn in update.started:
            self._transactions.start(txn)
        for ended in update.completed:
            self._transactions.complete(ended)
        self._map_end_offset = update.end_offset

    def load(self, batches: BatchTable, markers: Markers) -> Sequence[CompletedTxn]:
        """Take in batches that are in the log, for recovery and rebuilding; the transactions they end."""
        update = self.prepare(batches, AppendOrigin.REPLICATION, markers=markers, transaction_version=0)
        self.commit(update)
        return update.completed

    def update_map_end_offset(self, offset: int) -> None:
        """Note that the state holds every record below `offset`, as after batches without producer ids."""
        self._map_end_offset = offset

    # Movement of the log's offsets

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Transactions whose marker lies below the high watermark are stable now."""
        self._transactions.replicated_below(high_watermark)

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Forget transactions that ended below the log start; producers stay, though their records go."""
        self._transactions.replicated_below(log_start_offset)
        self._map_end_offset = max(self._map_end_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self._last_snapshot_offset = log_start_offset if latest is None else latest

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget producers without an open transaction that have not written for too long."""
        expired = [state.producer_id for state in self._producers.values() if self._is_expired(state, now_ms)]
        for producer_id in expired:
            del self._producers[producer_id]

    def _is_expired(self, state: ProducerState, now_ms: int) -> bool:
        idle_ms = now_ms - state.last_timestamp
        return state.txn_first_offset is None and idle_ms >= self.producer_id_expiration_ms

    def truncate_fully_and_start_at(self, offset: int) -> list[int]:
        """Forget everything: the log starts again at `offset`. The snapshots to delete: all."""
        gone = self._snapshots
        self._clear()
        self._snapshots = []
        self._last_snapshot_offset = 0
        self._map_end_offset = offset
        return gone

    def truncate_and_reload(
        self, log_start_offset: int, log_end_offset: int, now_ms: int, read_snapshot: Callable[[int], bytes]
    ) -> list[int]:
        """Make the state that of a log of [log_start_offset, log_end_offset), as far as snapshots tell.

        Unless the state ends there already, it becomes that of the newest sound snapshot in range (read by
        offset through `read_snapshot`) less the producers expired by `now_ms`; with none, it is empty at the
        log start. Then `load` the records from `map_end_offset` on. Returns the snapshots to delete: those
        out of range, and newer ones that are corrupt.
        """
        gone = out_of_range_snapshots(self._snapshots, log_start_offset, log_end_offset)
        self._forget_snapshots(gone)
        if log_end_offset == self._map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return gone
        self._clear()
        while self._snapshots:
            offset = self._snapshots[-1]
            try:
                states = decode_snapshot(read_snapshot(offset), f"producer snapshot {offset}")
            except InvalidIndexError:
                gone.append(self._snapshots.pop())
                continue
            self._load_states([state for state in states if not self._is_expired(state, now_ms)])
            self._last_snapshot_offset = self._map_end_offset = offset
            return gone
        self._last_snapshot_offset = self._map_end_offset = log_start_offset
        return gone

    def _load_states(self, states: Iterable[ProducerState]) -> None:
        for state in states:
            self._producers[state.producer_id] = state
            if state.txn_first_offset is not None:
                first_offset = LogOffsetMetadata(state.txn_first_offset)
                self._transactions.start(TxnMetadata(state.producer_id, first_offset))

    def _clear(self) -> None:
        self._producers.clear()
        self._transactions.clear()

    # Snapshots

    @property
    def snapshot_offsets(self) -> Sequence[int]:
        """The offsets of the snapshot files there are, ascending."""
        return tuple(self._snapshots)

    @property
    def latest_snapshot_offset(self) -> int | None:
        """The offset of the newest snapshot file."""
        return self._snapshots[-1] if self._snapshots else None

    @property
    def oldest_snapshot_offset(self) -> int | None:
        """The offset of the oldest snapshot file."""
        return self._snapshots[0] if self._snapshots else None

    def adopt_snapshots(self, offsets: Iterable[int]) -> None:
        """Take these for the snapshot files there are."""
        self._snapshots = sorted(offsets)

    def take_snapshot(self) -> Snapshot | None:
        """The snapshot of the present state, to be written; None if the last one still holds."""
        if self._map_end_offset <= self._last_snapshot_offset:
            return None
        return Snapshot(self._map_end_offset, encode_snapshot(self._producers.values()))

    def snapshot_written(self, offset: int) -> None:
        """Note that the snapshot `take_snapshot` gave is on disk."""
        if not self._has_snapshot(offset):
            insort(self._snapshots, offset)
        self._last_snapshot_offset = offset

    def remove_stray_snapshots(self, segment_base_offsets: Sequence[int]) -> list[int]:
        """The snapshots to delete because no segment begins at their offset (see `stray_snapshots`)."""
        return self._forget_snapshots(stray_snapshots(self._snapshots, sorted(segment_base_offsets)))

    def delete_snapshots_before(self, offset: int) -> list[int]:
        """The snapshots to delete because they lie below `offset`."""
        return self._forget_snapshots(self._snapshots[: bisect_left(self._snapshots, offset)])

    def remove_snapshot(self, offset: int) -> bool:
        """Forget the snapshot of a segment that is deleted; whether there was one."""
        there_was = self._has_snapshot(offset)
        if there_was:
            del self._snapshots[bisect_left(self._snapshots, offset)]
        return there_was

    def _has_snapshot(self, offset: int) -> bool:
        at = bisect_left(self._snapshots, offset)
        return at < len(self._snapshots) and self._snapshots[at] == offset

    def _forget_snapshots(self, offsets: list[int]) -> list[int]:
        gone = set(offsets)
        self._snapshots = [offset for offset in self._snapshots if offset not in gone]
        return offsets


def _rows_with_producer(rows: Int64s) -> Iterable[tuple[int, list[int]]]:
    """The rows that carry a producer id, with their index."""
    if len(rows) == 1:
        row: list[int] = rows[0].tolist()
        return [(0, row)] if row[Column.PRODUCER_ID] >= 0 else []
    indices = np.flatnonzero(rows[:, Column.PRODUCER_ID] >= 0)
    return zip(indices.tolist(), rows[indices].tolist(), strict=True)
