"""What the end of a transaction comes to, by its state, the producer's epoch and the client's version.

Version 2, where a client's retry comes with the epoch before the present one:

                      abort, retry     abort           commit, retry    commit
    Empty             PRODUCER_FENCED  prepare         PRODUCER_FENCED  INVALID_TXN_STATE
    CompleteAbort     done             prepare         INVALID_TXN_STATE (both)
    CompleteCommit    INVALID_TXN_STATE prepare        done             INVALID_TXN_STATE
    Ongoing           PRODUCER_FENCED  prepare         PRODUCER_FENCED  prepare
    Prepare...        CONCURRENT_TRANSACTIONS for the same end, INVALID_TXN_STATE for the other

Older versions have no retries: the epoch must be the present one. Complete... is done for the same end;
Empty, and the other end, are INVALID_TXN_STATE.
"""

from __future__ import annotations

import enum

from kio.schema.errors import ErrorCode

from tidelog.broker.refusals import Refused
from tidelog.broker.transactions.transaction import MAX_EPOCH, Transaction, TransactionState

__all__ = ["Verdict", "judge_end"]

_DONE = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}
_PREPARED = {True: TransactionState.PREPARE_COMMIT, False: TransactionState.PREPARE_ABORT}


class Verdict(enum.Enum):
    """What is to be done."""

    PREPARE = "prepare"
    DONE = "done"


def judge_end(
    transaction: Transaction | None,
    producer_id: int,
    epoch: int,
    commit: bool,
    client_version: int,
) -> Verdict:
    """What a client's EndTxn comes to; raises Refused."""
    if transaction is None:
        raise Refused(ErrorCode.invalid_producer_id_mapping)
    if client_version >= 2:
        return _version_2(transaction, producer_id, epoch, commit)
    if transaction.producer_id != producer_id:
        raise Refused(ErrorCode.invalid_producer_id_mapping)
    if epoch != transaction.producer_epoch:
        raise Refused(ErrorCode.producer_fenced)
    if transaction.state is TransactionState.ONGOING:
        return Verdict.PREPARE
    if transaction.state is _DONE[commit]:
        return Verdict.DONE
    raise Refused(_not_now(transaction, commit))


def _version_2(transaction: Transaction, producer_id: int, epoch: int, commit: bool) -> Verdict:
    state, known = transaction.state, transaction.producer_epoch
    overflowed = transaction.previous_producer_id == producer_id and epoch == MAX_EPOCH - 1 and known == 0
    bumped = known == epoch + 1
    if transaction.producer_id != producer_id and not overflowed:
        raise Refused(ErrorCode.invalid_producer_id_mapping)
    if state.is_prepared:
        valid = bumped
    elif state in _DONE.values():
        valid = bumped or overflowed or epoch == known
    else:
        valid = epoch == known
    if not valid:
        raise Refused(ErrorCode.producer_fenced)
    is_retry = bumped or overflowed
    if state is TransactionState.ONGOING:
        return Verdict.PREPARE
    if is_retry and state is _DONE[commit]:
        return Verdict.DONE
    if not commit and not is_retry and not state.is_prepared:
        return Verdict.PREPARE
    raise Refused(_not_now(transaction, commit))


def _not_now(transaction: Transaction, commit: bool) -> ErrorCode:
    same_end = transaction.state is _PREPARED[commit]
    return ErrorCode.concurrent_transactions if same_end else ErrorCode.invalid_txn_state
