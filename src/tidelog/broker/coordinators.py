"""Both coordinators behind one `step`: what the broker hands requests and ticks to.

    start        `load_groups` and `load_transactions` for each partition of their topics, then `resume`
    a request    `step(Request(...), now_ms)` for the APIs in `COORDINATED`
    Produce      `verify_or_add` before a transactional batch is appended
    time         `step(Tick(), now_ms)` when `Wake` says so

The effects of a call are carried out before the next one (`effects.carry_out`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kio.schema.errors import ErrorCode

from tidelog.broker.effects import (
    CONSUMER_OFFSETS,
    Append,
    Effect,
    Event,
    LoadedRecord,
    Partition,
    Reply,
    Request,
    ReserveIds,
    Tick,
    TopicsDeleted,
    TopicView,
    Wake,
    WriteMarkers,
)
from tidelog.broker.groups import GroupConfig, GroupCoordinator
from tidelog.broker.messages import field, respond
from tidelog.broker.timers import Timers
from tidelog.broker.transactions import TransactionConfig, TransactionCoordinator
from tidelog.broker.wire.versions import APIS

__all__ = ["COORDINATED", "Coordinators"]

COORDINATED = frozenset(
    {
        "OffsetCommit",
        "OffsetFetch",
        "FindCoordinator",
        "JoinGroup",
        "Heartbeat",
        "LeaveGroup",
        "SyncGroup",
        "DescribeGroups",
        "ListGroups",
        "InitProducerId",
        "AddPartitionsToTxn",
        "AddOffsetsToTxn",
        "EndTxn",
        "WriteTxnMarkers",
        "TxnOffsetCommit",
        "DeleteGroups",
        "OffsetDelete",
        "DescribeTransactions",
        "ListTransactions",
        "ConsumerGroupHeartbeat",
        "ConsumerGroupDescribe",
    }
)
"""The APIs that `step` answers, by name."""

_ADDS_IMPLICITLY = 12
_KNOWS_ABORTABLE = 11
_COMMIT_ADDS = 5
_COMMIT_KNOWS_ABORTABLE = 4
_KNOWS_FENCED = 2


class Coordinators:
    """Groups and transactions of one broker."""

    def __init__(
        self,
        topics: TopicView,
        *,
        group_partitions: int = 50,
        group_config: GroupConfig | None = None,
        transaction_partitions: int = 50,
        transaction_config: TransactionConfig | None = None,
    ) -> None:
        self._timers = Timers()
        self._told_ms: int | None = None
        self.groups = GroupCoordinator(topics, self._timers, group_partitions, group_config)
        self.transactions = TransactionCoordinator(
            topics, self._timers, transaction_partitions, transaction_config
        )
        self._handlers: dict[str, Callable[[Request, int], Sequence[Effect]]] = {
            **self.groups.handlers,
            **self.transactions.handlers,
            "FindCoordinator": _find_coordinator,
            "AddOffsetsToTxn": self._add_offsets_to_txn,
            "TxnOffsetCommit": self._txn_offset_commit,
            "WriteTxnMarkers": self._write_txn_markers,
        }

    # ---- the start

    def load_groups(self, partition: int, records: Iterable[LoadedRecord]) -> None:
        """Take up what a partition of `__consumer_offsets` says."""
        self.groups.load(partition, records)

    def load_transactions(self, partition: int, records: Iterable[LoadedRecord]) -> None:
        """Take up what a partition of `__transaction_state` says."""
        self.transactions.load(partition, records)

    def resume(self, now_ms: int) -> list[Effect]:
        """After loading: finish what was begun, and set deadlines."""
        return self._watched([*self.groups.resume(now_ms), *self.transactions.resume(now_ms)])

    # ---- events

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """What follows from an event."""
        match event:
            case Request():
                return self._watched(self._handlers[APIS[int(event.message.__api_key__)].name](event, now_ms))
            case Tick():
                return self._tick(now_ms)
            case TopicsDeleted(names):
                return self._watched(self.groups.topics_deleted(names, now_ms))

    def _tick(self, now_ms: int) -> list[Effect]:
        self._told_ms = None
        effects: list[Effect] = []
        while (action := self._timers.due(now_ms)) is not None:
            effects += action(now_ms)
        return self._watched(effects)

    def verify_or_add(
        self,
        transactional_id: str | None,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[Partition],
        *,
        produce_version: int,
        now_ms: int,
        then: Callable[[Mapping[Partition, ErrorCode]], Sequence[Effect]],
    ) -> list[Effect]:
        """Before Produce appends transactional batches: `then` gets the errors, none where it may go on.

        From version 12 of Produce on the partitions become part of the transaction; before, the producer
        must have added them itself.
        """

        def told(codes: Mapping[Partition, ErrorCode]) -> Sequence[Effect]:
            errors = {part: _of_produce(code, produce_version) for part, code in codes.items()}
            return then({part: code for part, code in errors.items() if code is not ErrorCode.none})

        producer = (transactional_id, producer_id, producer_epoch)
        if produce_version < _ADDS_IMPLICITLY:
            return self._watched(told(self.transactions.verify(*producer, partitions)))
        return self._watched(
            self.transactions.add_partitions(
                *producer, partitions, 2, now_ms, lambda code: told(dict.fromkeys(partitions, code))
            )
        )

    # ---- offsets in transactions

    def _add_offsets_to_txn(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        """The group's partition of `__consumer_offsets` becomes part of the transaction."""
        message = asked.message

        def answer(error: ErrorCode) -> Sequence[Effect]:
            if error is ErrorCode.producer_fenced and message.__version__ < _KNOWS_FENCED:
                error = ErrorCode.invalid_producer_epoch
            return [Reply(asked.ticket, respond(message, error_code=error))]

        return self.transactions.add_partitions(
            message.transactional_id,
            message.producer_id,
            message.producer_epoch,
            [self._offsets_of(message.group_id)],
            0,
            now_ms,
            answer,
        )

    def _txn_offset_commit(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        """Version 5 makes the group part of the transaction; older clients have done that already."""
        message = asked.message
        if (refusal := self.groups.check_transactional(asked)) is not None:
            return [refusal]
        partition = self._offsets_of(message.group_id)

        def proceed(error: ErrorCode) -> Sequence[Effect]:
            if error is ErrorCode.none:
                return self.groups.commit_transactional(asked, now_ms)
            return [self.groups.refuse_transactional(asked, _of_commit(error, message.__version__))]

        producer = (message.transactional_id, message.producer_id, message.producer_epoch)
        if message.__version__ < _COMMIT_ADDS:
            return proceed(self.transactions.verify(*producer, [partition])[partition])
        return self.transactions.add_partitions(*producer, [partition], 2, now_ms, proceed)

    def _offsets_of(self, group_id: str) -> Partition:
        return CONSUMER_OFFSETS, self.groups.partition_for(group_id)

    # ---- markers

    def _write_txn_markers(self, asked: Request, now_ms: int) -> Sequence[Effect]:
        message = asked.message
        waiting, done = list(message.markers), list[dict[str, Any]]()

        def proceed() -> Sequence[Effect]:
            if len(done) == len(waiting):
                return [Reply(asked.ticket, respond(message, markers=done))]
            marker = waiting[len(done)]
            parts = [(topic.name, number) for topic in marker.topics for number in topic.partition_indexes]
            return [
                WriteMarkers(
                    marker.producer_id,
                    marker.producer_epoch,
                    marker.transaction_result,
                    tuple(parts),
                    marker.coordinator_epoch,
                    lambda errors: finish(marker, parts, errors),
                    int(field(marker, "transaction_version", 0)),
                )
            ]

        def finish(
            marker: Any, parts: Sequence[Partition], errors: Mapping[Partition, ErrorCode]
        ) -> Sequence[Effect]:
            topics: dict[str, list[dict[str, Any]]] = {}
            for topic, number in parts:
                code = errors.get((topic, number), ErrorCode.none)
                topics.setdefault(topic, []).append({"partition_index": number, "error_code": code})
            told = [{"name": name, "partitions": results} for name, results in topics.items()]
            done.append({"producer_id": marker.producer_id, "topics": told})
            return proceed()

        return proceed()

    # ---- what follows every call

    def _watched(self, effects: Sequence[Effect]) -> list[Effect]:
        """The effects, and `Wake` where the earliest deadline is another one, also after what follows."""
        watched = [self._watch(effect) for effect in effects]
        earliest = self._timers.earliest
        if earliest is not None and (self._told_ms is None or earliest < self._told_ms):
            self._told_ms = earliest
            watched.append(Wake(earliest))
        return watched

    def _marked(self, effect: WriteMarkers, errors: Mapping[Partition, ErrorCode]) -> Sequence[Effect]:
        """Offsets of a transaction count with its marker in `__consumer_offsets`."""
        for topic, number in effect.partitions:
            if topic == CONSUMER_OFFSETS and (topic, number) not in errors:
                self.groups.end_transaction(number, effect.producer_id, effect.commit)
        return effect.then(errors)

    def _watch(self, effect: Effect) -> Effect:
        match effect:
            case Append(then=then, otherwise=otherwise):
                return replace(
                    effect,
                    then=lambda: self._watched(then()),
                    otherwise=lambda error: self._watched(otherwise(error)),
                )
            case ReserveIds(reserved, refused):
                return ReserveIds(
                    lambda first, count: self._watched(reserved(first, count)),
                    lambda error: self._watched(refused(error)),
                )
            case WriteMarkers():
                return replace(effect, then=lambda errors: self._watched(self._marked(effect, errors)))
            case _:
                return effect


def _of_produce(code: ErrorCode, version: int) -> ErrorCode:
    """What a producer of this version is told."""
    if code is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if code is ErrorCode.transaction_abortable and version < _KNOWS_ABORTABLE:
        return ErrorCode.invalid_txn_state
    if code is ErrorCode.concurrent_transactions and version < _ADDS_IMPLICITLY:
        return ErrorCode.not_enough_replicas
    return code


def _of_commit(code: ErrorCode, version: int) -> ErrorCode:
    """What a producer is told that commits offsets."""
    match code:
        case ErrorCode.producer_fenced:
            return ErrorCode.invalid_producer_epoch
        case ErrorCode.transaction_abortable if version < _COMMIT_KNOWS_ABORTABLE:
            return ErrorCode.invalid_txn_state
        case ErrorCode.concurrent_transactions if version < _COMMIT_ADDS:
            return ErrorCode.coordinator_load_in_progress
        case _:
            return code


def _find_coordinator(asked: Request, _now_ms: int) -> Sequence[Effect]:
    """This broker, for every group and transactional id; share groups have no coordinator here."""
    message, node = asked.message, asked.caller.broker
    known = field(message, "key_type", 0) in (0, 1)

    def coordinator(key: str) -> dict[str, Any]:
        if not known:
            code = ErrorCode.invalid_request
            return {"key": key, "node_id": -1, "host": "", "port": -1, "error_code": code}
        return {"key": key, "node_id": node.node_id, "host": node.host, "port": node.port}

    if message.__version__ < 4:
        return [Reply(asked.ticket, respond(message, **coordinator(message.key)))]
    keys = [coordinator(key) for key in message.coordinator_keys]
    return [Reply(asked.ticket, respond(message, coordinators=keys))]
