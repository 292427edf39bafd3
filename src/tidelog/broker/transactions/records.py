"""A transaction as a record of `__transaction_state`, and back."""

from __future__ import annotations

from tidelog.broker.effects import LogRecord
from tidelog.broker.transactions.transaction import NO_PRODUCER_ID, Transaction, TransactionState
from tidelog.errors import CorruptRecordError
from tidelog.protocol.coordinator_records import (
    CoordinatorRecord,
    decode_transaction_record,
    encode_transaction_record,
)

__all__ = ["forgotten", "parse", "written"]

_KIND = "TransactionLog"


def written(transaction: Transaction, log_version: int) -> LogRecord:
    """The record of a transaction's state. Version 0 is for clusters whose transaction.version is 0."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        found.setdefault(topic, []).append(partition)
    partitions = [{"topic": topic, "partitionIds": ids} for topic, ids in found.items()]
    value: dict[str, object] = {
        "producerId": transaction.producer_id,
        "producerEpoch": transaction.producer_epoch,
        "transactionTimeoutMs": transaction.timeout_ms,
        "transactionStatus": int(transaction.state),
        "transactionPartitions": None if transaction.state is TransactionState.EMPTY else partitions,
        "transactionLastUpdateTimestampMs": transaction.update_ms,
        "transactionStartTimestampMs": transaction.start_ms,
    }
    tagged = {
        "previousProducerId": transaction.previous_producer_id,
        "nextProducerId": transaction.next_producer_id,
    }
    value |= {name: number for name, number in tagged.items() if number != NO_PRODUCER_ID}
    if transaction.client_version:
        value["clientTransactionVersion"] = transaction.client_version
    record = CoordinatorRecord(
        _KIND, {"transactionalId": transaction.transactional_id}, value, min(log_version, 1)
    )
    return LogRecord(*encode_transaction_record(record))


def forgotten(transactional_id: str) -> LogRecord:
    """The tombstone of a transactional id."""
    record = CoordinatorRecord(_KIND, {"transactionalId": transactional_id}, None)
    return LogRecord(*encode_transaction_record(record))


def parse(key: bytes, value: bytes | None) -> tuple[str, Transaction | None] | None:
    """A transactional id and its state, or None for its tombstone; None for a record of another kind."""
    record = decode_transaction_record(key, value)
    if record is None:
        return None
    name = record.key["transactionalId"]
    if record.value is None:
        return name, None
    told = record.value
    if told["transactionStatus"] not in set(TransactionState):
        raise CorruptRecordError(f"{told['transactionStatus']} is not a state of a transaction")
    partitions = frozenset(
        (each["topic"], number)
        for each in told["transactionPartitions"] or ()
        for number in each["partitionIds"]
    )
    return name, Transaction(
        name,
        producer_id=told["producerId"],
        producer_epoch=told["producerEpoch"],
        timeout_ms=told["transactionTimeoutMs"],
        state=TransactionState(told["transactionStatus"]),
        partitions=partitions,
        start_ms=told["transactionStartTimestampMs"],
        update_ms=told["transactionLastUpdateTimestampMs"],
        previous_producer_id=told.get("previousProducerId", NO_PRODUCER_ID),
        next_producer_id=told.get("nextProducerId", NO_PRODUCER_ID),
        client_version=told.get("clientTransactionVersion", 0),
    )
