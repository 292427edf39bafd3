"""Reading the markers that end transactions out of an append's control batches.

    key    version i16, type i16 (0 abort, 1 commit)
    value  version i16, coordinator epoch i32

Later versions of either may add fields at the end; the ones known here stay where they are.

A marker is the only record of its batch, and nearly always uncompressed: such a one is read right here,
without making columns for a single record. The record's own fields (`records.batches`: after the header,
each a zigzag varint unless a size is given): length, attributes (1 byte), timestamp delta, offset delta,
key length, key, value length, value, headers.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidelog.errors import CorruptRecordError
from tidelog.kernels.varints import read_varint
from tidelog.log.producers.transactions import TxnMarker
from tidelog.records.batches import HEADER_SIZE, BatchTable, Column
from tidelog.records.decode import decode_batches

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["read_markers"]

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1
_CODEC, _BY_LOG, _CONTROL = 0x07, 0x08, 0x20


def read_markers(
    buffer: Buffer,
    batches: BatchTable,
    *,
    origin: int = 0,
    source: str | None = None,
    pass_over_others: bool = False,
) -> dict[int, TxnMarker]:
    """The marker of each control batch that has a producer id, by row; one emptied by cleaning has none.

    `buffer` holds the batches at their positions less `origin`. A control record that is no marker raises
    CorruptRecordError; one of another type, soundly written, is skipped if that is wanted.
    """
    rows = batches.rows
    if not (
        rows[0, Column.ATTRIBUTES] & _CONTROL
        if len(rows) == 1
        else (rows[:, Column.ATTRIBUTES] & _CONTROL).any()
    ):
        return {}  # nearly always
    indices = np.flatnonzero((batches.producer_id >= 0) & batches.is_control & (batches.count > 0))
    if not len(indices):
        return {}
    view = memoryview(buffer).cast("B")
    markers = {}
    for index, row in zip(indices.tolist(), batches.rows[indices].tolist(), strict=True):
        start = row[Column.POSITION] - origin
        if start < 0 or start + row[Column.SIZE] > len(view):
            raise ValueError("a batch of the table lies outside the buffer")
        if row[Column.ATTRIBUTES] & _CODEC:
            fields = _read_compressed(view, batches[index : index + 1], origin, source)
        else:
            fields = _read_plain(bytes(view[start + HEADER_SIZE : start + row[Column.SIZE]]), row)
        if pass_over_others and _is_other(fields.key):
            continue
        marker = _marker(fields)
        if marker is None:
            raise CorruptRecordError(
                "a control record of a producer that is neither a commit nor an abort marker",
                position=row[Column.POSITION],
                offset=row[Column.BASE_OFFSET],
                source=source,
            )
        markers[index] = marker
    return markers


class _Fields(NamedTuple):
    """What is read of a control record; empty where it makes no sense."""

    key: bytes = b""
    value: bytes = b""
    timestamp: int = -1


def _read_plain(data: bytes, row: list[int]) -> _Fields:
    """The record at the start of an uncompressed batch's records."""
    try:
        length, at = _varint(data, 0)
        record = data[at : at + length]
        if length < 0 or len(record) < length:
            return _Fields()
        delta, at = _varint(record, 1)
        _, at = _varint(record, at)
        key, at = _field(record, at)
        value, _ = _field(record, at)
    except IndexError:
        return _Fields()
    return _Fields(
        key,
        value,
        row[Column.MAX_TIMESTAMP] if row[Column.ATTRIBUTES] & _BY_LOG else row[Column.BASE_TIMESTAMP] + delta,
    )


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint and where the next field begins; IndexError where it does not end in time."""
    number, end = read_varint(data, at)
    if end < 0:
        raise IndexError("a varint that never ends")
    return number, end


def _field(data: bytes, at: int) -> tuple[bytes, int]:
    """A field after its length, cut where the data ends; a null one counts as empty."""
    length, at = _varint(data, at)
    return data[at : at + max(length, 0)], at + max(length, 0)


def _read_compressed(view: memoryview, batch: BatchTable, origin: int, source: str | None) -> _Fields:
    columns = ("key", "value", "timestamp_ms")
    records = decode_batches(view, batch, columns=columns, origin=origin, source=source)
    key, value, timestamp = (records.column(name)[0].as_py() for name in columns)
    return _Fields(key or b"", value or b"", timestamp)


def _is_other(key: bytes) -> bool:
    """Whether this is the key of a control record that ends no transaction."""
    if len(key) < _KEY.size:
        return False
    version, kind = _KEY.unpack_from(key)
    return version >= 0 and kind not in (_ABORT, _COMMIT)


def _marker(fields: _Fields) -> TxnMarker | None:
    key, value, timestamp = fields
    if len(key) < _KEY.size or len(value) < _VALUE.size:
        return None
    key_version, kind = _KEY.unpack_from(key)
    value_version, coordinator_epoch = _VALUE.unpack_from(value)
    if key_version < 0 or value_version < 0 or kind not in (_ABORT, _COMMIT):
        return None
    return TxnMarker(kind == _ABORT, coordinator_epoch, timestamp)
