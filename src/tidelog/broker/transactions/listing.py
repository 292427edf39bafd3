"""DescribeTransactions and ListTransactions: what the coordinator knows, told to admins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from tidelog.broker.messages import field, respond
from tidelog.broker.transactions.transaction import Transaction, TransactionState

__all__ = ["describe_transactions", "list_transactions"]

_STATES = {state.title: state for state in TransactionState}


def describe_transactions(message: Any, known: Mapping[str, Transaction]) -> Any:
    """The response to DescribeTransactions."""
    return respond(
        message, transaction_states=[_described(name, known.get(name)) for name in message.transactional_ids]
    )


def _described(name: str, transaction: Transaction | None) -> dict[str, Any]:
    if not name:
        return {"transactional_id": name, "error_code": ErrorCode.invalid_request}
    if transaction is None:
        return {"transactional_id": name, "error_code": ErrorCode.transactional_id_not_found}
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return {
        "transactional_id": name,
        "transaction_state": transaction.state.title,
        "transaction_timeout": transaction.timeout_ms,
        "transaction_start_time": transaction.start_ms,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "topics": [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()],
    }


def list_transactions(message: Any, known: Mapping[str, Transaction], now_ms: int) -> Any:
    """The response to ListTransactions."""
    names = tuple(message.state_filters)
    states = {_STATES[name] for name in names if name in _STATES}
    ids = frozenset(message.producer_id_filters)
    longer_ms = int(field(message, "duration_filter", -1))
    try:
        pattern = re.compile(field(message, "transactional_id_pattern") or ".*", re.DOTALL)
    except re.error:
        return respond(message, error_code=ErrorCode.invalid_regular_expression)

    def is_asked_for(each: Transaction) -> bool:
        return (
            (not ids or each.producer_id in ids)
            and (not names or each.state in states)
            and (longer_ms < 0 or now_ms - each.start_ms > longer_ms)
            and pattern.fullmatch(each.transactional_id) is not None
        )

    return respond(
        message,
        unknown_state_filters=[name for name in names if name not in _STATES],
        transaction_states=[
            {
                "transactional_id": each.transactional_id,
                "producer_id": each.producer_id,
                "transaction_state": each.state.title,
            }
            for each in known.values()
            if is_asked_for(each)
        ],
    )
