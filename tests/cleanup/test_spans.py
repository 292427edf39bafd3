"""A log gone through in parts tells of its batches what going through all of it at once tells."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidelog.cleanup.aborted import CleanedTransactions, MetData
from tidelog.index import AbortedTxn
from tidelog.log.producers.transactions import TxnMarker

COMMIT, ABORT = (TxnMarker(is_abort, 0, 0) for is_abort in (False, True))
Event = tuple[int, TxnMarker | None]
"""A producer's data, or its marker."""

_EVENTS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from([None, None, COMMIT, ABORT])), max_size=40)


def aborted_in(events: list[Event]) -> list[AbortedTxn]:
    """What the transaction indexes hold: each abort marker that has data before it."""
    begun: dict[int, int] = {}
    found = []
    for offset, (producer, marker) in enumerate(events):
        if marker is None:
            begun.setdefault(producer, offset)
        else:
            first = begun.pop(producer, None)
            if marker.is_abort and first is not None:
                found.append(AbortedTxn(producer, first, offset, first))
    return found


def go_through(
    transactions: CleanedTransactions, events: list[Event], start: int, end: int
) -> tuple[list[bool], list[AbortedTxn]]:
    gone = [
        transactions.read_data(producer, offset)
        if marker is None
        else transactions.read_marker(producer, offset, marker)
        for offset, (producer, marker) in enumerate(events[start:end], start)
    ]
    return gone, transactions.take_kept()


@given(_EVENTS, st.lists(st.integers(0, 40), max_size=5))
def test_parts_that_know_what_was_met_before_tell_what_the_whole_does(
    events: list[Event], cuts: list[int]
) -> None:
    aborted = aborted_in(events)
    expected = go_through(CleanedTransactions(aborted), events, 0, len(events))
    bounds = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    gone: list[bool] = []
    kept: list[AbortedTxn] = []
    met = MetData()
    for start, end in pairwise(bounds):
        reaching = [txn for txn in aborted if txn.last_offset >= start and txn.first_offset < end]
        part = go_through(CleanedTransactions(reaching, met), events, start, end)
        gone += part[0]
        kept += part[1]
        alone = CleanedTransactions(reaching)
        go_through(alone, events, start, end)
        met = alone.span.after(met)
    assert (gone, kept) == expected
