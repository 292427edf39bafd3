"""Which batches a consumer that reads committed data sees: no markers, and nothing that was aborted.

A producer has one transaction open at a time, so its aborted ones do not overlap: a transactional batch was
aborted if it lies in the last of them that begins at or before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tidelog.records.batches import BatchTable

__all__ = ["Aborted", "AbortedRange", "committed"]


class AbortedRange(Protocol):
    """What `producer_id` wrote in [first_offset, last_offset] was taken back."""

    @property
    def producer_id(self) -> int:
        """Who wrote."""

    @property
    def first_offset(self) -> int:
        """Where the transaction began."""

    @property
    def last_offset(self) -> int:
        """Its abort marker."""


@dataclass(frozen=True, slots=True)
class Aborted:
    """An aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int


def committed(table: BatchTable, aborted: Sequence[AbortedRange]) -> npt.NDArray[np.bool_]:
    """Which batches of the table a committed read shows."""
    keep = ~table.is_control
    if not aborted:
        return keep
    candidates = table.is_transactional
    spans = np.array([(txn.producer_id, txn.first_offset, txn.last_offset) for txn in aborted], np.int64)
    for producer in np.intersect1d(spans[:, 0], table.producer_id[candidates]).tolist():
        own = spans[spans[:, 0] == producer]
        own = own[np.argsort(own[:, 1], kind="stable")]
        batches = np.flatnonzero(candidates & (table.producer_id == producer))
        bases = table.base_offset[batches]
        last = np.searchsorted(own[:, 1], bases, side="right") - 1
        inside = (last >= 0) & (bases <= np.maximum.accumulate(own[:, 2])[last])
        keep[batches[inside]] = False
    return keep
