"""Open and unreplicated transactions against the plain definition of the first unstable offset."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidelog.errors import InvalidTxnStateError
from tidelog.log.offsets import LogOffsetMetadata
from tidelog.log.producers.transactions import CompletedTxn, TransactionTable, TxnMetadata


def txn(producer_id: int, offset: int) -> TxnMetadata:
    return TxnMetadata(producer_id, LogOffsetMetadata(offset))


def test_ending_what_never_began_is_refused() -> None:
    with pytest.raises(InvalidTxnStateError, match="producer 1 ends at offset 9"):
        TransactionTable().complete(CompletedTxn(1, 5, 9, False, 10))


def test_transactions_loaded_in_any_order_are_kept_in_order() -> None:
    made = TransactionTable()
    for offset in (30, 10, 20):
        made.start(txn(offset, offset))
    assert [each.producer_id for each in made.ongoing] == [10, 20, 30]
    assert made.first_undecided_offset == 10


def test_the_last_stable_offset_of_a_marker() -> None:
    made = TransactionTable()
    made.start(txn(1, 10))
    assert made.last_stable_offset(1, 50) == 51
    made.start(txn(2, 20))
    assert made.last_stable_offset(1, 50) == 20
    assert made.last_stable_offset(1, 50, ended={20}) == 51
    assert made.last_stable_offset(1, 50, started={40: txn(3, 40)}, ended={20}) == 40
    assert made.last_stable_offset(2, 50) == 10


class Transactions(RuleBasedStateMachine):
    """Every step against lists that are searched from end to end."""

    def __init__(self) -> None:
        super().__init__()
        self.table = TransactionTable()
        self.open: list[int] = []
        self.ended: list[tuple[int, int]] = []
        self.end = 0
        self.high_watermark = 0

    @rule(skip=st.integers(0, 3))
    def begin(self, skip: int) -> None:
        offset = self.end + skip
        self.table.start(txn(offset, offset))
        self.open.append(offset)
        self.end = offset + 1

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        first = data.draw(st.sampled_from(self.open))
        self.table.complete(CompletedTxn(first, first, self.end, True, -1))
        self.open.remove(first)
        self.ended.append((first, self.end))
        self.end += 1

    @rule(share=st.floats(0, 1))
    def replicate(self, share: float) -> None:
        offset = int(self.end * share)
        self.table.replicated_below(offset)
        self.ended = [(first, last) for first, last in self.ended if last >= offset]

    @rule()
    def clear(self) -> None:
        self.table.clear()
        self.open, self.ended, self.end = [], [], 0

    @invariant()
    def first_unstable(self) -> None:
        offsets = self.open + [first for first, _ in self.ended]
        found = self.table.first_unstable_offset
        assert (found and found.message_offset) == (min(offsets) if offsets else None)
        assert self.table.first_undecided_offset == min(self.open, default=None)
        assert self.table.has_unreplicated == bool(self.ended)


TestTransactions = Transactions.TestCase
