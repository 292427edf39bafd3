"""One producer's state on a log, and the rules its next batch must follow. A batch makes a new state.

The state keeps the producer's epoch and its newest five batches. Rules for a data batch:

1. Epoch: not below the last one seen (by replication: logged, taken).
2. Sequence (clients only). An unknown producer may begin anywhere (its older batches may have expired). A new
   epoch begins at 0. Otherwise the batch follows the last one: last sequence + 1, after 2^31 - 1 comes 0.
3. Transaction: once one is open, every batch is transactional until its marker.

Rules for a marker:

1. Epoch: transaction version 2 bumps it before the marker is written, so it must be above the last one; a
   marker of the same epoch when no transaction is open is a retry, and taken (so is one of epoch 32767).
   Versions 0 and 1: not below the last one. (By replication: logged, taken.)
2. Coordinator epoch: not below the last one seen (by replication: logged, taken).

A batch equal to one of the five kept (same epoch, same first and last sequence) is a duplicate: its producer
sent it again because the answer got lost.

Verifying a transaction with its coordinator before the first write is a broker's business and left out.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from tidelog.errors import (
    InvalidInputError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from tidelog.log.append.info import NO_TIMESTAMP, AppendOrigin
from tidelog.log.producers.transactions import TxnMarker

__all__ = ["KEPT_BATCHES", "TV_UNKNOWN", "BatchMetadata", "DataBatch", "ProducerState"]

KEPT_BATCHES = 5
NO_SEQUENCE = -1
NO_PRODUCER_EPOCH = -1
TV_UNKNOWN = -1

_INT_MAX = (1 << 31) - 1
_SHORT_MAX = (1 << 15) - 1

_logger = logging.getLogger(__name__)


def increment_sequence(sequence: int, by: int) -> int:
    """`sequence` + `by`, where 0 follows 2^31 - 1; -1 (no sequence) stays."""
    if sequence == NO_SEQUENCE or sequence > _INT_MAX - by:
        return sequence if sequence == NO_SEQUENCE else by - (_INT_MAX - sequence) - 1
    return sequence + by


def decrement_sequence(sequence: int, by: int) -> int:
    """`sequence` - `by`, where 2^31 - 1 precedes 0."""
    return sequence - by if sequence >= by else _INT_MAX - (by - sequence) + 1


class BatchMetadata(NamedTuple):
    """What is kept of a batch: enough to know it when it comes again, and to answer with its offsets."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record."""
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self.last_offset - self.offset_delta


class DataBatch(NamedTuple):
    """What the rules need to know of a data batch with a producer id."""

    producer_epoch: int
    base_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    is_transactional: bool

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record."""
        return increment_sequence(self.base_sequence, self.last_offset - self.base_offset)


class ProducerState(NamedTuple):
    """All that a log remembers of one producer."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = NO_TIMESTAMP
    txn_first_offset: int | None = None
    """Where its open transaction begins."""
    batches: tuple[BatchMetadata, ...] = ()
    """Its newest batches, oldest first, all of this epoch."""

    @property
    def last_sequence(self) -> int:
        """Sequence of its last record, -1 for none."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """Offset of its last record, -1 for none."""
        return self.batches[-1].last_offset if self.batches else -1

    def find_duplicate(self, epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """The kept batch of exactly these sequences."""
        if epoch != self.producer_epoch:
            return None
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None

    def after_batch(self, batch: DataBatch, origin: AppendOrigin) -> ProducerState:
        """The state after a data batch, or the error that refuses it."""
        self._check_epoch(batch.producer_epoch, batch.base_offset, origin)
        if origin is AppendOrigin.CLIENT:
            self._check_sequence(batch)
        first_offset = self.txn_first_offset
        if first_offset is None:
            if batch.is_transactional:
                first_offset = batch.base_offset
        elif not batch.is_transactional:
            raise InvalidTxnStateError(
                f"producer {self.producer_id} has a transaction open since offset {first_offset}, "
                f"but its batch at offset {batch.base_offset} is not transactional"
            )
        delta = batch.last_offset - batch.base_offset
        newest = BatchMetadata(batch.last_sequence, batch.last_offset, delta, batch.max_timestamp)
        kept = self.batches if batch.producer_epoch == self.producer_epoch else ()
        return ProducerState(
            self.producer_id,
            batch.producer_epoch,
            self.coordinator_epoch,
            batch.max_timestamp,
            first_offset,
            (*kept[1 - KEPT_BATCHES :], newest),
        )

    def after_marker(
        self, marker: TxnMarker, epoch: int, offset: int, origin: AppendOrigin, transaction_version: int
    ) -> ProducerState:
        """The state after a commit or abort marker, or the error that refuses it."""
        if transaction_version == TV_UNKNOWN:
            if origin is not AppendOrigin.REPLICATION:
                raise InvalidInputError(
                    f"a marker from {origin.name} needs its transaction version (0, 1 or 2)"
                )
            transaction_version = 0
        self._check_epoch(epoch, offset, origin, transaction_version)
        if self.coordinator_epoch > marker.coordinator_epoch:
            self._refuse(
                TransactionCoordinatorFencedError,
                f"marker of producer {self.producer_id} at offset {offset} is of coordinator epoch "
                f"{marker.coordinator_epoch}, but {self.coordinator_epoch} was seen",
                origin,
            )
        kept = self.batches if epoch == self.producer_epoch else ()
        return ProducerState(self.producer_id, epoch, marker.coordinator_epoch, marker.timestamp, None, kept)

    def _check_epoch(
        self, epoch: int, offset: int, origin: AppendOrigin, transaction_version: int = TV_UNKNOWN
    ) -> None:
        seen = self.producer_epoch
        strict = transaction_version >= 2
        if epoch > seen or (epoch == seen and not strict):
            return
        if epoch == seen and (self.txn_first_offset is None or epoch == _SHORT_MAX):
            return  # the marker was written before, and is sent again
        self._refuse(
            InvalidProducerEpochError,
            f"epoch {epoch} of producer {self.producer_id} at offset {offset} is "
            f"{'not above' if strict else 'below'} the last one seen, {seen}",
            origin,
        )

    @staticmethod
    def _refuse(error: type[InvalidInputError], message: str, origin: AppendOrigin) -> None:
        if origin is not AppendOrigin.REPLICATION:
            raise error(message)
        _logger.warning("%s; taken, as its leader has taken it", message)

    def _check_sequence(self, batch: DataBatch) -> None:
        first = batch.base_sequence
        if self.producer_epoch == NO_PRODUCER_EPOCH:
            return
        if batch.producer_epoch != self.producer_epoch:
            if first != 0:
                raise OutOfOrderSequenceError(
                    f"producer {self.producer_id} begins epoch {batch.producer_epoch} with sequence {first} "
                    f"at offset {batch.base_offset}; it must be 0 (the last epoch was {self.producer_epoch})"
                )
            return
        last = self.last_sequence
        if first != last + 1 and not (first == 0 and last == _INT_MAX):
            raise OutOfOrderSequenceError(
                f"producer {self.producer_id} sent sequence {first} after {last} (offset {batch.base_offset})"
            )
