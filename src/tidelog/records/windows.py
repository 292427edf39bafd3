"""Batches of a file that is read in windows: each window's bytes, and the table of the whole batches in them.

1. A window is read; its whole batches are given out, in tables of bounded size.
2. The next window begins where the last whole batch ended: a batch that a window cuts is read again, whole.
3. A batch that is larger than a window gets a window of its own size, if the file has so many bytes left,
   and a very large one only if its checksum, taken in pieces, holds: a length that lies costs no memory.

A file may become shorter while it is read. Then reading ends as it does at any torn batch: with a
TornBatchError, once all that was there has been given out.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from tidelog.errors import TornBatchError
from tidelog.kernels import crc as _crc
from tidelog.records.batches import BatchTable, scan_batches
from tidelog.records.faults import Fault, fault_error

__all__ = ["LOOKUP_BYTES", "ByteSource", "Window", "is_sound", "read_windows"]

LOOKUP_BYTES = 256 << 10
"""Of a window, where something is looked for."""

_LEAST_BYTES = 64  # more than a header takes
_LARGE_BYTES = 32 << 20
_PIECE_BYTES = 1 << 20


class ByteSource(Protocol):
    """Bytes that can be asked for by position."""

    @property
    def window_bytes(self) -> int:
        """How many of them to ask for at a time."""

    def read(self, position: int, n: int) -> memoryview:
        """The `n` bytes from `position` on, fewer where there are no more. Good until the next read."""


class Window(NamedTuple):
    """Bytes, good until the next window is asked for; their position; and some of the batches in them."""

    data: memoryview
    origin: int
    table: BatchTable


def read_windows(
    source: ByteSource,
    start: int,
    end: int,
    *,
    window_bytes: int | None = None,
    max_batches: int = 1 << 12,
    check_crc: bool = False,
    name: str | None = None,
) -> Iterator[Window]:
    """The batches of bytes [start, end) of a file; what is wrong with one is raised when it is reached.

    `name` is the file's, for errors.
    """
    position, wanted_end = start, end
    usual = size = max(window_bytes or source.window_bytes, _LEAST_BYTES)
    while position < end:
        wanted = min(size, end - position)
        data, origin, size = source.read(position, wanted), position, usual
        if len(data) < wanted:
            end = origin + len(data)
        while position < origin + len(data):
            scan = scan_batches(
                data,
                start=position - origin,
                origin=origin,
                max_batches=max_batches,
                check_crc=check_crc,
                source=name,
            )
            position = scan.end
            if len(scan.table):
                yield Window(data, origin, scan.table)
            if scan.fault is None:
                continue
            if not isinstance(scan.fault, TornBatchError) or origin + len(data) >= end:
                raise scan.fault
            if position == origin:
                size = 12 + int.from_bytes(data[8:12], "big")
                if size > end - position:
                    reason = f"the data ends inside a batch: {end - position} bytes left"
                    raise TornBatchError(reason, position=position, offset=scan.fault.offset, source=name)
                if size > _LARGE_BYTES and not is_sound(source, position, size):
                    raise fault_error(
                        Fault.CHECKSUM, position=position, offset=scan.fault.offset, source=name
                    )
            break
    if end < wanted_end:
        reason = f"the file ends here, {wanted_end - end} bytes before its end was expected"
        raise TornBatchError(reason, position=end, source=name)


def is_sound(source: ByteSource, position: int, size: int) -> bool:
    """Whether the checksum of a batch holds, looked at in pieces."""
    head = bytes(source.read(position, 21))
    if len(head) < 21 or head[16] > 2 or size < 26:
        return False
    is_message = head[16] < 2
    at, end, crc = position + (16 if is_message else 21), position + size, 0
    while at < end:
        piece = source.read(at, min(_PIECE_BYTES, end - at))
        if not len(piece):
            return False
        crc = zlib.crc32(piece, crc) if is_message else _crc.extend_crc32c(crc, piece)
        at += len(piece)
    return crc == int.from_bytes(head[12:16] if is_message else head[17:21], "big")
