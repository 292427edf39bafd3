"""Decoded batches and records -> lines, through the line kernel; no Python object per record.

1. Batch headers are scanned and checked in runs small enough for the cache.
2. A run's records are decoded in chunks of whole batches; a chunk and its part of the run go to the kernel.
3. The kernel fills a buffer with lines, which is written out, again and again until the chunk is used up.

Damage stops it with a CorruptRecordError, after the lines of all that comes before. Memory is bounded by the
chunk and the buffer (or one batch and one line, if those are larger).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.errors import ChecksumError, CorruptRecordError
from tidelog.kernels import jsonl as _kernel
from tidelog.records import BatchTable, iter_record_batches, scan_batches
from tidelog.records.columns import numbers
from tidelog.records.windows import ByteSource, Window, read_windows

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["BUFFER_BYTES", "LineStyle", "LogBytes", "LogLines", "column_ends"]

_COLUMNS = ("position", "offset", "timestamp_ms", "key", "value", "headers")
_RUN_BATCHES = 1024
_MAX_ROWS = 1 << 13
_MAX_BYTES = 2 << 20
BUFFER_BYTES = 1 << 18
"""Small enough for the cache, large enough to be worth a write."""


@dataclass(frozen=True, slots=True)
class LineStyle:
    """What lines there are. JSON lines tell of records (`deep`) or of batches, dump-log lines of both."""

    json: bool = False
    deep: bool = False
    payloads: bool = False
    skip_metadata: bool = False
    """Of a record, only key and payload (in dump-log lines)."""


@dataclass(frozen=True, slots=True)
class LogBytes:
    """The first bytes of a log file, up to `end`; its name is for errors."""

    source: ByteSource
    end: int
    name: str

    def windows(self, max_batches: int = 1 << 12) -> Iterator[Window]:
        """Its batches, checked; raises CorruptRecordError."""
        return read_windows(self.source, 0, self.end, check_crc=True, max_batches=max_batches, name=self.name)

    def damaged_batch(self, position: int) -> BatchTable:
        """The header of a batch whose checksum is wrong: it may still tell whose batch it is."""
        size = 12 + int.from_bytes(self.source.read(position, 12)[8:], "big")
        data = self.source.read(position, max(size, 0))
        return scan_batches(data, origin=position, max_batches=1, check_crc=False).table


class LogLines:
    """Writes the lines of one log's batches, a buffer full at a time."""

    def __init__(
        self,
        log: LogBytes,
        style: LineStyle,
        write: Callable[[Buffer], None],
        *,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self._log = log
        self._data, self._origin = memoryview(b""), 0  # the window at hand
        self._source = log.name
        self._style = style
        self._write = write
        self._buffer = memoryview(bytearray(buffer_bytes))

    def run(self) -> Iterator[int]:
        """Write all lines, run by run; yields the bytes of each that was done. Raises CorruptRecordError."""
        try:
            for data, origin, table in self._log.windows(_RUN_BATCHES):
                self._data, self._origin = data, origin
                if self._style.deep:
                    self._put_records(table)
                else:
                    self._put(table, None)
                yield int(table.size.sum())
        except ChecksumError as error:
            if not (self._style.json and self._style.deep):
                self._put(self._log.damaged_batch(error.position), None, sound=False)
            raise

    def _put_records(self, table: BatchTable) -> None:
        """The lines of all records in `table`, and of those before the first bad one if there is one."""
        done = 0
        try:
            for chunk in self._decode(table):
                done = self._put_chunk(table, done, chunk)
        except CorruptRecordError as error:
            # The sound batches of its chunk have not come out yet.
            bad = int(np.searchsorted(table.position, error.position))
            for chunk in self._decode(table[done:bad]):
                done = self._put_chunk(table, done, chunk)
            self._put(table[done:bad], None)
            raise
        self._put(table[done:], None)

    def _decode(self, table: BatchTable) -> Iterator[pa.RecordBatch]:
        return iter_record_batches(
            self._data,
            table,
            columns=_COLUMNS,
            origin=self._origin,
            source=self._source,
            max_rows=_MAX_ROWS,
            max_bytes=_MAX_BYTES,
        )

    def _put_chunk(self, table: BatchTable, start: int, chunk: pa.RecordBatch) -> int:
        """The lines of a chunk, whose first batch is not before `start`; the first batch after it."""
        last = numbers(chunk.column("position"))[-1]
        end = int(np.searchsorted(table.position, last, side="right"))
        self._put(table[start:end], chunk)
        return end

    def _put(self, table: BatchTable, chunk: pa.RecordBatch | None, *, sound: bool = True) -> None:
        lines = self._lines(table, chunk, sound)
        note = b""
        while True:
            used = lines.fill(self._buffer, note)
            note = b""
            if used:
                self._write(self._buffer[:used])
            if lines.status == _kernel.DONE:
                return
            if lines.status == _kernel.NOTE and chunk is not None:
                note = self._note(chunk, lines.row)
            elif lines.status != _kernel.FULL:
                raise RuntimeError(f"columns that do not hold together in {self._source}: a bug in tidelog")
            elif not used:
                self._buffer = memoryview(bytearray(lines.need))

    def _note(self, chunk: pa.RecordBatch, row: int) -> bytes:
        from tidelog.cli.render.control_records import control_note  # few logs have any, and it takes time

        key, value = (chunk.column(name)[row].as_py() for name in ("key", "value"))
        try:
            return control_note(key, value).encode()
        except CorruptRecordError as error:
            position, offset = (chunk.column(name)[row].as_py() for name in ("position", "offset"))
            raise type(error)(error.reason, position=position, offset=offset, source=self._source) from None

    def _lines(self, table: BatchTable, chunk: pa.RecordBatch | None, sound: bool) -> _kernel.Lines:
        style = self._style
        batches = not (style.json and style.deep)
        rows = np.ascontiguousarray(table.rows)
        if chunk is None:
            none = np.empty(0, dtype=np.int64)
            empty = _kernel.Column(np.zeros(1, dtype=np.int32), None, b" ")
            ends = np.zeros(1, dtype=np.int32)
            return _kernel.Lines(
                rows, none, none, none, empty, empty, ends, empty, empty, style.json, batches, False, sound
            )
        headers = chunk.column("headers")
        pairs = headers.values
        return _kernel.Lines(
            rows,
            numbers(chunk.column("position")),
            numbers(chunk.column("offset")),
            numbers(chunk.column("timestamp_ms")),
            _bytes_column(chunk.column("key")),
            _bytes_column(chunk.column("value")),
            column_ends(headers),
            _bytes_column(pairs.field("key")),
            _bytes_column(pairs.field("value")),
            style.json,
            batches,
            style.payloads,
            sound,
        )


def column_ends(array: pa.Array) -> npt.NDArray[np.int32]:
    """The ends of a column of variable length."""
    if not len(array):
        return np.zeros(1, dtype=np.int32)
    return np.frombuffer(array.buffers()[1], dtype=np.int32, count=len(array) + 1, offset=4 * array.offset)


def _bytes_column(array: pa.Array) -> _kernel.Column:
    """A column of bytes or text as the kernel takes it."""
    valid, _, data = array.buffers()
    if array.offset and valid is not None:
        raise ValueError("the kernel reads whole columns, not slices")
    bits = None if valid is None else np.frombuffer(valid, dtype=np.uint8)
    # An empty buffer has no address; the kernel wants one, and does not look behind it.
    return _kernel.Column(
        column_ends(array), bits, memoryview(data).cast("B") if data and data.size else b" "
    )
