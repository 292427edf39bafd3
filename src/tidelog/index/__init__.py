"""Index files of a segment: offset -> position, time -> offset, aborted transactions.

    OffsetIndex, TimeIndex               of a sealed segment: read-only, mapped at first use
    ActiveOffsetIndex, ActiveTimeIndex   of the segment being written: the same questions, and entries to add
    TransactionIndex                     a plain file, made at the first abort

The formats are in the docstrings of `offset`, `time` and `transaction`; the search is in `kernels.search`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.lazy import lazy_names

if TYPE_CHECKING:
    from tidelog.index.active import ActiveOffsetIndex, ActiveTimeIndex
    from tidelog.index.offset import OffsetIndex
    from tidelog.index.time import TimeIndex
    from tidelog.index.transaction import AbortedTxn, TransactionIndex, TxnIndexSearchResult

__all__ = [
    "AbortedTxn",
    "ActiveOffsetIndex",
    "ActiveTimeIndex",
    "OffsetIndex",
    "TimeIndex",
    "TransactionIndex",
    "TxnIndexSearchResult",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AbortedTxn": "tidelog.index.transaction",
        "ActiveOffsetIndex": "tidelog.index.active",
        "ActiveTimeIndex": "tidelog.index.active",
        "OffsetIndex": "tidelog.index.offset",
        "TimeIndex": "tidelog.index.time",
        "TransactionIndex": "tidelog.index.transaction",
        "TxnIndexSearchResult": "tidelog.index.transaction",
    },
)
