"""The transaction coordinator: what producers ask for, and what time asks for.

A transaction's state changes when its record is appended, and not before. The end of a transaction is two
records with the markers between them:

    1. PrepareCommit or PrepareAbort: from here on the end is decided, and the client is answered
    2. a marker in each partition of the transaction
    3. CompleteCommit or CompleteAbort

What stops after step 1 (a failed append, a restart) is taken up again: `resume` at the start, else a timer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import (
    TRANSACTION_STATE,
    Append,
    Effect,
    LoadedRecord,
    LogRecord,
    Partition,
    Reply,
    Request,
    TopicView,
    WriteMarkers,
)
from tidelog.broker.messages import field, milliseconds, respond
from tidelog.broker.refusals import Refused, append_error
from tidelog.broker.timers import Timers
from tidelog.broker.transactions import records
from tidelog.broker.transactions.adding import add_partitions_to_txn, for_old_clients
from tidelog.broker.transactions.ending import Verdict, judge_end
from tidelog.broker.transactions.listing import describe_transactions, list_transactions
from tidelog.broker.transactions.producer_ids import ProducerIds
from tidelog.broker.transactions.transaction import (
    MAX_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
    is_exhausted,
)
from tidelog.errors import CorruptRecordError
from tidelog.manager.coordinators.partitioning import partition_for

__all__ = ["TransactionConfig", "TransactionCoordinator"]

_logger = logging.getLogger(__name__)

Answer = Callable[[ErrorCode], Sequence[Effect]]
_RETRY_MS = 500
_GONE = {ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_producer_epoch}
_GONE |= {ErrorCode.transaction_coordinator_fenced}
"""A partition that does not want the marker: it is deleted, or a newer marker is there already."""


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Kafka's keys, in milliseconds."""

    max_timeout_ms: int = 900_000
    """transaction.max.timeout.ms"""
    id_expiration_ms: int = 604_800_000
    """transactional.id.expiration.ms"""
    cleanup_interval_ms: int = 3_600_000
    """transaction.remove.expired.transaction.cleanup.interval.ms"""
    version: int = 2
    """The cluster's feature level of transaction.version."""
    two_phase_commit: bool = False
    """transaction.two.phase.commit.enable"""


class TransactionCoordinator:
    """Every transactional id of this broker."""

    def __init__(
        self, topics: TopicView, timers: Timers, partitions: int = 50, config: TransactionConfig | None = None
    ) -> None:
        self._topics = topics
        self._timers = timers
        self._partitions = partitions
        self._config = config or TransactionConfig()
        self._ids = ProducerIds()
        self._known: dict[str, Transaction] = {}
        self.handlers: dict[str, Callable[[Request, int], Sequence[Effect]]] = {
            "InitProducerId": self._init_producer_id,
            "AddPartitionsToTxn": lambda asked, now: add_partitions_to_txn(asked, now, topics, self),
            "EndTxn": self._end_txn,
            "DescribeTransactions": lambda asked, _: [
                Reply(asked.ticket, describe_transactions(asked.message, self._known))
            ],
            "ListTransactions": lambda asked, now: [
                Reply(asked.ticket, list_transactions(asked.message, self._known, now))
            ],
        }

    @property
    def transactions(self) -> Mapping[str, Transaction]:
        """What is known, by transactional id."""
        return self._known

    # ---- the log

    def load(self, partition: int, found: Iterable[LoadedRecord]) -> None:
        """Take up the state that the records of a partition say."""
        for record in found:
            if record.commits is not None or record.key is None:
                continue
            try:
                told = records.parse(record.key, record.value)
            except CorruptRecordError as error:
                _logger.error(
                    "%s-%d, offset %d is skipped: %s", TRANSACTION_STATE, partition, record.offset, error
                )
                continue
            if told is None:
                continue
            name, transaction = told
            if transaction is None:
                self._known.pop(name, None)
            else:
                self._known[name] = transaction

    def resume(self, now_ms: int) -> Sequence[Effect]:
        """After loading: finish what was decided, and set the deadlines."""
        self._timers.set("expired ids", now_ms + self._config.cleanup_interval_ms, self._expire_ids)
        effects: list[Effect] = []
        for transaction in list(self._known.values()):
            self._keep(transaction)
            if transaction.state.is_prepared:
                effects += self._write_markers(transaction, now_ms)
        return effects

    def _keep(self, transaction: Transaction) -> None:
        name = transaction.transactional_id
        self._known[name] = transaction
        timer = ("transaction", name)
        if (at_ms := transaction.times_out_at) is None:
            self._timers.cancel(timer)
        else:
            self._timers.set(timer, at_ms, lambda now: self._time_out(name, now))

    def _append(
        self, transaction: Transaction, now_ms: int, then: Callable[[], Sequence[Effect]], failed: Answer
    ) -> list[Effect]:
        def appended() -> Sequence[Effect]:
            self._keep(transaction)
            return then()

        name = transaction.transactional_id
        record = records.written(transaction, self._config.version)
        return [self._append_records(self.partition_for(name), [record], now_ms, appended, failed)]

    def _append_records(
        self,
        partition: int,
        written: Sequence[LogRecord],
        now_ms: int,
        then: Callable[[], Sequence[Effect]],
        failed: Answer,
    ) -> Append:
        return Append(
            TRANSACTION_STATE,
            partition,
            tuple(written),
            then,
            lambda error: failed(append_error(error)),
            timestamp_ms=now_ms,
        )

    def partition_for(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` that a transactional id belongs to."""
        return partition_for(transactional_id, self._partitions)

    # ---- InitProducerId

    def _init_producer_id(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        message = asked.message

        def answer(error: ErrorCode, producer_id: int = -1, epoch: int = -1) -> Sequence[Effect]:
            code = for_old_clients(error, message, 4)
            response = respond(message, error_code=code, producer_id=producer_id, producer_epoch=epoch)
            return [Reply(asked.ticket, response)]

        name = message.transactional_id
        expected = (int(field(message, "producer_id", -1)), int(field(message, "producer_epoch", -1)))
        if (expected[0] == NO_PRODUCER_ID) != (expected[1] == NO_EPOCH):
            return answer(ErrorCode.invalid_request)
        if name is None:
            return self._ids.take(lambda new: answer(ErrorCode.none, new, 0), answer)
        try:
            timeout_ms = self._check_init(message)
        except Refused as refused:
            return answer(refused.code)
        wanted = None if expected[0] == NO_PRODUCER_ID else expected
        if (known := self._known.get(name)) is not None:
            return self._initialize(known, timeout_ms, wanted, now_ms, answer)
        return self._ids.take(
            lambda new: self._initialize(
                Transaction(name, new, timeout_ms=timeout_ms, update_ms=now_ms),
                timeout_ms,
                wanted,
                now_ms,
                answer,
            ),
            answer,
        )

    def _check_init(self, message: Any) -> int:
        two_phase = field(message, "enable2_pc", False)
        timeout_ms = milliseconds(message.transaction_timeout)
        if not message.transactional_id:
            raise Refused(ErrorCode.invalid_request)
        if two_phase and not self._config.two_phase_commit:
            raise Refused(ErrorCode.transactional_id_authorization_failed)
        if field(message, "keep_prepared_txn", False):
            raise Refused(ErrorCode.unsupported_version)
        if two_phase:
            return 0x7FFFFFFF
        if not 0 < timeout_ms <= self._config.max_timeout_ms:
            raise Refused(ErrorCode.invalid_transaction_timeout)
        return timeout_ms

    def _initialize(
        self,
        known: Transaction,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        now_ms: int,
        answer: Callable[..., Sequence[Effect]],
    ) -> Sequence[Effect]:
        if expected is not None and not _is_valid(known, *expected):
            return answer(ErrorCode.producer_fenced)
        if known.state.is_prepared:
            return answer(ErrorCode.concurrent_transactions)
        if known.state is TransactionState.ONGOING:
            # The client retries, and gets an epoch above the one that fenced the transaction's producer.
            return self._fence(
                known, now_ms, lambda error: answer(error or ErrorCode.concurrent_transactions)
            )

        def begin(fresh: Transaction) -> Sequence[Effect]:
            answered = answer(ErrorCode.none, fresh.producer_id, fresh.producer_epoch)
            return self._append(fresh, now_ms, lambda: answered, answer)

        epoch = None if expected is None else expected[1]
        if is_exhausted(known.producer_epoch) and epoch in (None, known.producer_epoch):
            keeps = expected is not None
            return self._ids.take(lambda new: begin(known.rotated(new, timeout_ms, keeps, now_ms)), answer)
        try:
            return begin(known.initialized(timeout_ms, epoch, now_ms))
        except Refused as refused:
            return answer(refused.code)

    # ---- partitions

    def verify(
        self, name: str | None, producer_id: int, epoch: int, partitions: Iterable[Partition]
    ) -> dict[Partition, ErrorCode]:
        """Whether partitions are part of a producer's transaction: an error code for each."""
        try:
            transaction = self._check_producer(name, producer_id, epoch)
        except Refused as refused:
            return dict.fromkeys(partitions, refused.code)
        return {
            part: ErrorCode.none if part in transaction.partitions else ErrorCode.transaction_abortable
            for part in partitions
        }

    def add_partitions(
        self,
        name: str | None,
        producer_id: int,
        epoch: int,
        partitions: Iterable[Partition],
        client_version: int,
        now_ms: int,
        then: Answer,
    ) -> Sequence[Effect]:
        """Make partitions part of a producer's transaction, which begins with the first ones."""
        try:
            transaction = self._check_producer(name, producer_id, epoch)
        except Refused as refused:
            return then(refused.code)
        added = frozenset(partitions)
        if transaction.state is TransactionState.ONGOING and added <= transaction.partitions:
            return then(ErrorCode.none)
        fuller = transaction.with_partitions(added, client_version, now_ms)
        return self._append(fuller, now_ms, lambda: then(ErrorCode.none), then)

    def _check_producer(self, name: str | None, producer_id: int, epoch: int) -> Transaction:
        if not name:
            raise Refused(ErrorCode.invalid_request)
        transaction = self._known.get(name)
        if transaction is None or transaction.producer_id != producer_id:
            raise Refused(ErrorCode.invalid_producer_id_mapping)
        if transaction.producer_epoch != epoch:
            raise Refused(ErrorCode.producer_fenced)
        if transaction.state.is_prepared:
            raise Refused(ErrorCode.concurrent_transactions)
        return transaction

    # ---- the end

    def _end_txn(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        message = asked.message

        def answer(error: ErrorCode, producer_id: int = -1, epoch: int = -1) -> Sequence[Effect]:
            code = for_old_clients(error, message, 2)
            response = respond(message, error_code=code, producer_id=producer_id, producer_epoch=epoch)
            return [Reply(asked.ticket, response)]

        if not message.transactional_id:
            return answer(ErrorCode.invalid_request)
        known = self._known.get(message.transactional_id)
        version = 2 if message.__version__ >= 5 else 0
        try:
            verdict = judge_end(
                known, message.producer_id, message.producer_epoch, message.committed, version
            )
        except Refused as refused:
            return answer(refused.code)
        assert known is not None
        if verdict is Verdict.DONE:
            return answer(ErrorCode.none, known.producer_id, known.producer_epoch)

        def answer_end(prepared: Transaction) -> Sequence[Effect]:
            if version < 2:
                return answer(ErrorCode.none)
            following = prepared.completed(now_ms)
            return answer(ErrorCode.none, following.producer_id, following.producer_epoch)

        return self._prepare(known, message.committed, version, now_ms, answer_end, answer)

    def _prepare(
        self,
        known: Transaction,
        commit: bool,
        version: int,
        now_ms: int,
        answer: Callable[[Transaction], Sequence[Effect]],
        failed: Answer,
    ) -> Sequence[Effect]:
        """Decide the end durably, answer, and write the markers."""

        def decide(next_producer_id: int) -> Sequence[Effect]:
            prepared = known.prepared(commit, version, next_producer_id, now_ms)
            return self._append(
                prepared,
                now_ms,
                lambda: [*answer(prepared), *self._write_markers(prepared, now_ms)],
                failed,
            )

        if version >= 2 and is_exhausted(known.producer_epoch):
            return self._ids.take(decide, failed)
        return decide(NO_PRODUCER_ID)

    def _fence(self, known: Transaction, now_ms: int, answer: Answer) -> Sequence[Effect]:
        """Abort a transaction under an epoch that its producer does not have."""
        version = self._config.version
        if version < 2:
            fenced = min(known.producer_epoch + 1, MAX_EPOCH)
            known = replace(known, producer_epoch=fenced, last_producer_epoch=NO_EPOCH)
        return self._prepare(known, False, version, now_ms, lambda _: answer(ErrorCode.none), answer)

    def _write_markers(self, prepared: Transaction, now_ms: int) -> list[Effect]:
        name = prepared.transactional_id
        epoch = self._topics.leader_epoch(TRANSACTION_STATE, self.partition_for(name))

        def again() -> Sequence[Effect]:
            self._timers.set(("markers", name), now_ms + _RETRY_MS, lambda now: self._resume_one(name, now))
            return ()

        def marked(errors: Mapping[Partition, ErrorCode]) -> Sequence[Effect]:
            if any(code not in _GONE for code in errors.values()):
                return again()
            return self._append(prepared.completed(now_ms), now_ms, lambda: (), lambda _: again())

        return [
            WriteMarkers(
                prepared.producer_id,
                prepared.producer_epoch,
                prepared.state is TransactionState.PREPARE_COMMIT,
                tuple(sorted(prepared.partitions)),
                epoch,
                marked,
                prepared.client_version,
            )
        ]

    def _resume_one(self, name: str, now_ms: int) -> Sequence[Effect]:
        known = self._known.get(name)
        return self._write_markers(known, now_ms) if known is not None and known.state.is_prepared else ()

    # ---- time

    def _time_out(self, name: str, now_ms: int) -> Sequence[Effect]:
        known = self._known.get(name)
        if known is None or known.times_out_at is None:
            return ()

        def failed(error: ErrorCode) -> Sequence[Effect]:
            if error is not ErrorCode.none:
                at_ms = now_ms + _RETRY_MS
                self._timers.set(("transaction", name), at_ms, lambda now: self._time_out(name, now))
            return ()

        return self._fence(known, now_ms, failed)

    def _expire_ids(self, now_ms: int) -> Sequence[Effect]:
        """Forget transactional ids that nobody has used for long."""
        self._timers.set("expired ids", now_ms + self._config.cleanup_interval_ms, self._expire_ids)
        expired: dict[int, list[str]] = {}
        for name, known in self._known.items():
            if known.state.may_expire and known.update_ms + self._config.id_expiration_ms <= now_ms:
                expired.setdefault(self.partition_for(name), []).append(name)
        return [self._forget(partition, names, now_ms) for partition, names in expired.items()]

    def _forget(self, partition: int, names: list[str], now_ms: int) -> Effect:
        def forgotten() -> Sequence[Effect]:
            for name in names:
                self._known.pop(name, None)
            return ()

        tombstones = [records.forgotten(name) for name in names]
        return self._append_records(partition, tombstones, now_ms, forgotten, lambda _: ())


def _is_valid(known: Transaction, producer_id: int, epoch: int) -> bool:
    """Whether a producer that names itself may go on under this transactional id."""
    return (
        known.producer_epoch == NO_EPOCH
        or producer_id == known.producer_id
        or (producer_id == known.previous_producer_id and is_exhausted(epoch))
    )
