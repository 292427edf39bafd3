"""Records to write, as Arrow columns, made into what the encode kernel takes.

    column      Arrow type                                                      null or missing means
    key         binary or string, of any kind (large, view, fixed size,         no key
    value       dictionary-encoded)                                             no value: a tombstone
    timestamp   timestamp of any unit and zone (cut to whole milliseconds),     now
                or integers, which are milliseconds
    headers     list of struct<key: string, value: binary>, or a map            no headers

Nothing is copied but what must be: offsets are widened to int64, a table's chunks joined, rare types cast.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import InvalidInputError, InvalidTimestampError
from tidelog.kernels.encode import Column, Records

__all__ = ["INPUT_COLUMNS", "InputRecords"]

INPUT_COLUMNS = ("key", "value", "timestamp", "headers")
"""The columns that records to write may have; all are optional."""

_RECORD_OVERHEAD = (
    36  # length 5, attributes 1, timestamp delta 10, offset delta, key, value and header lengths 5
)
_HEADER_OVERHEAD = 10
_INT32_MAX = (1 << 31) - 1

Int64s = npt.NDArray[np.int64]

_types = pa.types


@dataclass(frozen=True, slots=True)
class InputRecords:
    """Records for the kernel, how many, and a bound on the bytes they take without batch headers."""

    kernel: Records
    count: int
    max_size: int

    @classmethod
    def of(cls, columns: pa.RecordBatch | pa.Table, now_ms: int) -> InputRecords:
        """Check the columns and take them apart. Raises InvalidInputError, naming the column."""
        if not isinstance(columns, (pa.RecordBatch, pa.Table)):
            raise InvalidInputError(
                f"a pyarrow RecordBatch or Table is expected, not {type(columns).__name__}"
            )
        arrays = _by_name(columns)
        rows = columns.num_rows
        keys, key_size = _bytes_column(arrays.get("key"), "key")
        values, value_size = _bytes_column(arrays.get("value"), "value")
        headers, header_size = _header_columns(arrays.get("headers"))
        timestamps = _timestamps(arrays.get("timestamp"), now_ms)
        kernel = Records(rows, now_ms, timestamps, keys, values, headers)
        return cls(kernel, rows, rows * _RECORD_OVERHEAD + key_size + value_size + header_size)


def _by_name(columns: pa.RecordBatch | pa.Table) -> dict[str, pa.Array]:
    arrays: dict[str, pa.Array] = {}
    for name, column in zip(columns.schema.names, columns.columns, strict=True):
        if name not in INPUT_COLUMNS:
            raise InvalidInputError(
                f"column {name!r} cannot be written: records have {', '.join(INPUT_COLUMNS)}; "
                "leave the others out with .select([...])"
            )
        if name in arrays:
            raise InvalidInputError(f"column {name!r} is there twice")
        arrays[name] = _joined(column, name) if isinstance(column, pa.ChunkedArray) else column
    return arrays


def _joined(column: pa.ChunkedArray, name: str) -> pa.Array:
    """The column's chunks as one array."""
    if column.num_chunks == 1:
        return column.chunk(0)
    try:
        if column.nbytes > _INT32_MAX and any(is_kind(column.type) for is_kind in _PLAIN):
            column = column.cast(pa.large_binary())
        return column.combine_chunks()
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"column {name!r} is too large, write fewer rows at once: {error}") from error


def _bytes_column(array: pa.Array | None, name: str) -> tuple[Column | None, int]:
    """The kernel's view of a column of bytes, and how many bytes its rows have."""
    if array is None or _types.is_null(array.type):
        return None, 0
    kind = array.type
    width: type[np.signedinteger] = np.int32
    if _types.is_large_binary(kind) or _types.is_large_string(kind):
        width = np.int64
    elif _is_rare_binary(kind):
        array = array.cast(pa.large_binary())
        width = np.int64
    elif not (_types.is_binary(kind) or _types.is_string(kind)):
        raise InvalidInputError(f"column {name!r} has type {kind}; binary or string is expected")
    valid, ends, data = array.buffers()
    content = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else _NOTHING
    offsets = _offsets(array, ends, width)
    size = min(max(0, int(offsets[-1] - offsets[0])), len(content))
    return _column(array, valid, offsets, content, len(content)), size


_NOTHING = np.empty(0, dtype=np.uint8)


def _offsets(array: pa.Array, ends: pa.Buffer | None, width: type[np.signedinteger]) -> Int64s:
    """Where each row's list starts, and where the last one ends."""
    rows = len(array)
    if ends is None or not rows:
        return np.zeros(rows + 1, dtype=np.int64)
    start = array.offset * np.dtype(width).itemsize
    return np.frombuffer(ends, dtype=width, count=rows + 1, offset=start).astype(np.int64, copy=False)


def _column(
    array: pa.Array,
    valid: pa.Buffer | None,
    offsets: Int64s,
    data: npt.NDArray[np.uint8] | None,
    limit: int,
) -> Column:
    if valid is None or not array.null_count:
        return Column(offsets, data, None, 0, limit)
    return Column(offsets, data, np.frombuffer(valid, dtype=np.uint8), array.offset, limit)


_PLAIN = (_types.is_binary, _types.is_string, _types.is_large_binary, _types.is_large_string)
_CAST = (_types.is_fixed_size_binary, _types.is_binary_view, _types.is_string_view)
_TEXT = (_types.is_string, _types.is_large_string, _types.is_string_view)


def _is_rare_binary(kind: pa.DataType) -> bool:
    if _types.is_dictionary(kind):
        return any(is_kind(kind.value_type) for is_kind in _PLAIN)
    return any(is_kind(kind) for is_kind in _CAST)


def _header_columns(array: pa.Array | None) -> tuple[tuple[Column, Column, Column] | None, int]:
    """Lists of headers, their keys and their values; and a bound on the bytes they take."""
    if array is None or _types.is_null(array.type) or not len(array):
        return None, 0
    kind = array.type
    if not _is_headers(kind):
        raise InvalidInputError(
            f"column 'headers' has type {kind}; list<struct<key: string, value: binary>> is expected"
        )
    width: type[np.signedinteger] = np.int64 if _types.is_large_list(kind) else np.int32
    valid, ends = array.buffers()[:2]
    offsets = _offsets(array, ends, width)
    first, last = int(offsets[0]), int(offsets[-1])
    pairs = array.values
    if not 0 <= first <= last <= len(pairs):
        raise InvalidInputError("column 'headers' has offsets outside its values")
    pairs = pairs.slice(first, last - first)
    names = [field.name for field in pairs.type]
    parts = dict(zip(names, pairs.flatten(), strict=True))  # a null pair gets a null key, which is refused
    keys, key_size = _bytes_column(parts["key"], "headers.key")
    values, value_size = _bytes_column(parts["value"], "headers.value")
    lists = _column(array, valid, offsets - first, None, len(pairs))
    size = key_size + value_size + len(pairs) * _HEADER_OVERHEAD
    return (lists, keys or _all_null(len(pairs)), values or _all_null(len(pairs))), size


def _is_headers(kind: pa.DataType) -> bool:
    if not (_types.is_list(kind) or _types.is_large_list(kind) or _types.is_map(kind)):
        return False
    pair = kind.value_type if not _types.is_map(kind) else pa.struct([kind.key_field, kind.item_field])
    if not _types.is_struct(pair) or {field.name for field in pair} != {"key", "value"}:
        return False
    key = pair.field("key").type
    return any(is_kind(key) for is_kind in _TEXT)


def _all_null(rows: int) -> Column:
    return Column(np.zeros(rows + 1, dtype=np.int64), _NOTHING, np.zeros(rows // 8 + 1, dtype=np.uint8), 0, 0)


_TO_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}


def _timestamps(array: pa.Array | None, now_ms: int) -> Int64s | None:
    """Milliseconds; None where every record is to have `now_ms`."""
    if array is None or array.null_count == len(array):
        return None
    kind = array.type
    if _types.is_timestamp(kind):
        times, divide = _TO_MS[kind.unit]
        array = array.view(pa.int64())
    elif _types.is_integer(kind):
        times, divide = 1, 1
    else:
        raise InvalidInputError(
            f"column 'timestamp' has type {kind}; a timestamp, or milliseconds as int64, is expected"
        )
    try:
        if array.type != pa.int64():
            array = array.cast(pa.int64())
        if times != 1:
            from pyarrow.compute import multiply_checked  # takes long to import, and is seldom needed

            array = multiply_checked(array, times)
    except pa.ArrowInvalid as error:
        raise InvalidTimestampError(f"column 'timestamp' does not fit milliseconds: {error}") from error
    if divide != 1:
        array = _floor_divide(array, divide)
    if array.null_count:
        array = array.fill_null(now_ms)
    return np.frombuffer(array.buffers()[1], dtype=np.int64, count=len(array), offset=8 * array.offset)


def _floor_divide(array: pa.Array, by: int) -> pa.Array:
    """Arrow divides towards zero; a time before 1970 must not move forward."""
    values = np.frombuffer(array.buffers()[1], dtype=np.int64, count=len(array), offset=8 * array.offset)
    mask = np.asarray(array.is_null()) if array.null_count else None
    return pa.array(values // by, mask=mask)
