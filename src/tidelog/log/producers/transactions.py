"""Transactions as the log sees them: open ones, and ended ones whose marker is not replicated yet.

A producer's transaction begins with its first transactional batch and ends with a control batch, the marker
(commit or abort). Readers of committed data stop before the first offset that is not stable: the first one of
the oldest transaction that is open, or whose marker lies at or above the high watermark.

    ongoing       by first offset, ascending
    unreplicated  a heap by first offset. An entry is dead once a high watermark (or log start) above its
                  marker was seen; dead ones are dropped when they come to the top.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Set
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from tidelog.errors import InvalidTxnStateError
from tidelog.kernels.shared import TransactionFields
from tidelog.log.offsets import LogOffsetMetadata

__all__ = ["CompletedTxn", "TransactionTable", "TxnMarker", "TxnMetadata"]


class TxnMarker(NamedTuple):
    """The control record that ends a transaction."""

    is_abort: bool
    coordinator_epoch: int
    timestamp: int


class TxnMetadata(NamedTuple):
    """A transaction of a producer and where it begins."""

    producer_id: int
    first_offset: LogOffsetMetadata


class CompletedTxn(NamedTuple):
    """A transaction that a marker has ended; an aborted one goes into the transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The marker's own offset."""
    is_aborted: bool
    last_stable_offset: int
    """The first offset of the oldest transaction left open, or the one after the marker."""


class TransactionTable(TransactionFields):
    """The transactions of one log that hold its last stable offset back."""

    __slots__ = ("_replicated_below",)

    _ongoing: dict[int, TxnMetadata]
    _unreplicated: list[tuple[int, int, LogOffsetMetadata]]

    def __init__(self) -> None:
        super().__init__()
        self._replicated_below = 0

    @property
    def ongoing(self) -> Iterable[TxnMetadata]:
        """Open transactions, oldest first."""
        return self._ongoing.values()

    @property
    def has_unreplicated(self) -> bool:
        """Whether a transaction has ended whose marker is not replicated yet."""
        return self._first_unreplicated() is not None

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset whose fate no marker has decided."""
        return next(iter(self._ongoing), None)

    @property
    def first_unstable_offset(self) -> LogOffsetMetadata | None:
        """The first offset that is undecided, or decided by a marker that is not replicated yet."""
        decided = self._first_unreplicated()
        undecided = next(iter(self._ongoing.values()), None)
        if undecided is None:
            return decided
        if decided is None or undecided.first_offset.message_offset < decided.message_offset:
            return undecided.first_offset
        return decided

    def _first_unreplicated(self) -> LogOffsetMetadata | None:
        heap = self._unreplicated
        while heap and heap[0][1] < self._replicated_below:
            heapq.heappop(heap)
        return heap[0][2] if heap else None

    def start(self, txn: TxnMetadata) -> None:
        """Note an open transaction."""
        offset = txn.first_offset.message_offset
        newest = next(reversed(self._ongoing), -1)
        self._ongoing[offset] = txn
        if offset < newest:
            self._ongoing = dict(sorted(self._ongoing.items()))

    def complete(self, txn: CompletedTxn) -> None:
        """Note that a marker has ended an open transaction."""
        begun = self._ongoing.pop(txn.first_offset, None)
        if begun is None:
            raise InvalidTxnStateError(
                f"producer {txn.producer_id} ends at offset {txn.last_offset} a transaction that never began "
                f"at offset {txn.first_offset}"
            )
        heapq.heappush(self._unreplicated, (txn.first_offset, txn.last_offset, begun.first_offset))

    def replicated_below(self, offset: int) -> None:
        """Let go of ended transactions whose marker lies below `offset` (high watermark, log start)."""
        self._replicated_below = max(self._replicated_below, offset)

    def last_stable_offset(
        self,
        producer_id: int,
        marker_offset: int,
        started: Mapping[int, TxnMetadata] = MappingProxyType({}),
        ended: Set[int] = frozenset(),
    ) -> int:
        """The last stable offset once `producer_id` has ended its transaction at `marker_offset`.

        `started` and `ended`, by first offset, are what the same append changes and is not noted here yet.
        """
        for first_offset, txn in chain(self._ongoing.items(), started.items()):
            if txn.producer_id != producer_id and first_offset not in ended:
                return first_offset
        return marker_offset + 1

    def clear(self) -> None:
        """Forget everything."""
        self._ongoing = {}
        self._unreplicated = []
        self._replicated_below = 0
