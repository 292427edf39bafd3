"""The transaction coordinator: producer ids, and the transactions of `__transaction_state`.

transaction     one transactional id, and the ways from one of its states to the next
records         a transaction as a record of `__transaction_state`
producer_ids    ids out of blocks that are reserved durably
ending          what EndTxn does by state, epoch and version
coordinator     `TransactionCoordinator`: requests to effects
listing         DescribeTransactions and ListTransactions
"""

from tidelog.broker.transactions.coordinator import TransactionConfig, TransactionCoordinator

__all__ = ["TransactionConfig", "TransactionCoordinator"]
