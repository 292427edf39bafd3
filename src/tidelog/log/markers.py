"""Reading the markers that end transactions out of an append's control batches.

    key    version i16, type i16 (0 abort, 1 commit)
    value  version i16, coordinator epoch i32

Later versions of either may add fields at the end; the ones known here stay where they are.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from tidelog.errors import CorruptRecordError
from tidelog.log.transactions import TxnMarker
from tidelog.records.batches import BatchTable
from tidelog.records.decode import decode_batches

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["read_markers"]

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1


def read_markers(
    buffer: Buffer, batches: BatchTable, *, origin: int = 0, source: str | None = None
) -> dict[int, TxnMarker]:
    """The marker of each control batch that has a producer id, by row; one emptied by cleaning has none.

    `buffer` holds the batches at their positions less `origin`. A control record that is no marker raises
    CorruptRecordError.
    """
    indices = np.flatnonzero((batches.producer_id >= 0) & batches.is_control & (batches.count > 0))
    if not len(indices):
        return {}
    wanted = BatchTable(np.ascontiguousarray(batches.rows[indices]))
    records = decode_batches(
        buffer, wanted, columns=("key", "value", "timestamp_ms"), origin=origin, source=source
    )
    first_of_batch = np.cumsum(wanted.count) - wanted.count
    keys, values, timestamps = (records.column(name) for name in ("key", "value", "timestamp_ms"))
    markers = {}
    for index, row, record in zip(
        indices.tolist(), wanted.rows.tolist(), first_of_batch.tolist(), strict=True
    ):
        marker = _parse(keys[record].as_py(), values[record].as_py(), timestamps[record].as_py())
        if marker is None:
            raise CorruptRecordError(
                "a control record of a producer that is no commit or abort marker",
                position=row[0],
                offset=row[2],
                source=source,
            )
        markers[index] = marker
    return markers


def _parse(key: bytes | None, value: bytes | None, timestamp: int) -> TxnMarker | None:
    if key is None or value is None or len(key) < _KEY.size or len(value) < _VALUE.size:
        return None
    key_version, kind = _KEY.unpack_from(key)
    value_version, coordinator_epoch = _VALUE.unpack_from(value)
    if key_version < 0 or value_version < 0 or kind not in (_ABORT, _COMMIT):
        return None
    return TxnMarker(kind == _ABORT, coordinator_epoch, timestamp)
