"""The columns of one chunk: memory before the kernels fill it, Arrow arrays after.

Memory comes from Arrow's pool, which keeps and reuses it between chunks. A column of bytes is given room
for all bytes of its records; what it does not use is never touched and so never becomes resident, and a
column that used little is copied out, so that whoever keeps it does not keep the room.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.kernels import columns as _kernel
from tidelog.records.schema import HEADERS_TYPE, Projection

__all__ = [
    "ChunkColumns",
    "binary_array",
    "constant_int",
    "constant_string",
    "from_numbers",
    "int_array",
    "numbers",
    "string_array",
    "text_scalar",
]

_SLACK = 32  # kernels copy in steps of as much
_KEEP_ROOM = 1 << 14  # below this, unused room is not worth a copy
_BINARY, _INT64, _MICROSECONDS = pa.binary(), pa.int64(), pa.timestamp("us", tz="UTC")
_PAIR_FIELDS = [HEADERS_TYPE.value_type.field(0), HEADERS_TYPE.value_type.field(1)]

Int64s = npt.NDArray[np.int64]


class ChunkColumns:
    """The columns that come from the records themselves, with room for `rows` records of `size` bytes in all.

    `headers` is how many headers there is room for; None while none were seen, which costs nothing per
    record.
    """

    NAMES = frozenset(("key", "value", "offset", "timestamp", "timestamp_ms", "headers"))

    def __init__(
        self, projection: Projection, table: Int64s, rows: int, size: int, headers: int | None = None
    ) -> None:
        self._offsets: Any = pa.allocate_buffer(8 * rows) if projection.needs_offsets else None
        self._timestamps: Any = pa.allocate_buffer(8 * rows) if projection.needs_timestamps else None
        # Stored as microseconds only if nobody needs the milliseconds too.
        self._microseconds = projection.wants("timestamp")
        self._key = _BytesColumn(rows, size) if projection.wants("key") else None
        self._value = _BytesColumn(rows, size) if projection.wants("value") else None
        wanted = projection.wants("headers")
        self._headers = _HeaderColumn(rows, headers, size) if wanted and headers is not None else None
        self.kernel = _kernel.Columns(
            table,
            rows,
            None if self._offsets is None else np.frombuffer(self._offsets, dtype=np.int64),
            None if self._timestamps is None else np.frombuffer(self._timestamps, dtype=np.int64),
            self._microseconds,
            self._key.kernel if self._key else None,
            self._value.kernel if self._value else None,
            self._headers.kernel if self._headers else () if wanted else None,
        )

    @property
    def offsets(self) -> Int64s | None:
        """Offsets of the records, where a column needs them."""
        if self._offsets is None:
            return None
        return np.frombuffer(self._offsets, dtype=np.int64, count=self.kernel.rows)

    def array(self, name: str) -> pa.Array:
        """Column `name` after the kernel filled it."""
        rows = self.kernel.rows
        if name == "key" and self._key:
            return self._key.array(rows)
        if name == "value" and self._value:
            return self._value.array(rows)
        if name == "headers":
            return self._headers.array(rows, self.kernel.headers) if self._headers else _no_headers(rows)
        if name == "offset":
            return pa.Array.from_buffers(_INT64, rows, [None, _trim(self._offsets, 8 * rows)], null_count=0)
        if name == "timestamp":
            return pa.Array.from_buffers(
                _MICROSECONDS, rows, [None, _trim(self._timestamps, 8 * rows)], null_count=0
            )
        if self._microseconds:
            times: Int64s = np.frombuffer(self._timestamps, dtype=np.int64, count=rows)
            return from_numbers(times // 1000)
        return pa.Array.from_buffers(_INT64, rows, [None, _trim(self._timestamps, 8 * rows)], null_count=0)


class _BytesColumn:
    """Buffers of one binary column and the kernel's view of them."""

    def __init__(self, rows: int, size: int) -> None:
        self._ends = pa.allocate_buffer(4 * (rows + 1))
        self._valid = _bits(rows, 0xFF)
        self._data = pa.allocate_buffer(size + _SLACK)
        self.kernel = _kernel.Bytes(
            np.frombuffer(self._ends, dtype=np.int32),
            np.frombuffer(self._valid, dtype=np.uint8),
            np.frombuffer(self._data, dtype=np.uint8),
        )

    def array(self, rows: int) -> pa.Array:
        """The first `rows` values as a binary array."""
        nulls, used = self.kernel.nulls, self.kernel.used
        valid = self._valid if nulls else None
        buffers = [valid, _trim(self._ends, 4 * (rows + 1)), _trim(self._data, used)]
        return pa.Array.from_buffers(_BINARY, rows, buffers, null_count=nulls)


class _HeaderColumn:
    """Headers: a list per record (null if there are none) of key and value."""

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
        """The first `rows` lists, which hold `headers` headers in all."""
        keys = _as_text(self._keys.array(headers))
        pairs = pa.StructArray.from_arrays([keys, self._values.array(headers)], fields=_PAIR_FIELDS)
        ends = _trim(self._ends, 4 * (rows + 1))
        return pa.Array.from_buffers(HEADERS_TYPE, rows, [self._valid, ends], children=[pairs])


def _as_text(keys: pa.Array) -> pa.Array:
    """Header keys as strings; bytes that are not UTF-8 become U+FFFD, as Java's decoder makes them."""
    texts = keys.view(pa.string())  # a cast would import pyarrow.compute, which takes long
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return string_array([key.decode("utf-8", "replace") for key in keys.to_pylist()])
    return texts


def _trim(buffer: pa.Buffer, used: int) -> pa.Buffer:
    """The first `used` bytes, in memory of their own if that is much less."""
    part = buffer.slice(0, used)
    return pa.py_buffer(part.to_pybytes()) if 2 * used < buffer.size - _KEEP_ROOM else part


def _bits(rows: int, fill: int) -> pa.Buffer:
    buffer = pa.allocate_buffer((rows + 7) // 8)
    np.frombuffer(buffer, dtype=np.uint8)[:] = fill
    return buffer


# Arrow's own ways between NumPy and itself import pandas, where that is installed, at their first use: a
# quarter of a second that a short command has no use for.


def from_numbers(values: npt.NDArray[np.generic]) -> pa.Array:
    """An array of integers or booleans without nulls."""
    if values.dtype == np.bool_:
        bits = np.packbits(values.astype(np.bool_), bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)], null_count=0)
    kind = pa.from_numpy_dtype(values.dtype)
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [None, data], null_count=0)


def numbers(array: pa.Array) -> npt.NDArray[Any]:
    """A column of integers without nulls, as it lies in memory."""
    kind = np.dtype(f"i{array.type.bit_width // 8}")
    data = array.buffers()[1]
    if not len(array) or data is None:
        return np.empty(0, kind)
    return np.frombuffer(data, kind, count=len(array), offset=array.offset * kind.itemsize)


def text_scalar(value: str, kind: pa.DataType | None = None) -> pa.Scalar:
    """Text as a scalar of Arrow, as a string or of `kind`."""
    array = constant_string(value, 1)
    return array[0] if kind is None else array.cast(kind)[0]


def constant_string(value: str, rows: int) -> pa.Array:
    """`value`, `rows` times."""
    return _strings(value, _round_up(rows)).slice(0, rows)


def string_array(texts: Sequence[str]) -> pa.Array:
    """Texts as a column; `pyarrow.array` would import pandas, which takes longer than many a command."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(text) for text in encoded], out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def binary_array(values: Sequence[bytes | None]) -> pa.Array:
    """Bytes as a column, without pandas too; OverflowError if they are more than a column can hold."""
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum([0 if value is None else len(value) for value in values], out=ends[1:])
    if ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError(f"{ends[-1]} bytes in one column; give fewer records at a time")
    data = pa.py_buffer(b"".join(value for value in values if value is not None))
    buffers = [_validity(values), pa.py_buffer(ends.astype(np.int32)), data]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def int_array(values: Sequence[int | None]) -> pa.Array:
    """Integers as a column, without pandas too; OverflowError if one has more than 64 bits."""
    data = np.array([0 if value is None else value for value in values], np.int64)
    return pa.Array.from_buffers(pa.int64(), len(values), [_validity(values), pa.py_buffer(data)])


def _validity(values: Sequence[object]) -> pa.Buffer | None:
    """Which values are there, a bit each; None if all are."""
    if None not in values:
        return None
    there = np.array([value is not None for value in values], np.bool_)
    return pa.py_buffer(np.packbits(there, bitorder="little"))


def constant_int(value: int, rows: int) -> pa.Array:
    """`value`, `rows` times, as int32."""
    return _ints(value, _round_up(rows)).slice(0, rows)


def _no_headers(rows: int) -> pa.Array:
    return _null_lists(_round_up(rows)).slice(0, rows)


def _round_up(rows: int) -> int:
    """A round number of rows, so that constant columns of chunks of many sizes come from one."""
    return 1 << max(10, (rows - 1).bit_length())


@lru_cache(maxsize=64)
def _strings(value: str, rows: int) -> pa.Array:
    data = value.encode()
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(len(data))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data * rows)]
    return pa.Array.from_buffers(pa.string(), rows, buffers, null_count=0)


@lru_cache(maxsize=64)
def _ints(value: int, rows: int) -> pa.Array:
    return from_numbers(np.full(rows, value, dtype=np.int32))


@lru_cache(maxsize=8)
def _null_lists(rows: int) -> pa.Array:
    return pa.nulls(rows, HEADERS_TYPE)
