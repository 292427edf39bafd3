"""What cleaning needs to know of transactions: which data was aborted, which markers have outlived theirs.

Batches are gone through in the order of the log. An aborted transaction is known from the transaction index
as soon as its first offset is reached, and ends with its marker; whatever its producer writes in between is
aborted data. All other data in transactions was committed (what is undecided is never cleaned).

A marker can go when no data of its transaction is left: none was met between the transaction's beginning and
the marker. As long as an abort marker has data, the transaction stays in the index of the cleaned segment.
A marker without a record has been emptied before, and can go as well. Control records of other types stay.

A log can be gone through in parts. Which aborted transactions are open where a part begins follows from the
index. Whose data was met and whose marker was not (`MetData`) does not: each part tells what it does to that
(`TransactionSpan`), and the spans of all parts before one, in order, give where it begins.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.index import AbortedTxn
from tidelog.log.producers.markers import read_markers
from tidelog.log.producers.transactions import TxnMarker
from tidelog.records.batches import BatchTable

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["CleanedTransactions", "MetData", "TransactionSpan"]

Flags = npt.NDArray[np.bool_]


class MetData(NamedTuple):
    """The producers whose data was met, and the marker after it was not."""

    committed: frozenset[int] = frozenset()
    aborted: frozenset[int] = frozenset()


class TransactionSpan(NamedTuple):
    """A part of a log: which producers' markers it holds, and whose data behind those."""

    committing: frozenset[int]
    aborting: frozenset[int]
    met: MetData

    def after(self, before: MetData) -> MetData:
        """What is met at the part's end, with what is at its beginning."""
        return MetData(
            (before.committed - self.committing) | self.met.committed,
            (before.aborted - self.aborting) | self.met.aborted,
        )


class CleanedTransactions:
    """The transactions that are open at the point which cleaning has reached."""

    def __init__(self, aborted: Iterable[AbortedTxn] = (), met: MetData | None = None) -> None:
        met = met or MetData()
        self._waiting: list[tuple[int, int, AbortedTxn]] = []  # by first offset; not reached yet
        self._added = 0
        self._aborted: dict[int, AbortedTxn] = {}  # by producer
        self._with_data = set(met.aborted)  # producers of aborted transactions whose data was met
        self._committed = set(met.committed)  # producers whose committed data was met
        self._aborting: set[int] = set()  # producers whose markers were met
        self._committing: set[int] = set()
        self._kept: list[AbortedTxn] = []
        self.add(aborted)

    def add(self, aborted: Iterable[AbortedTxn]) -> None:
        """Aborted transactions that the next batches can belong to; to be told twice is harmless."""
        for txn in aborted:
            self._added += 1
            heapq.heappush(self._waiting, (txn.first_offset, self._added, txn))

    def take_kept(self) -> list[AbortedTxn]:
        """The aborted transactions with data whose markers were met since the last call."""
        kept, self._kept = self._kept, []
        return kept

    @property
    def span(self) -> TransactionSpan:
        """What was gone through, if nothing was met before."""
        met = MetData(frozenset(self._committed), frozenset(self._with_data))
        return TransactionSpan(frozenset(self._committing), frozenset(self._aborting), met)

    def read_data(self, producer_id: int, last_offset: int) -> bool:
        """A batch of data in a transaction was met: whether it was aborted."""
        self._reach(last_offset)
        if producer_id in self._aborted:
            self._with_data.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def read_marker(self, producer_id: int, last_offset: int, marker: TxnMarker | None) -> bool:
        """A marker (None: an emptied one) was met: whether it has no data any more."""
        self._reach(last_offset)
        if marker is None:
            return True
        if marker.is_abort:
            self._aborting.add(producer_id)
            aborted = self._aborted.pop(producer_id, None)
            if aborted is None or producer_id not in self._with_data:
                return True
            self._with_data.remove(producer_id)
            self._kept.append(aborted)
            return False
        self._committing.add(producer_id)
        if producer_id in self._committed:
            self._committed.remove(producer_id)
            return False
        return True

    def read(self, buffer: Buffer, table: BatchTable, *, source: str | None = None) -> Flags:
        """Go through batches: which of them are aborted data, or markers without data."""
        gone = np.zeros(len(table), dtype=np.bool_)
        control = table.is_control
        concerned = np.flatnonzero(control | table.is_transactional)
        if not len(concerned):
            return gone
        markers = read_markers(buffer, table, source=source, pass_over_others=True)
        some = BatchTable(table.rows[concerned])
        for index, last, producer, count, is_control in zip(
            concerned.tolist(),
            some.last_offset.tolist(),
            some.producer_id.tolist(),
            some.count.tolist(),
            control[concerned].tolist(),
            strict=True,
        ):
            if not is_control:
                gone[index] = self.read_data(producer, last)
            elif index in markers or count == 0:
                gone[index] = self.read_marker(producer, last, markers.get(index))
        return gone

    def _reach(self, offset: int) -> None:
        """Begin the aborted transactions up to `offset`."""
        while self._waiting and self._waiting[0][0] <= offset:
            txn = heapq.heappop(self._waiting)[2]
            self._aborted.setdefault(txn.producer_id, txn)
