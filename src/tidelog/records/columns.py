"""Arrow columns that the decode kernel fills: allocation before, arrays after.

Memory comes from Arrow's pool, which keeps and reuses it between chunks. A column of bytes is given room for all
bytes of its records; what it does not use is never touched and so never becomes resident.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.kernels import decode as _kernel
from tidelog.records.schema import HEADERS_TYPE, Projection

__all__ = ["ChunkColumns", "constant_int", "constant_string"]


class _BytesColumn:
    """Buffers of one binary column and the kernel's view of them."""

    def __init__(self, rows: int, size: int) -> None:
        self._ends = pa.allocate_buffer(4 * (rows + 1))
        self._valid = _bits(rows, 0xFF)
        self._data = pa.allocate_buffer(max(1, size))
        self.kernel = _kernel.Bytes(
            np.frombuffer(self._ends, dtype=np.int32),
            np.frombuffer(self._valid, dtype=np.uint8),
            np.frombuffer(self._data, dtype=np.uint8),
        )

    def array(self, rows: int) -> pa.Array:
        """The first `rows` values as a binary array."""
        nulls = self.kernel.nulls
        valid = self._valid if nulls else None
        data = self._data.slice(0, self.kernel.used)
        return pa.Array.from_buffers(pa.binary(), rows, [valid, self._ends, data], null_count=nulls)


class ChunkColumns:
    """The columns of one chunk that come from the records themselves."""

    NAMES = frozenset(("key", "value", "offset", "timestamp", "timestamp_ms", "headers"))

    def __init__(self, projection: Projection, rows: int, size: int) -> None:
        self._rows = rows
        self._size = size
        self._offset_buffer = pa.allocate_buffer(8 * rows) if projection.wants("offset", "sequence", "base_offset") else None
        self._timestamp_buffer = pa.allocate_buffer(8 * rows) if projection.wants("timestamp", "timestamp_ms") else None
        # Stored as microseconds only if nobody needs the milliseconds too.
        self._microseconds = projection.wants("timestamp")
        self._both_times = projection.wants("timestamp") and projection.wants("timestamp_ms")
        self._key = _BytesColumn(rows, size) if projection.wants("key") else None
        self._value = _BytesColumn(rows, size) if projection.wants("value") else None
        self.wants_headers = projection.wants("headers")
        self._headers: _HeaderColumn | None = None

    @property
    def offsets(self) -> npt.NDArray[np.int64] | None:
        """Offsets of the records, where a column needs them."""
        if self._offset_buffer is None:
            return None
        return np.frombuffer(self._offset_buffer, dtype=np.int64)

    def allocate_headers(self, headers: int) -> None:
        """Make room for so many headers in all."""
        self._headers = _HeaderColumn(self._rows, headers, self._size if headers else 0)

    def kernel_columns(self, table: npt.NDArray[np.int64]) -> _kernel.Columns:
        """The kernel's view, empty, for the batches of `table`."""
        times = self._timestamp_buffer
        return _kernel.Columns(
            table,
            self._rows,
            offsets=self.offsets,
            timestamps=None if times is None else np.frombuffer(times, dtype=np.int64),
            microseconds=self._microseconds,
            keys=self._key.kernel if self._key else None,
            values=self._value.kernel if self._value else None,
            headers=self._headers.kernel if self._headers else None,
        )

    def array(self, name: str, filled: _kernel.Columns) -> pa.Array:
        """Column `name` after the kernel filled it."""
        rows = filled.rows
        if name == "key" and self._key:
            return self._key.array(rows)
        if name == "value" and self._value:
            return self._value.array(rows)
        if name == "headers" and self._headers:
            return self._headers.array(rows, filled.headers)
        if name == "offset":
            return pa.Array.from_buffers(pa.int64(), rows, [None, self._offset_buffer], null_count=0)
        if name == "timestamp":
            kind = pa.timestamp("us", tz="UTC")
            return pa.Array.from_buffers(kind, rows, [None, self._timestamp_buffer], null_count=0)
        if self._both_times:
            times = np.frombuffer(self._timestamp_buffer, dtype=np.int64, count=rows)
            return pa.array(times // 1000)
        return pa.Array.from_buffers(pa.int64(), rows, [None, self._timestamp_buffer], null_count=0)


class _HeaderColumn:
    """Headers: a list per record (null where there are none) of key and value."""

    def __init__(self, rows: int, headers: int, size: int) -> None:
        self._ends = pa.allocate_buffer(4 * (rows + 1))
        self._valid = _bits(rows, 0)
        self._keys = _BytesColumn(headers, size)
        self._values = _BytesColumn(headers, size)
        self.kernel = (
            np.frombuffer(self._ends, dtype=np.int32),
            np.frombuffer(self._valid, dtype=np.uint8),
            self._keys.kernel,
            self._values.kernel,
        )

    def array(self, rows: int, headers: int) -> pa.Array:
        keys = _as_text(self._keys.array(headers))
        pairs = pa.StructArray.from_arrays(
            [keys, self._values.array(headers)], fields=list(HEADERS_TYPE.value_type)
        )
        return pa.Array.from_buffers(HEADERS_TYPE, rows, [self._valid, self._ends], children=[pairs])


def _as_text(keys: pa.Array) -> pa.Array:
    """Header keys as strings; bytes that are not UTF-8 become U+FFFD, as Java's decoder makes them."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())


def _bits(rows: int, fill: int) -> pa.Buffer:
    buffer = pa.allocate_buffer(max(1, (rows + 7) // 8))
    np.frombuffer(buffer, dtype=np.uint8)[:] = fill
    return buffer


@lru_cache(maxsize=64)
def constant_string(value: str, rows: int) -> pa.Array:
    """`value`, `rows` times; callers slice what they need of a round number."""
    data = value.encode()
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(len(data))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(ends), pa.py_buffer(data * rows)], null_count=0)


@lru_cache(maxsize=64)
def constant_int(value: int, rows: int) -> pa.Array:
    """`value`, `rows` times, as int32."""
    return pa.array(np.full(rows, value, dtype=np.int32))
