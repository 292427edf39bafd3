"""One transactional id: its producer, and its transaction as far as there is one.

    Empty ──add──> Ongoing ──end──> PrepareCommit ──markers──> CompleteCommit ──add──> Ongoing
      │               │                                             │
      └──────end──────┴──end──> PrepareAbort ──markers──> CompleteAbort ──add──> Ongoing

An abort of Empty, CompleteCommit or CompleteAbort is for version 2 only, where the coordinator may not know
yet what a producer has begun. In version 2 the end of a transaction raises the epoch. A producer never gets
the highest epoch: it is kept to fence the last one, and then the next producer id follows with epoch 0.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import Partition
from tidelog.broker.refusals import Refused

__all__ = ["MAX_EPOCH", "NO_EPOCH", "NO_PRODUCER_ID", "Transaction", "TransactionState", "is_exhausted"]

NO_PRODUCER_ID = -1
NO_EPOCH = -1
MAX_EPOCH = 0x7FFF
_FOREVER = 0x7FFFFFFF


class TransactionState(enum.IntEnum):
    """Where a transaction is; the numbers are those of its records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name that clients know."""
        return "".join(part.capitalize() for part in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the end is decided, but not all markers are written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def may_expire(self) -> bool:
        """Whether the transactional id may be forgotten in this state."""
        return self in (
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )


def is_exhausted(epoch: int) -> bool:
    """Whether a producer id has no epoch left to give."""
    return epoch >= MAX_EPOCH - 1


@dataclass(frozen=True, slots=True)
class Transaction:
    """The state of a transactional id. Each way to the next state is a method that returns it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_EPOCH
    timeout_ms: int = 60_000
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[Partition] = frozenset()
    start_ms: int = -1
    update_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_EPOCH
    """Not in the record: after a restart a retry of InitProducerId is not recognised."""
    client_version: int = 0

    @property
    def times_out_at(self) -> int | None:
        """When the transaction is aborted unless it ends; None where it is not begun, or never is."""
        if self.state is not TransactionState.ONGOING or self.timeout_ms == _FOREVER:
            return None
        return self.start_ms + self.timeout_ms + 1

    def initialized(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transaction:
        """After InitProducerId: the next epoch, or the same one where this is a retry."""
        epoch, last = self.producer_epoch + 1, NO_EPOCH
        if expected_epoch is not None:
            if self.producer_epoch in (NO_EPOCH, expected_epoch):
                last = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:
                epoch, last = self.producer_epoch, self.last_producer_epoch
            else:
                raise Refused(ErrorCode.producer_fenced)
        return self._empty(self.producer_id, epoch, last, timeout_ms, now_ms)

    def rotated(self, producer_id: int, timeout_ms: int, keep_last: bool, now_ms: int) -> Transaction:
        """After InitProducerId with no epoch left: a new producer id."""
        return self._empty(producer_id, 0, self.producer_epoch if keep_last else NO_EPOCH, timeout_ms, now_ms)

    def _empty(self, producer_id: int, epoch: int, last: int, timeout_ms: int, now_ms: int) -> Transaction:
        return replace(
            self,
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_ms=-1,
            update_ms=now_ms,
        )

    def with_partitions(self, added: Iterable[Partition], client_version: int, now_ms: int) -> Transaction:
        """With more partitions; the first ones begin the transaction."""
        begins = self.state is not TransactionState.ONGOING
        return replace(
            self,
            previous_producer_id=self.producer_id,
            state=TransactionState.ONGOING,
            partitions=(frozenset() if begins else self.partitions) | frozenset(added),
            start_ms=now_ms if begins else self.start_ms,
            update_ms=now_ms,
            client_version=client_version,
        )

    def prepared(self, commit: bool, client_version: int, next_producer_id: int, now_ms: int) -> Transaction:
        """With its end decided. Version 2 raises the epoch."""
        epoch, last = self.producer_epoch, self.last_producer_epoch
        if client_version >= 2:
            epoch, last = min(epoch + 1, MAX_EPOCH), epoch
        begun = self.state is TransactionState.ONGOING
        return replace(
            self,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last,
            state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
            start_ms=self.start_ms if begun else now_ms,
            update_ms=now_ms,
            client_version=client_version,
        )

    def completed(self, now_ms: int) -> Transaction:
        """With all markers written."""
        rotates = self.client_version >= 2 and self.next_producer_id != NO_PRODUCER_ID
        commits = self.state is TransactionState.PREPARE_COMMIT
        return replace(
            self,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=0 if rotates else self.producer_epoch,
            state=TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            update_ms=now_ms,
        )
